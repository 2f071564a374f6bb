//! SL042: gradients are filled with zeros before each backward pass.

use crate::critical_path::exact::what_if::Action;
use crate::findings::{Area, Confidence, Draft, Fact, Need, Rule, Setting, Subject, Support, Worth};
use stackline_model::{EventId, EventKind};

pub(super) const RULE: Rule = Rule {
    code: "SL042",
    name: "zeroed-gradients",
    area: Area::Kernels,
    about: "gradients are filled with zeros one by one, though the optimizer could let go of them",
    why: "Each parameter costs an operator and, on a GPU, a launch and a short kernel; the backward pass then reads the zeros, and adds \
          to them what it could just write.",
    advice: "Call zero_grad(set_to_none=True), which is what PyTorch does by itself since version 2.0.",
    example: ("optimizer.zero_grad(set_to_none=False)", "optimizer.zero_grad(set_to_none=True)"),
    cost: "one argument, or a newer PyTorch",
    wrong_when: "Something reads gradients between zero_grad and the backward pass, or keeps them in buffers of its own: gradients of \
                 parameters that a step does not use are then none instead of zero. What the backward pass saves when it need not \
                 add is not in the gain.",
    source: "field practice; PyTorch's performance tuning guide",
    needs: &[Need::Operators],
    settings: &[Setting { name: "operators", default: 4.0, range: (1.0, 1e6), about: "least operators of one call" }],
    elsewhere: &[],
    check,
};

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    // Traces of 2021 and before have them among the operators.
    let kinds = [EventKind::Annotation, EventKind::Operator];
    let calls = subject.named(&kinds, |name| name.starts_with("Optimizer.zero_grad#"));
    subject.by_name(&calls).into_iter().filter_map(|(name, calls)| draft(subject, name, &calls)).collect()
}

fn draft(subject: &Subject<'_>, name: &str, calls: &[EventId]) -> Option<Draft> {
    let trace = subject.trace();
    let operators = subject.outermost(&subject.operators_in(calls));
    let per_call = operators.len() as f64 / calls.len().max(1) as f64;
    if per_call < subject.setting("operators") {
        return None;
    }
    let launched = calls.iter().flat_map(|&call| subject.launched_in(call));
    let kernels: Vec<EventId> = launched.filter(|&e| trace.kind(e) == EventKind::Kernel).collect();
    let gone = [(format!("operators of {name}"), &operators), (format!("kernels of {name}"), &kernels)];
    let edits = gone.into_iter().filter_map(|(text, events)| subject.edit(Action::Remove, text, events));
    let optimizer = name.strip_prefix("Optimizer.zero_grad#").unwrap_or(name);
    Some(Draft {
        title: format!("{optimizer} fills gradients with zeros: {per_call:.0} operators a call"),
        place: subject.place(calls[0]),
        facts: vec![
            Fact::count("operators", operators.len()),
            Fact::count("calls", calls.len()),
            Fact::time("host, a step", subject.per_step(subject.total(&operators))),
            Fact::time("kernels, a step", subject.per_step(subject.total(&kernels))),
        ],
        worth: Worth::Edits(edits.collect()),
        events: operators,
        support: Support::Exact,
        confidence: Confidence::High,
    })
}
