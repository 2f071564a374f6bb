//! SL017: copies that only change the memory layout, or duplicate tensors.

use crate::{
    AdviceVariant, Area, Candidate, CandidateKind, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext,
    Setting, Support,
};
use stackline_critical_path::exact::what_if::{Action, Chosen};
use stackline_model::{EventId, EventKind, INFERRED, StrId};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::aten;
use std::collections::BTreeMap;

pub(crate) const RULE: Rule = Rule {
    code: "SL017",
    name: "copy-chains",
    area: Area::Copies,
    about: "contiguous() and reshape() copy tensors into another memory layout, or clone() and deepcopy() duplicate \
        them",
    why: "After transpose, permute, expand or slicing, a tensor is not contiguous. A copy into contiguous memory \
        reads and writes all of it, and so does clone().",
    gain_methods: &[GainMethod::Replay],
    gain_text: "On a GPU, the estimate removes the kernels that copy, and operators that do nothing else (what-if \
         operation `remove`). On a CPU, it removes the outermost operators that copied. If the trace contains each \
         Python call, the estimate removes the calls of copy.deepcopy with their Python time. Otherwise, it removes \
         the time from the first to the last operator of each call of copy.deepcopy. In this case, the lower bound \
         removes only the operators. The upper bound also removes the time just before the first operator.",
    advice: "Choose memory layouts that the next operator accepts: einsum, a transposed weight, or one permute \
        instead of several. Repeat tensors only after the product, or use torch.compile, which reads any layout \
        while it computes. Remove clone() of tensors that no code changes afterwards.",
    example: (
        "k = k.transpose(1, 2).contiguous()\ny = F.scaled_dot_product_attention(q, k, v)",
        "y = F.scaled_dot_product_attention(q, k.transpose(1, 2), v)",
    ),
    cost: "a review of the order of dimensions in all affected tensors",
    false_positives: "The copy is needed if the next kernel requires its layout, and would be slower without it. Then \
        only a part of the gain is achieved.",
    source: "common practice",
    needs: &[Requirement::Operators],
    settings: &[Setting {
        name: "share",
        default: 2.0,
        range: (0.0, 100.0),
        about: "report only source locations whose copies take at least this percentage of GPU busy time (in programs \
            without a GPU: of the analyzed time)",
    }],
    advice_variants: &[AdviceVariant::for_all(
        "programs that copy with copy.deepcopy",
        CandidateKind::DeepCopy,
        "Do not copy a model in the loop. For an average of its weights, keep one copy and update it in place \
         (torch._foreach_lerp_, torch.optim.swa_utils.AveragedModel). For a checkpoint, use copy_ into preallocated \
         memory, or save concurrently with the next steps. If the copy is only read, use the model itself under \
         torch.no_grad().",
        (
            "ema = copy.deepcopy(model)  # in each step",
            "torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 0.01)",
        ),
    )],
    properties: &[],
    check,
};

/// First word of titles on copies of whole objects.
pub(crate) const DEEP: &str = "copy.deepcopy";

/// Find copies that only reorder or duplicate tensors, one candidate per source location; `copy.deepcopy` separately.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let copies = if context.uses_gpu() { copies_on_gpu(context) } else { copies_on_cpu(context) };
    // Stacks of operators are inspected only if the trace has such a frame.
    let deep_names: Vec<bool> = context.trace().strings.iter().map(is_deep_frame).collect();
    let has_deep = deep_names.contains(&true);
    let deep = if has_deep { context.outermost(&context.operators()) } else { Vec::new() };
    let deep: Vec<EventId> = deep.into_iter().filter(|&operator| is_deep(context, &deep_names, operator)).collect();
    let plain: Vec<EventId> =
        copies.into_iter().filter(|&copy| !has_deep || !is_deep(context, &deep_names, copy)).collect();
    // One call copies with several operators, and modules of any class.
    let mut by_line: BTreeMap<SourceLocation, Vec<EventId>> = BTreeMap::new();
    for (place, of) in context.by_place(&deep) {
        by_line.entry(SourceLocation { operator: None, module: None, ..place }).or_default().extend(of);
    }
    let deep = by_line.into_iter().filter_map(|(place, operators)| deep_copy(context, &deep_names, place, operators));
    let plain = context.by_code(&plain).into_iter().filter_map(|(place, copies)| candidate(context, place, copies));
    deep.chain(plain).collect()
}

