//! One-time initialization work in traces without steps.

use rustc_hash::FxHashMap;
use stackline_model::format::duration;
use stackline_model::{EventId, EventKind, StrId, Trace};

/// Least number of calls of an operator, to compare its first call with the others.
const MIN_CALLS: usize = 8;
/// Least duration of a first call that counts as initialization, as a multiple of the median of the others.
const MIN_RATIO: i64 = 4;
/// Least share of the trace that is reported, in percent.
const MIN_SHARE_PERCENT: i64 = 5;

/// Note for the report on the excess time of first calls of operators. None if the excess is small relative to the
/// window's `length` in ns.
pub(super) fn note(trace: &Trace, length: i64) -> Option<String> {
    let mut by_name: FxHashMap<StrId, Vec<EventId>> = FxHashMap::default();
    let is_operator = |e: EventId| trace.kind(e) == EventKind::Operator && trace.events.is_timed(e);
    // Nested operators are part of the outer one.
    let outermost = |&e: &EventId| is_operator(e) && !trace.ancestors(e).any(is_operator);
    for event in trace.events.ids().filter(outermost) {
        by_name.entry(trace.events.name[event.index()]).or_default().push(event);
    }
    let mut starts: Vec<(i64, StrId)> =
        by_name.into_iter().filter_map(|(name, calls)| Some((excess_of_first_call(trace, calls)?, name))).collect();
    starts.sort_unstable_by_key(|&(ns, name)| (std::cmp::Reverse(ns), name));
    let total: i64 = starts.iter().map(|(ns, _)| ns).sum();
    let (_, most) = *starts.first().filter(|_| total * 100 >= length * MIN_SHARE_PERCENT)?;
    Some(format!(
        "the first calls of some operators take {} longer in total than later calls ({:.0} % of the trace, mostly \
         {}). Gains include this start-up time, because the trace has no steps, and so no first step to exclude",
        duration(total),
        100.0 * total as f64 / length.max(1) as f64,
        trace.strings.get(most)
    ))
}

/// Excess of the first call over the median of the others, in ns; `None` if calls are few, or if the excess is small.
fn excess_of_first_call(trace: &Trace, mut calls: Vec<EventId>) -> Option<i64> {
    if calls.len() < MIN_CALLS {
        return None;
    }
    calls.sort_unstable_by_key(|&e| (trace.events.start[e.index()], e));
    let length = |e: &EventId| trace.events.dur[e.index()];
    let mut others: Vec<i64> = calls[1..].iter().map(length).collect();
    others.sort_unstable();
    let (first, middle) = (length(&calls[0]), others[others.len() / 2]);
    (first > MIN_RATIO * middle).then_some(first - middle)
}
