//! Evidence against the lengths of GPU operations on streams where many operations outlast many later ones.
//!
//! Such a stream may run operations concurrently, or many of its records may have wrong lengths. The share
//! of long operations does not distinguish the two, so an operation is wrong only if something contradicts its length.

use super::plausible::{COVERED, host_span};
use rustc_hash::FxHashSet;
use stackline_model::waiting_calls::{WaitingCall, waiting_calls};
use stackline_model::{EventId, StrId, Trace};

/// Largest overlap, in ns, of neighbors on a stream that runs one operation after another: clock noise and programmatic
/// dependent launch.
const NEIGHBORS_NS: i64 = 30_000;
/// Smallest time, in ns, by which an operation must end after the return of a call that waits for it. Unadjusted clocks
/// differ by less.
const RETURNED_NS: i64 = 1_000_000;

/// A stream with many operations that outlast many later ones.
pub(super) struct LongOperations {
    /// Operations that outlast many later ones.
    pub(super) covering: Vec<EventId>,
    /// All others of the stream, by start.
    pub(super) others: Vec<EventId>,
}

/// Operations whose lengths are wrong by one of three contradictions:
///
/// - The operation ends after all other events by more than the time that these span.
/// - A call that waits for the operation returned long before its end.
/// - The stream runs its other operations one after another, and some of these have the same name. A second sequence
///   of operations with that name would overlap the first.
///
/// `excluded` are operations with known wrong lengths.
pub(super) fn contradicted(trace: &Trace, streams: &[LongOperations], excluded: &[EventId]) -> Vec<EventId> {
    let suspects: FxHashSet<EventId> =
        streams.iter().flat_map(|stream| &stream.covering).chain(excluded).copied().collect();
    let latest = latest_end(trace, &suspects);
    let early: Vec<WaitingCall> =
        waiting_calls(trace).into_iter().filter(|wait| wait.return_delay_ns(trace) < -RETURNED_NS).collect();
    let mut found = Vec::new();
    for stream in streams {
        let in_order = names_in_order(trace, &stream.others);
        let is_wrong = |event: &EventId| {
            trace.events.end(*event) > latest
                || in_order.contains(&trace.events.name[event.index()])
                || early.iter().any(|wait| contradicts(trace, wait, *event))
        };
        found.extend(stream.covering.iter().copied().filter(is_wrong));
    }
    found
}

/// Latest plausible end in ns: as long after all events but the suspects as these take.
fn latest_end(trace: &Trace, suspects: &FxHashSet<EventId>) -> i64 {
    let is_known = |e: &EventId| trace.kind(*e).is_gpu_work() && trace.events.is_plausible(*e) && !suspects.contains(e);
    let gpu = trace.events.ids().filter(is_known).map(|e| (trace.events.start[e.index()], trace.events.end(e)));
    let span = host_span(trace).into_iter().chain(gpu).reduce(|(a, b), (start, end)| (a.min(start), b.max(end)));
    span.map_or(i64::MAX, |(first, last)| last.saturating_add(last.saturating_sub(first)))
}

/// Names of the operations, if hardly any starts before the end of an earlier one. The last ones may be too long
/// without outlasting many.
fn names_in_order(trace: &Trace, operations: &[EventId]) -> FxHashSet<StrId> {
    let mut ended = i64::MIN;
    let mut overlapped = 0;
    for event in operations {
        overlapped += usize::from(ended.saturating_sub(trace.events.start[event.index()]) > NEIGHBORS_NS);
        ended = ended.max(trace.events.end(*event));
    }
    if overlapped > COVERED + operations.len() / 100 {
        return FxHashSet::default();
    }
    operations.iter().map(|event| trace.events.name[event.index()]).collect()
}

/// Check if a call that waits for the work of its process returned long before the end of an operation that the process
/// had launched.
fn contradicts(trace: &Trace, wait: &WaitingCall, event: EventId) -> bool {
    let Some(gpu) = trace.gpu_operation(event) else { return false };
    let (call, device) = (trace.gpu.launch[gpu.index()], trace.gpu.device[gpu.index()]);
    let process = |call: EventId| trace.tracks.get(trace.events.track[call.index()]).process;
    let end = trace.events.end(event);
    call.is_some()
        && device == wait.device
        && process(call) == process(wait.call)
        && trace.events.end(call) <= trace.events.start[wait.call.index()]
        && end <= wait.ended
        && end.saturating_sub(trace.events.end(wait.call)) > RETURNED_NS
}
