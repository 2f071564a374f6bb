//! Detection of calls that return only after certain GPU operations have ended.
//!
//! Only unambiguous cases count. A call waits for a whole device if the process uses one device, or a synchronization
//! record names the device. A call waits for a stream if a synchronization record names the stream, or the same
//! operator has just queued a copy on it. Copies to pageable host memory block, too.

use crate::gpu_calls::{CallKind, CopyDirection, CopyWait, copy_direction, copy_wait, kind_of_name};
use crate::{EventId, EventKind, ProcessId, StrId, Trace, TrackKind};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

/// Attribute of synchronization records: correlation ID of the `cudaEventRecord` call of the awaited CUDA event.
pub const RECORD_ID: &str = "wait_on_cuda_event_record_corr_id";
/// Stream on which that event was recorded.
const RECORD_STREAM: &str = "wait_on_stream";
/// Tolerance in ns for times rounded to whole microseconds.
const ROUNDING_NS: i64 = 1_000;

/// A call that waits for GPU operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingCall {
    /// The call.
    pub call: EventId,
    /// Device of the operations.
    pub device: i32,
    /// End of the last of them, in ns, in device time.
    pub ended: i64,
    /// True if the call waits for an event: it needs a synchronization record that names the call that recorded it.
    pub is_for_event: bool,
}

impl WaitingCall {
    /// Create a wait for GPU work that is not known by a CUDA event.
    fn for_work(call: EventId, device: i32, ended: i64) -> Self {
        Self { call, device, ended, is_for_event: false }
    }

    /// Time in ns from the end of the awaited operations to the return of the call; negative if it returns before.
    #[must_use]
    pub fn return_delay_ns(&self, trace: &Trace) -> i64 {
        trace.events.end(self.call).saturating_sub(self.ended)
    }

    /// True if the call returns before the operations end, which is impossible. Rounding of times is tolerated.
    #[must_use]
    pub fn returns_early(&self, trace: &Trace) -> bool {
        self.return_delay_ns(trace) < -ROUNDING_NS
    }
}

/// Work that a call waits for by its name: a device, a stream, or its own copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitKind {
    SyncDevice,
    SyncStream,
    Copy(CopyWait),
}

/// Call that waits for all work of a queue that was launched before a time in ns.
#[derive(Clone, Copy)]
struct QueueWait {
    call: EventId,
    queue: Queue,
    launched_before: i64,
    is_for_event: bool,
}

/// A queue of work: launching process, device, and stream (`None`: all of the device's).
type Queue = (ProcessId, i32, Option<i64>);

/// GPU copy: device, end time in ns, and flags for a destination in host memory and in pageable host memory.
#[derive(Clone, Copy)]
struct GpuCopy {
    device: i32,
    ended: i64,
    to_host: bool,
    to_pageable: bool,
}

/// Find all calls that wait for GPU operations. Requires launches and parents.
#[must_use]
pub fn waiting_calls(trace: &Trace) -> Vec<WaitingCall> {
    let (mut waits, mut on_queues) = (Vec::new(), event_waits(trace));
    let roles = wait_kinds(trace);
    if !roles.is_empty() {
        find_by_wait_kinds(trace, &roles, (&mut waits, &mut on_queues));
    }
    waits.extend(queue_waits(trace, &on_queues));
    // A file may hold a synchronization record twice.
    let mut seen = FxHashSet::default();
    waits.retain(|wait| seen.insert((wait.call, wait.device, wait.ended)));
    waits
}

/// Find calls that wait for work that the trace does not name: all waits without the `named` ones. Each is returned for
/// every device of its process, with the end of all work that the process launched there before. The call may wait for
/// less than that.
#[must_use]
pub fn unnamed_waits(trace: &Trace, named: &[WaitingCall]) -> Vec<WaitingCall> {
    let process = |call: EventId| trace.tracks.get(trace.events.track[call.index()]).process;
    let launches = trace.gpu.ids().filter_map(|gpu| Some((trace.gpu.launch[gpu.index()].some()?, gpu)));
    let used: BTreeSet<(ProcessId, i32)> =
        launches.map(|(call, gpu)| (process(call), trace.gpu.device[gpu.index()])).collect();
    let is_call = |call: &EventId| trace.kind(*call).is_api_call() && trace.events.is_plausible(*call);
    let calls: Vec<EventId> = trace.events.ids().filter(is_call).collect();
    let names: FxHashSet<StrId> = calls.iter().map(|call| trace.events.name[call.index()]).collect();
    let is_wait = |name: &StrId| kind_of_name(trace.strings.get(*name)).is_some_and(CallKind::is_wait);
    let names: FxHashSet<StrId> = names.into_iter().filter(is_wait).collect();
    let named: FxHashSet<EventId> = named.iter().map(|wait| wait.call).collect();
    let mut on_queues = Vec::new();
    for call in calls.into_iter().filter(|call| names.contains(&trace.events.name[call.index()])) {
        if named.contains(&call) {
            continue;
        }
        let launched_before = trace.events.start[call.index()];
        let queues = used.iter().filter(|(of, _)| *of == process(call)).map(|&(of, device)| (of, device, None));
        on_queues.extend(queues.map(|queue| QueueWait { call, queue, launched_before, is_for_event: false }));
    }
    queue_waits(trace, &on_queues)
}

