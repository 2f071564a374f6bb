//! SL042: gradients that are filled with zeros before each backward pass.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::{Action, Edit};
use stackline_model::{EventId, EventKind, LinkKind};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::aten;
use stackline_timeline::vocabulary::autograd::is_accumulation;
use stackline_timeline::vocabulary::python::ZERO_GRAD;

pub(crate) const RULE: Rule = Rule {
    code: "SL042",
    name: "zeroed-gradients",
    area: Area::Kernels,
    about: "the optimizer fills gradients with zeros instead of releasing them",
    why: "Each parameter costs an operator and, on a GPU, a launch and a short kernel. The backward pass then reads \
         the zeros and adds to them instead of writing.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate removes the operators in `zero_grad`, and the kernels that they launch (what-if operation \
         `remove`).",
    advice: "Call zero_grad(set_to_none=True), the default of PyTorch since version 2.0.",
    example: ("optimizer.zero_grad(set_to_none=False)", "optimizer.zero_grad(set_to_none=True)"),
    cost: "the change takes one argument, or a newer version of PyTorch",
    false_positives: "The zeros are needed if code reads gradients between zero_grad and the backward pass, or keeps \
         them in its own buffers. Gradients of unused parameters become None instead of zero. After each call of \
         zero_grad, the first backward pass adds to the zeros. The estimate also removes the time of these additions; \
         the lower bound does not. Calls of Module.zero_grad are recognized only in traces with Python stacks. Loops \
         of the program that call p.grad.zero_() are not found, because no name in the trace identifies them.",
    source: "common practice; PyTorch's performance tuning guide",
    needs: &[Requirement::Operators],
    settings: &[Setting {
        name: "gradients",
        default: 4.0,
        range: (1.0, 1e6),
        about: "report only calls of zero_grad that fill at least this many gradients with zeros",
    }],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Parts of the name of the Python frame of `Module.zero_grad`, which has no span.
const MODULE_FRAME: &[&str] = &["torch/nn/modules/module.py(", "): zero_grad"];
/// Name under which these calls are shown.
const MODULE_NAME: &str = "Module.zero_grad";

/// Find calls that fill gradients with zeros, one candidate per optimizer, and one for modules.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    // Traces of 2021 and before record these calls as operators.
    let kinds = [EventKind::Annotation, EventKind::Operator];
    let calls = context.named(&kinds, |name| name.starts_with(ZERO_GRAD));
    let mut modules = context.named(&[EventKind::PythonFunction], |name| super::matches_parts(name, MODULE_FRAME));
    let trace = context.trace();
    modules.retain(|&frame| !trace.ancestors(frame).any(|around| trace.name(around).starts_with(ZERO_GRAD)));
    let of_modules = if modules.is_empty() { None } else { candidate(context, MODULE_NAME, &modules) };
    let of_optimizers = context.by_name(&calls).into_iter();
    of_optimizers.filter_map(|(name, calls)| candidate(context, name, &calls)).chain(of_modules).collect()
}

