//! GPU work that runs during waits of unknown cause on the critical path.

use super::groups::Group;
use crate::large_group::{ConcurrentGpuWork, LargeKind};
use crate::rule_context::RuleContext;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::StrId;
use stackline_timeline::intervals;
use std::cmp::Reverse;

/// Least share of a group's time in which GPU work must run to be reported.
const MIN_SHARE: f64 = 0.5;
/// Number of reported names.
const NAMES: usize = 3;

/// GPU work of all devices that runs during a group of waits, with the names that take most of the time. `None` if GPU
/// work runs for less than half of the time, or if the group has no waits.
pub(super) fn during_waits(context: &RuleContext<'_>, group: &Group) -> Option<ConcurrentGpuWork> {
    if group.kind != LargeKind::Wait {
        return None;
    }
    let trace = context.trace();
    let positions: FxHashSet<u32> = group.positions().collect();
    let segments = (0u32..).zip(context.path().segments.iter()).filter(|(at, _)| positions.contains(at));
    let waits: Vec<(i64, i64)> = intervals::union(segments.map(|(_, segment)| (segment.start, segment.end)));
    let mut by_name: FxHashMap<StrId, Vec<(i64, i64)>> = FxHashMap::default();
    for event in trace.gpu.event.iter().copied().filter(|&event| trace.events.is_timed(event)) {
        let (start, end) = (trace.events.start[event.index()], trace.events.end(event));
        let later = &waits[waits.partition_point(|wait| wait.1 <= start)..];
        let within = later.iter().take_while(|wait| wait.0 < end).map(|wait| (wait.0.max(start), wait.1.min(end)));
        by_name.entry(trace.events.name[event.index()]).or_default().extend(within);
    }
    let total = intervals::total(&waits).max(1) as f64;
    // Concurrent operations of several streams count once.
    let all = intervals::total(&intervals::union(by_name.values().flatten().copied()));
    if (all as f64) < MIN_SHARE * total {
        return None;
    }
    let ns_of = |(name, spans): (StrId, Vec<(i64, i64)>)| (intervals::total(&intervals::union(spans)), name);
    let mut names: Vec<(i64, StrId)> = by_name.into_iter().map(ns_of).filter(|(ns, _)| *ns > 0).collect();
    names.sort_unstable_by_key(|&(ns, name)| (Reverse(ns), name));
    names.truncate(NAMES);
    let percent = |ns: i64| 100.0 * ns as f64 / total;
    let longest = names.into_iter().map(|(ns, name)| (trace.strings.get(name).to_owned(), percent(ns))).collect();
    Some(ConcurrentGpuWork { percent: percent(all), longest })
}
