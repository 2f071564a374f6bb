//! Links between GPU operations and their launch calls, by correlation ID.

use crate::byte_offsets::{ByteOffsets, ProblemTally};
use crate::diagnostics;
use crate::sources::{chrome, xprof};
use rustc_hash::FxHashMap;
use stackline_model::{AttrColumn, AttrValue, EventId, KernelLaunches, Key, LinkKind, StrId, Trace, TrackKind};

/// Fill the GPU table except for the launch contexts. One call may launch many operations (graph launches). If several
/// calls share an ID (merged ranks, wrapped counters), the last one before the operation is used, in the process that
/// launches most of the device's work.
pub(super) fn link(trace: &mut Trace, places: &ByteOffsets) {
    let correlation: Vec<i64> = trace.events.ids().map(correlation(trace)).collect();
    let calls = calls(trace, &correlation);
    let work: Vec<EventId> = trace.events.ids().filter(|&e| trace.kind(e).is_gpu_work()).collect();
    let candidates = |id: i64| {
        let from = calls.partition_point(|&(c, ..)| c < id);
        let to = from + calls[from..].partition_point(|&(c, ..)| c == id);
        &calls[from..to]
    };
    let home = main_processes(trace, &work, &correlation, candidates);
    let mut ambiguous = ProblemTally::default();
    for event in work {
        let row = event.index();
        let id = correlation[row];
        let track = trace.tracks.get(trace.events.track[row]);
        let (device, stream) = (track.device, track.stream);
        let found = if id > 0 { candidates(id) } else { &[] };
        let launch = match found {
            [] => EventId::NONE,
            [(_, _, call)] if is_foreign(pid(trace, *call), device, &home) => EventId::NONE,
            [(_, _, call)] => *call,
            several => {
                ambiguous.add(event, || trace.name(event).to_owned());
                nearest_earlier_call(trace, several, trace.events.start[row], home.get(&device).copied())
            }
        };
        let gpu = &mut trace.gpu;
        gpu.event.push(event);
        gpu.correlation.push(if id == 0 { -1 } else { id });
        gpu.device.push(device);
        gpu.stream.push(stream);
        gpu.launch.push(launch);
    }
    ambiguous.report(diagnostics::DUPLICATE_CORRELATION, places, &mut trace.report);
}

/// Use the source's arrows as launches, if it has no correlation IDs.
pub(super) fn link_by_arrows(trace: &mut Trace) {
    let is_launch = |category: &StrId| {
        let name = category.some().map_or("", |id| trace.strings.get(id));
        chrome::API_FLOWS.contains(&name) || chrome::LAUNCH_FLOWS.contains(&name)
    };
    let arrows = trace
        .links
        .of_kind(LinkKind::Flow)
        .filter(|(from, to, category)| is_launch(category) && is_call(trace, *from) && trace.kind(*to).is_gpu_work());
    let calls: FxHashMap<EventId, EventId> = arrows.map(|(from, to, _)| (to, from)).collect();
    for gpu in trace.gpu.ids().map(|gpu| gpu.index()) {
        if trace.gpu.launch[gpu].is_none()
            && let Some(call) = calls.get(&trace.gpu.event[gpu])
        {
            trace.gpu.launch[gpu] = *call;
        }
    }
}

/// Count operations without a launch call, and launch calls without an operation.
pub(super) fn count_unpartnered(trace: &mut Trace, places: &ByteOffsets) {
    let (mut missing, mut unrecorded, mut kernels) =
        (ProblemTally::default(), ProblemTally::default(), ProblemTally::default());
    for gpu in trace.gpu.ids().map(|gpu| gpu.index()).filter(|gpu| trace.gpu.launch[*gpu].is_none()) {
        let event = trace.gpu.event[gpu];
        missing.add(event, || trace.name(event).to_owned());
    }
    let without = trace.find_unrecorded_launches();
    for &call in &without {
        unrecorded.add(call, || trace.name(call).to_owned());
    }
    let launches = KernelLaunches::from_trace(trace, &without);
    if !trace.gpu.is_empty() && launches.lack_many() {
        launches.without.iter().for_each(|&call| kernels.add(call, || trace.name(call).to_owned()));
        kernels.report(diagnostics::KERNELS_NOT_RECORDED, places, &mut trace.report);
    }
    missing.report(diagnostics::NO_LAUNCH, places, &mut trace.report);
    unrecorded.report(diagnostics::NO_DEVICE_RECORD, places, &mut trace.report);
}

