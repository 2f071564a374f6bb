//! Time in which a GPU had nothing to do, by what was done meanwhile on the thread that fed it.
//!
//! A gap lies between two operations of one GPU, whatever their streams. Until the call that launched the operation at its end is over,
//! or starts if it is known to return late ([`host_until`]), the gap is that thread's: its calls kept the GPU waiting. Where it was in none (autograd's thread, before the
//! backward pass), the calls of the thread that launched the operation before the gap did. What follows (or all of it, if that
//! launch was over before the gap began) is the operation's: it waited for its turn.

use super::cct_from_trace::is_call;
use crate::intervals::{intersect, subtract, union};
use crate::launch_handover::{Handovers, host_until};
use stackline_model::{EventId, Trace, TrackId};
use std::cell::Cell;
use std::collections::BTreeMap;

/// The gaps of a stretch of a trace.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// By track, and there by GPU: when its calls kept that GPU waiting. Empty where no gap is a thread's.
    threads: Vec<Vec<Covered>>,
    /// What waited for its turn, and how long, in ns.
    pub(super) waited: Vec<(EventId, i64)>,
    /// How long GPUs waited while no thread that feeds them was in a call: what was launched then, and ns.
    pub(super) outside: Vec<(EventId, i64)>,
}

/// A span of time, in ns.
type Span = (i64, i64);

/// Time in which a GPU waited for a launch.
struct Gap {
    span: Span,
    launch: EventId,
    /// The thread of that launch, and the one of the launch before the gap.
    threads: [Option<TrackId>; 2],
}

/// An operation of a GPU, what launched it, and whether that call returned later than the host had done its part.
type Work = (EventId, Option<EventId>, bool);

impl Idle {
    /// The gaps between the operations of a trace; what no thread has of them is put aside if the operation at its end, which `is_in` is
    /// asked with what launched it, counts in the stretch that is looked at.
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
        let busy = in_calls(trace, gaps.iter().flatten().flat_map(|gap| gap.threads).flatten());
        if gaps.iter().any(|gaps| !gaps.is_empty()) {
            idle.threads.resize_with(trace.tracks.len(), Vec::new);
        }
        for gaps in gaps {
            idle.divide(gaps, &busy, &is_in);
        }
        idle
    }

    /// The gaps between operations of a GPU, by start, that are threads'; what is the operations' own is put aside.
    fn gaps(&mut self, trace: &Trace, work: Vec<Work>, is_in: &impl Fn(EventId, Option<EventId>) -> bool) -> Vec<Gap> {
        let thread = |launch: Option<EventId>| launch.map(|launch| trace.events.track[launch.index()]);
        let mut gaps = Vec::new();
        let mut busy_until = i64::MAX;
        let mut thread_before = None;
        for (event, launch, is_early) in work {
            let start = trace.events.start[event.index()];
            if start > busy_until {
                let gap = (busy_until, start);
                let fed = launch.map_or(busy_until, |launch| host_until(trace, launch, is_early, gap));
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

    /// Gives each gap of a GPU to the threads whose calls lie in it.
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
                let calls = calls.map_or(&[][..], |calls| near(calls, gap.span));
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

    /// Whether any gap is a thread's.
    pub(super) fn has_threads(&self) -> bool {
        !self.threads.is_empty()
    }

    /// How much of the thread's gaps lies between two times, in ns; of each GPU.
    pub(super) fn within(&self, track: TrackId, start: i64, end: i64) -> i64 {
        let gaps = self.threads.get(track.index()).map_or(&[][..], Vec::as_slice);
        gaps.iter().map(|covered| covered.between(start, end.max(start))).sum()
    }
}

/// By track, when these threads were in any call.
fn in_calls(trace: &Trace, threads: impl Iterator<Item = TrackId>) -> Vec<Option<Vec<Span>>> {
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
            // What lies in the one before says nothing new.
            if spans.last().is_none_or(|last| end > last.1) {
                spans.push((start, end));
            }
        }
    }
    calls.into_iter().map(|spans| spans.map(union)).collect()
}

/// The spans that may have a part of this one.
fn near(spans: &[Span], (start, end): Span) -> &[Span] {
    let from = spans.partition_point(|span| span.1 <= start);
    let to = spans.partition_point(|span| span.0 < end);
    &spans[from..to.max(from)]
}

/// Spans of time, ascending and disjoint, and how much they cover before any moment.
#[derive(Debug, Default)]
struct Covered {
    starts: Vec<i64>,
    /// Of each span: its length, and that of all before it.
    lengths: Vec<(i64, i64)>,
    /// How many spans began before the moment that was asked for last: the next one is mostly near.
    last: Cell<usize>,
}

impl Covered {
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

    /// How much they cover between two times.
    fn between(&self, start: i64, end: i64) -> i64 {
        let first = begun_before(&self.starts, start, self.last.get());
        self.last.set(first);
        let last = begun_before(&self.starts, end, first);
        self.until(last, end) - self.until(first, start)
    }

    /// How much they cover before a time, before which so many of them began.
    fn until(&self, begun: usize, time: i64) -> i64 {
        let Some(last) = begun.checked_sub(1) else { return 0 };
        let (length, before) = self.lengths[last];
        before + length.min(time - self.starts[last])
    }
}

/// How many of some ascending times are before another one, searched for from a place on, in steps that double.
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
        fn times_are_found_from_anywhere(mut times in prop::collection::vec(0_i64..60, 0..40), time in -1_i64..61, from in 0_usize..40) {
            times.sort_unstable();
            let from = from.min(times.len());
            prop_assert_eq!(begun_before(&times, time, from), times.iter().filter(|at| **at < time).count());
        }

        #[test]
        fn what_is_covered_adds_up(cuts in prop::collection::btree_set(0_i64..80, 0..30), asked in prop::collection::vec((0_i64..90, 0_i64..30), 1..20)) {
            let cuts: Vec<i64> = cuts.into_iter().collect();
            let spans: Vec<(i64, i64)> = cuts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
            let covered = Covered::new(&spans);
            for (start, length) in asked {
                let inside = |at: i64| spans.iter().any(|span| span.0 <= at && at < span.1);
                let expected = (start..start + length).filter(|&at| inside(at)).count() as i64;
                prop_assert_eq!(covered.between(start, start + length), expected);
            }
        }
    }
}
