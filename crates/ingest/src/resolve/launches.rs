//! Links between GPU operations and their launch calls, by correlation ID.

use crate::byte_offsets::{ByteOffsets, ProblemTally};
use crate::diagnostics;
use crate::sources::{chrome, xprof};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{AttrColumn, AttrValue, EventId, KernelLaunches, Key, LinkKind, StrId, Trace, TrackKind};
use std::cmp::Reverse;

/// Number of a device and process of its tracks. Merged ranks may use one device number.
type Device = (i32, Key);
/// A call: its correlation ID, start and event.
type Call = (i64, i64, EventId);

/// Link GPU operations to their launch calls: fill the GPU table, except for the launch contexts. One call may launch
/// many operations (graph launches). If several calls share an ID (merged ranks, wrapped counters), the last one before
/// the operation is used, in the process that is known to launch most of the device's work.
pub(super) fn link(trace: &mut Trace, places: &ByteOffsets) {
    let correlation: Vec<i64> = trace.events.ids().map(correlation(trace)).collect();
    let calls = calls(trace, &correlation);
    let work: Vec<EventId> = trace.events.ids().filter(|&e| trace.kind(e).is_gpu_work()).collect();
    let candidates = |id: i64| {
        let from = calls.partition_point(|&(c, ..)| c < id);
        let to = from + calls[from..].partition_point(|&(c, ..)| c == id);
        &calls[from..to]
    };
    let home = main_processes(trace, &work, &correlation, &candidates);
    let mut ambiguous = ProblemTally::default();
    for event in work {
        let row = event.index();
        let id = correlation[row];
        let track = trace.tracks.get(trace.events.track[row]);
        let (number, stream) = (track.device, track.stream);
        let device = device_of(trace, event);
        let found = if id > 0 { candidates(id) } else { &[] };
        let launch = match found {
            [] => EventId::NONE,
            [(_, _, call)] if home.is_foreign(pid(trace, *call), device) => EventId::NONE,
            [(_, _, call)] => *call,
            several => {
                ambiguous.add(event, || trace.name(event).to_owned());
                nearest_earlier_call(trace, several, trace.events.start[row], (device, &home))
            }
        };
        let gpu = &mut trace.gpu;
        gpu.event.push(event);
        gpu.correlation.push(if id == 0 { -1 } else { id });
        gpu.device.push(number);
        gpu.stream.push(stream);
        gpu.launch.push(launch);
    }
    ambiguous.report(diagnostics::DUPLICATE_CORRELATION, places, &mut trace.report);
}

/// Link GPU operations that lack a launch call to one by the launch arrows of the source.
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

/// Count GPU operations without a launch call, and launch calls without a GPU operation.
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

/// Main process of each device, which launches most of its operations.
#[derive(Default)]
struct MainProcesses {
    /// Those whose calls launched most operations with an unambiguous call.
    known: FxHashMap<Device, Key>,
    /// The same, and those that [`assign_colliding`] guessed. Guesses only exclude processes of other devices: the runs
    /// of one program in one file use the same device with the same IDs, one run after the other.
    all: FxHashMap<Device, Key>,
}

impl MainProcesses {
    /// Check if a process mostly launches on another device while another process mostly uses this one. An equal
    /// correlation ID is then a coincidence of merged ranks.
    fn is_foreign(&self, pid: Key, device: Device) -> bool {
        let on_other_device = self.all.iter().any(|(&d, &p)| d != device && p == pid);
        on_other_device && self.all.get(&device).is_some_and(|&p| p != pid)
    }
}

/// Function that reads the correlation ID of an event; 0 if it has none.
pub(super) fn correlation(trace: &Trace) -> impl Fn(EventId) -> i64 + '_ {
    let columns = ["correlation", "correlation id", xprof::CORRELATION].map(|key| trace.attr(key));
    let columns: Vec<_> = columns.into_iter().filter(AttrColumn::exists).collect();
    let number = move |value: Option<AttrValue>| match value? {
        AttrValue::Str(text) => trace.strings.get(text).trim().parse().ok(),
        other => other.as_i64(),
    };
    move |event| columns.iter().find_map(|column| number(column.get(event))).unwrap_or(0)
}

