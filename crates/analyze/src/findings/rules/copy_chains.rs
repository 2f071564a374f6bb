//! SL017: copies that only put tensors in order.

use crate::critical_path::exact::what_if::Action;
use crate::findings::{Area, Confidence, Draft, Fact, Need, Place, Rule, Setting, Subject, Support, Worth};
use stackline_model::{EventId, EventKind};

pub(super) const RULE: Rule = Rule {
    code: "SL017",
    name: "copy-chains",
    area: Area::Copies,
    about: "contiguous() and reshape() copy tensors whose elements lie in another order, or clone() copies them as they are",
    why: "After transpose, permute, expand or slicing a tensor is not contiguous: such a copy reads and writes all of it; so does \
          clone().",
    advice: "Choose layouts in which the next operator takes the tensor as it is: einsum, a transposed weight, one permute instead \
             of several, repeat only after the product, or torch.compile, which reads in the other order while it computes. No clone() of \
             what nobody changes afterwards.",
    example: (
        "k = k.transpose(1, 2).contiguous()\ny = F.scaled_dot_product_attention(q, k, v)",
        "y = F.scaled_dot_product_attention(q, k.transpose(1, 2), v)",
    ),
    cost: "some thought on the order of dimensions",
    wrong_when: "The next kernel needs this order and is slower without: then only a part of the gain is had.",
    source: "field practice",
    needs: &[Need::Operators],
    settings: &[Setting {
        name: "share",
        default: 2.0,
        range: (0.0, 100.0),
        about: "least part of the GPU's busy time, without GPU of all time, that copies of one place take, in percent",
    }],
    elsewhere: &[],
    check,
};

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let copies = if subject.uses_gpu() { copies_on_gpu(subject) } else { copies_on_cpu(subject) };
    subject.by_code(&copies).into_iter().filter_map(|(place, copies)| draft(subject, place, copies)).collect()
}

/// Kernels that put tensors in order, launched by operators that do nothing else.
fn copies_on_gpu(subject: &Subject<'_>) -> Vec<EventId> {
    let trace = subject.trace();
    let copies = subject.named(&[EventKind::Kernel], is_reordering);
    let asked_for = |&work: &EventId| {
        let mut names = subject.stack(work).map(|e| trace.name(e));
        let mut is_reordered = false;
        let is_converted = names.any(|name| {
            is_reordered |= reorders(name);
            converts(name)
        });
        is_reordered && !is_converted
    };
    copies.into_iter().filter(asked_for).collect()
}

/// Whether a kernel's name says that it copies elements one by one, without converting them.
fn is_reordering(name: &str) -> bool {
    name.contains("direct_copy_kernel") && name.contains("nocast") && !name.contains("vectorized_elementwise_kernel")
}

fn reorders(operator: &str) -> bool {
    matches!(operator, "aten::contiguous" | "aten::reshape" | "aten::clone")
}

fn converts(operator: &str) -> bool {
    matches!(operator, "aten::_to_copy" | "aten::to")
}

/// Outermost operators that put tensors in order, and did copy.
fn copies_on_cpu(subject: &Subject<'_>) -> Vec<EventId> {
    let trace = subject.trace();
    let copies = subject.named(&[EventKind::Operator], |name| name == "aten::copy_");
    let mut found: Vec<EventId> = copies
        .into_iter()
        .filter(|&copy| !trace.ancestors(copy).any(|e| converts(trace.name(e))))
        .filter_map(|copy| trace.ancestors(copy).take_while(|&e| trace.kind(e) == EventKind::Operator).last())
        .filter(|&outermost| reorders(trace.name(outermost)))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn draft(subject: &Subject<'_>, place: Place, copies: Vec<EventId>) -> Option<Draft> {
    let ns = subject.total(&copies);
    let (share, whose, gone) = if subject.uses_gpu() {
        let operators = subject.operators_of_nothing_else(&copies);
        (subject.percent_of_gpu(ns), "the GPU's time", operators.into_iter().chain(copies.iter().copied()).collect())
    } else {
        (subject.percent(ns), "the time", copies.clone())
    };
    if share < subject.setting("share") {
        return None;
    }
    let operator = place.operator.clone().unwrap_or_else(|| "copies".to_owned());
    // Kernels say that they put elements into another order; on a CPU nothing tells it of clone().
    let is_as_it_was = !subject.uses_gpu() && operator == "aten::clone";
    let order = if is_as_it_was { "" } else { " into another order" };
    let edit = subject.edit(Action::Remove, format!("copies of {operator}"), &gone)?;
    Some(Draft {
        title: format!("{} copies tensors{order}: {share:.0} % of {whose}", super::short(&operator)),
        place,
        facts: vec![Fact::count("copies", copies.len()), Fact::time("together, a step", subject.per_step(ns))],
        events: copies,
        support: Support::Exact,
        confidence: Confidence::Medium,
        worth: Worth::Edits(vec![edit]),
    })
}
