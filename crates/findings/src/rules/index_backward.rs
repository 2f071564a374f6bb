//! SL007: backward pass of indexing that sorts the indices and adds the gradients of equal indices one after another.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, EventKind};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::aten;
use stackline_timeline::vocabulary::autograd::node_name;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL007",
    name: "deterministic-index-backward",
    area: Area::Kernels,
    about: "the backward pass of table[indices] takes much longer than its forward pass",
    why: "PyTorch sums the gradient of indexing in a fixed order: it sorts the indices and adds the gradients of equal \
         indices one after another.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate shortens the GPU work of the backward pass to `SL007.factor` times that of its forward \
         pass (what-if operation `scale`). If the trace has no link to the forward pass, it assumes that a quarter of \
         the backward time remains.",
    advice: "Use torch.index_select or torch.nn.functional.embedding, which sum gradients with atomic additions.",
    example: ("rows = table[indices]", "rows = table.index_select(0, indices)"),
    cost: "one line; gradients may differ in the last bits between runs",
    false_positives: "The fixed order is needed if results must be bitwise reproducible. index_select and embedding \
         cannot replace an index that does not select whole rows of one dimension. The estimate assumes that the new \
         backward pass takes the setting `factor` times its forward pass, or a quarter of its own time if the forward \
         pass is unknown.",
    source: "DeepContext paper, section 6.1 (speedup of DLRM: 1.66, of GNN: 1.07)",
    needs: &[Requirement::GpuWork, Requirement::Operators],
    settings: &[
        Setting::share_of_gpu(1.0),
        Setting {
            name: "factor",
            default: 2.0,
            range: (0.1, 100.0),
            about: "assumed time of the new backward pass, as a multiple of the time of its forward pass (about 2 for \
                    DLRM in the DeepContext paper)",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Assumed remaining share of the backward's time if its forward is unknown.
const WITHOUT_FORWARD: f64 = 0.25;

/// GPU work of the backward and forward passes of indexing at one source location.
#[derive(Default)]
struct Group {
    backward: Vec<EventId>,
    forward: Vec<EventId>,
}

/// Find backward passes of indexing that sum in a fixed order, one candidate per source location.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    let kernels = context.named(&[EventKind::Kernel], |name| name.contains("indexing_backward"));
    // The operator that contains the forward's name depends on the version of PyTorch. Kernel names do not.
    let node = |&kernel: &EventId| Some((backward_of_index(context, kernel)?, kernel));
    let nodes: BTreeMap<EventId, EventId> = kernels.iter().filter_map(node).collect();
    let mut by_place: BTreeMap<SourceLocation, Group> = BTreeMap::new();
    let mut seen = FxHashSet::default();
    for (node, kernel) in nodes {
        let forward = context.forward_of(kernel).filter(|&f| trace.name(f).starts_with(aten::INDEX));
        let group = by_place.entry(context.place(forward.unwrap_or(node))).or_default();
        group.backward.extend(context.launched_in(node));
        if let Some(forward) = forward.filter(|&f| seen.insert(f)) {
            group.forward.extend(context.launched_in(forward));
        }
    }
    by_place.into_iter().filter_map(|(place, group)| candidate(context, place, group)).collect()
}

/// Outermost operator of the backward of indexing around a kernel; `None` for other kernels.
fn backward_of_index(context: &RuleContext<'_>, kernel: EventId) -> Option<EventId> {
    let trace = context.trace();
    let is_backward =
        |e: &EventId| trace.kind(*e) == EventKind::Operator && node_name(trace.name(*e)).starts_with("IndexBackward");
    context.stack(kernel).filter(is_backward).last()
}

/// Candidate for one source location; `None` if the share of GPU time is small, or if no gain is expected.
fn candidate(
    context: &RuleContext<'_>,
    place: SourceLocation,
    Group { backward, forward }: Group,
) -> Option<Candidate> {
    let (backward_ns, forward_ns) = (context.total(&backward), context.total(&forward));
    let share = context.percent_of_gpu(backward_ns);
    let scale = match forward_ns {
        0 => WITHOUT_FORWARD,
        ns => context.setting("factor") * ns as f64 / backward_ns.max(1) as f64,
    };
    if share < context.setting("share") || scale >= 1.0 {
        return None;
    }
    let edit = context.edit(Action::Scale(scale), "operator:IndexBackward", &backward)?;
    Some(Candidate {
        title: match forward_ns {
            0 => format!("Backward pass of indexing sums in a fixed order: {share:.0} % of GPU time"),
            ns => format!(
                "Backward pass of indexing sums in a fixed order: {share:.0} % of GPU time, {:.0} times its forward \
                 pass",
                backward_ns as f64 / ns as f64
            ),
        },
        place,
        facts: vec![
            Fact::count("kernels", backward.len()),
            Fact::time("time of the backward pass per step", context.per_step(backward_ns)),
            Fact::time("time of the forward pass per step", context.per_step(forward_ns)),
        ],
        events: backward,
        kind: None,
        support: if forward_ns > 0 { Support::Exact } else { Support::Partial },
        confidence: if forward_ns > 0 { Confidence::High } else { Confidence::Medium },
        gain_estimate: GainEstimate::edits(vec![edit]),
    })
}