/// Find calls that wait for a device, for a stream or for a copy, by the kind of wait of their names.
fn find_by_wait_kinds(
    trace: &Trace,
    roles: &FxHashMap<StrId, WaitKind>,
    (waits, on_queues): (&mut Vec<WaitingCall>, &mut Vec<QueueWait>),
) {
    let copies = copies(trace);
    let on_queue = |call: EventId, queue: Queue| QueueWait {
        call,
        queue,
        launched_before: trace.events.start[call.index()],
        is_for_event: false,
    };
    let (recorded, devices) = (synchronization_records(trace), devices(trace));
    let correlation = trace.attr("correlation");
    for track in trace.tracks.ids().filter(|t| trace.tracks.get(*t).kind == TrackKind::Thread) {
        let process = trace.tracks.get(track).process;
        // Last copy of the thread, with the operator that queued it.
        let mut last: Option<(EventId, GpuCopy)> = None;
        for &call in trace.track_events(track) {
            let row = call.index();
            if !trace.kind(call).is_api_call() || !trace.events.is_plausible(call) {
                continue;
            }
            let Some(&role) = roles.get(&trace.events.name[row]) else {
                last = copies.get(&call).map(|c| (trace.events.parent[row], *c)).or(last);
                continue;
            };
            let named = || correlation.i64(call).and_then(|id| recorded.get(&id).copied());
            let copied = copies.get(&call).copied();
            let parent = trace.events.parent[row];
            match (role, copied) {
                (WaitKind::SyncDevice, _) => {
                    let only = devices.get(&process).copied().flatten().map(|d| (d, None));
                    on_queues.extend(named().or(only).map(|(d, s)| on_queue(call, (process, d, s))));
                }
                (WaitKind::SyncStream, _) => match (named(), last.take()) {
                    (Some((device, stream)), _) => on_queues.push(on_queue(call, (process, device, stream))),
                    (None, Some((owner, c))) if owner == parent && parent.is_some() => {
                        waits.push(WaitingCall::for_work(call, c.device, c.ended));
                    }
                    _ => {}
                },
                (WaitKind::Copy(CopyWait::ToHost), Some(c)) if c.to_host => {
                    waits.push(WaitingCall::for_work(call, c.device, c.ended));
                }
                (WaitKind::Copy(CopyWait::ToPageable), Some(c)) if c.to_pageable => {
                    waits.push(WaitingCall::for_work(call, c.device, c.ended));
                }
                _ => {}
            }
            last = copied.map(|c| (parent, c)).or(last);
        }
    }
}

/// Runtime and driver calls by correlation ID, without IDs that several processes use.
#[must_use]
pub fn calls_by_correlation(trace: &Trace) -> FxHashMap<i64, EventId> {
    let correlation = trace.attr("correlation");
    let process = |call: EventId| trace.tracks.get(trace.events.track[call.index()]).process;
    let calls = trace.events.ids().filter(|e| trace.kind(*e).is_api_call() && trace.events.is_plausible(*e));
    let (mut found, mut shared) = (FxHashMap::default(), FxHashSet::default());
    for event in calls {
        let Some(id) = correlation.i64(event).filter(|&id| id > 0) else { continue };
        if found.insert(id, event).is_some_and(|other| process(other) != process(event)) {
            shared.insert(id);
        }
    }
    found.retain(|id, _| !shared.contains(id));
    found
}

/// Calls that wait for a CUDA event, by synchronization records with the recording call and its stream. They wait for
/// the work launched on the stream before that call.
fn event_waits(trace: &Trace) -> Vec<QueueWait> {
    let is_record = |event: &EventId| {
        trace.kind(*event) == EventKind::Sync
            && matches!(trace.name(*event), "Event Sync" | "Event Synchronize")
            && trace.events.is_timed(*event)
    };
    let mut records = trace.events.ids().filter(is_record).peekable();
    if records.peek().is_none() {
        return Vec::new();
    }
    let calls = calls_by_correlation(trace);
    let [correlation, recorded, on_stream] = ["correlation", RECORD_ID, RECORD_STREAM].map(|key| trace.attr(key));
    let wait = |event: EventId| {
        let call = *calls.get(&correlation.i64(event)?)?;
        // A query has such a record, too, and returns at once.
        if kind_of_name(trace.name(call)) == Some(CallKind::Query) {
            return None;
        }
        let record = *calls.get(&recorded.i64(event)?)?;
        let stream = on_stream.i64(event).filter(|&stream| stream >= 0)?;
        let track = |event: EventId| trace.tracks.get(trace.events.track[event.index()]);
        let queue = (track(call).process, track(event).device, Some(stream));
        Some(QueueWait { call, queue, launched_before: trace.events.start[record.index()], is_for_event: true })
    };
    records.filter_map(wait).collect()
}

