//! Spans without a recorded end: cut at the end of their caller, instead of the end of the recording.
//!
//! A Python frame whose return the profiler missed ends when the recording stops, so all later work of its caller would
//! appear in that frame. A callee cannot outlive its caller, so such a frame is cut at the end of its caller. (Real
//! traces contained no frames that cross their caller's end in another way, nor frames inside annotations or operators
//! that had to end with them.) Begin records without an end are likewise cut at the end of the enclosing span.

use crate::byte_offsets::{ByteOffsets, ProblemTally};
use crate::diagnostics;
use stackline_model::{
    AttrValue, EventId, EventKind, EventTable, ProcessId, RECORDED_DURATION, Trace, TrackId, TrackKind, flags,
};

/// Cut spans without a recorded end at the end of their caller, and store their recorded durations as attributes.
/// Requires the time order, and restores it.
pub(super) fn clamp(trace: &mut Trace, places: &ByteOffsets) {
    let candidates =
        |e: &EventId| trace.kind(*e) == EventKind::PythonFunction || trace.events.has(*e, flags::UNFINISHED);
    if !trace.events.ids().any(|e| candidates(&e)) {
        return;
    }
    let stops = recording_ends(trace);
    let mut cut = Vec::new();
    for track in trace.tracks.ids() {
        let lane = trace.tracks.get(track);
        if lane.kind == TrackKind::Thread {
            let stop = stops[lane.process.index()];
            let order = trace.track_events(track).to_vec();
            cut_spans_of_track(&mut trace.events, &order, stop, &mut cut);
        }
    }
    if cut.is_empty() {
        return;
    }
    cut.sort_unstable();
    let mut cut_spans = ProblemTally::default();
    let key = trace.strings.intern(RECORDED_DURATION);
    for &(event, recorded) in &cut {
        cut_spans.add(event, || format!("{}, recorded duration {recorded} ns", trace.name(event)));
    }
    let attributes: Vec<_> = cut.into_iter().map(|(event, recorded)| (event, key, AttrValue::Int(recorded))).collect();
    trace.attrs.append(&attributes);
    cut_spans.report(diagnostics::NEVER_CLOSED, places, &mut trace.report);
    trace.index_tracks();
}

/// End of the recording per process: the end of its last operator, annotation or call, or that of the whole trace for a
/// process without any.
fn recording_ends(trace: &Trace) -> Vec<i64> {
    let mut stops: Vec<Option<i64>> = vec![None; trace.tracks.processes.len()];
    let process_of = |track: TrackId| -> ProcessId { trace.tracks.get(track).process };
    for event in trace.events.ids() {
        let kind = trace.kind(event);
        let on_host = kind.is_api_call() || matches!(kind, EventKind::Operator | EventKind::Annotation);
        if on_host && trace.events.is_plausible(event) {
            let slot = &mut stops[process_of(trace.events.track[event.index()]).index()];
            *slot = (*slot).max(Some(trace.events.end(event)));
        }
    }
    let last = stops.iter().flatten().max().copied();
    // Without other events the end of the recording is unknown.
    stops.into_iter().map(|stop| stop.or(last).unwrap_or(i64::MAX)).collect()
}

/// An open span: its end, and true for a Python frame.
type Open = (i64, bool);

/// Cut the unclosed spans of a track at the end of their caller, and append them to `cut` with their recorded
/// durations.
fn cut_spans_of_track(events: &mut EventTable, order: &[EventId], stop: i64, cut: &mut Vec<(EventId, i64)>) {
    let mut open: Vec<Open> = Vec::new();
    for &event in order {
        let row = event.index();
        if !events.is_plausible(event) || events.dur[row] == 0 {
            continue;
        }
        let (start, mut end) = (events.start[row], events.end(event));
        while open.last().is_some_and(|&(open_end, _)| open_end <= start) {
            open.pop();
        }
        let is_frame = events.kind[row] == EventKind::PythonFunction;
        let mut callers = open.iter().rev().filter(|&&(open_end, _)| open_end > start);
        let limit = if events.has(event, flags::UNFINISHED) {
            callers.next()
        } else if is_frame && end >= stop {
            callers.find(|&&(_, is_frame)| is_frame)
        } else {
            None
        };
        if let Some(&(limit, _)) = limit
            && limit < end
        {
            cut.push((event, events.dur[row]));
            events.dur[row] = limit - start;
            events.flags[row] |= flags::CLAMPED;
            end = limit;
        }
        open.push((end, is_frame));
    }
}
