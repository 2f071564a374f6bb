//! SL013: cross entropy computed by several kernels instead of a fused one.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, EventKind};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::aten;

pub(super) const RULE: Rule = Rule {
    code: "SL013",
    name: "unfused-loss",
    area: Area::Kernels,
    about: "cross entropy runs as separate log_softmax, nll_loss and copy kernels, forward and backward",
    why: "Each of these kernels reads and writes the logits of all classes. With a large vocabulary, logits are the \
         largest tensors.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate removes the kernels of `nll_loss` and of copies in the loss, and the operators that \
         launch only these kernels (what-if operation `remove`). The estimate multiplies the time of the \
         `log_softmax` kernels, forward and backward, by the setting `SL013.scale` (`scale`). If the logits are \
         converted to another dtype, it multiplies by half of this setting. The bounds of the gain assume that 0.5 \
         and 1.7 times the estimated time remains.",
    advice: "Compile the loss (torch.compile), or use a fused cross entropy that also computes the gradient.",
    example: ("loss = F.cross_entropy(logits.float(), y)", "loss = torch.compile(F.cross_entropy)(logits, y)"),
    cost: "the loss is compiled at the first call, or the program has another dependency",
    false_positives: "Fusion gains little if there are few classes, so that the kernels are short and hidden by \
         other work. The estimate assumes that a fused softmax reads or writes the logits three times instead of \
         five. If the logits are converted to float32, it assumes half as many bytes each time. The bounds of the \
         gain assume that 0.5 and 1.7 times the estimated time remains. In a measurement on an H100 (bfloat16, \
         compiled), 0.27 of the time remained.",
    source: "DeepContext paper, section 6.3 (Transformer-Big: 30.5 s to 23.9 s of GPU time)",
    needs: &[Requirement::GpuWork, Requirement::Operators],
    settings: &[
        Setting::share_of_gpu(2.0),
        Setting {
            name: "scale",
            default: 0.6,
            range: (0.0, 1.0),
            about: "assumed fraction of the log_softmax time (forward and backward) that remains after fusion, if the \
                    logits are not converted to another dtype",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Part of the loss that a GPU operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Softmax,
    Loss,
    Copy,
}

/// Find cross entropy that several kernels compute; at most one candidate for all.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    if trace.strings.find(aten::LOG_SOFTMAX).is_none() {
        return Vec::new();
    }
    let (mut softmax, mut others, mut losses) = (Vec::new(), conversions(context), 0);
    for work in context.gpu_work() {
        match part(context, work) {
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
    candidate(context, softmax, others).into_iter().collect()
}

/// Copy right before log_softmax and right after its backward, which convert the logits and their gradient.
fn conversions(context: &RuleContext<'_>) -> Vec<EventId> {
    let is_copy = |work: EventId| context.operator_name(work) == aten::COPY;
    let is_outside = |work: &EventId| part(context, *work).is_none();
    let of_pair = |pair: &[EventId]| match context.operator_name(pair[0]) {
        aten::LOG_SOFTMAX_BACKWARD if is_copy(pair[1]) => Some(pair[1]),
        _ if is_copy(pair[0]) && context.operator_name(pair[1]) == aten::LOG_SOFTMAX => Some(pair[0]),
        _ => None,
    };
    let orders = context.launch_order();
    let pairs = orders.iter().flat_map(|order| order.windows(2).filter_map(of_pair));
    let mut found: Vec<EventId> = pairs.filter(is_outside).collect();
    // A copy may follow a backward and precede the next forward.
    found.sort_unstable();
    found.dedup();
    found
}

/// Part of the loss that a GPU operation belongs to, by the operators around its launch; none for other operations.
fn part(context: &RuleContext<'_>, work: EventId) -> Option<Part> {
    let trace = context.trace();
    let mut is_in_log_softmax = false;
    for operator in context.stack(work).filter(|&e| trace.kind(e) == EventKind::Operator) {
        match trace.name(operator) {
            aten::LOG_SOFTMAX | aten::LOG_SOFTMAX_BACKWARD => is_in_log_softmax = true,
            name if name.starts_with(aten::NLL_LOSS) => return Some(Part::Loss),
            aten::CROSS_ENTROPY if !is_in_log_softmax => return Some(Part::Copy),
            _ => {}
        }
    }
    is_in_log_softmax.then_some(Part::Softmax)
}

/// Candidate for all kernels of the loss; `None` if their share of GPU time is small.
fn candidate(context: &RuleContext<'_>, softmax: Vec<EventId>, others: Vec<EventId>) -> Option<Candidate> {
    let all: Vec<EventId> = softmax.iter().chain(&others).copied().collect();
    let ns = context.total(&all);
    let share = context.percent_of_gpu(ns);
    if share < context.setting("share") {
        return None;
    }
    let mut removable = context.operators_launching_only(&others);
    removable.extend(&others);
    let is_converted = others.iter().any(|&work| context.operator_name(work) == aten::COPY);
    let scale = context.setting("scale") * if is_converted { 0.5 } else { 1.0 };
    let edits = |scale: f64| {
        let remove = context.edit(Action::Remove, "operator:nll_loss", &removable)?;
        Some(vec![remove, context.edit(Action::Scale(scale.min(1.0)), "operator:log_softmax", &softmax)?])
    };
    let gain_estimate = GainEstimate::range(edits(scale)?, vec![edits(scale / 2.0)?, edits(scale * 1.7)?]);
    let is_forward = |work: &&EventId| context.operator_name(**work) == aten::LOG_SOFTMAX;
    let place = softmax.iter().find(is_forward).or(softmax.first()).map(|&work| context.place(work));
    Some(Candidate {
        title: format!("Unfused cross entropy: {share:.0} % of GPU time in separate kernels"),
        place: place.unwrap_or_default(),
        facts: vec![
            Fact::count("kernels", all.len()),
            Fact::time("log_softmax time per step", context.per_step(context.total(&softmax))),
            Fact::time("time of nll_loss and copies per step", context.per_step(context.total(&others))),
        ],
        events: all,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Medium,
        gain_estimate,
    })
}
