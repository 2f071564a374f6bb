//! Creation of memory suggestions from matches of patterns of wasted memory.

use super::cost::{Times, copy_ns};
use super::{Action, Suggestion, expandable, in_place, recompute, smaller_types};
use crate::curve::{Span, span_of};
use crate::patterns::intra::{self, ByteAccess};
use crate::patterns::{is_of_host, slices_of_accesses};
use crate::{Certainty, Gap, Measure, ObjectUsage, Pattern, PatternMatch};
use stackline_model::{AccessExtent, MemoryCallKind, MemoryObjectId, MemoryObjectKind};
use std::collections::BTreeMap;

/// Maximum number of gaps that become suggestions; the largest (by bytes, then kernels) are taken.
const MOST_GAPS: usize = 20_000;

/// Create all suggestions: for matches in their order, then for gaps by object and time, then general ones without a
/// pattern.
pub fn suggestions(usage: &ObjectUsage<'_>, matches: &[PatternMatch]) -> Vec<Suggestion> {
    let any_within = matches.iter().any(|found| found.pattern == Pattern::Overallocation);
    let copied = if any_within { read_by_copies(usage) } else { BTreeMap::new() };
    let mut made = Vec::new();
    for found in matches {
        let Some(action) = action(usage, found) else { continue };
        let reads = copied.get(&found.object).filter(|_| found.pattern == Pattern::Overallocation);
        let new = suggestion_for(found, action);
        made.extend(suggestion(usage, new).and_then(|suggestion| adapt_to_copies(suggestion, reads)));
    }
    made.extend(splits(usage, matches));
    made.extend(idle_time_suggestions(usage));
    if usage.trace.has_accesses {
        made.extend(in_place::in_place(usage));
    }
    made.extend(smaller_types::smaller(usage));
    made.extend(expandable::expandable(usage));
    made
}

/// Object, change, pattern and certainty of a pattern's match, without added run time: the input of [`suggestion`].
fn suggestion_for(found: &PatternMatch, action: Action) -> NewSuggestion {
    let PatternMatch { object, pattern, certainty, .. } = *found;
    NewSuggestion { object, action, pattern, certainty, cost_ns: 0 }
}

/// Change that removes the waste of a pattern's match; `None` if no suggestion follows from it.
fn action(usage: &ObjectUsage<'_>, found: &PatternMatch) -> Option<Action> {
    let used = &usage.uses[found.object.index()];
    match found.pattern {
        Pattern::EarlyAllocation => used.needed_from.some().map(|before| Action::MoveAllocation { before }),
        Pattern::LateDeallocation => used.last_use.some().map(|after| Action::MoveFree { after }),
        // Objects that are live at the end of a truncated trace may be used later.
        Pattern::MemoryLeak if usage.trace.saw_end => used.last_use.some().map(|after| Action::MoveFree { after }),
        Pattern::UnusedAllocation | Pattern::NeverRead => Some(Action::Remove),
        Pattern::RedundantAllocation => Some(Action::Reuse { owner: found.other }),
        Pattern::Overallocation => match found.measure {
            Some(Measure::Touched { bytes, fragmentation, .. }) if fragmentation < usage.rules.fragmentation => {
                Some(Action::Shrink { to: bytes })
            }
            _ => None,
        },
        _ => None,
    }
}

/// Object, change, pattern, certainty and cost of a new suggestion: the input of [`suggestion`].
pub(super) struct NewSuggestion {
    pub(super) object: MemoryObjectId,
    pub(super) action: Action,
    pub(super) pattern: Pattern,
    pub(super) certainty: Certainty,
    /// See [`Suggestion::cost_ns`].
    pub(super) cost_ns: u64,
}

/// Create a memory suggestion from its parts; `None` if it would change nothing.
pub(super) fn suggestion(usage: &ObjectUsage<'_>, new: NewSuggestion) -> Option<Suggestion> {
    let NewSuggestion { object, action, pattern, certainty, cost_ns } = new;
    let used = &usage.uses[object.index()];
    let life = span_of(usage.trace, object);
    let fills = match &action {
        Action::MoveAllocation { .. } | Action::Reuse { .. } => used.fills_before_needed,
        Action::MoveFree { .. } => used.fills_after_last_use,
        Action::Remove | Action::Shrink { .. } => used.fills,
        _ => 0,
    };
    let bytes = match &action {
        Action::Shrink { to } | Action::SmallerDtype { to } => life.bytes.saturating_sub(*to),
        _ => life.bytes,
    };
    let span = match &action {
        Action::MoveAllocation { before } => (life.from, before.0),
        Action::MoveFree { after } => (after.0 + 1, life.to),
        // At the call itself it needs more memory.
        Action::Recompute { after, before, scratch, .. } => (after.0 + 1, before.0 + u32::from(*scratch > 0)),
        action => action.away().map_or((life.from, life.to), |(after, before)| (after.0 + 1, before.0)),
    };
    let copy_ns = if matches!(action, Action::Offload { .. }) { copy_ns(bytes) } else { 0 };
    let made =
        Suggestion { object, action, pattern, certainty, fills, bytes, copy_ns, cost_ns, span, more: Vec::new() };
    (span.0 < span.1 && bytes > 0).then_some(made)
}

