//! SL021: DistributedDataParallel searches for unused parameters in each step.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, RuleProperty, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::EventKind;
use stackline_timeline::confidence::Confidence;

pub(super) const RULE: Rule = Rule {
    code: "SL021",
    name: "find-unused-parameters",
    area: Area::Communication,
    about: "DistributedDataParallel searches for unused parameters in each step",
    why: "With find_unused_parameters=True, PyTorch searches the whole autograd graph after each forward pass, and \
        communication of gradients starts later.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate removes the time of the searches for unused parameters (what-if operation `remove`).",
    advice: "Remove find_unused_parameters if every parameter gets a gradient, or use static_graph=True.",
    example: (
        "DistributedDataParallel(model, find_unused_parameters=True)",
        "DistributedDataParallel(model, static_graph=True)",
    ),
    cost: "one argument; without find_unused_parameters and static_graph, unused parameters stop the training with an error",
    false_positives: "The option is needed if the set of used parameters changes from step to step.",
    source: "common practice",
    needs: &[Requirement::Operators],
    settings: &[],
    advice_variants: &[],
    properties: &[RuleProperty::Constructor {
        frame: &["torch/nn/parallel/distributed.py(", "): __init__"],
        library: "torch/nn/parallel/distributed.py",
    }],
    check,
};

/// Find searches of DistributedDataParallel for unused parameters; at most one candidate for all.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let kinds = [EventKind::Operator, EventKind::Annotation];
    let searches = context.named(&kinds, |name| name.ends_with("search_unused_parameters"));
    let Some(edit) = context.edit(Action::Remove, "operator:*search_unused_parameters", &searches) else {
        return Vec::new();
    };
    let ns = context.total(&searches);
    vec![Candidate {
        title: format!(
            "Search for unused parameters: {} times in DistributedDataParallel, {}",
            searches.len(),
            context.words().time_per_step(context.per_step(ns))
        ),
        place: context.place(searches[0]),
        facts: vec![Fact::count("searches", searches.len()), Fact::time("search time per step", context.per_step(ns))],
        events: searches,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::edits(vec![edit]),
    }]
}
