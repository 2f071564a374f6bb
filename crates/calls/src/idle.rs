//! Attribution of GPU idle time to the calls of the thread that launches the next operation.
//!
//! A gap is the time between two operations of one GPU, on any streams. It belongs to the launching thread until the
//! launch call of the next operation ends, or starts if the call is known to return late ([`host_wait_end`]). The calls
//! of that thread kept the GPU waiting. If the thread was in no call (autograd's thread before the backward pass), the
//! gap belongs to the calls of the thread that launched the previous operation. The rest of the gap belongs to the
//! operation, which waited on the device. This is the whole gap if the launch ended before it.

use super::call_events::is_call;
use stackline_model::{EventId, Trace, TrackId};
use stackline_timeline::intervals::{intersect, subtract, union};
use stackline_timeline::launch_handover::{Handovers, host_wait_end};
use std::cell::Cell;
use std::collections::BTreeMap;

/// GPU idle time in a time range of a trace, by the thread that caused it.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// By track and GPU: time in which the track's calls kept the GPU waiting. Empty if no gap belongs to a thread.
    threads: Vec<Vec<Covered>>,
    /// Operations that waited on the device, with the time in ns.
    pub(super) waited: Vec<(EventId, i64)>,
    /// Idle time outside any call of the launching threads, in ns, with the next launch.
    pub(super) outside: Vec<(EventId, i64)>,
}

/// A span of time, in ns.
type Span = (i64, i64);

/// Time in which a GPU waited for a launch.
struct Gap {
    span: Span,
    launch: EventId,
    /// Threads of that launch, and of the launch before the gap.
    threads: [Option<TrackId>; 2],
}

/// A GPU operation, its launch, and whether that call returned later than the host's part of the launch.
type Work = (EventId, Option<EventId>, bool);

impl Idle {
    /// Find the gaps between GPU operations, and the thread that caused each. Idle time without a thread is kept only
    /// if `is_in` selects the operation after the gap, given with its launch.
    pub(super) fn from_trace(trace: &Trace, is_in: impl Fn(EventId, Option<EventId>) -> bool) -> Self {
        let mut by_device: BTreeMap<i32, Vec<Work>> = BTreeMap::new();
        let mut handovers = Handovers::new(trace);
        for gpu in trace.gpu_by_start() {
            let event = trace.gpu.event[gpu.index()];
            if trace.events.is_plausible(event) {
                let launch = trace.gpu.launch[gpu.index()].some();
                let is_early = launch.is_some_and(|launch| handovers.is_early(event, launch));
                by_device.entry(trace.gpu.device[gpu.index()]).or_default().push((event, launch, is_early));
            }
        }
        let mut idle = Self::default();
        let gaps: Vec<Vec<Gap>> = by_device.into_values().map(|work| idle.gaps(trace, work, &is_in)).collect();
        let busy = call_spans(trace, gaps.iter().flatten().flat_map(|gap| gap.threads).flatten());
        if gaps.iter().any(|gaps| !gaps.is_empty()) {
            idle.threads.resize_with(trace.tracks.len(), Vec::new);
        }
        for gaps in gaps {
            idle.divide(gaps, &busy, &is_in);
        }
        idle
    }

    /// Find the gaps between operations of a GPU that belong to threads, by start. The rest is recorded in `waited`, as
    /// waits of operations.
    fn gaps(&mut self, trace: &Trace, work: Vec<Work>, is_in: &impl Fn(EventId, Option<EventId>) -> bool) -> Vec<Gap> {
        let thread = |launch: Option<EventId>| launch.map(|launch| trace.events.track[launch.index()]);
        let mut gaps = Vec::new();
        let mut busy_until = i64::MAX;
        let mut thread_before = None;
        for (event, launch, is_early) in work {
            let start = trace.events.start[event.index()];
            if start > busy_until {
                let gap = (busy_until, start);
                let fed = launch.map_or(busy_until, |launch| host_wait_end(trace, launch, is_early, gap));
                if let Some(launch) = launch.filter(|_| fed > busy_until) {
                    let threads = [thread(Some(launch)), thread_before];
                    gaps.push(Gap { span: (busy_until, fed), launch, threads });
                }
                if start > fed && is_in(event, launch) {
                    self.waited.push((event, start - fed));
                }
            }
            let end = trace.events.end(event);
            busy_until = if busy_until == i64::MAX { end } else { busy_until.max(end) };
            thread_before = thread(launch).or(thread_before);
        }
        gaps
    }

    /// Assign each gap of a GPU to the threads with calls in it; the rest is recorded in `outside`.
    fn divide(
        &mut self,
        gaps: Vec<Gap>,
        in_calls: &[Option<Vec<Span>>],
        is_in: &impl Fn(EventId, Option<EventId>) -> bool,
    ) {
        let mut of_threads: BTreeMap<TrackId, Vec<Span>> = BTreeMap::new();
        for gap in gaps {
            let mut left = vec![gap.span];
            for thread in gap.threads.into_iter().flatten() {
                let calls = in_calls.get(thread.index()).and_then(Option::as_ref);
                let calls = calls.map_or(&[][..], |calls| nearby_spans(calls, gap.span));
                of_threads.entry(thread).or_default().extend(intersect(&left, calls));
                left = subtract(&left, calls);
            }
            left.retain(|_| is_in(gap.launch, Some(gap.launch)));
            self.outside.extend(left.into_iter().map(|(start, end)| (gap.launch, end - start)));
        }
        for (thread, mut spans) in of_threads {
            spans.sort_unstable();
            if let Some(gaps) = self.threads.get_mut(thread.index()) {
                gaps.push(Covered::new(&spans));
            }
        }
    }

