//! Source location with most of a group's time.

use super::groups::Group;
use crate::rule_context::RuleContext;
use rustc_hash::FxHashSet;
use stackline_model::EventId;
use stackline_timeline::source_location::{SourceLocation, SourceLocationKey};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Source location with most of a group's time, preferably with a known line, and its share of the group's time (0
/// to 1). The time is that in the window on the track with most of it, or that on the critical path.
pub(super) fn largest(context: &RuleContext<'_>, group: &Group, is_of_window: bool) -> (SourceLocation, f64) {
    let places = context.places();
    // By line: its time, and its longest event.
    let mut lines: BTreeMap<SourceLocationKey, (i64, (i64, Reverse<EventId>))> = BTreeMap::new();
    for (event, ns) in times(context, group, is_of_window) {
        let (sum, longest) = lines.entry(places.line_key(event)).or_insert((0, (0, Reverse(event))));
        *sum += ns;
        *longest = (*longest).max((ns, Reverse(event)));
    }
    let total: i64 = lines.values().map(|(ns, _)| ns).sum();
    let of_line = |&(ns, (_, Reverse(event))): &(i64, (i64, Reverse<EventId>))| (ns, context.place(event));
    let mut by_time: Vec<_> = lines.into_values().collect();
    by_time.sort_unstable_by(|a, b| b.cmp(a));
    let found =
        by_time.iter().map(of_line).find(|(_, place)| place.file.is_some()).or_else(|| by_time.first().map(of_line));
    let Some((ns, place)) = found else { return (SourceLocation::default(), 1.0) };
    (place, if total > 0 { ns as f64 / total as f64 } else { 1.0 })
}

/// Events of a group, each with its part of the reported time in ns.
fn times(context: &RuleContext<'_>, group: &Group, is_of_window: bool) -> Vec<(EventId, i64)> {
    if is_of_window || group.path_ns == 0 {
        let (events, (from, to)) = (&context.trace().events, context.window());
        let within = |e: EventId| (events.end(e).min(to) - events.start[e.index()].max(from)).max(0);
        let there = group.events.iter().filter(|e| Some(events.track[e.index()]) == group.track);
        return there.map(|&event| (event, within(event))).collect();
    }
    let events: FxHashSet<EventId> = group.events.iter().copied().collect();
    let own = |event: EventId| {
        let mut around = std::iter::once(event).chain(context.stack(event));
        around.find(|e| events.contains(e)).unwrap_or(event)
    };
    group.parts().iter().map(|part| (own(part.event), part.ns)).collect()
}
