//! SL016: casts of parameters to a lower precision in each step.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::EventId;
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::aten;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL016",
    name: "repeated-casts",
    area: Area::Copies,
    about: "autocast converts the same parameters in each step",
    why: "Autocast keeps parameters in float32 and casts each of them to a lower precision in every step.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate removes the conversions, and the operators that do nothing else (what-if operation \
         `remove`). A converted tensor counts as a parameter if it is converted at least once per step and a layer \
         has an input of its shape. The first input of the layer is ignored, because it contains activations.",
    advice: "For inference, convert the model once. For training, keep parameters in bfloat16 with an optimizer that \
         supports it, or accumulate more samples under one autocast context, which casts each parameter once.",
    example: (
        "with torch.autocast(\"cuda\", torch.bfloat16):\n    y = model(x)",
        "model = model.to(torch.bfloat16)\ny = model(x.to(torch.bfloat16))",
    ),
    cost: "for inference, the change takes one line; for training, the accuracy must be checked",
    false_positives: "The casts are needed if training requires parameters in float32, and the optimizer keeps no copy \
         in lower precision.",
    source: "common practice; PyTorch's autocast keeps conversions only until its context ends",
    needs: &[Requirement::GpuWork, Requirement::Operators, Requirement::Shapes, Requirement::Steps],
    settings: &[Setting::share_of_gpu(1.0)],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Find casts of layer parameters that recur in each step; at most one candidate for all.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let mut by_shape: BTreeMap<String, Vec<EventId>> = BTreeMap::new();
    for work in context.gpu_work() {
        if let Some(shape) = shape_of_parameter(context, work) {
            by_shape.entry(shape).or_default().push(work);
        }
    }
    let least = context.steps().max(2);
    let repeated = by_shape.into_values().filter(|casts| casts.len() >= least);
    let mut work: Vec<EventId> = repeated.flatten().collect();
    work.sort_unstable();
    candidate(context, work).into_iter().collect()
}

/// Shape, as text, of the float32 layer parameter that GPU work casts; `None` for other work.
fn shape_of_parameter(context: &RuleContext<'_>, work: EventId) -> Option<String> {
    let trace = context.trace();
    let operators = context.stack(work).filter(|&e| context.is_operator(e));
    let mut around = operators.skip_while(|&e| trace.name(e) != aten::TO_COPY);
    let cast = around.next()?;
    let layer = around.find(|&e| trace.name(e) != aten::TO)?;
    if !aten::LAYERS.contains(&trace.name(layer)) {
        return None;
    }
    let shape = context.json("Input Dims", cast)?.get(0)?.clone();
    if context.json("Input type", cast).is_some_and(|types| types.get(0).is_some_and(|t| t != "float")) {
        return None;
    }
    let inputs = context.json("Input Dims", layer)?;
    let inputs = inputs.as_array()?;
    let is_parameter = inputs.first() != Some(&shape) && inputs.iter().skip(1).take(2).any(|input| *input == shape);
    is_parameter.then(|| shape.to_string())
}

/// Candidate for all casts; `None` if their share of GPU time is small.
fn candidate(context: &RuleContext<'_>, work: Vec<EventId>) -> Option<Candidate> {
    let ns = context.total(&work);
    let share = context.percent_of_gpu(ns);
    if work.is_empty() || share < context.setting("share") {
        return None;
    }
    let mut removable = context.operators_launching_only(&work);
    removable.extend(&work);
    let edit = context.edit(Action::Remove, format!("operator:{} of parameters", aten::TO), &removable)?;
    let (place, _) = context.by_code(&work).into_iter().next()?;
    let (casts, per_step) = (work.len() / context.steps(), context.words().per_step_suffix());
    Some(Candidate {
        title: format!("Repeated casts of parameters: {casts}{per_step}, {share:.0} % of GPU time"),
        place,
        facts: vec![
            Fact::count("conversions", work.len()),
            Fact::time("total time of the conversions per step", context.per_step(ns)),
        ],
        events: work,
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::edits(vec![edit]),
    })
}
