//! SL006: the backward pass of an operator takes much longer than its forward pass.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::what_if::Action;
use stackline_model::names::module_class;
use stackline_model::{EventId, LinkKind};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::kernel_type::KernelType;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::aten;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL006",
    name: "backward-much-slower",
    area: Area::Kernels,
    about: "the backward pass of an operator takes several times as long on the GPU as its forward pass",
    why: "Most backward operators take at most twice the time of their forward operator. A larger ratio indicates a \
        slow algorithm: sums in a fixed order, atomic additions to the same address, or unsuitable memory layouts.",
    gain_methods: &[GainMethod::Speculative],
    gain_text: "The estimate shortens the backward kernels to twice the time of their forward kernels (what-if \
         operation `scale`). Links in the trace connect backward and forward operators.",
    advice: "Inspect the kernels of the backward pass. Use another operator with the same result, allow \
        nondeterministic algorithms, or change the memory layout of the inputs.",
    example: ("y = table[indices]", "y = table.index_select(0, indices)"),
    cost: "the effort depends on the operator",
    false_positives: "The backward pass may have to do more work than the forward pass, for example if it recomputes \
        activations, or if the forward pass only creates a view. Embeddings, gather and index_select are not reported: \
        their forward pass reads only the requested rows, and their backward pass writes a gradient of the whole \
        table. The gain assumes that, after the change, the backward pass takes twice as long as the forward pass.",
    source: "DeepContext paper, sections 4.3 and 6.1, forward/backward operator analysis",
    needs: &[Requirement::GpuWork, Requirement::BackwardLinks, Requirement::GpuRecords],
    settings: &[
        Setting {
            name: "times",
            default: 3.0,
            range: (1.0, 1000.0),
            about: "report only if the backward pass takes at least this multiple of the time of the forward pass",
        },
        Setting {
            name: "share",
            default: 2.0,
            range: (0.0, 100.0),
            about: "report only if the backward pass takes at least this percentage of GPU busy time",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Ratio of backward to forward time after the change.
const USUAL_RATIO: f64 = 2.0;

/// Test by its name if an operator reads some rows of a table. Their gradient covers the whole table, however few rows
/// were read.
fn reads_table(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["embedding", "gather", "index_select"].iter().any(|part| name.contains(part))
}

/// Kernels of the forward and backward passes of one operator, over all modules of a class.
#[derive(Default)]
struct Group {
    /// Source location of the first operator.
    place: Option<SourceLocation>,
    forward: Vec<EventId>,
    backward: Vec<EventId>,
}

/// Find operators whose backward pass takes several times as long on the GPU as the forward pass.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    let mut types = context.kernel_types();
    let mut seen = FxHashSet::default();
    // Instances of one module class share a line of the program.
    let mut groups: BTreeMap<(SourceLocation, &str), Group> = BTreeMap::new();
    for (from, to, _) in trace
        .links
        .of_kind(LinkKind::Backward)
        .filter(|(from, to, _)| context.is_in_window(*from) && context.is_in_window(*to))
    {
        let name = trace.name(from);
        // SL007 reports indexing, checkpoints repeat their forward pass, and table lookups have a gradient of the whole
        // table.
        if name == aten::INDEX || name.contains("Checkpoint") || reads_table(name) {
            continue;
        }
        let mut computes = |work: &EventId| types.of_event(*work) == KernelType::Computation && seen.insert(*work);
        let forward: Vec<EventId> = context.launched_in(from).filter(&mut computes).collect();
        let backward: Vec<EventId> = context.launched_in(to).filter(&mut computes).collect();
        let mut place = context.place(from);
        place.module = place.module.and_then(|module| module_class(&module).map(str::to_owned));
        let group = groups.entry((place, name)).or_default();
        group.place.get_or_insert_with(|| context.place(from));
        group.forward.extend(forward);
        group.backward.extend(backward);
    }
    groups.into_iter().filter_map(|((_, name), group)| candidate(context, name, group)).collect()
}

/// Candidate for the backward pass of one operator; `None` below the ratio or the share of GPU time.
fn candidate(context: &RuleContext<'_>, name: &str, Group { place, forward, backward }: Group) -> Option<Candidate> {
    let (forward_ns, backward_ns) = (context.total(&forward), context.total(&backward));
    let times = backward_ns as f64 / forward_ns.max(1) as f64;
    let share = context.percent_of_gpu(backward_ns);
    // An operator without GPU work in its forward pass is a view, and its backward pass has work.
    if forward_ns == 0 || times < context.setting("times") || share < context.setting("share") {
        return None;
    }
    let edit = context.edit(Action::Scale((USUAL_RATIO / times).min(1.0)), format!("backward of {name}"), &backward)?;
    Some(Candidate {
        title: format!(
            "Slow backward pass: {} takes {times:.1} times as long as its forward pass, {share:.0} % of GPU time \
             (gain assumes that 2 times are possible)",
            super::shorten_name(name)
        ),
        place: place?,
        facts: vec![
            Fact::time("time of the forward pass per step", context.per_step(forward_ns)),
            Fact::time("time of the backward pass per step", context.per_step(backward_ns)),
            Fact::count("kernels of the backward pass", backward.len()),
        ],
        events: backward,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Low,
        gain_estimate: GainEstimate::speculative(vec![edit]),
    })
}