/// Runtime and driver calls with a correlation ID: ID, start and event, sorted.
fn calls(trace: &Trace, correlation: &[i64]) -> Vec<Call> {
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

/// Check if an event is a GPU API call on a CPU thread.
fn is_call(trace: &Trace, event: EventId) -> bool {
    trace.kind(event).is_api_call() && trace.tracks.get(trace.events.track[event.index()]).kind == TrackKind::Thread
}

/// PID of the process on whose track an event lies.
fn pid(trace: &Trace, event: EventId) -> Key {
    trace.tracks.pid(trace.events.track[event.index()])
}

/// Device number and process of the track on which an event lies.
fn device_of(trace: &Trace, event: EventId) -> Device {
    (trace.tracks.get(trace.events.track[event.index()]).device, pid(trace, event))
}

/// Find the main process of each device: the one whose calls launched most of its operations.
fn main_processes<'a>(
    trace: &Trace,
    work: &[EventId],
    correlation: &[i64],
    candidates: &impl Fn(i64) -> &'a [Call],
) -> MainProcesses {
    if !has_several_processes(trace) {
        return MainProcesses::default();
    }
    let mut votes: FxHashMap<(Device, Key), u64> = FxHashMap::default();
    for &event in work {
        if let [(_, _, call)] = candidates(correlation[event.index()]) {
            *votes.entry((device_of(trace, event), pid(trace, *call))).or_default() += 1;
        }
    }
    let mut ranked: Vec<_> = votes.into_iter().collect();
    ranked.sort_unstable();
    let mut best: FxHashMap<Device, (u64, Key)> = FxHashMap::default();
    for ((device, pid), count) in ranked {
        let slot = best.entry(device).or_insert((0, pid));
        if count > slot.0 {
            *slot = (count, pid);
        }
    }
    let known: FxHashMap<Device, Key> = best.into_iter().map(|(device, (_, pid))| (device, pid)).collect();
    let mut all = known.clone();
    assign_colliding(trace, (work, correlation), candidates, &mut all);
    MainProcesses { known, all }
}

/// Add the main processes of devices whose every ID several calls have, as where ranks that run one program are merged.
/// Each process gets a device of its own first. Preferred are processes whose calls begin before the operations, then
/// those whose calls are nearest in the file, because a merge mostly copies one rank after the other.
fn assign_colliding<'a>(
    trace: &Trace,
    (work, correlation): (&[EventId], &[i64]),
    candidates: &impl Fn(i64) -> &'a [Call],
    home: &mut FxHashMap<Device, Key>,
) {
    let mut operations: FxHashMap<Device, u64> = FxHashMap::default();
    // Operations that the process may have launched, and their distance from its calls in rows.
    let mut scores: FxHashMap<(Device, Key), (u64, u64)> = FxHashMap::default();
    for &event in work {
        let (device, start) = (device_of(trace, event), trace.events.start[event.index()]);
        let id = correlation[event.index()];
        if id <= 0 || home.contains_key(&device) {
            continue;
        }
        *operations.entry(device).or_default() += 1;
        let possible = candidates(id).iter().filter(|call| call.1 <= start);
        let mut near: Vec<(Key, u64)> =
            possible.map(|call| (pid(trace, call.2), call.2.index().abs_diff(event.index()) as u64)).collect();
        near.sort_unstable();
        near.dedup_by_key(|(pid, _)| *pid);
        for (pid, rows) in near {
            let score = scores.entry((device, pid)).or_default();
            *score = (score.0 + 1, score.1.saturating_add(rows));
        }
    }
    // Twentieths of the operations: single wrong times decide nothing.
    let share = |device: Device, possible: u64| {
        let all = operations.get(&device).copied().unwrap_or(1);
        (possible * 20 + all / 2) / all
    };
    let rank = |((device, pid), (possible, rows))| (Reverse(share(device, possible)), rows, device, pid);
    let mut ranked: Vec<(Reverse<u64>, u64, Device, Key)> = scores.into_iter().map(rank).collect();
    ranked.sort_unstable();
    let mut taken: FxHashSet<Key> = home.values().copied().collect();
    for one_each in [true, false] {
        for &(_, _, device, pid) in &ranked {
            let is_taken = one_each && taken.contains(&pid);
            if !is_taken && !home.contains_key(&device) {
                home.insert(device, pid);
                taken.insert(pid);
            }
        }
    }
}

/// Check if the trace may contain calls of several processes.
fn has_several_processes(trace: &Trace) -> bool {
    let mut threads = trace.tracks.tracks.iter().filter(|t| t.kind == TrackKind::Thread).map(|t| t.process);
    let first = threads.next();
    threads.any(|process| Some(process) != first)
}

/// Last call at or before the operation, else the first one. Calls of the device's known main process take precedence,
/// and those of main processes of other devices are excluded.
fn nearest_earlier_call(
    trace: &Trace,
    calls: &[Call],
    start: i64,
    (device, home): (Device, &MainProcesses),
) -> EventId {
    let best = |calls: &mut dyn Iterator<Item = &Call>| {
        let (mut before, mut first) = (None, None);
        for &(_, at, call) in calls {
            first = first.or(Some(call));
            if at <= start {
                before = Some(call);
            }
        }
        before.or(first)
    };
    let main = home.known.get(&device).copied();
    let at_home = best(&mut calls.iter().filter(|c| main.is_some_and(|main| pid(trace, c.2) == main)));
    let others = || best(&mut calls.iter().filter(|c| !home.is_foreign(pid(trace, c.2), device)));
    at_home.or_else(others).into()
}

/// Correlation IDs that several calls share. Their launches were inferred from times, so they are no evidence about
/// clocks.
pub(super) fn shared_ids(trace: &Trace) -> FxHashSet<i64> {
    let correlation = correlation(trace);
    let calls = trace.events.ids().filter(|e| trace.kind(*e).is_api_call()).map(correlation).filter(|id| *id > 0);
    let (mut seen, mut shared) = (FxHashSet::default(), FxHashSet::default());
    for id in calls {
        if !seen.insert(id) {
            shared.insert(id);
        }
    }
    shared
}
