//! Spans of other threads that run while a thread on the critical path has no recorded call.

use super::groups::Group;
use crate::large_group::LargeKind;
use crate::rule_context::RuleContext;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::names::STEP_PREFIX;
use stackline_model::{EventId, EventKind, StrId, TrackId, TrackKind};

/// Least share of a group's time in which a span must run to explain it.
const MIN_SHARE: f64 = 0.5;

/// Name of the operators or annotations that run longest on another thread of the process during a group's time, summed
/// over all occurrences, with their share in percent. `None` below half of the time, or for time with recorded calls.
pub(super) fn longest_span(context: &RuleContext<'_>, group: &Group) -> Option<(StrId, f64)> {
    let is_gap =
        matches!(group.kind, LargeKind::UnrecordedPython | LargeKind::UnrecordedHost | LargeKind::UnrecordedNative);
    if !is_gap {
        return None;
    }
    let trace = context.trace();
    let positions: FxHashSet<u32> = group.positions().collect();
    let segments = (0u32..).zip(context.path().segments.iter()).filter(|(at, _)| positions.contains(at));
    let mut gaps: Vec<(i64, i64, TrackId)> =
        segments.map(|(_, segment)| (segment.start, segment.end, segment.track)).collect();
    gaps.sort_unstable_by_key(|gap| (gap.0, gap.1));
    let own: FxHashSet<TrackId> = gaps.iter().map(|gap| gap.2).collect();
    let processes: FxHashSet<_> = own.iter().map(|track| trace.tracks.pid(*track)).collect();
    let total: i64 = gaps.iter().map(|gap| gap.1 - gap.0).sum();
    let is_span = |e: EventId| {
        matches!(trace.kind(e), EventKind::Operator | EventKind::Annotation) && !trace.name(e).starts_with(STEP_PREFIX)
    };
    let is_other = |e: EventId| {
        let track = trace.events.track[e.index()];
        !own.contains(&track)
            && trace.tracks.get(track).kind == TrackKind::Thread
            && processes.contains(&trace.tracks.pid(track))
    };
    let mut shared: FxHashMap<(TrackId, StrId), i64> = FxHashMap::default();
    for event in trace.events.ids().filter(|&e| is_span(e) && is_other(e) && trace.events.is_timed(e)) {
        if trace.ancestors(event).any(is_span) {
            continue;
        }
        let (start, end) = (trace.events.start[event.index()], trace.events.end(event));
        let later = &gaps[gaps.partition_point(|gap| gap.1 <= start)..];
        let within = later.iter().take_while(|gap| gap.0 < end).map(|gap| gap.1.min(end) - gap.0.max(start));
        let key = (trace.events.track[event.index()], trace.events.name[event.index()]);
        *shared.entry(key).or_default() += within.sum::<i64>();
    }
    let ((_, name), ns) = shared.into_iter().max_by_key(|&(key, ns)| (ns, std::cmp::Reverse(key)))?;
    let part = ns as f64 / total.max(1) as f64;
    (part >= MIN_SHARE).then_some((name, 100.0 * part))
}
