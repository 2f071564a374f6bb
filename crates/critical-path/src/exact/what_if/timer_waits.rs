//! Waits of event loops, such as asyncio, for timers, which may absorb the time that edits save.
//!
//! An event loop such as that of asyncio sleeps until its next timer (`asyncio.sleep`, `call_later`, timeouts), in
//! `select` or `epoll` with a timeout. The time of a timer does not depend on the work before it, so such a wait may
//! absorb the time that an edit saves. Traces do not show if a timer or another event ended a wait. Samples of CPU time
//! show where a thread did not wait.

use super::super::Exact;
use super::super::enclosing::AncestorCache;
use super::super::graph::{NONE, NodeKind};
use super::apply::Applied;
use super::{Measured, WhatIf};
use crate::exact::window::Window;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, RECORDING, SampleMetric, Trace, TrackId};
use stackline_timeline::vocabulary::python::{EVENT_LOOP_WAITS, EVENT_LOOPS};

/// Length in ns from which a thread may have waited in an event loop. Loops also poll without a wait.
const MIN_WAIT_NS: i64 = 100_000;

/// Reason of a lower bound of 0, as a sentence without its period.
const ABSORBED: &str = "an event loop (such as asyncio) may wait for a timer (asyncio.sleep, call_later, a timeout). \
                        Such a wait absorbs time that is saved before the wait, so the lower bound of the gain is 0";

/// Start and end of possible waits for timers, by lane, in time order. Empty without event loops.
pub(super) struct TimerWaits(Vec<Vec<(i64, i64)>>);

impl TimerWaits {
    /// Find the time ranges of each lane in which an event loop may have waited for a timer.
    pub(super) fn new(exact: &Exact<'_>) -> Self {
        let trace = exact.trace;
        let has = |parts: &[&str]| -> Vec<bool> {
            trace.strings.iter().map(|name| parts.iter().any(|part| name.contains(part))).collect()
        };
        let loops = has(EVENT_LOOPS);
        if !loops.contains(&true) {
            return Self(Vec::new());
        }
        let waits = has(EVENT_LOOP_WAITS);
        let is = |of: &[bool], event: EventId| of.get(trace.events.name[event.index()].index()).copied() == Some(true);
        let is_recording = trace.meta.entry(RECORDING).is_some();
        let mut computing = computing_ranges(trace);
        let mut around = AncestorCache::new(trace);
        let mut found = Vec::with_capacity(exact.lanes.len());
        for lane in &exact.lanes {
            let mut of_lane = Vec::new();
            let computing = computing.remove(&lane.track).unwrap_or_default();
            for (at, piece) in lane.pieces.iter().enumerate() {
                let (event, start, end) = (piece.event, piece.start, lane.piece_end(at));
                if event.is_none() || end == i64::MAX || end - start < MIN_WAIT_NS {
                    continue;
                }
                let around_end = computing.get(computing.partition_point(|range| range.1 < end));
                if around_end.is_some_and(|range| range.0 <= start) {
                    continue;
                }
                // A recording has no spans of calls without operators and samples, such as a wait in a coroutine.
                let may_be_inside =
                    is_recording && matches!(trace.kind(event), EventKind::PythonFunction | EventKind::Annotation);
                let may_wait = may_be_inside || is(&loops, event) || is(&waits, event);
                if may_wait && around.any(trace, event, |e| is(&loops, e)) {
                    of_lane.push((start, end));
                }
            }
            found.push(of_lane);
        }
        Self(found)
    }

    /// True if a possible wait for a timer on a lane overlaps a time range.
    fn is_within(&self, lane: u32, (from, to): (i64, i64)) -> bool {
        let Some(waits) = self.0.get(lane as usize) else { return false };
        waits.get(waits.partition_point(|wait| wait.1 <= from)).is_some_and(|wait| wait.0 < to)
    }
}

/// Time ranges of each thread in which the thread did not wait, by samples of its CPU time.
///
/// Ranges are disjoint and in time order. In them, CPU time grew as fast as the clock between two samples, so the
/// thread did not wait for [`MIN_WAIT_NS`].
fn computing_ranges(trace: &Trace) -> FxHashMap<TrackId, Vec<(i64, i64)>> {
    let mut by_track: FxHashMap<TrackId, Vec<(i64, i64)>> = FxHashMap::default();
    for (track, samples) in trace.samples().of_metric(SampleMetric::CpuTime) {
        let ranges = by_track.entry(track).or_default();
        let mut earlier = None;
        for sample in samples {
            // The weight is the CPU time since the sample before it.
            let (to, computed) = (sample.time, sample.weight);
            let is_busy = |from: &i64| to.saturating_sub(*from).saturating_sub(computed) < MIN_WAIT_NS;
            let Some(from) = earlier.replace(to).filter(is_busy) else { continue };
            match ranges.last_mut().filter(|last| last.1 == from) {
                Some(last) => last.1 = to,
                None => ranges.push((from, to)),
            }
        }
    }
    by_track
}

/// Lane of the thread on which a window ends; `None` for windows that end with GPU work.
fn lane_of(exact: &Exact<'_>, window: Window) -> Option<u32> {
    let is_on_thread = window.anchor != NONE && exact.graph.kind[window.anchor as usize] != NodeKind::Gpu;
    is_on_thread.then(|| exact.graph.place[window.anchor as usize])
}

/// Note that timers may absorb a predicted gain, for windows whose thread runs an event loop.
pub fn event_loop_note(exact: &Exact<'_>, window: Window) -> Option<&'static str> {
    let lane = lane_of(exact, window)?;
    TimerWaits::new(exact).is_within(lane, (window.start, window.end)).then_some(ABSORBED)
}

impl WhatIf<'_, '_> {
    /// Reason why a later wait for a timer may absorb the time that edits save; `None` without such a wait.
    pub(super) fn absorbing_wait(&self, measured: &Measured, applied: &Applied) -> Option<&'static str> {
        let window = measured.window;
        let lane = lane_of(self.exact, window)?;
        // Edits of GPU work alone may save time before any wait.
        let first = applied.host.first_change().unwrap_or(window.start);
        self.timer_waits.is_within(lane, (first.max(window.start), window.end)).then_some(ABSORBED)
    }
}