/// Test if a frame name is that of Python's `copy.deepcopy`, or of PyTorch's functions in it.
pub(crate) fn is_deep_frame(name: &str) -> bool {
    super::matches_parts(name, &["copy.py(", "): deepcopy"])
        || super::matches_parts(name, &["torch/_tensor.py(", "): __deepcopy__"])
        || super::matches_parts(name, &["torch/nn/parameter.py(", "): __deepcopy__"])
}

/// True if an operator or kernel runs in a call of `copy.deepcopy`. `deep_names` marks the names of its frames.
fn is_deep(context: &RuleContext<'_>, deep_names: &[bool], copy: EventId) -> bool {
    let trace = context.trace();
    let is_deep = |name: StrId| deep_names.get(name.index()).copied().unwrap_or(false);
    let frames = || context.stack(copy).filter(|&e| trace.kind(e) == EventKind::PythonFunction);
    frames().any(|e| is_deep(trace.events.name[e.index()]))
        || context.stack(copy).any(|e| context.stack_frames(e).into_iter().any(is_deep))
}

/// Candidate for copies of whole objects by these operators, including the Python time between them.
fn deep_copy(
    context: &RuleContext<'_>,
    deep_names: &[bool],
    place: SourceLocation,
    operators: Vec<EventId>,
) -> Option<Candidate> {
    let trace = context.trace();
    let calls = calls_around(context, deep_names, &operators);
    // Recorded calls give the start and end of the copy. For sampled and other calls, the operators do.
    let is_recorded = !calls.is_empty() && calls.iter().all(|&call| trace.attr(INFERRED).get(call).is_none());
    let runs = context.consecutive_runs(&operators);
    let removable = |chosen: Chosen| {
        let work = operators.iter().flat_map(|&operator| context.launched_in(operator));
        let events = chosen.events.iter().copied().chain(work).collect();
        context.edit_of(Action::Remove, DEEP, Chosen { events, ..chosen })
    };
    let least = removable(Chosen { events: operators.clone(), ..Chosen::default() })?;
    let (ns, likely, most) = if is_recorded {
        let likely = removable(Chosen { events: calls.clone(), ..Chosen::default() })?;
        (context.total(&calls), likely.clone(), likely)
    } else {
        let ranges = || runs.runs.clone();
        // Time before the first copy of a run may be its start, or other work.
        let before = runs.runs.iter().zip(&runs.neighbors);
        let before = before.filter_map(|((first, _), (before, _))| Some(((*before)?, *first))).collect();
        let likely = removable(Chosen { ranges: ranges(), ..Chosen::default() })?;
        (runs.ns, likely, removable(Chosen { events: calls, ranges: ranges(), between: before })?)
    };
    let share = context.percent(ns);
    if share < context.setting("share") {
        return None;
    }
    Some(Candidate {
        title: deep_title(share, context.words().in_each_step()),
        place,
        facts: vec![
            Fact::count("operators that copy.deepcopy runs", operators.len()),
            Fact::time("total time of copy.deepcopy per step", context.per_step(ns)),
            Fact::time(
                "time of the operators that copy.deepcopy runs per step",
                context.per_step(context.total(&operators)),
            ),
        ],
        events: operators,
        kind: Some(CandidateKind::DeepCopy),
        support: if is_recorded { Support::Exact } else { Support::Partial },
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::range(vec![likely], vec![vec![least], vec![most]]),
    })
}

/// Title for copies of whole objects: share of the time in percent, and frequency.
pub(crate) fn deep_title(share: f64, when: &str) -> String {
    format!("{DEEP}{when}: {share:.0} % of the time")
}

