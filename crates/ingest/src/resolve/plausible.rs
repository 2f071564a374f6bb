//! Detection of GPU records with impossible times (long before the recording, centuries long), which would extend the
//! window.

use super::launches;
use super::long_operations::{self, LongOperations};
use crate::byte_offsets::{ByteOffsets, ProblemTally};
use crate::diagnostics;
use stackline_model::{EventId, EventKind, Trace, TrackKind, flags};

/// Tolerance before the host's first event, in ns, or the recording's length if that is larger: work may be queued
/// before the recording.
const BEFORE_NS: i64 = 100_000_000;
/// One tenth of the tolerance after the host's last event, in ns, or the recording's length if that is larger.
const AFTER_NS: i64 = 1_000_000_000;

/// Number of complete later operations of its stream after which an operation counts as too long. A stream runs one
/// operation after another, and in no trace of the corpus an operation outlasts more than two.
pub(super) const COVERED: usize = 16;
/// Limit on such operations of a stream, or one in a hundred. Streams with more may run operations concurrently, so
/// other evidence decides.
const COVERING: usize = 4;
/// Limit on the operations that are compared with a longer one. If all of a stream are damaged, each would be compared
/// with all.
const CHECKED_LATER: usize = 64 * COVERED;

/// Mark GPU records that are implausibly far from the host's events. Without CPU events no comparison is possible.
pub(super) fn mark(trace: &mut Trace, places: &ByteOffsets) {
    let Some((first, last)) = host_span(trace) else { return };
    let length = last.saturating_sub(first);
    let earliest = first.saturating_sub(BEFORE_NS.max(length));
    let latest = last.saturating_add(AFTER_NS.max(length).saturating_mul(10));
    let mut marked = ProblemTally::default();
    for event in trace.events.ids() {
        let row = event.index();
        let kind = trace.events.kind[row];
        let on_gpu = kind.is_gpu_work() || matches!(kind, EventKind::GpuAnnotation | EventKind::Sync);
        if !on_gpu || !trace.events.is_timed(event) {
            continue;
        }
        let (start, end) = (trace.events.start[row], trace.events.end(event));
        if start < earliest || end > latest {
            trace.events.flags[row] |= flags::IMPLAUSIBLE;
            marked.add(event, || trace.name(event).to_owned());
        }
    }
    marked.report(diagnostics::IMPLAUSIBLE_TIME, places, &mut trace.report);
}

/// Mark GPU operations whose length later ones of their stream contradict. Requires the order of tracks.
pub(super) fn mark_covering(trace: &mut Trace, places: &ByteOffsets) {
    let mut marked = ProblemTally::default();
    for event in covering(trace) {
        trace.events.flags[event.index()] |= flags::IMPLAUSIBLE;
        marked.add(event, || format!("{}, {} ns long", trace.name(event), trace.events.dur[event.index()]));
    }
    marked.report(diagnostics::IMPLAUSIBLE_LENGTH, places, &mut trace.report);
}

/// GPU operations that outlast many later ones of their stream. On streams with many such operations, only those that
/// other evidence contradicts.
fn covering(trace: &Trace) -> Vec<EventId> {
    let correlation = launches::correlation(trace);
    let is_work = |e: &EventId| trace.kind(*e).is_gpu_work() && trace.events.is_timed(*e);
    let (mut found, mut uncertain) = (Vec::new(), Vec::new());
    for track in trace.tracks.ids().filter(|track| trace.tracks.get(*track).kind == TrackKind::Stream) {
        let work: Vec<EventId> = trace.track_events(track).iter().copied().filter(is_work).collect();
        let is_covering = |at: &usize| covers(trace, &correlation, &work[*at..]);
        let (covering, others): (Vec<usize>, Vec<usize>) = (0..work.len()).partition(is_covering);
        let events = |rows: Vec<usize>| rows.into_iter().map(|at| work[at]).collect::<Vec<EventId>>();
        let are_few = covering.len() <= COVERING.max(work.len() / 100);
        let stream = LongOperations { covering: events(covering), others: events(others) };
        match are_few {
            true => found.extend(stream.covering),
            false => uncertain.push(stream),
        }
    }
    if !uncertain.is_empty() {
        let contradicted = long_operations::contradicted(trace, &uncertain, &found);
        found.extend(contradicted);
    }
    found
}

/// Check if the first operation of a stream, sorted by start, outlasts many of the others. Operations of the same
/// launch, a graph, may run concurrently.
fn covers(trace: &Trace, correlation: &impl Fn(EventId) -> i64, work: &[EventId]) -> bool {
    let Some((&first, later)) = work.split_first() else { return false };
    let events = &trace.events;
    let end = events.end(first);
    if later.get(COVERED - 1).is_none_or(|e| events.start[e.index()] >= end) {
        return false;
    }
    let own = correlation(first);
    let during = later.iter().take(CHECKED_LATER).take_while(|e| events.start[e.index()] < end);
    let whole = during.filter(|e| events.end(**e) <= end && (own <= 0 || correlation(**e) != own));
    whole.take(COVERED).count() == COVERED
}

/// Time range of the events of CPU threads, in ns; `None` without such events.
pub(super) fn host_span(trace: &Trace) -> Option<(i64, i64)> {
    let on_host = |e: &EventId| {
        let kind = trace.kind(*e);
        (kind.is_api_call() || matches!(kind, EventKind::Operator | EventKind::PythonFunction | EventKind::Annotation))
            && trace.events.is_plausible(*e)
    };
    trace.events.ids().filter(on_host).fold(None, |span, e| {
        let (start, end) = (trace.events.start[e.index()], trace.events.end(e));
        Some(span.map_or((start, end), |(a, b): (i64, i64)| (a.min(start), b.max(end))))
    })
}
