//! Detection of device rows by names of processes and threads, for traces without categories: JAX and TensorFlow
//! (timelines of XProf and TensorFlow 1), rpd, Intel's tools, and torch_npu (Ascend). The names are a table.

use crate::diagnostics;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{EventId, EventKind, Process, StrId, StringTable, Trace, Track, TrackId, TrackKind, TrackTable};
use std::cmp::Reverse;

/// Meaning of the events in a row of the trace, such as device work or host calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Operations of a device, one after another.
    Work,
    /// Operations, unless the device has rows of streams, which then contain the same ones. Loops and branches contain
    /// other operations of the row.
    WorkWithoutStreams,
    /// Operations that rows of streams contain, too: each counts once.
    Copies,
    /// Groups of operations, such as steps, modules and scopes, which do not run by themselves.
    Groups,
    /// Calls of the device's runtime on a thread of the host.
    Calls,
    /// Operators that the host computes.
    Operators,
}
use Role::{Calls, Copies, Groups, Operators, Work, WorkWithoutStreams};

impl Role {
    /// Check if the row belongs to the host.
    fn is_of_host(self) -> bool {
        matches!(self, Calls | Operators)
    }
}

/// Pattern for the name of a process or thread.
#[derive(Clone, Copy, Debug)]
enum NamePattern {
    Any,
    /// The name starts with this text.
    Prefix(&'static str),
    /// The name starts with this text, and only digits follow.
    Numbered(&'static str),
    /// The name contains both texts in this order.
    Parts(&'static str, &'static str),
}
use NamePattern::{Any, Numbered, Parts, Prefix};

impl NamePattern {
    /// Check if the name of a process or thread fits the pattern.
    fn matches(self, text: &str) -> bool {
        match self {
            Any => true,
            Prefix(prefix) => text.starts_with(prefix),
            Numbered(prefix) => {
                let rest = text.strip_prefix(prefix).unwrap_or_default();
                !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit())
            }
            Parts(first, second) => text.split_once(first).is_some_and(|(_, rest)| rest.contains(second)),
        }
    }
}

/// Rows by names of process and thread; the first matching rule is used.
#[rustfmt::skip]
const ROWS: &[(NamePattern, NamePattern, Role)] = &[
    // TensorFlow 1: operations on streams. A row of all streams contains each operation, too, and a row of copies each
    // copy. Names begin with the job or nothing, so these rules precede those of XProf's devices with similar names.
    (Parts("/device:GPU:", "/stream:all"), Any, Copies),
    (Parts("/device:GPU:", "/stream:"), Any, Work),
    (Parts("/device:GPU:", "/memcpy"), Any, Copies),
    (Parts("/gpu:", "/stream:all"), Any, Copies),
    (Parts("/gpu:", "/stream:"), Any, Work),
    (Parts("/gpu:", "/memcpy"), Any, Copies),
    // Operators computed by the host, with a row for each concurrent operator.
    (Parts("/device:CPU:", " Compute"), Any, Operators),
    (Parts("/cpu:", " Compute"), Any, Operators),
    // XProf: JAX, TensorFlow 2, PyTorch/XLA. Rows of streams (GPU) or cores (TPU), and derived rows. `Async XLA Ops`
    // are spans from the start of a transfer to its wait, which overlap each other and concurrent work.
    (Prefix("/device:"), Prefix("Stream #"), Work),
    (Prefix("/device:"), Prefix("XLA Ops"), WorkWithoutStreams),
    (Prefix("/device:"), Numbered("Stream "), Work),
    (Prefix("/device:"), Any, Groups),
    // rpd (ROCm).
    (Numbered("GPU"), Any, Work),
    (Any, Numbered("Hip "), Calls),
    // Intel: unitrace and onetrace, and XPUs by number.
    (Prefix("DEVICE<"), Any, Work),
    (Numbered("XPU"), Any, Work),
    (Numbered("XPU "), Any, Work),
    (Prefix("XPU:"), Any, Work),
    (Any, Prefix("L0 Queue"), Work),
    // torch_npu: tasks on streams, and collectives by group. The planes of a group repeat its tasks on streams.
    (Prefix(ASCEND), Numbered("Stream "), Work),
    (Prefix(ASCEND), Any, Groups),
    (Prefix(ASCEND_COLLECTIVES[0]), Prefix("Plane "), Groups),
    (Prefix(ASCEND_COLLECTIVES[0]), Any, Work),
    (Prefix(ASCEND_COLLECTIVES[1]), Prefix("Plane "), Groups),
    (Prefix(ASCEND_COLLECTIVES[1]), Any, Work),
];

/// Process of torch_npu with the tasks of a device.
const ASCEND: &str = "Ascend Hardware";

/// Processes with the collectives of an Ascend device, in new and old versions. Other programs may use these names.
const ASCEND_COLLECTIVES: [&str; 2] = ["Communication", "HCCL"];

/// Tasks on Ascend streams that only order work, such as waits for other streams and devices.
const CONTROL_TASKS: &[&str] = &[
    "EVENT_WAIT",
    "EVENT_RECORD",
    "NOTIFY_WAIT",
    "NOTIFY_RECORD",
    "Notify_Wait",
    "Notify_Record",
    "CAPTURE_WAIT",
    "CAPTURE_RECORD",
    "WRITE_VALUE",
    "PLACE_HOLDER",
];

/// Texts after the device in the names of TensorFlow 1's rows.
const ROWS_OF_DEVICE: [&str; 2] = ["/stream:", "/memcpy"];

/// Row with the steps of a device.
const STEPS: &str = "Steps";

/// Limit on nested operations of a row.
const DEEPEST: usize = 64;

/// Names of copies and fills; all other operations are kernels.
const COPIES: &[&str] = &["Memcpy", "MEMCPY", "SDMA", "Copy", "zeCommandListAppendMemoryCopy", "clEnqueueReadBuffer"];
const FILLS: &[&str] = &["Memset", "MEMSET", "Fill", "zeCommandListAppendMemoryFill"];

/// Convert threads with names of device rows into streams, and their events into GPU work. Events with a known category
/// keep their kind.
pub(super) fn convert_rows(trace: &mut Trace) {
    let roles: Vec<Option<Role>> = roles(trace);
    if roles.iter().all(Option::is_none) {
        return;
    }
    let around = operations_with_children(trace, &roles);
    let mut counted: FxHashSet<EventId> = around.iter().copied().collect();
    counted.extend(duplicate_operations(trace, &roles));
    let kind = |e: EventId| {
        let role = roles[trace.events.track[e.index()].index()]?;
        Some(if counted.contains(&e) { EventKind::GpuAnnotation } else { kind(role, trace.name(e)) })
    };
    let plain = trace.events.ids().filter(|e| trace.kind(*e) == EventKind::Other);
    let changed: Vec<_> = plain.filter_map(|e| Some((e, kind(e)?))).collect();
    for event in around {
        let name = trace.strings.get(trace.events.name[event.index()]);
        diagnostics::AROUND_OTHERS.count(&mut trace.report, None, name);
    }
    for (event, kind) in changed {
        trace.events.set_kind(event, kind);
    }
    let mut tracks = trace.tracks.tracks.clone();
    for (track, role) in tracks.iter_mut().zip(&roles) {
        if role.is_some_and(|role| !role.is_of_host()) {
            track.kind = TrackKind::Stream;
        }
    }
    if let Ok(renewed) = TrackTable::from_rows(trace.tracks.processes.clone(), tracks) {
        trace.tracks = renewed;
    }
}

/// Role of each track; `None` if no rule matches, or the track has events of known categories.
fn roles(trace: &Trace) -> Vec<Option<Role>> {
    let tracks = &trace.tracks;
    let mut is_plain: Vec<bool> = tracks.tracks.iter().map(|t| t.kind == TrackKind::Thread).collect();
    for track in tracks.tracks.iter().filter(|t| t.kind == TrackKind::Stream) {
        let pid = tracks.processes[track.process.index()].pid;
        if let Some(thread) = tracks.find(pid, track.tid, TrackKind::Thread) {
            is_plain[thread.index()] = false;
        }
    }
    for event in trace.events.ids().filter(|e| !matches!(trace.kind(*e), EventKind::Other | EventKind::Instant)) {
        is_plain[trace.events.track[event.index()].index()] = false;
    }
    let name = |track: &Track| {
        let process = &tracks.processes[track.process.index()];
        (text(&trace.strings, process), track.name.some().map_or("", |id| trace.strings.get(id)))
    };
    let is_ascend = is_ascend(trace);
    let rule = |track: &Track| {
        let (process, thread) = name(track);
        if !is_ascend && ASCEND_COLLECTIVES.iter().any(|name| process.starts_with(name)) {
            return None;
        }
        ROWS.iter().find(|(p, t, _)| p.matches(process) && t.matches(thread)).map(|&(.., role)| role)
    };
    let mut roles: Vec<Option<Role>> =
        tracks.tracks.iter().zip(is_plain).map(|(track, is_plain)| rule(track).filter(|_| is_plain)).collect();
    let has_streams: Vec<_> =
        tracks.tracks.iter().zip(&roles).filter(|(_, role)| **role == Some(Work)).map(|(t, _)| t.process).collect();
    for (track, role) in tracks.tracks.iter().zip(&mut roles) {
        if *role == Some(WorkWithoutStreams) {
            *role = role.filter(|_| !has_streams.contains(&track.process)).or(Some(Groups));
        }
    }
    roles
}

/// Operations that contain others of their row: loops, branches, calls. The inner operations run one after another.
fn operations_with_children(trace: &Trace, roles: &[Option<Role>]) -> Vec<EventId> {
    let events = &trace.events;
    let lasts = |e: &EventId| events.is_timed(*e) && events.dur[e.index()] > 0;
    let is_operation = |e: &EventId| {
        roles[events.track[e.index()].index()] == Some(WorkWithoutStreams) && trace.kind(*e) == EventKind::Other
    };
    let mut rows: FxHashMap<TrackId, Vec<EventId>> = FxHashMap::default();
    for event in events.ids().filter(|e| is_operation(e) && lasts(e)) {
        rows.entry(events.track[event.index()]).or_default().push(event);
    }
    let span = |e: EventId| (events.start[e.index()], events.end(e));
    let mut found = FxHashSet::default();
    for mut row in rows.into_values() {
        row.sort_unstable_by_key(|&e| (span(e).0, Reverse(span(e).1), e));
        let mut open: Vec<EventId> = Vec::new();
        for event in row {
            let (start, end) = span(event);
            while open.pop_if(|last| span(*last).1 <= start).is_some() {}
            let holds = |outer: &&EventId| end <= span(**outer).1 && span(**outer) != (start, end);
            let around = open.iter().rev().take(DEEPEST).filter(holds);
            // Outer operations of a known one are known, too.
            found.extend(around.take_while(|outer| !found.contains(*outer)).copied().collect::<Vec<_>>());
            open.push(event);
        }
    }
    let mut found: Vec<EventId> = found.into_iter().collect();
    found.sort_unstable();
    found
}

/// Operations of [`Copies`] rows that a stream row of their device, or an earlier such row, contains with the same name
/// and time.
fn duplicate_operations(trace: &Trace, roles: &[Option<Role>]) -> Vec<EventId> {
    if !roles.contains(&Some(Copies)) {
        return Vec::new();
    }
    let device = |track: &Track| {
        let name = text(&trace.strings, &trace.tracks.processes[track.process.index()]);
        ROWS_OF_DEVICE.iter().find_map(|row| Some(name.split_once(row)?.0)).unwrap_or(name)
    };
    let devices: Vec<&str> = trace.tracks.tracks.iter().map(device).collect();
    let mut rows: Vec<Vec<EventId>> = vec![Vec::new(); roles.len()];
    for event in trace.events.ids().filter(|e| trace.kind(*e) == EventKind::Other) {
        let track = trace.events.track[event.index()].index();
        if matches!(roles[track], Some(Work | Copies)) {
            rows[track].push(event);
        }
    }
    // Rows of one process form one row, so they are counted together.
    let process = |track: usize| trace.tracks.tracks[track].process;
    let mut order: Vec<usize> = (0..rows.len()).filter(|&track| !rows[track].is_empty()).collect();
    let is_copies = |track: usize| roles[track] == Some(Copies);
    // Rows of copies come last, because rows of all streams contain them, too.
    let is_part =
        |track: usize| !text(&trace.strings, &trace.tracks.processes[process(track).index()]).contains("/stream:");
    order.sort_by_key(|&track| (is_copies(track), is_copies(track) && is_part(track), process(track), track));
    let mut known: FxHashMap<(&str, StrId, i64, i64), u32> = FxHashMap::default();
    let mut found = Vec::new();
    for lanes in order.chunk_by(|&a, &b| is_copies(a) && process(a) == process(b)) {
        let mut own: FxHashMap<(&str, StrId, i64, i64), u32> = FxHashMap::default();
        for &event in lanes.iter().flat_map(|&track| &rows[track]) {
            let (row, events) = (event.index(), &trace.events);
            let key = (devices[events.track[row].index()], events.name[row], events.start[row], events.dur[row]);
            let seen = own.entry(key).or_default();
            *seen += 1;
            let before = known.entry(key).or_default();
            if is_copies(events.track[row].index()) && *seen <= *before {
                found.push(event);
            } else {
                *before += 1;
            }
        }
    }
    found
}

/// Row with the steps of a device, and the device number; `None` without such a row. Of several devices, the one with
/// the lowest number.
pub(crate) fn step_row(trace: &Trace) -> Option<(TrackId, Option<i64>)> {
    let is_row = |track: &Track| {
        let process = text(&trace.strings, &trace.tracks.processes[track.process.index()]);
        track.kind == TrackKind::Stream
            && process.starts_with("/device:")
            && track.name.some().is_some_and(|name| trace.strings.get(name) == STEPS)
    };
    let rows = trace.tracks.tracks.iter().enumerate().filter(|(_, track)| is_row(track));
    rows.map(|(at, track)| (TrackId::new(at), device_number(trace, track)))
        .min_by_key(|&(track, device)| (device.is_none(), device, track))
}

/// Name of a process; empty if it has none.
fn text<'t>(strings: &'t StringTable, process: &Process) -> &'t str {
    process.name.some().map_or("", |id| strings.get(id))
}