/// Check if a process mostly launches on another device while another process mostly uses this one. An equal
/// correlation ID is then a coincidence of merged ranks.
fn is_foreign(pid: Key, device: i32, home: &FxHashMap<i32, Key>) -> bool {
    let on_other_device = home.iter().any(|(&d, &p)| d != device && p == pid);
    on_other_device && home.get(&device).is_some_and(|&p| p != pid)
}

/// Correlation ID of an event; 0 if it has none.
pub(super) fn correlation(trace: &Trace) -> impl Fn(EventId) -> i64 + '_ {
    let columns = ["correlation", "correlation id", xprof::CORRELATION].map(|key| trace.attr(key));
    let columns: Vec<_> = columns.into_iter().filter(AttrColumn::exists).collect();
    let number = move |value: Option<AttrValue>| match value? {
        AttrValue::Str(text) => trace.strings.get(text).trim().parse().ok(),
        other => other.as_i64(),
    };
    move |event| columns.iter().find_map(|column| number(column.get(event))).unwrap_or(0)
}

/// Runtime and driver calls with their ID and start, sorted.
fn calls(trace: &Trace, correlation: &[i64]) -> Vec<(i64, i64, EventId)> {
    let mut calls: Vec<_> = trace
        .events
        .ids()
        .filter(|e| correlation[e.index()] > 0 && is_call(trace, *e))
        .map(|e| (correlation[e.index()], trace.events.start[e.index()], e))
        .collect();
    // A stable sort is fast here: the IDs of a thread mostly ascend.
    calls.sort();
    calls
}

fn is_call(trace: &Trace, event: EventId) -> bool {
    trace.kind(event).is_api_call() && trace.tracks.get(trace.events.track[event.index()]).kind == TrackKind::Thread
}

fn pid(trace: &Trace, event: EventId) -> Key {
    trace.tracks.pid(trace.events.track[event.index()])
}

/// Main process of each device: the one whose calls launched most operations with an unambiguous call.
fn main_processes<'a>(
    trace: &Trace,
    work: &[EventId],
    correlation: &[i64],
    candidates: impl Fn(i64) -> &'a [(i64, i64, EventId)],
) -> FxHashMap<i32, Key> {
    if !has_several_processes(trace) {
        return FxHashMap::default();
    }
    let mut votes: FxHashMap<(i32, Key), u64> = FxHashMap::default();
    for &event in work {
        if let [(_, _, call)] = candidates(correlation[event.index()]) {
            let device = trace.tracks.get(trace.events.track[event.index()]).device;
            *votes.entry((device, pid(trace, *call))).or_default() += 1;
        }
    }
    let mut ranked: Vec<_> = votes.into_iter().collect();
    ranked.sort_unstable();
    let mut best: FxHashMap<i32, (u64, Key)> = FxHashMap::default();
    for ((device, pid), count) in ranked {
        let slot = best.entry(device).or_insert((0, pid));
        if count > slot.0 {
            *slot = (count, pid);
        }
    }
    best.into_iter().map(|(device, (_, pid))| (device, pid)).collect()
}

/// Check if the trace may contain calls of several processes.
fn has_several_processes(trace: &Trace) -> bool {
    let mut threads = trace.tracks.tracks.iter().filter(|t| t.kind == TrackKind::Thread).map(|t| t.process);
    let first = threads.next();
    threads.any(|process| Some(process) != first)
}

/// Last call at or before the operation, else the first one. Calls of the device's main process take precedence.
fn nearest_earlier_call(trace: &Trace, calls: &[(i64, i64, EventId)], start: i64, home: Option<Key>) -> EventId {
    let best = |calls: &mut dyn Iterator<Item = &(i64, i64, EventId)>| {
        let (mut before, mut first) = (None, None);
        for &(_, at, call) in calls {
            first = first.or(Some(call));
            if at <= start {
                before = Some(call);
            }
        }
        before.or(first)
    };
    let at_home = best(&mut calls.iter().filter(|c| home.is_some_and(|h| pid(trace, c.2) == h)));
    at_home.or_else(|| best(&mut calls.iter())).into()
}
