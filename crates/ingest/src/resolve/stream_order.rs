//! Detection of GPU operations whose times contradict the order of their stream.
//!
//! A stream runs its operations in launch order. An operation has an impossible time if it starts long after operations
//! that were launched later, or long before those that were launched earlier.

use crate::byte_offsets::{ByteOffsets, ProblemTally};
use crate::diagnostics;
use stackline_model::{EventId, Key, Trace, TrackId, flags};
use std::collections::BTreeMap;

/// Smallest contradiction, in ns: larger than concurrent launching threads or an adjusted clock can cause.
const FAR_NS: i64 = 1_000_000_000;
/// Number of neighbors in launch order that are compared with an operation.
const NEIGHBORS: usize = 3;

/// An operation: time of its launch, start, and event.
type Launched = (i64, i64, EventId);

/// Mark GPU operations whose start contradicts the launch order of their stream.
pub(super) fn mark(trace: &mut Trace, places: &ByteOffsets) {
    let mut marked = ProblemTally::default();
    for event in operations_by_stream(trace).into_values().flat_map(|mut stream| out_of_order(&mut stream)) {
        trace.events.flags[event.index()] |= flags::IMPLAUSIBLE;
        marked.add(event, || trace.name(event).to_owned());
    }
    marked.report(diagnostics::OUT_OF_STREAM_ORDER, places, &mut trace.report);
}

/// GPU operations with their launch times by stream, for streams into which one process launches.
fn operations_by_stream(trace: &Trace) -> BTreeMap<TrackId, Vec<Launched>> {
    let events = &trace.events;
    let mut streams: BTreeMap<TrackId, (Option<Key>, Vec<Launched>)> = BTreeMap::new();
    for gpu in trace.gpu.ids().map(|gpu| gpu.index()) {
        let event = trace.gpu.event[gpu];
        let Some(call) = trace.gpu.launch[gpu].some().filter(|&call| events.is_plausible(call)) else { continue };
        if events.is_plausible(event) {
            let process = trace.tracks.pid(events.track[call.index()]);
            let (process_of_stream, stream) =
                streams.entry(events.track[event.index()]).or_insert((Some(process), Vec::new()));
            *process_of_stream = process_of_stream.filter(|process_of_stream| *process_of_stream == process);
            stream.push((events.start[call.index()], events.start[event.index()], event));
        }
    }
    streams.into_iter().filter_map(|(track, (process, stream))| process.map(|_| (track, stream))).collect()
}

/// Operations that start over 1 s after those launched later, or before those launched earlier. Sorts the stream by
/// launch.
fn out_of_order(stream: &mut [Launched]) -> Vec<EventId> {
    stream.sort_unstable();
    let middle = |neighbors: &[Launched]| {
        let neighbors: &[Launched; NEIGHBORS] = neighbors.try_into().ok()?;
        let mut starts = neighbors.map(|(_, start, _)| start);
        starts.sort_unstable();
        Some(starts[NEIGHBORS / 2])
    };
    let is_out = |&at: &usize| {
        let (_, start, _) = stream[at];
        let before = middle(&stream[at.saturating_sub(NEIGHBORS)..at]);
        let after = middle(&stream[at + 1..(at + 1 + NEIGHBORS).min(stream.len())]);
        after.is_some_and(|after| start.saturating_sub(after) > FAR_NS)
            || before.is_some_and(|before| before.saturating_sub(start) > FAR_NS)
    };
    (0..stream.len()).filter(is_out).map(|at| stream[at].2).collect()
}

#[cfg(test)]
mod tests {
    use super::{FAR_NS, out_of_order};
    use proptest::prelude::*;
    use stackline_model::EventId;

    proptest! {
        #[test]
        fn only_operations_out_of_order_are_marked(
            gaps_and_lengths in prop::collection::vec((0_i64..3 * FAR_NS, 0_i64..FAR_NS), 8..40), bad in 4_usize..36, off in prop::bool::ANY,
        ) {
            let (mut launched, mut free) = (0, 0);
            let mut stream: Vec<_> = (0..).zip(gaps_and_lengths).map(|(id, (between, length))| {
                launched += between;
                let start = launched.max(free);
                free = start + length;
                (launched, start, EventId(id))
            }).collect();
            prop_assert_eq!(out_of_order(&mut stream.clone()), []);
            let bad = bad.min(stream.len() - 4);
            let (last, first) = (stream[stream.len() - 1].1, stream[0].1);
            stream[bad].1 = if off { last + 10 * FAR_NS } else { first - 10 * FAR_NS };
            prop_assert_eq!(out_of_order(&mut stream), [EventId(bad as u32)]);
        }
    }
}
