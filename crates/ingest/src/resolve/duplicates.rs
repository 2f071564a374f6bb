//! Records of GPU operations that a file contains several times, as after two copies of a trace were joined.

use super::launches;
use crate::byte_offsets::{ByteOffsets, ProblemTally};
use crate::diagnostics;
use rustc_hash::FxHashMap;
use stackline_model::{AttrType, EventId, EventKind, StrId, Trace, TrackKind};

/// Correlation ID, name and arguments of a record.
type Record = (i64, StrId, Vec<(StrId, (AttrType, u64))>);

/// Count operations once whose records repeat an earlier one in every field. Requires the order of tracks.
pub(super) fn leave_out(trace: &mut Trace, places: &ByteOffsets) {
    let mut marked = ProblemTally::default();
    for event in repeated(trace) {
        marked.add(event, || trace.name(event).to_owned());
        trace.events.set_kind(event, EventKind::Other);
    }
    marked.report(diagnostics::DUPLICATE_OPERATION, places, &mut trace.report);
}

/// Records that repeat an earlier one of their stream. Operations without a correlation ID may have equal records.
/// Parallel nodes of a graph may have, too, so a launch is repeated only if each of its records is.
fn repeated(trace: &Trace) -> Vec<EventId> {
    let correlation = launches::correlation(trace);
    let events = &trace.events;
    let is_work = |event: &EventId| trace.kind(*event).is_gpu_work() && events.is_timed(*event);
    let times = |event: &EventId| (events.start[event.index()], events.dur[event.index()]);
    let mut found: Vec<(i64, EventId)> = Vec::new();
    // Number of records that are there several times, by correlation ID.
    let mut several: FxHashMap<i64, usize> = FxHashMap::default();
    for track in trace.tracks.ids().filter(|track| trace.tracks.get(*track).kind == TrackKind::Stream) {
        let work: Vec<EventId> = trace.track_events(track).iter().copied().filter(is_work).collect();
        for at_once in work.chunk_by(|a, b| times(a) == times(b)).filter(|at_once| at_once.len() > 1) {
            let linked = at_once.iter().map(|&event| (record(trace, event, correlation(event)), event));
            let mut records: Vec<(Record, EventId)> = linked.filter(|((id, ..), _)| *id > 0).collect();
            records.sort_unstable();
            for equal in records.chunk_by(|a, b| a.0 == b.0).filter(|equal| equal.len() > 1) {
                let id = equal[0].0.0;
                *several.entry(id).or_default() += equal.len();
                found.extend(equal[1..].iter().map(|(_, event)| (id, *event)));
            }
        }
    }
    if found.is_empty() {
        return Vec::new();
    }
    let mut all: FxHashMap<i64, usize> = FxHashMap::default();
    for id in events.ids().filter(is_work).map(correlation).filter(|id| several.contains_key(id)) {
        *all.entry(id).or_default() += 1;
    }
    found.retain(|(id, _)| several.get(id) == all.get(id));
    found.into_iter().map(|(_, event)| event).collect()
}

/// Fields of a record in addition to its track and times.
fn record(trace: &Trace, event: EventId, id: i64) -> Record {
    let arguments = trace.attrs.of_event(event).map(|(key, value)| (key, value.to_raw()));
    (id, trace.events.name[event.index()], arguments.collect())
}
