//! One-time initialization work in traces without steps.

use rustc_hash::FxHashMap;
use stackline_model::format::duration;
use stackline_model::{EventId, EventKind, StrId, Trace};

/// An operator is called so often before its first calls are compared with the others.
const CALLS: usize = 8;
/// A first call is a start if it takes so many times as long as the middle one of the others.
const TIMES: i64 = 4;
/// The least part of the trace that is told, in percent.
const SHARE: i64 = 5;

/// What first calls of operators take beyond later ones, in a sentence; none if that is little of a window of `length`
/// ns.
pub(super) fn note(trace: &Trace, length: i64) -> Option<String> {
    let mut by_name: FxHashMap<StrId, Vec<EventId>> = FxHashMap::default();
    let is_operator = |e: EventId| trace.kind(e) == EventKind::Operator && trace.events.is_timed(e);
    // Those within others are part of them.
    let outermost = |&e: &EventId| is_operator(e) && !trace.ancestors(e).any(is_operator);
    for event in trace.events.ids().filter(outermost) {
        by_name.entry(trace.events.name[event.index()]).or_default().push(event);
    }
    let mut starts: Vec<(i64, StrId)> =
        by_name.into_iter().filter_map(|(name, calls)| Some((beyond(trace, calls)?, name))).collect();
    starts.sort_unstable_by_key(|&(ns, name)| (std::cmp::Reverse(ns), name));
    let total: i64 = starts.iter().map(|(ns, _)| ns).sum();
    let (_, most) = *starts.first().filter(|_| total * 100 >= length * SHARE)?;
    Some(format!(
        "first calls of operators take {} longer than later ones ({:.0} % of the trace; most of it {}): gains include \
             this start-up, because the trace has no first step to exclude",
        duration(total),
        100.0 * total as f64 / length.max(1) as f64,
        trace.strings.get(most)
    ))
}

/// What the first of some calls takes beyond the middle one of the others, in ns.
fn beyond(trace: &Trace, mut calls: Vec<EventId>) -> Option<i64> {
    if calls.len() < CALLS {
        return None;
    }
    calls.sort_unstable_by_key(|&e| (trace.events.start[e.index()], e));
    let length = |e: &EventId| trace.events.dur[e.index()];
    let mut others: Vec<i64> = calls[1..].iter().map(length).collect();
    others.sort_unstable();
    let (first, middle) = (length(&calls[0]), others[others.len() / 2]);
    (first > TIMES * middle).then_some(first - middle)
}