/// Event kind in a row of this role; in rows of operations a copy, fill or kernel by the event's name.
fn kind(role: Role, name: &str) -> EventKind {
    let starts = |names: &[&str]| names.iter().any(|prefix| name.starts_with(prefix));
    match role {
        Groups => EventKind::GpuAnnotation,
        Calls => EventKind::Runtime,
        Operators => EventKind::Operator,
        _ if starts(CONTROL_TASKS) => EventKind::GpuAnnotation,
        _ if starts(COPIES) => EventKind::Memcpy,
        _ if starts(FILLS) => EventKind::Memset,
        _ => EventKind::Kernel,
    }
}

/// True if a trace has device rows of torch_npu.
fn is_ascend(trace: &Trace) -> bool {
    trace.tracks.processes.iter().any(|process| text(&trace.strings, process).starts_with(ASCEND))
}

/// Device number in the process name of a track; `None` if the process is not a device.
pub(crate) fn device_number(trace: &Trace, track: &Track) -> Option<i64> {
    let name = text(&trace.strings, &trace.tracks.processes[track.process.index()]);
    let rule = ROWS.iter().find(|(process, ..)| !matches!(process, Any) && process.matches(name));
    let is_device = rule.is_some_and(|(.., role)| !role.is_of_host());
    let mut prefixes = [ASCEND].into_iter().chain(ASCEND_COLLECTIVES);
    let of_ascend = prefixes.find(|prefix| name.starts_with(prefix));
    if let Some(prefix) = of_ascend.filter(|_| is_ascend(trace)) {
        // These names have no number, so devices are numbered by their order.
        let earlier = &trace.tracks.processes[..track.process.index()];
        return Some(earlier.iter().filter(|p| text(&trace.strings, p).starts_with(prefix)).count() as i64);
    }
    let from = ["/device:", "/gpu:", "GPU", "XPU", "#"].iter().find_map(|part| Some(name.split_once(part)?.1))?;
    let digits = from.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|_| is_device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rows() {
        let role = |process: &str, thread: &str| {
            ROWS.iter().find(|(p, t, _)| p.matches(process) && t.matches(thread)).map(|r| r.2)
        };
        assert_eq!(role("/device:GPU:0", "Stream #13(Compute)"), Some(Work));
        assert_eq!(role("/device:TPU:0", "XLA Ops"), Some(WorkWithoutStreams));
        assert_eq!(role("/device:TPU:0", "Steps"), Some(Groups));
        assert_eq!(role("/host:CPU", "python"), None);
        assert_eq!(role("/job:localhost/replica:0/task:0/device:CPU:0 Compute", ""), Some(Operators));
        assert_eq!(role("/job:localhost/replica:0/task:0/device:CPU:0 Tensors", ""), None);
        assert_eq!(role("/job:localhost/replica:0/task:0/device:GPU:0/stream:7 Compute", ""), Some(Work));
        assert_eq!(role("GPU2", ""), Some(Work));
        assert_eq!(role("GPU monitor", ""), None);
        assert_eq!(role("", "Hip 1087077"), Some(Calls));
        assert_eq!(kind(Work, "CopyHostToDevice"), EventKind::Memcpy);
        assert_eq!(kind(Work, "fusion.3"), EventKind::Kernel);
        assert_eq!(role("Ascend Hardware", "Stream 2"), Some(Work));
        assert_eq!(role("Ascend Hardware", "Step Trace(Model ID:1)"), Some(Groups));
        assert_eq!(role("Communication", "Group 0 Communication"), Some(Work));
        assert_eq!(role("HCCL", "Plane 0"), Some(Groups));
        assert_eq!(role("Overlap Analysis", "Computing"), None);
        assert_eq!(kind(Work, "MEMCPY_ASYNC"), EventKind::Memcpy);
        assert_eq!(kind(Work, "NOTIFY_WAIT_SQE"), EventKind::GpuAnnotation);
    }
}