/// Candidate for calls with one name; `None` if each fills few gradients.
fn candidate(context: &RuleContext<'_>, name: &str, calls: &[EventId]) -> Option<Candidate> {
    let trace = context.trace();
    let operators = context.outermost(&context.operators_in(calls));
    let gradients = operators.iter().map(|&operator| filled_gradients(context, operator)).sum::<Option<usize>>();
    let per_call = gradients.map(|gradients| gradients / calls.len().max(1));
    let is_few = |per_call: usize| (per_call as f64) < context.setting("gradients");
    if operators.is_empty() || per_call.is_some_and(is_few) {
        return None;
    }
    let sums = first_sums(context, calls);
    let of = |spans: &[EventId]| {
        let launched = spans.iter().flat_map(|&span| context.launched_in(span));
        launched.filter(|&e| trace.kind(e) == EventKind::Kernel).collect::<Vec<EventId>>()
    };
    let (kernels, sum_kernels) = (of(calls), of(&sums));
    let edit = |text: String, events: &[EventId]| context.edit(Action::Remove, text, events);
    let filling = [(format!("operators of {name}"), &operators), (format!("kernels of {name}"), &kernels)];
    let adding =
        [("operators that add to zeroed gradients", &sums), ("kernels that add to zeroed gradients", &sum_kernels)];
    let least: Vec<Edit> = filling.into_iter().filter_map(|(text, events)| edit(text, events)).collect();
    let adding = adding.into_iter().filter_map(|(text, events)| edit(text.to_owned(), events));
    let likely = least.iter().cloned().chain(adding).collect();
    let host_ns = context.per_step(context.total(&operators));
    let mut facts = vec![
        Fact::count("operators", operators.len()),
        Fact::count("calls", calls.len()),
        Fact::time("host time of the zeroing operators per step", host_ns),
    ];
    if !kernels.is_empty() {
        facts.push(Fact::time("time of the zeroing kernels per step", context.per_step(context.total(&kernels))));
        facts.push(Fact::time(
            "time of kernels that add to zeroed gradients per step",
            context.per_step(context.total(&sum_kernels)),
        ));
    }
    Some(Candidate {
        title: title(name, per_call, &context.words().time_per_step(host_ns)),
        place: context.place(calls[0]),
        facts,
        gain_estimate: GainEstimate::range(likely, vec![least]),
        events: operators,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::High,
    })
}

/// Title for calls with this name, the number of gradients that each fills, if known, and the host time of
/// filling them.
pub(crate) fn title(name: &str, per_call: Option<usize>, time: &str) -> String {
    let optimizer = name.strip_prefix(ZERO_GRAD).unwrap_or(name);
    let gradients = per_call.map_or_else(|| "gradients".to_owned(), |gradients| format!("{gradients} gradients"));
    format!(
        "Zeroed gradients: {optimizer} fills {gradients} with zeros ({time} on the host), and the backward pass adds to \
         them"
    )
}

/// Number of gradients that an operator fills. For an operator on a list, it is the length of the list. The length is
/// unknown without shapes, and for long lists, which Kineto leaves empty.
fn filled_gradients(context: &RuleContext<'_>, operator: EventId) -> Option<usize> {
    if context.trace().name(operator) != aten::FOREACH_ZERO {
        return Some(1);
    }
    let inputs = context.json("Input Dims", operator)?;
    Some(inputs.get(0)?.as_array()?.len()).filter(|&tensors| tensors > 0)
}

/// Gradient sums of the first backward pass after each call, up to the next operator with a backward link,
/// which starts another forward pass. Later passes of a step must add.
fn first_sums(context: &RuleContext<'_>, calls: &[EventId]) -> Vec<EventId> {
    let trace = context.trace();
    let start = |e: &EventId| trace.events.start[e.index()];
    let is_sum = |&e: &EventId| trace.ancestors(e).any(|around| is_accumulation(trace.name(around)));
    let mut sums = context.named(&[EventKind::Operator], |name| name == aten::ADD_IN_PLACE);
    sums.retain(is_sum);
    sums.sort_unstable_by_key(|e| (start(e), *e));
    let mut forward: Vec<i64> = trace.links.of_kind(LinkKind::Backward).map(|(from, ..)| start(&from)).collect();
    forward.sort_unstable();
    let mut moments: Vec<i64> = calls.iter().map(start).collect();
    moments.sort_unstable();
    let mut found: Vec<EventId> = Vec::new();
    for (i, &from) in moments.iter().enumerate() {
        let first = sums.partition_point(|e| start(e) < from);
        let Some(begin) = sums.get(first).map(start) else { continue };
        let next_pass = forward.get(forward.partition_point(|&at| at < begin)).copied().unwrap_or(i64::MAX);
        let until = moments.get(i + 1).copied().unwrap_or(i64::MAX).min(next_pass);
        found.extend(sums[first..].iter().take_while(|e| start(e) < until));
    }
    found
}