    /// True if any gap between GPU operations is attributed to a thread.
    pub(super) fn has_threads(&self) -> bool {
        !self.threads.is_empty()
    }

    /// GPU idle time in ns that a thread caused between two times, summed over GPUs.
    pub(super) fn within(&self, track: TrackId, start: i64, end: i64) -> i64 {
        let gaps = self.threads.get(track.index()).map_or(&[][..], Vec::as_slice);
        gaps.iter().map(|covered| covered.between(start, end.max(start))).sum()
    }
}

/// Time ranges that each of these threads spent in calls, by track; `None` for all other tracks.
fn call_spans(trace: &Trace, threads: impl Iterator<Item = TrackId>) -> Vec<Option<Vec<Span>>> {
    let mut calls: Vec<Option<Vec<Span>>> = vec![None; trace.tracks.len()];
    for thread in threads {
        if let Some(spans) = calls.get_mut(thread.index()) {
            *spans = Some(Vec::new());
        }
    }
    let is_span = |&event: &EventId| is_call(trace, event) && !trace.kind(event).is_gpu_work();
    for event in trace.events.ids().filter(is_span).filter(|&event| trace.events.is_timed(event)) {
        if let Some(Some(spans)) = calls.get_mut(trace.events.track[event.index()].index()) {
            let (start, end) = (trace.events.start[event.index()], trace.events.end(event));
            // Nested calls add nothing.
            if spans.last().is_none_or(|last| end > last.1) {
                spans.push((start, end));
            }
        }
    }
    calls.into_iter().map(|spans| spans.map(union)).collect()
}

/// Spans that overlap a given span, by binary search in disjoint ascending spans.
fn nearby_spans(spans: &[Span], (start, end): Span) -> &[Span] {
    let from = spans.partition_point(|span| span.1 <= start);
    let to = spans.partition_point(|span| span.0 < end);
    &spans[from..to.max(from)]
}

/// Disjoint spans of time in ascending order, with prefix sums of their lengths.
#[derive(Debug, Default)]
struct Covered {
    starts: Vec<i64>,
    /// Length of each span, and total length of all earlier ones.
    lengths: Vec<(i64, i64)>,
    /// Number of spans that began before the last queried time, because queries are usually close.
    last: Cell<usize>,
}

impl Covered {
    /// Create from disjoint ascending spans, with the total length before each.
    fn new(spans: &[Span]) -> Self {
        let mut all = 0;
        let lengths = spans.iter().map(|&(start, end)| {
            let before = all;
            all += end - start;
            (end - start, before)
        });
        let lengths = lengths.collect();
        Self { starts: spans.iter().map(|span| span.0).collect(), lengths, last: Cell::default() }
    }

    /// Covered time within a time range, in ns.
    fn between(&self, start: i64, end: i64) -> i64 {
        let first = begun_before(&self.starts, start, self.last.get());
        self.last.set(first);
        let last = begun_before(&self.starts, end, first);
        self.until(last, end) - self.until(first, start)
    }

    /// Covered time before a time, in ns; `begun` is the number of spans that began earlier.
    fn until(&self, begun: usize, time: i64) -> i64 {
        let Some(last) = begun.checked_sub(1) else { return 0 };
        let (length, before) = self.lengths[last];
        before + length.min(time - self.starts[last])
    }
}

/// Number of ascending times before a given time, by exponential search from a start position.
fn begun_before(times: &[i64], time: i64, from: usize) -> usize {
    let is_before = |at: &i64| *at < time;
    if from > 0 && !is_before(&times[from - 1]) {
        return times[..from].partition_point(is_before);
    }
    let (mut low, mut step) = (from, 1);
    while let Some(at) = times.get(low + step - 1) {
        if !is_before(at) {
            break;
        }
        low += step;
        step *= 2;
    }
    let high = times.len().min(low + step);
    low + times[low..high].partition_point(is_before)
}

#[cfg(test)]
mod tests {
    use super::{Covered, begun_before};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn search_from_any_start(mut times in prop::collection::vec(0_i64..60, 0..40), time in -1_i64..61, from in 0_usize..40) {
            times.sort_unstable();
            let from = from.min(times.len());
            prop_assert_eq!(begun_before(&times, time, from), times.iter().filter(|at| **at < time).count());
        }

        #[test]
        fn covered_time_adds_up(cuts in prop::collection::btree_set(0_i64..80, 0..30), queries in prop::collection::vec((0_i64..90, 0_i64..30), 1..20)) {
            let cuts: Vec<i64> = cuts.into_iter().collect();
            let spans: Vec<(i64, i64)> = cuts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
            let covered = Covered::new(&spans);
            for (start, length) in queries {
                let inside = |at: i64| spans.iter().any(|span| span.0 <= at && at < span.1);
                let expected = (start..start + length).filter(|&at| inside(at)).count() as i64;
                prop_assert_eq!(covered.between(start, start + length), expected);
            }
        }
    }
}
