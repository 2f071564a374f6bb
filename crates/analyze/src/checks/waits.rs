//! Waits of streams for events, and of the host for streams.

use super::{Check, Outcome};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::gpu_calls::{CallKind, kind_of_name};
use stackline_model::{EventId, EventKind, Key, Trace};
use std::collections::BTreeMap;

/// Tolerance in ns for times rounded to whole microseconds.
const ROUNDING_NS: i64 = 1_000;

/// A stream's wait for an event names the record of that event.
pub(super) const WAIT_WITHOUT_RECORD: Check = Check {
    name: "wait_without_record",
    rule: "a stream that waits for an event names the call that recorded the event",
    consequence: "the critical path cannot continue at the cause of these waits",
    read_codes: &[],
    run: |trace| {
        let calls = calls(trace);
        let breach = |id: Option<i64>| match id.filter(|&id| id > 0) {
            None => Some("no record of the event is named".to_owned()),
            Some(id) if !calls.contains_key(&id) => Some(format!("the call {id} that recorded the event is missing")),
            Some(_) => None,
        };
        let recorded = trace.attr(RECORD_ID);
        let waits = stream_waits(trace);
        // Some profilers omit this field for all waits, so it is not recorded.
        if waits.iter().all(|&wait| recorded.i64(wait).is_none()) {
            return Outcome::default();
        }
        Outcome {
            checked: waits.len(),
            breaches: waits.into_iter().filter_map(|wait| Some((wait, breach(recorded.i64(wait))?))).collect(),
        }
    },
};

/// A wait refers to the last record before it, never to a later one.
pub(super) const WAIT_ON_FUTURE_RECORD: Check = Check {
    name: "wait_on_future_record",
    rule: "a stream waits for an event that was recorded earlier",
    consequence: "the critical path ignores these waits",
    read_codes: &[],
    run: |trace| {
        let calls = calls(trace);
        let (recorded, own) = (trace.attr(RECORD_ID), trace.attr("correlation"));
        let start = |event: EventId| trace.events.start[event.index()];
        let mut outcome = Outcome::default();
        for wait in stream_waits(trace) {
            let Some(record) = recorded.i64(wait).and_then(|id| calls.get(&id)) else { continue };
            outcome.checked += 1;
            let begun = own.i64(wait).and_then(|id| calls.get(&id)).map_or(start(wait), |call| start(*call));
            let late = start(*record).saturating_sub(begun);
            if late > 0 {
                outcome.breaches.push((wait, format!("the event is recorded {late} ns after the wait begins")));
            }
        }
        outcome
    },
};

/// Calls that wait for an event, a stream or a device return after the end of the awaited work.
pub(super) const SYNC_ENDS_EARLY: Check = Check {
    name: "sync_ends_early",
    rule: "synchronization calls return no earlier than the end of the previously launched work that they wait for",
    consequence: "clocks differ or kernel durations are wrong, so waits on the critical path are too short",
    read_codes: &["kernel_after_wait"],
    run: sync_ends_early,
};

const RECORD_ID: &str = "wait_on_cuda_event_record_corr_id";
/// The stream on which that event was recorded.
const RECORD_STREAM: &str = "wait_on_stream";

fn stream_waits(trace: &Trace) -> Vec<EventId> {
    let is_wait = |e: &EventId| trace.kind(*e) == EventKind::Sync && trace.name(*e) == "Stream Wait Event";
    trace.events.ids().filter(is_wait).collect()
}

/// Runtime and driver calls by correlation ID, without IDs that several processes use.
fn calls(trace: &Trace) -> FxHashMap<i64, EventId> {
    let correlation = trace.attr("correlation");
    let calls = trace.events.ids().filter(|e| trace.kind(*e).is_api_call() && trace.events.is_plausible(*e));
    let (mut found, mut shared) = (FxHashMap::default(), FxHashSet::default());
    for event in calls {
        let Some(id) = correlation.i64(event).filter(|&id| id > 0) else { continue };
        if found.insert(id, event).is_some_and(|other| process(trace, other) != process(trace, event)) {
            shared.insert(id);
        }
    }
    found.retain(|id, _| !shared.contains(id));
    found
}

