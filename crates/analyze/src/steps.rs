//! How long steps take, for all that compares them.
//!
//! A step ends when the work that it launched has ended; a host that runs ahead of the GPU has begun the next one by then, which
//! takes from there on. So all of them together take as long as the program. (Tables that other tools have, too, such as
//! `steps`, list what the host's own span says.)

use stackline_model::{GpuId, Key, Step, Trace};
use std::collections::BTreeMap;

/// A first step that takes so many times as long as the middle one of the others is a warm-up; a last one that takes less than
/// one part in so many is cut off.
pub(crate) const FAR_OFF: i64 = 2;

/// From when to when each of [`Trace::steps`] takes, in ns. Only GPU work that counts is waited for: some have times that cannot
/// be.
pub(crate) fn spans(trace: &Trace, counts: impl Fn(GpuId) -> bool) -> Vec<(i64, i64)> {
    let mut ends: Vec<i64> = trace.steps.iter().map(|step| step.end).collect();
    for gpu in trace.gpu.ids().filter(|&gpu| counts(gpu)) {
        if let Some(end) = ends.get_mut(trace.gpu.step[gpu.index()] as usize) {
            *end = (*end).max(trace.events.end(trace.gpu.event[gpu.index()]));
        }
    }
    // Merged traces have steps of several processes.
    let mut before: BTreeMap<Key, i64> = BTreeMap::new();
    let span = |(step, end): (&Step, i64)| {
        let last = before.entry(trace.tracks.pid(trace.events.track[step.event.index()])).or_insert(step.start);
        let from = step.start.max(*last);
        *last = end.max(*last);
        (from, end.max(from))
    };
    trace.steps.iter().zip(ends).map(span).collect()
}

/// Whether the first step is a warm-up beside the others.
pub(crate) fn is_warm_up(first: i64, others: &[i64]) -> bool {
    middle(others).is_some_and(|middle| first > middle.saturating_mul(FAR_OFF))
}

/// The middle one of some lengths, the longer of two; none of none.
pub(crate) fn middle(lengths: &[i64]) -> Option<i64> {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_ups_take_far_longer() {
        assert!(is_warm_up(201, &[100, 90, 300]) && !is_warm_up(200, &[100, 90, 300]));
        assert!(!is_warm_up(1, &[]) && !is_warm_up(i64::MAX, &[i64::MAX]));
    }
}
