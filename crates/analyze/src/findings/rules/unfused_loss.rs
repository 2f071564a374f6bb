//! SL013: cross entropy as separate kernels.

use crate::critical_path::exact::what_if::Action;
use crate::findings::{Area, Confidence, Draft, Fact, Need, Rule, Setting, Subject, Support, Worth};
use crate::vocabulary::aten;
use stackline_model::{EventId, EventKind};

pub(super) const RULE: Rule = Rule {
    code: "SL013",
    name: "unfused-loss",
    area: Area::Kernels,
    about: "cross entropy runs as log_softmax, nll_loss and copies, forward and backward",
    why: "Each of these kernels reads and writes the logits of all classes; with a large vocabulary these are the largest tensors.",
    advice: "Compile the loss (torch.compile), or use a fused cross entropy that also computes the gradient.",
    example: ("loss = F.cross_entropy(logits.float(), y)", "loss = torch.compile(F.cross_entropy)(logits, y)"),
    cost: "compilation at the first call, or one more dependency",
    wrong_when: "There are few classes: then the kernels are short, and other work hides them. The gain supposes that nll_loss and \
                 the copies vanish, and that softmax reads or writes the logits three times instead of five; if they are converted \
                 to float32 for it, of half the bytes. The bounds hold half and nearly twice of what is left (an H100, bfloat16, compiled: \
                 0.27, measured).",
    source: "DeepContext 6.3 (Transformer-Big: 30.5 s to 23.9 s of GPU time)",
    needs: &[Need::GpuWork, Need::Operators],
    settings: &[
        Setting::share_of_gpu(2.0),
        Setting {
            name: "scale",
            default: 0.6,
            range: (0.0, 1.0),
            about: "what is left of the time of log_softmax and its backward, if logits are not converted",
        },
    ],
    elsewhere: &[],
    check,
};

/// What part of the loss GPU work belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Softmax,
    Loss,
    Copy,
}

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let trace = subject.trace();
    if trace.strings.find(aten::LOG_SOFTMAX).is_none() {
        return Vec::new();
    }
    let (mut softmax, mut others, mut losses) = (Vec::new(), conversions(subject), 0);
    for work in subject.gpu_work() {
        match part(subject, work) {
            Some(Part::Softmax) => softmax.push(work),
            Some(part) => {
                losses += usize::from(part == Part::Loss);
                others.push(work);
            }
            None => {}
        }
    }
    if softmax.is_empty() || losses == 0 {
        return Vec::new();
    }
    draft(subject, softmax, others).into_iter().collect()
}

/// Copies right before log_softmax and right behind its backward: they convert the logits, and their gradient.
fn conversions(subject: &Subject<'_>) -> Vec<EventId> {
    let is_copy = |work: EventId| subject.operator(work) == aten::COPY;
    let is_outside = |work: &EventId| part(subject, *work).is_none();
    let of_pair = |pair: &[EventId]| match subject.operator(pair[0]) {
        aten::LOG_SOFTMAX_BACKWARD if is_copy(pair[1]) => Some(pair[1]),
        _ if is_copy(pair[0]) && subject.operator(pair[1]) == aten::LOG_SOFTMAX => Some(pair[0]),
        _ => None,
    };
    let orders = subject.launch_order();
    let pairs = orders.iter().flat_map(|order| order.windows(2).filter_map(of_pair));
    let mut found: Vec<EventId> = pairs.filter(is_outside).collect();
    // One copy may stand behind a backward and before the next forward.
    found.sort_unstable();
    found.dedup();
    found
}

fn part(subject: &Subject<'_>, work: EventId) -> Option<Part> {
    let trace = subject.trace();
    let mut is_in_log_softmax = false;
    for operator in subject.stack(work).filter(|&e| trace.kind(e) == EventKind::Operator) {
        match trace.name(operator) {
            aten::LOG_SOFTMAX | aten::LOG_SOFTMAX_BACKWARD => is_in_log_softmax = true,
            name if name.starts_with(aten::NLL_LOSS) => return Some(Part::Loss),
            aten::CROSS_ENTROPY if !is_in_log_softmax => return Some(Part::Copy),
            _ => {}
        }
    }
    is_in_log_softmax.then_some(Part::Softmax)
}

fn draft(subject: &Subject<'_>, softmax: Vec<EventId>, others: Vec<EventId>) -> Option<Draft> {
    let all: Vec<EventId> = softmax.iter().chain(&others).copied().collect();
    let ns = subject.total(&all);
    let share = subject.percent_of_gpu(ns);
    if share < subject.setting("share") {
        return None;
    }
    let mut gone = subject.operators_of_nothing_else(&others);
    gone.extend(&others);
    let is_converted = others.iter().any(|&work| subject.operator(work) == aten::COPY);
    let scale = subject.setting("scale") * if is_converted { 0.5 } else { 1.0 };
    let edits = |scale: f64| {
        let remove = subject.edit(Action::Remove, "operator:nll_loss", &gone)?;
        Some(vec![remove, subject.edit(Action::Scale(scale.min(1.0)), "operator:log_softmax", &softmax)?])
    };
    let worth = Worth::Range(edits(scale)?, vec![edits(scale / 2.0)?, edits(scale * 1.7)?]);
    let is_forward = |work: &&EventId| subject.operator(**work) == aten::LOG_SOFTMAX;
    let place = softmax.iter().find(is_forward).or(softmax.first()).map(|&work| subject.place(work));
    Some(Draft {
        title: format!("cross entropy takes {share:.0} % of the GPU's time in separate kernels"),
        place: place.unwrap_or_default(),
        facts: vec![
            Fact::count("kernels", all.len()),
            Fact::time("log_softmax, a step", subject.per_step(subject.total(&softmax))),
            Fact::time("nll_loss and copies, a step", subject.per_step(subject.total(&others))),
        ],
        events: all,
        support: Support::Exact,
        confidence: Confidence::Medium,
        worth,
    })
}