/// Title for copies by an operator, with their share of `owner` (such as GPU time) in percent.
pub(crate) fn title(operator: &str, share: f64, owner: &str, is_on_gpu: bool) -> String {
    // Kernel names show a change of layout; on a CPU, clone() does not show it.
    let name = super::shorten_name(operator);
    match !is_on_gpu && operator == aten::CLONE {
        true => format!("{name} copies tensors: {share:.0} % of {owner}"),
        false => format!("{name} copies tensors into another memory layout: {share:.0} % of {owner}"),
    }
}

/// Outermost calls of `copy.deepcopy` around operators.
fn calls_around(context: &RuleContext<'_>, deep_names: &[bool], operators: &[EventId]) -> Vec<EventId> {
    let trace = context.trace();
    let is_deep = |e: EventId| deep_names.get(trace.events.name[e.index()].index()).copied().unwrap_or(false);
    let is_call = |e: &EventId| trace.kind(*e) == EventKind::PythonFunction && is_deep(*e);
    let around = |&operator: &EventId| trace.ancestors(operator).filter(is_call).last();
    let mut calls: Vec<EventId> = operators.iter().filter_map(around).collect();
    calls.sort_unstable();
    calls.dedup();
    calls
}

/// Kernels that copy tensors to another memory layout, launched in operators that reorder tensors without conversion.
fn copies_on_gpu(context: &RuleContext<'_>) -> Vec<EventId> {
    let trace = context.trace();
    let copies = context.named(&[EventKind::Kernel], is_reordering);
    let is_reordered_explicitly = |&work: &EventId| {
        let mut names = context.stack(work).map(|e| trace.name(e));
        let mut is_reordered = false;
        let is_converted = names.any(|name| {
            is_reordered |= aten::reorders(name);
            aten::converts(name)
        });
        is_reordered && !is_converted
    };
    copies.into_iter().filter(is_reordered_explicitly).collect()
}

/// True for kernels that, by name, copy elements one by one without conversion.
fn is_reordering(name: &str) -> bool {
    name.contains("direct_copy_kernel") && name.contains("nocast") && !name.contains("vectorized_elementwise_kernel")
}

/// Outermost operators that reorder or clone a tensor without conversion and did copy.
fn copies_on_cpu(context: &RuleContext<'_>) -> Vec<EventId> {
    let trace = context.trace();
    let copies = context.named(&[EventKind::Operator], |name| name == aten::COPY);
    let mut found: Vec<EventId> = copies
        .into_iter()
        .filter(|&copy| !trace.ancestors(copy).any(|e| aten::converts(trace.name(e))))
        .filter_map(|copy| trace.ancestors(copy).take_while(|&e| trace.kind(e) == EventKind::Operator).last())
        .filter(|&outermost| aten::reorders(trace.name(outermost)))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Candidate for copies at one source location; `None` if the share is small.
fn candidate(context: &RuleContext<'_>, place: SourceLocation, copies: Vec<EventId>) -> Option<Candidate> {
    let ns = context.total(&copies);
    let (share, owner, removable) = if context.uses_gpu() {
        let operators = context.operators_launching_only(&copies);
        (context.percent_of_gpu(ns), "GPU time", operators.into_iter().chain(copies.iter().copied()).collect())
    } else {
        (context.percent(ns), "the time", copies.clone())
    };
    if share < context.setting("share") {
        return None;
    }
    let operator = place.operator.clone().unwrap_or_else(|| "copies".to_owned());
    let edit = context.edit(Action::Remove, format!("copies of {operator}"), &removable)?;
    Some(Candidate {
        title: title(&operator, share, owner, context.uses_gpu()),
        place,
        facts: vec![
            Fact::count("copies", copies.len()),
            Fact::time("total time of the copies per step", context.per_step(ns)),
        ],
        events: copies,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::edits(vec![edit]),
    })
}
