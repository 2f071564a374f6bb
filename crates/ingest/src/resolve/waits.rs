//! Detection of calls that return only after certain GPU operations have ended.
//!
//! Only unambiguous cases count. A call waits for a whole device if the process uses one device, or a synchronization
//! record names the device. A call waits for a stream if a synchronization record names the stream, or the same
//! operator has just queued a copy on it. Copies to pageable host memory block, too.

use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::gpu_calls::{CallKind, CopyDirection, CopyWait, copy_direction, copy_wait, kind_of_name};
use stackline_model::{EventId, EventKind, ProcessId, StrId, Trace, TrackKind};
use std::collections::{BTreeMap, BTreeSet};

/// A waiting call, and the end of its last awaited operation (ns, in device time).
pub(super) struct Wait {
    pub(super) call: EventId,
    pub(super) device: i32,
    pub(super) ended: i64,
}

/// Wait type of an API call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    SyncDevice,
    SyncStream,
    Copy(CopyWait),
}

/// A queue of work: launching process, device, and stream (`None`: all of the device's).
type Queue = (ProcessId, i32, Option<i64>);

/// A copy: device, end, and its destination: host, and pageable host memory.
#[derive(Clone, Copy)]
struct Copied {
    device: i32,
    ended: i64,
    to_host: bool,
    to_pageable: bool,
}

/// All waiting calls, sorted by thread and time.
pub(super) fn find(trace: &Trace) -> Vec<Wait> {
    let roles = roles(trace);
    if roles.is_empty() {
        return Vec::new();
    }
    let copies = copies(trace);
    let (mut waits, mut on_queues) = (Vec::new(), Vec::new());
    let (recorded, devices) = (synchronization_records(trace), devices(trace));
    let correlation = trace.attr("correlation");
    for track in trace.tracks.ids().filter(|t| trace.tracks.get(*t).kind == TrackKind::Thread) {
        let process = trace.tracks.get(track).process;
        // Last copy of the thread, with the operator that queued it.
        let mut last: Option<(EventId, Copied)> = None;
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
                (Role::SyncDevice, _) => {
                    let only = devices.get(&process).copied().flatten().map(|d| (d, None));
                    on_queues.extend(named().or(only).map(|(d, s)| (call, (process, d, s))));
                }
                (Role::SyncStream, _) => match (named(), last.take()) {
                    (Some((device, stream)), _) => on_queues.push((call, (process, device, stream))),
                    (None, Some((owner, c))) if owner == parent && parent.is_some() => {
                        waits.push(Wait { call, device: c.device, ended: c.ended });
                    }
                    _ => {}
                },
                (Role::Copy(CopyWait::ToHost), Some(c)) if c.to_host => {
                    waits.push(Wait { call, device: c.device, ended: c.ended });
                }
                (Role::Copy(CopyWait::ToPageable), Some(c)) if c.to_pageable => {
                    waits.push(Wait { call, device: c.device, ended: c.ended });
                }
                _ => {}
            }
            last = copied.map(|c| (parent, c)).or(last);
        }
    }
    waits.extend(queue_waits(trace, &on_queues));
    waits
}

/// Wait types by name of the call; other names are omitted.
fn roles(trace: &Trace) -> FxHashMap<StrId, Role> {
    let calls = trace.events.ids().filter(|call| trace.kind(*call).is_api_call());
    let names: FxHashSet<StrId> = calls.map(|call| trace.events.name[call.index()]).collect();
    let role = |name: &str| match kind_of_name(name)? {
        CallKind::DeviceSync => Some(Role::SyncDevice),
        CallKind::StreamSync => Some(Role::SyncStream),
        CallKind::Copy => copy_wait(name).map(Role::Copy),
        _ => None,
    };
    names.into_iter().filter_map(|name| Some((name, role(trace.strings.get(name))?))).collect()
}

/// Copies by launch call; of several copies, the one with the last end.
fn copies(trace: &Trace) -> FxHashMap<EventId, Copied> {
    let mut found: FxHashMap<EventId, Copied> = FxHashMap::default();
    for gpu in trace.gpu.ids() {
        let (call, event) = (trace.gpu.launch[gpu.index()], trace.gpu.event[gpu.index()]);
        if trace.kind(event) != EventKind::Memcpy || call.is_none() || !trace.events.is_plausible(event) {
            continue;
        }
        let name = trace.name(event);
        let to_host = copy_direction(name) == Some(CopyDirection::ToHost);
        let (device, ended) = (trace.gpu.device[gpu.index()], trace.events.end(event));
        let copied = Copied { device, ended, to_host, to_pageable: to_host && name.contains("Pageable") };
        found.entry(call).and_modify(|c| c.ended = c.ended.max(ended)).or_insert(copied);
    }
    found
}

/// Device and stream (`None`: all streams) of synchronization records, by correlation ID of the call.
fn synchronization_records(trace: &Trace) -> FxHashMap<i64, (i32, Option<i64>)> {
    let correlation = trace.attr("correlation");
    let mut found = FxHashMap::default();
    for event in trace.events.ids().filter(|e| trace.kind(*e) == EventKind::Sync) {
        let track = trace.tracks.get(trace.events.track[event.index()]);
        let stream = match trace.name(event) {
            "Stream Sync" | "Stream Synchronize" => Some(track.stream),
            "Context Sync" | "Device Sync" | "Context Synchronize" => None,
            _ => continue,
        };
        if let Some(id) = correlation.i64(event).filter(|&id| id > 0) {
            found.insert(id, (track.device, stream));
        }
    }
    found
}

/// The only device on which a process launches work, by process; `None` if there are several.
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

/// Waits for all work that was queued by calls that had returned before the wait began.
fn queue_waits(trace: &Trace, calls: &[(EventId, Queue)]) -> Vec<Wait> {
    let queues: BTreeSet<Queue> = calls.iter().map(|c| c.1).collect();
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
    let wait = |&(call, queue): &(EventId, Queue)| {
        let work = work.get(&queue)?;
        let before = work.partition_point(|&(returned, _)| returned <= trace.events.start[call.index()]);
        let (_, ended) = *work.get(before.checked_sub(1)?)?;
        Some(Wait { call, device: queue.1, ended })
    };
    calls.iter().filter_map(wait).collect()
}
