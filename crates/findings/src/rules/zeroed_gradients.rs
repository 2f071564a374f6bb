//! SL042: gradients are filled with zeros before each backward pass.

use crate::{Area, Candidate, Fact, GainEstimate, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::{Action, Edit};
use stackline_model::{EventId, EventKind, LinkKind};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::aten;
use stackline_timeline::vocabulary::autograd::is_accumulation;
use stackline_timeline::vocabulary::python::ZERO_GRAD;

pub(super) const RULE: Rule = Rule {
    code: "SL042",
    name: "zeroed-gradients",
    area: Area::Kernels,
    about: "gradients are filled with zeros, though the optimizer could let go of them",
    why: "Each parameter costs an operator and, on a GPU, a launch and a short kernel; the backward pass then reads the zeros, and adds \
          to them what it could just write.",
    advice: "Call zero_grad(set_to_none=True), which is what PyTorch does by itself since version 2.0.",
    example: ("optimizer.zero_grad(set_to_none=False)", "optimizer.zero_grad(set_to_none=True)"),
    cost: "one argument, or a newer PyTorch",
    false_positives: "Something reads gradients between zero_grad and the backward pass, or keeps them in buffers of its own: gradients of \
                 parameters that a step does not use are then none instead of zero. The gain counts the sums \
                 of the first backward pass behind each call, the lower bound does not.",
    source: "field practice; PyTorch's performance tuning guide",
    needs: &[Requirement::Operators],
    settings: &[Setting {
        name: "gradients",
        default: 4.0,
        range: (1.0, 1e6),
        about: "least gradients that one call fills",
    }],
    advice_variants: &[],
    check,
};

fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    // Traces of 2021 and before have them among the operators.
    let kinds = [EventKind::Annotation, EventKind::Operator];
    let calls = context.named(&kinds, |name| name.starts_with(ZERO_GRAD));
    context.by_name(&calls).into_iter().filter_map(|(name, calls)| candidate(context, name, &calls)).collect()
}

fn candidate(context: &RuleContext<'_>, name: &str, calls: &[EventId]) -> Option<Candidate> {
    let trace = context.trace();
    let operators = context.outermost(&context.operators_in(calls));
    let gradients = operators.iter().map(|&operator| filled(context, operator)).sum::<Option<usize>>();
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
    let adding = [("sums of gradients", &sums), ("kernels of these sums", &sum_kernels)];
    let least: Vec<Edit> = filling.into_iter().filter_map(|(text, events)| edit(text, events)).collect();
    let adding = adding.into_iter().filter_map(|(text, events)| edit(text.to_owned(), events));
    let likely = least.iter().cloned().chain(adding).collect();
    Some(Candidate {
        title: title(name, per_call),
        place: context.place(calls[0]),
        facts: vec![
            Fact::count("operators", operators.len()),
            Fact::count("calls", calls.len()),
            Fact::time("host, a step", context.per_step(context.total(&operators))),
            Fact::time("kernels, a step", context.per_step(context.total(&kernels))),
            Fact::time("kernels that add to the zeros, a step", context.per_step(context.total(&sum_kernels))),
        ],
        gain_estimate: GainEstimate::Range(likely, vec![least]),
        events: operators,
        support: Support::Exact,
        confidence: Confidence::High,
    })
}

/// The title of calls of this name that fill so many gradients each, if that is known.
pub(super) fn title(name: &str, per_call: Option<usize>) -> String {
    let optimizer = name.strip_prefix(ZERO_GRAD).unwrap_or(name);
    let how_many = per_call.map(|per_call| format!("{per_call} ")).unwrap_or_default();
    format!("{optimizer} fills {how_many}gradients with zeros, to which the backward pass adds")
}

/// How many gradients an operator fills: one that takes a list as many as that holds, which is not known where no shapes were recorded,
/// nor of long lists, which Kineto leaves empty.
fn filled(context: &RuleContext<'_>, operator: EventId) -> Option<usize> {
    if context.trace().name(operator) != aten::FOREACH_ZERO {
        return Some(1);
    }
    let inputs = context.json("Input Dims", operator)?;
    Some(inputs.get(0)?.as_array()?.len()).filter(|&tensors| tensors > 0)
}

/// The sums that the first backward pass behind each call adds to gradients: up to the next operator that a backward pass belongs to,
/// with which another forward pass begins. Later passes of a step have something to add to.
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