/// Kind of wait by the name of the API call; names of other calls are omitted.
fn wait_kinds(trace: &Trace) -> FxHashMap<StrId, WaitKind> {
    let calls = trace.events.ids().filter(|call| trace.kind(*call).is_api_call());
    let names: FxHashSet<StrId> = calls.map(|call| trace.events.name[call.index()]).collect();
    let role = |name: &str| match kind_of_name(name)? {
        CallKind::DeviceSync => Some(WaitKind::SyncDevice),
        CallKind::StreamSync => Some(WaitKind::SyncStream),
        CallKind::Copy => copy_wait(name).map(WaitKind::Copy),
        _ => None,
    };
    names.into_iter().filter_map(|name| Some((name, role(trace.strings.get(name))?))).collect()
}

/// GPU copies by their launch call; of several copies, the last end.
fn copies(trace: &Trace) -> FxHashMap<EventId, GpuCopy> {
    let mut found: FxHashMap<EventId, GpuCopy> = FxHashMap::default();
    for gpu in trace.gpu.ids() {
        let (call, event) = (trace.gpu.launch[gpu.index()], trace.gpu.event[gpu.index()]);
        if trace.kind(event) != EventKind::Memcpy || call.is_none() || !trace.events.is_plausible(event) {
            continue;
        }
        let name = trace.name(event);
        let to_host = copy_direction(name) == Some(CopyDirection::ToHost);
        let (device, ended) = (trace.gpu.device[gpu.index()], trace.events.end(event));
        let copied = GpuCopy { device, ended, to_host, to_pageable: to_host && name.contains("Pageable") };
        found.entry(call).and_modify(|c| c.ended = c.ended.max(ended)).or_insert(copied);
    }
    found
}

/// Device and stream (`None`: all streams) of synchronization records, by correlation ID of the call.
fn synchronization_records(trace: &Trace) -> FxHashMap<i64, (i32, Option<i64>)> {
    let correlation = trace.attr("correlation");
    let (mut found, mut ambiguous) = (FxHashMap::default(), FxHashSet::default());
    for event in trace.events.ids().filter(|e| trace.kind(*e) == EventKind::Sync) {
        let track = trace.tracks.get(trace.events.track[event.index()]);
        let stream = match trace.name(event) {
            "Stream Sync" | "Stream Synchronize" => Some(track.stream),
            "Context Sync" | "Device Sync" | "Context Synchronize" => None,
            _ => continue,
        };
        if let Some(id) = correlation.i64(event).filter(|&id| id > 0) {
            let queue = (track.device, stream);
            // Several processes may use the same ID.
            if found.insert(id, queue).is_some_and(|other| other != queue) {
                ambiguous.insert(id);
            }
        }
    }
    found.retain(|id, _| !ambiguous.contains(id));
    found
}

/// Device on which a process launches GPU work, by process; `None` if there are several.
fn devices(trace: &Trace) -> FxHashMap<ProcessId, Option<i32>> {
    let mut found: FxHashMap<ProcessId, Option<i32>> = FxHashMap::default();
    for gpu in trace.gpu.ids() {
        let Some(call) = trace.gpu.launch[gpu.index()].some() else { continue };
        let process = trace.tracks.get(trace.events.track[call.index()]).process;
        let device = trace.gpu.device[gpu.index()];
        found.entry(process).and_modify(|d| *d = d.filter(|&d| d == device)).or_insert(Some(device));
    }
    found
}

/// Resolve waits for queues: find the end of the last work that had been launched before each wait's time. Waits
/// without such work are omitted.
fn queue_waits(trace: &Trace, calls: &[QueueWait]) -> Vec<WaitingCall> {
    let queues: BTreeSet<Queue> = calls.iter().map(|wait| wait.queue).collect();
    // Per queue: return of a launch, and latest end of all work launched until then.
    let mut work: BTreeMap<Queue, Vec<(i64, i64)>> = BTreeMap::new();
    for gpu in trace.gpu.ids() {
        let (call, event) = (trace.gpu.launch[gpu.index()], trace.gpu.event[gpu.index()]);
        if call.is_none() || !trace.events.is_plausible(event) || !trace.events.is_plausible(call) {
            continue;
        }
        let process = trace.tracks.get(trace.events.track[call.index()]).process;
        let (device, stream) = (trace.gpu.device[gpu.index()], trace.gpu.stream[gpu.index()]);
        for queue in [(process, device, None), (process, device, Some(stream))] {
            if queues.contains(&queue) {
                work.entry(queue).or_default().push((trace.events.end(call), trace.events.end(event)));
            }
        }
    }
    for queue in work.values_mut() {
        queue.sort_unstable();
        let mut last = i64::MIN;
        for (_, ended) in queue {
            last = last.max(*ended);
            *ended = last;
        }
    }
    let wait = |&QueueWait { call, queue, launched_before, is_for_event }: &QueueWait| {
        let work = work.get(&queue)?;
        let before = work.partition_point(|&(returned, _)| returned <= launched_before);
        let (_, ended) = *work.get(before.checked_sub(1)?)?;
        Some(WaitingCall { call, device: queue.1, ended, is_for_event })
    };
    calls.iter().filter_map(wait).collect()
}
