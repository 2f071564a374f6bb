//! Runtime and driver calls that take a large share of a window, by name, for reports.

use super::path::ExactPath;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::gpu_calls::{CallKind, kind_of_name};
use stackline_model::{EventId, StrId, Trace, TrackId};
use std::collections::BTreeMap;

/// Runtime or driver calls of one name that take a large share of a window.
#[derive(Clone, Debug, PartialEq)]
pub struct LargeCall {
    /// Name of the calls.
    pub name: String,
    /// Number of calls that begin in the window.
    pub count: usize,
    /// Time in percent of the window, on the thread with the most of it.
    pub percent: f64,
    /// Time on the critical path, in percent of the path.
    pub path_percent: f64,
}

/// Minimum share of the window, in percent, of a large call.
const LARGE_PERCENT: f64 = 20.0;

/// Find runtime and driver calls with a large share of a path's window, on threads that launch work, longest first.
/// Calls that only wait count by their time on the path, because the path contains the awaited work instead.
pub fn large_calls(trace: &Trace, path: &ExactPath) -> Vec<LargeCall> {
    let (from, to) = (path.window.start, path.window.end);
    let length = (to - from).max(1) as f64;
    let events = &trace.events;
    let launching: FxHashSet<TrackId> =
        trace.gpu.launch.iter().filter_map(|launch| launch.some()).map(|launch| events.track[launch.index()]).collect();
    let is_call = |e: EventId| trace.kind(e).is_api_call() && events.is_timed(e);
    let mut by_track: BTreeMap<(StrId, TrackId), (usize, i64)> = BTreeMap::new();
    for event in events.ids().filter(|&event| is_call(event)) {
        let (at, track) = (event.index(), events.track[event.index()]);
        let ns = events.end(event).min(to) - events.start[at].max(from);
        // Without any launch the launching thread is unknown.
        if ns > 0 && (launching.is_empty() || launching.contains(&track)) {
            let (count, sum) = by_track.entry((events.name[at], track)).or_default();
            *count += 1;
            *sum += ns;
        }
    }
    let mut on_path: FxHashMap<StrId, i64> = FxHashMap::default();
    for segment in path.segments.iter().filter(|segment| segment.event.is_some() && is_call(segment.event)) {
        *on_path.entry(events.name[segment.event.index()]).or_default() += segment.end - segment.start;
    }
    let mut by_name: BTreeMap<StrId, (usize, i64)> = BTreeMap::new();
    for ((name, _), (count, ns)) in by_track {
        let (all, most) = by_name.entry(name).or_default();
        *all += count;
        *most = (*most).max(ns);
    }
    let percent = |ns: i64| 100.0 * ns as f64 / length;
    let row = |(name, (count, ns)): (StrId, (usize, i64))| {
        let path_percent = percent(on_path.get(&name).copied().unwrap_or(0));
        LargeCall { name: trace.strings.get(name).to_owned(), count, percent: percent(ns), path_percent }
    };
    let is_wait = |name: &str| kind_of_name(name).is_some_and(CallKind::is_wait);
    let mut found: Vec<LargeCall> = by_name.into_iter().map(row).collect();
    found.retain(|call| call.path_percent >= LARGE_PERCENT || (call.percent >= LARGE_PERCENT && !is_wait(&call.name)));
    found.sort_by(|a, b| b.percent.total_cmp(&a.percent).then_with(|| a.name.cmp(&b.name)));
    found
}