/// Suggestions to allocate the slices of objects with structured access one at a time.
fn splits(usage: &ObjectUsage<'_>, matches: &[PatternMatch]) -> Vec<Suggestion> {
    let structured: BTreeMap<MemoryObjectId, &PatternMatch> = matches
        .iter()
        .rev()
        .filter(|found| found.pattern == Pattern::StructuredAccess)
        .map(|found| (found.object, found))
        .collect();
    if structured.is_empty() {
        return Vec::new();
    }
    let set_or_copied = ranges_of_sets_and_copies(usage, &structured);
    let mut made = Vec::new();
    for (object, touches) in intra::by_object(usage.touches()) {
        let Some(found) = structured.get(&object) else { continue };
        // Copies and sets of the whole object need all slices at once; those of a slice need only this slice.
        let Some(set_or_copied) = set_or_copied.get(&object).map_or(Some(&[][..]), Option::as_deref) else { continue };
        let slices = slices_of_accesses(&[touches, set_or_copied].concat());
        if slices.len() < 2 {
            continue;
        }
        let spans = slices.iter().map(|slice| Span {
            from: slice.first.0,
            to: slice.last.0 + 1,
            bytes: slice.end - slice.begin,
        });
        let action = Action::Split { slices: spans.collect() };
        made.extend(suggestion(usage, suggestion_for(found, action)));
    }
    made
}

/// Byte ranges of the given objects that sets and copies access, by object. `None` for an object if one access has no
/// known range or covers the whole.
fn ranges_of_sets_and_copies<T>(
    usage: &ObjectUsage<'_>,
    objects: &BTreeMap<MemoryObjectId, T>,
) -> BTreeMap<MemoryObjectId, Option<Vec<ByteAccess>>> {
    let trace = usage.trace;
    let mut found: BTreeMap<MemoryObjectId, Option<Vec<ByteAccess>>> = BTreeMap::new();
    for call in trace.calls.ids().filter(|call| trace.calls.kind[call.index()] != MemoryCallKind::Kernel) {
        for access in trace.accesses_of(call).filter(|access| objects.contains_key(&access.object)) {
            let object = access.object;
            let known = found.entry(object).or_insert_with(|| Some(Vec::new()));
            if access.extent != AccessExtent::Ranges {
                *known = None;
            } else if let Some(known) = known {
                let ranges = trace.accesses.ranges_of(access.row).iter();
                known.extend(ranges.map(|r| ByteAccess { object, call, begin: r.begin, end: r.end, times: r.times }));
            }
        }
    }
    found
}

/// Copies that read one object: number of whole copies to the host, and if there are others.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    /// Number of copies of the whole object to the host.
    whole_to_host: u32,
    /// True if other copies read the object.
    others: bool,
}

/// Map from each object that copies read to these copies. Not all uses of such objects are kernels.
fn read_by_copies(usage: &ObjectUsage<'_>) -> BTreeMap<MemoryObjectId, Reads> {
    let trace = usage.trace;
    let mut found: BTreeMap<MemoryObjectId, Reads> = BTreeMap::new();
    for call in trace.calls.ids().filter(|call| trace.calls.kind[call.index()].is_copy()) {
        let to_host = trace.calls.kind[call.index()] == MemoryCallKind::CopyToHost;
        for access in trace.accesses_of(call).filter(|access| access.mode.reads()) {
            let reads = found.entry(access.object).or_default();
            let is_whole = to_host && access.extent == AccessExtent::Whole;
            reads.whole_to_host += u32::from(is_whole);
            reads.others |= !is_whole;
        }
    }
    found
}

/// Adapt a suggestion to shrink an object to the copies that read it; `None` if they need the removed bytes. A copy of
/// the whole object to the host can be shortened like its fills, because bytes without kernel accesses return
/// unchanged. The host may still need them, so this is uncertain. Copies of a part, and to other objects, need all
/// bytes that they read.
fn adapt_to_copies(suggestion: Suggestion, reads: Option<&Reads>) -> Option<Suggestion> {
    match reads {
        None => Some(suggestion),
        Some(reads) if reads.others => None,
        Some(reads) => Some(Suggestion {
            fills: suggestion.fills.saturating_add(reads.whole_to_host),
            certainty: suggestion.certainty.max(Certainty::Partial),
            ..suggestion
        }),
    }
}

/// Suggestions for gaps in the use of objects: recomputation, and offload or free until the next use. The certainty is
/// that the object is unused in its gap.
fn idle_time_suggestions(usage: &ObjectUsage<'_>) -> Vec<Suggestion> {
    let mut gaps: Vec<&Gap> = usage.gaps.iter().collect();
    let bytes = |gap: &Gap| usage.trace.objects.bytes[gap.object.index()];
    if gaps.len() > MOST_GAPS {
        gaps.sort_by_key(|gap| (std::cmp::Reverse((bytes(gap), gap.kernels)), gap.object, gap.after));
        gaps.truncate(MOST_GAPS);
    }
    gaps.sort_by_key(|gap| (gap.object, gap.after));
    let mut made = recompute::recomputations(usage, &gaps);
    let times = Times::new(usage.trace);
    for gap in gaps {
        let (after, before) = (gap.after, gap.needed_again);
        let gradient = usage.trace.objects.kind[gap.object.index()] == MemoryObjectKind::Gradient;
        if gap.content_needed && is_of_host(usage.trace, gap.object) {
            continue;
        }
        let action = match (gap.content_needed, gradient) {
            (true, _) => Action::Offload { after, before },
            (false, true) => Action::SetToNone { after, before },
            (false, false) => Action::FreeWhileIdle { after, before },
        };
        let cost_ns = match action {
            Action::Offload { .. } => times.exposed_copy_ns(copy_ns(bytes(gap)), after, before),
            _ => 0,
        };
        let certainty = usage.certainty_of_gap(gap);
        let pattern = Pattern::TemporaryIdleness;
        let new = NewSuggestion { object: gap.object, action, pattern, certainty, cost_ns };
        made.extend(suggestion(usage, new).map(|made| Suggestion { fills: gap.fills, ..made }));
    }
    made
}
