//! Checks of waits: of GPU streams for CUDA events, and of host calls for GPU work.

use super::{Check, Outcome};
use stackline_model::waiting_calls::{RECORD_ID, WaitingCall, calls_by_correlation, waiting_calls};
use stackline_model::{EventId, EventKind, Trace};

/// A stream's wait for a CUDA event names the call that recorded the CUDA event.
pub(super) const WAIT_WITHOUT_RECORD: Check = Check {
    name: "wait_without_record",
    rule: "the record of a stream's wait for a CUDA event names the call that recorded the event",
    consequence: "the work that a stream waited for is unknown, so the critical path cannot continue to that work",
    read_codes: &[],
    run: |trace| {
        let (recorded, waits) = (trace.attr(RECORD_ID), stream_waits(trace));
        // Some profilers omit this field for all waits, so it is not recorded.
        if waits.iter().all(|&wait| recorded.i64(wait).is_none()) {
            return Outcome::default();
        }
        let calls = calls_by_correlation(trace);
        let breach = |id: Option<i64>| match id.filter(|&id| id > 0) {
            None => Some("the record of the wait does not name the cudaEventRecord call of its CUDA event".to_owned()),
            Some(id) if !calls.contains_key(&id) => {
                Some(format!("the cudaEventRecord call of the CUDA event (correlation ID {id}) is missing"))
            }
            Some(_) => None,
        };
        Outcome {
            checked: waits.len(),
            breaches: waits.into_iter().filter_map(|wait| Some((wait, breach(recorded.i64(wait))?))).collect(),
        }
    },
};

/// A stream waits only for CUDA events recorded before the wait, never for later ones.
pub(super) const WAIT_ON_FUTURE_RECORD: Check = Check {
    name: "wait_on_future_record",
    rule: "a stream waits only for CUDA events that were recorded before the wait",
    consequence: "the critical path ignores waits for CUDA events that were recorded later",
    read_codes: &[],
    run: |trace| {
        let waits = stream_waits(trace);
        if waits.is_empty() {
            return Outcome::default();
        }
        let calls = calls_by_correlation(trace);
        let (recorded, own) = (trace.attr(RECORD_ID), trace.attr("correlation"));
        let start = |event: EventId| trace.events.start[event.index()];
        let mut outcome = Outcome::default();
        for wait in waits {
            let Some(record) = recorded.i64(wait).and_then(|id| calls.get(&id)) else { continue };
            outcome.checked += 1;
            let begun = own.i64(wait).and_then(|id| calls.get(&id)).map_or(start(wait), |call| start(*call));
            let late = start(*record).saturating_sub(begun);
            if late > 0 {
                outcome
                    .breaches
                    .push((wait, format!("the CUDA event is recorded {late} ns after the start of the wait")));
            }
        }
        outcome
    },
};

/// Calls that wait for a CUDA event, a stream, a device or a copy return after the end of the awaited work.
pub(super) const SYNC_ENDS_EARLY: Check = Check {
    name: "sync_ends_early",
    rule: "synchronization calls return only after the work that they wait for has ended",
    consequence: "the clocks of host and device differ or kernel durations are wrong, so waits on the critical path \
                  are too short",
    read_codes: &["kernel_after_wait"],
    run: sync_ends_early,
};

/// Synchronization records in which a GPU stream waits for a CUDA event.
fn stream_waits(trace: &Trace) -> Vec<EventId> {
    let is_wait = |e: &EventId| trace.kind(*e) == EventKind::Sync && trace.name(*e) == "Stream Wait Event";
    trace.events.ids().filter(is_wait).collect()
}

/// Check that no synchronization call returns before the awaited GPU work ends (`kernel_after_wait` in the read
/// report).
fn sync_ends_early(trace: &Trace) -> Outcome {
    let mut waits = waiting_calls(trace);
    waits.sort_by_key(|wait| wait.call);
    let breach = |wait: &WaitingCall| {
        let early = wait.return_delay_ns(trace).saturating_neg();
        (wait.call, format!("the call returns {early} ns before the end of the work that it waits for"))
    };
    Outcome {
        checked: waits.len(),
        breaches: waits.iter().filter(|wait| wait.returns_early(trace)).map(breach).collect(),
    }
}
