//! From patterns to suggestions.

use super::{Action, Suggestion};
use crate::curve::{Span, device_of, span_of};
use crate::patterns::{intra, overlapping};
use crate::{Certainty, Facts, Gap, Measure, Pattern, PatternMatch};
use stackline_model::{MemoryObjectId, MemoryObjectKind, MemoryTrace};

/// Bytes per second that copies between host and device are assumed to reach (PCIe 4.0 with 16 lanes, in practice).
const COPY_BANDWIDTH: u64 = 25_000_000_000;

/// Most idle times that become suggestions of their own; the largest (by bytes, then kernels) are taken.
const MOST_GAPS: usize = 20_000;

/// What could be changed about these patterns, in their order; then idle times, in the order of objects and time.
pub fn suggestions(facts: &Facts<'_>, matches: &[PatternMatch]) -> Vec<Suggestion> {
    let mut made = Vec::new();
    for found in matches {
        if let Some(action) = action(facts, found) {
            made.extend(suggestion(facts, found.object, action, found.pattern, found.certainty));
        }
    }
    made.extend(splits(facts, matches));
    made.extend(idle_times(facts, matches));
    made
}

fn action(facts: &Facts<'_>, found: &PatternMatch) -> Option<Action> {
    let used = &facts.uses[found.object.index()];
    // The end of a recording is not the last use of what training keeps.
    let kept = matches!(
        facts.trace.objects.kind[found.object.index()],
        MemoryObjectKind::Parameter | MemoryObjectKind::OptimizerState
    );
    match found.pattern {
        Pattern::LateDeallocation | Pattern::MemoryLeak if kept => None,
        Pattern::EarlyAllocation => used.needed_from.some().map(|before| Action::MoveAllocation { before }),
        Pattern::LateDeallocation => used.last_use.some().map(|after| Action::MoveFree { after }),
        // What is alive when the trace breaks off may be used yet.
        Pattern::MemoryLeak if facts.trace.saw_end => used.last_use.some().map(|after| Action::MoveFree { after }),
        Pattern::UnusedAllocation | Pattern::NeverRead => Some(Action::Remove),
        Pattern::RedundantAllocation => Some(Action::Reuse { of: found.other }),
        Pattern::Overallocation => match found.measure {
            Some(Measure::Touched { bytes, fragmentation, .. }) if fragmentation < facts.rules.fragmentation => {
                Some(Action::Shrink { to: bytes })
            }
            _ => None,
        },
        _ => None,
    }
}

/// A suggestion, if it changes anything.
fn suggestion(
    facts: &Facts<'_>,
    object: MemoryObjectId,
    action: Action,
    pattern: Pattern,
    certainty: Certainty,
) -> Option<Suggestion> {
    let used = &facts.uses[object.index()];
    let life = span_of(facts.trace, object);
    let (fills, span, bytes) = match &action {
        Action::MoveAllocation { before } => (used.fills_before_needed, (life.from, before.0), life.bytes),
        Action::MoveFree { after } => (used.fills_after_last_use, (after.0 + 1, life.to), life.bytes),
        Action::Remove => (used.fills, (life.from, life.to), life.bytes),
        Action::Shrink { to } => (used.fills, (life.from, life.to), life.bytes.saturating_sub(*to)),
        Action::Offload { after, before }
        | Action::FreeWhileIdle { after, before }
        | Action::SetToNone { after, before } => (0, (after.0 + 1, before.0), life.bytes),
        Action::Reuse { .. } | Action::Split { .. } => (0, (life.from, life.to), life.bytes),
    };
    let copy_ns = match action {
        Action::Offload { .. } => u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(COPY_BANDWIDTH)).ok()?,
        _ => 0,
    };
    let changes = span.0 < span.1 && bytes > 0;
    changes.then_some(Suggestion { object, action, pattern, certainty, fills, bytes, copy_ns, span })
}

fn splits(facts: &Facts<'_>, matches: &[PatternMatch]) -> Vec<Suggestion> {
    let structured: Vec<&PatternMatch> =
        matches.iter().filter(|found| found.pattern == Pattern::StructuredAccess).collect();
    if structured.is_empty() {
        return Vec::new();
    }
    let touches = intra::touches(facts);
    let mut made = Vec::new();
    for (object, touches) in intra::by_object(&touches) {
        let Some(found) = structured.iter().find(|found| found.object == object) else { continue };
        // Copies and sets of the whole object need all slices at once.
        if facts.uses[object.index()].fills > 0 || touched_by_copies(facts, object) {
            continue;
        }
        let slices = overlapping(touches);
        let spans = slices.iter().map(|slice| Span {
            from: slice.first.0,
            to: slice.last.0 + 1,
            bytes: slice.end - slice.begin,
        });
        let action = Action::Split { slices: spans.collect() };
        made.extend(suggestion(facts, object, action, found.pattern, found.certainty));
    }
    made
}

/// Whether a copy reads the object: then not all of its uses are kernels.
fn touched_by_copies(facts: &Facts<'_>, object: MemoryObjectId) -> bool {
    let trace = facts.trace;
    let copies = trace.calls.ids().filter(|call| trace.calls.kind[call.index()].is_copy());
    copies.flat_map(|call| trace.accesses_of(call)).any(|access| access.object == object)
}

/// One suggestion per idle time.
fn idle_times(facts: &Facts<'_>, matches: &[PatternMatch]) -> Vec<Suggestion> {
    let idle = matches.iter().filter(|found| found.pattern == Pattern::TemporaryIdleness);
    let certainty: std::collections::BTreeMap<MemoryObjectId, Certainty> =
        idle.map(|found| (found.object, found.certainty)).collect();
    let mut gaps: Vec<&Gap> = facts.gaps.iter().collect();
    let bytes = |gap: &Gap| facts.trace.objects.bytes[gap.object.index()];
    if gaps.len() > MOST_GAPS {
        gaps.sort_by_key(|gap| (std::cmp::Reverse((bytes(gap), gap.kernels)), gap.object, gap.after));
        gaps.truncate(MOST_GAPS);
    }
    gaps.sort_by_key(|gap| (gap.object, gap.after));
    let mut made = Vec::new();
    for gap in gaps {
        let (after, before) = (gap.after, gap.needed_again);
        let gradient = facts.trace.objects.kind[gap.object.index()] == MemoryObjectKind::Gradient;
        if gap.content_needed && is_of_host(facts.trace, gap.object) {
            continue;
        }
        let action = match (gap.content_needed, gradient) {
            (true, _) => Action::Offload { after, before },
            (false, true) => Action::SetToNone { after, before },
            (false, false) => Action::FreeWhileIdle { after, before },
        };
        let sure = certainty.get(&gap.object).copied().unwrap_or(Certainty::Inferred);
        made.extend(suggestion(facts, gap.object, action, Pattern::TemporaryIdleness, sure));
    }
    made
}

/// Whether an object lies in the host's memory, where offloading would move it to.
fn is_of_host(trace: &MemoryTrace, object: MemoryObjectId) -> bool {
    let device = trace.devices.get(device_of(trace, object).index());
    device.is_some_and(|device| trace.strings.get(device.name).starts_with("cpu"))
}
