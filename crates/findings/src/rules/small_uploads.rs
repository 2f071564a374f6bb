//! SL030: small tensors that each step creates on the host and copies to the GPU.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::gpu_calls::{CopyDirection, copy_direction};
use stackline_model::{EventId, EventKind, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::aten;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL030",
    name: "redundant-copy-to-device",
    area: Area::Copies,
    about: "each step creates the same small tensors from Python values and copies them to the GPU",
    why: "torch.tensor(…, device=\"cuda\") creates a tensor on the host, copies it to the GPU and waits for the copy, \
         all for a few bytes.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate removes the `aten::to` operators that copy such tensors, and their copies (what-if \
        operation `remove`). The rule recognizes these operators in calls of `torch.tensor(…, device=…)`: each makes a \
        small copy right before the call returns the tensor.",
    advice: "Create constants once, outside of the loop (as buffers of the module). Compute values that depend on GPU \
         data on the GPU: torch.arange, torch.full, torch.where.",
    example: (
        "def forward(self, x):\n    return x * torch.tensor([0.5, 2.0], device=x.device)",
        "def __init__(self):\n    self.register_buffer(\"scale\", torch.tensor([0.5, 2.0]))\ndef forward(self, x):\n    return x * self.scale",
    ),
    cost: "the change takes one line per tensor",
    false_positives: "The tensors cannot be created once if their values differ each time: then they can only be \
         combined in one copy from pinned memory. The trace contains their sizes, not their values.",
    source: "common practice",
    needs: &[Requirement::GpuWork, Requirement::RuntimeCalls, Requirement::Operators, Requirement::Steps],
    settings: &[
        Setting {
            name: "kib",
            default: 4.0,
            range: (0.0, 1e6),
            about: "largest size of a copy that counts as small, in KiB",
        },
        Setting {
            name: "steps",
            default: 50.0,
            range: (0.0, 100.0),
            about: "report only if at least this percentage of the steps has the same number of small copies to the \
                GPU",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Longest time between the copy and the end of `torch.tensor`, in ns.
const MAX_COPY_GAP_NS: i64 = 20_000;

/// Find source locations that create small tensors on the host and copy them to the GPU in each step.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    let copies = small_copies(context);
    let made: Vec<EventId> = context
        .named(&[EventKind::Operator], |name| name == aten::LIFT_FRESH)
        .into_iter()
        .filter_map(|fresh| copied_before(context, fresh))
        .filter(|to| copies.contains_key(to))
        .collect();
    let by_place = context.by_place(&made).into_iter();
    by_place
        .filter_map(|(place, of)| {
            let removable: Vec<EventId> = of.iter().filter_map(|to| copies.get(to)).flatten().copied().collect();
            let steps = &trace.steps;
            let mut per_step: BTreeMap<Option<usize>, usize> = BTreeMap::new();
            for &to in &of {
                *per_step.entry(context.step_of(steps, to)).or_default() += 1;
            }
            let mut counts: Vec<usize> = per_step.values().copied().collect();
            counts.sort_unstable();
            let usual_steps = counts.iter().filter(|&&count| count == counts[counts.len() / 2]).count();
            let share = 100.0 * usual_steps as f64 / context.steps().max(1) as f64;
            (share >= context.setting("steps")).then(|| candidate(context, place, (of, removable))).flatten()
        })
        .collect()
}

/// Small copies to the GPU, by the innermost `aten::to` around their launch.
fn small_copies(context: &RuleContext<'_>) -> BTreeMap<EventId, Vec<EventId>> {
    let trace = context.trace();
    let most = (context.setting("kib") * 1024.0) as i64;
    let columns = ["bytes", "Bytes"].map(|key| trace.attr(key));
    let bytes = |copy: EventId| columns.iter().find_map(|column| column.i64(copy));
    let mut found: BTreeMap<EventId, Vec<EventId>> = BTreeMap::new();
    let is_upload = |name: &str| copy_direction(name) == Some(CopyDirection::ToDevice);
    for copy in context.named(&[EventKind::Memcpy], is_upload) {
        let launch = trace.gpu.of_event(copy).and_then(|gpu| trace.gpu.launch[gpu.index()].some());
        let to = launch.and_then(|launch| trace.ancestors(launch).find(|&e| trace.name(e) == aten::TO));
        if let Some(to) = to.filter(|_| bytes(copy).is_some_and(|bytes| bytes <= most)) {
            found.entry(to).or_default().push(copy);
        }
    }
    found
}

/// Operator `aten::to` right before the operator `fresh` within the same parent; none if another operator precedes it,
/// or after a gap.
fn copied_before(context: &RuleContext<'_>, fresh: EventId) -> Option<EventId> {
    let trace = context.trace();
    let (start, parent) = (trace.events.start[fresh.index()], trace.events.parent[fresh.index()]);
    let on_track = trace.track_events(trace.events.track[fresh.index()]);
    let at = on_track.partition_point(|e| trace.events.start[e.index()] < start);
    // Children follow their parent.
    let mut before = on_track[..at].iter().rev().copied().take_while(|&e| e != parent);
    let sibling = before.find(|&e| trace.events.parent[e.index()] == parent)?;
    let is_next = trace.name(sibling) == aten::TO && start - trace.events.end(sibling) <= MAX_COPY_GAP_NS;
    is_next.then_some(sibling)
}

/// Candidate for the copies at one source location, with the operators `aten::to` that make them.
fn candidate(
    context: &RuleContext<'_>,
    place: SourceLocation,
    (to, copies): (Vec<EventId>, Vec<EventId>),
) -> Option<Candidate> {
    let all: Vec<EventId> = to.iter().chain(&copies).copied().collect();
    let edit = context.edit(Action::Remove, format!("operator:{} of torch.tensor", aten::TO), &all)?;
    let copies_per_step = copies.len() as f64 / context.steps() as f64;
    let host_ns = context.per_step(context.total(&to));
    Some(Candidate {
        title: format!(
            "Small tensors copied from the host to the GPU: {copies_per_step:.0} copies, {}",
            context.words().time_per_step(host_ns)
        ),
        place,
        facts: vec![
            Fact::count("copies", copies.len()),
            Fact { name: "copies per step", value: copies_per_step, unit: Unit::None },
            Fact::time("host time of the copies per step", host_ns),
        ],
        events: copies,
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Low,
        gain_estimate: GainEstimate::edits(vec![edit]),
    })
}