/// Process that made a synchronizing call.
fn process(trace: &Trace, call: EventId) -> Key {
    trace.tracks.pid(trace.events.track[call.index()])
}

/// Process, device, and stream; all streams of the device without one.
type Queue = (Key, i32, Option<i64>);

fn sync_ends_early(trace: &Trace) -> Outcome {
    let mut outcome = Outcome::default();
    let waits = host_waits(trace);
    if waits.is_empty() {
        return outcome;
    }
    // Per queue: the return of each launch call, and the last end of all operations launched until then.
    let mut work: BTreeMap<Queue, Vec<(i64, i64)>> = BTreeMap::new();
    for gpu in trace.gpu.ids().map(|gpu| gpu.index()) {
        let (event, call) = (trace.gpu.event[gpu], trace.gpu.launch[gpu]);
        if call.is_some() && trace.events.is_timed(event) && trace.events.is_plausible(call) {
            let times = (trace.events.end(call), trace.events.end(event));
            for stream in [None, Some(trace.gpu.stream[gpu])] {
                work.entry((process(trace, call), trace.gpu.device[gpu], stream)).or_default().push(times);
            }
        }
    }
    for queue in work.values_mut() {
        queue.sort_unstable();
        let mut last = i64::MIN;
        for (_, end) in queue {
            last = last.max(*end);
            *end = last;
        }
    }
    for (call, Wait { queue, launched_before }) in waits {
        let Some(work) = work.get(&queue) else { continue };
        let before = work.partition_point(|&(returned, _)| returned <= launched_before);
        let Some(&(_, end)) = before.checked_sub(1).and_then(|at| work.get(at)) else { continue };
        outcome.checked += 1;
        let early = end.saturating_sub(trace.events.end(call));
        if early > ROUNDING_NS {
            outcome.breaches.push((call, format!("returns {early} ns before the work that it waits for ends")));
        }
    }
    outcome
}

/// Target of a waiting call: all work of a queue that was launched before a time in ns.
struct Wait {
    queue: Queue,
    launched_before: i64,
}

/// Waiting calls, by synchronization records; also device synchronizations, if the trace has only one device.
fn host_waits(trace: &Trace) -> Vec<(EventId, Wait)> {
    let calls = calls(trace);
    let [correlation, recorded, on_stream] = ["correlation", RECORD_ID, RECORD_STREAM].map(|key| trace.attr(key));
    let start = |call: EventId| trace.events.start[call.index()];
    let mut found: BTreeMap<EventId, Wait> = BTreeMap::new();
    let devices: std::collections::BTreeSet<i32> = trace.gpu.device.iter().copied().collect();
    for event in trace.events.ids().filter(|e| trace.events.is_timed(*e)) {
        let track = trace.tracks.get(trace.events.track[event.index()]);
        let call = || correlation.i64(event).and_then(|id| calls.get(&id)).copied();
        let of_stream = |call: EventId, stream: Option<i64>, launched_before: i64| {
            (call, Wait { queue: (process(trace, call), track.device, stream), launched_before })
        };
        let wait = match (trace.kind(event), trace.name(event)) {
            (EventKind::Sync, "Stream Sync" | "Stream Synchronize") => {
                call().map(|call| of_stream(call, Some(track.stream), start(call)))
            }
            (EventKind::Sync, "Context Sync" | "Device Sync" | "Context Synchronize") => {
                call().map(|call| of_stream(call, None, start(call)))
            }
            (EventKind::Sync, "Event Sync" | "Event Synchronize") => {
                let record = recorded.i64(event).and_then(|id| calls.get(&id)).copied();
                let stream = on_stream.i64(event).filter(|&stream| stream >= 0);
                let known = call().zip(record).zip(stream);
                known.map(|((call, record), stream)| of_stream(call, Some(stream), start(record)))
            }
            (kind, name) if kind.is_api_call() && kind_of_name(name) == Some(CallKind::DeviceSync) => {
                let only = devices.first().filter(|_| devices.len() == 1);
                let queue = only.map(|device| (process(trace, event), *device, None));
                queue.map(|queue| (event, Wait { queue, launched_before: start(event) }))
            }
            _ => None,
        };
        found.extend(wait);
    }
    found.into_iter().collect()
}
