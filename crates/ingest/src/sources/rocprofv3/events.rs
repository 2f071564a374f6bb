//! Kernels, copies, calls and marks of a recording as events, independent of its file format.

use crate::diagnostics;
use crate::sources::processes::{Event, Processes};
use crate::sources::ranges::Range;
use crate::sources::row::Value;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, Key, Phase, Trace, TrackKind};
use std::collections::{BTreeMap, BTreeSet};

/// Start and end in ns, by the machine's clock.
pub(super) type Times = (Option<i64>, Option<i64>);

/// Values of counters by name. Each unit of a GPU has one value, and they are summed.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters(BTreeMap<Box<str>, f64>);

impl Counters {
    /// Add a value to the sum of a counter.
    pub(super) fn add(&mut self, name: &str, value: f64) {
        match self.0.get_mut(name) {
            Some(sum) => *sum += value,
            None => drop(self.0.insert(name.into(), value)),
        }
    }

    /// Add the value of a numbered counter; a counter without a name is named by its number.
    pub(super) fn add_numbered(&mut self, id: Option<i64>, names: &FxHashMap<i64, Box<str>>, value: f64) {
        match id.map(|id| (id, names.get(&id))) {
            Some((_, Some(name))) => self.add(name, value),
            Some((id, None)) => self.add(&format!("counter {id}"), value),
            None => self.add("counter", value),
        }
    }
}

/// Total number of vector registers of a work-item, accumulation registers included; `None` if unknown.
pub(super) fn registers(vector: Option<i64>, accumulation: Option<i64>) -> Option<i64> {
    Some(vector?.saturating_add(accumulation.unwrap_or(0)))
}

/// Count counter values of dispatches that are not recorded.
pub(super) fn count_without_kernel(dispatches: usize, processes: &mut Processes<'_>) {
    processes.count_many(
        diagnostics::DANGLING_RECORD,
        dispatches as u64,
        "counter values of a kernel dispatch that was not recorded",
    );
}

/// A kernel execution, independent of the file format.
#[derive(Clone, Debug, Default)]
pub(super) struct Kernel<'a> {
    pub(super) name: &'a str,
    /// Number among GPUs; the agent's number if agents are not described.
    pub(super) device: i64,
    pub(super) queue: Option<i64>,
    /// HIP stream; older versions do not record it.
    pub(super) stream: Option<i64>,
    pub(super) correlation: Option<i64>,
    pub(super) times: Times,
    /// Work-items of a group and of all groups, if all three sizes are known.
    pub(super) group: Option<[i64; 3]>,
    pub(super) grid: Option<[i64; 3]>,
    /// Bytes of local memory per group, and of scratch memory per work-item.
    pub(super) shared: Option<i64>,
    pub(super) scratch: Option<i64>,
    /// Vector registers of a work-item.
    pub(super) registers: Option<i64>,
    pub(super) counters: Option<Counters>,
}

impl Kernel<'_> {
    /// Name of the kernel, or a description of a kernel without one.
    pub(super) fn title(&self) -> &str {
        if self.name.is_empty() { "kernel without a name" } else { self.name }
    }

    /// Stream of the kernel on its GPU, or its queue.
    pub(super) fn track(&self) -> (Key, Key, TrackKind) {
        let stream = Key::Int(self.stream.or(self.queue).unwrap_or(0));
        (Key::Int(self.device), stream, TrackKind::Stream)
    }

    /// True if the kernel runs at a time.
    pub(super) fn runs_at(&self, time: Option<i64>) -> bool {
        let (start, end) = self.times;
        time.is_some_and(|time| start.is_some_and(|start| start <= time) && end.is_some_and(|end| time < end))
    }

    /// Add the kernel to the trace of its process, with the grid in groups instead of work-items, and the number of its
    /// instruction samples by stall reason (JSON). Returns the process.
    pub(super) fn push(&self, stalls: Option<&str>, pid: Option<i64>, processes: &mut Processes<'_>) -> i64 {
        // Grids have sizes in work-items here, but in groups for all analyses.
        let groups = self.grid.zip(self.group).filter(|(_, group)| group.iter().all(|&size| size > 0));
        let groups = groups.map(|(grid, group)| [0, 1, 2].map(|at| grid[at].saturating_add(group[at] - 1) / group[at]));
        let json = |sizes: Option<[i64; 3]>| sizes.map(|[x, y, z]| format!("[{x},{y},{z}]"));
        let (grid, block) = (json(groups), json(self.group));
        let mut arguments = vec![
            ("device", Value::Int(Some(self.device))),
            // 0 means that the value was not recorded.
            ("stream", Value::Int(self.stream.filter(|&stream| stream != 0))),
            ("queue", Value::Int(self.queue)),
            ("correlation", Value::Int(self.correlation)),
            ("grid", grid.as_deref().map_or(Value::Int(None), Value::Json)),
            ("block", block.as_deref().map_or(Value::Int(None), Value::Json)),
            ("shared memory", Value::Int(self.shared)),
            ("registers per thread", Value::Int(self.registers)),
            ("scratch memory", Value::Int(self.scratch.filter(|&bytes| bytes > 0))),
            ("stall_reasons", stalls.map_or(Value::Int(None), Value::Json)),
        ];
        let counters = self.counters.iter().flat_map(|counters| &counters.0);
        arguments.extend(counters.map(|(name, &value)| (&**name, Value::Float(Some(value)))));
        let event = Event {
            track: self.track(),
            times: self.times,
            name: self.title(),
            category: "kernel",
            kind: EventKind::Kernel,
            phase: Phase::Complete,
            arguments: &arguments,
        };
        let owner = processes.owner(pid, &event);
        processes.push(Some(owner), &event);
        owner
    }
}

/// Add a complete event to the trace of a process.
fn push_span(
    processes: &mut Processes<'_>,
    pid: Option<i64>,
    (track, times): ((Key, Key, TrackKind), Times),
    (name, category, kind): (&str, &str, EventKind),
    arguments: &[(&str, Value<'_>)],
) {
    processes.push(pid, &Event { track, times, name, category, kind, phase: Phase::Complete, arguments });
}

/// A copy of memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Copy<'a> {
    /// Direction such as `MEMORY_COPY_HOST_TO_DEVICE`.
    pub(super) direction: &'a str,
    /// GPU numbers; `None` for the host.
    pub(super) source: Option<i64>,
    pub(super) destination: Option<i64>,
    pub(super) stream: Option<i64>,
    pub(super) correlation: Option<i64>,
    pub(super) times: Times,
    pub(super) bytes: Option<i64>,
}

/// Names of copies in rocprofv3, and in ROCm's other profilers.
const COPIES: &[(&str, &str)] = &[
    ("HOST_TO_DEVICE", "CopyHostToDevice"),
    ("DEVICE_TO_HOST", "CopyDeviceToHost"),
    ("DEVICE_TO_DEVICE", "CopyDeviceToDevice"),
    ("HOST_TO_HOST", "CopyHostToHost"),
];

impl Copy<'_> {
    /// Add the copy to the trace of its process, on a stream of its GPU; without a GPU on a track of the host.
    pub(super) fn push(&self, pid: Option<i64>, processes: &mut Processes<'_>) {
        let known = COPIES.iter().find(|(direction, _)| self.direction.ends_with(direction));
        let name = known.map_or(self.direction, |(_, name)| name);
        let name = if name.is_empty() { "copy without a direction" } else { name };
        let of_source = self.direction.ends_with("DEVICE_TO_HOST");
        let device = if of_source { self.source.or(self.destination) } else { self.destination.or(self.source) };
        let Some(device) = device.filter(|_| !self.direction.ends_with("HOST_TO_HOST")) else {
            // No GPU was involved, so these copies belong to the host, on a separate track.
            let copies = Key::Str(processes.trace_of(pid).trace.strings.intern("copies"));
            let track = (Key::Int(pid.unwrap_or(0)), copies, TrackKind::Thread);
            let arguments = [("bytes", Value::Int(self.bytes))];
            push_span(processes, pid, (track, self.times), (name, "", EventKind::Other), &arguments);
            return;
        };
        let stream = match self.stream {
            Some(stream) => Key::Int(stream),
            None => Key::Str(processes.trace_of(pid).trace.strings.intern("copies")),
        };
        let length =
            self.times.0.zip(self.times.1).and_then(|(start, end)| end.checked_sub(start)).filter(|&ns| ns > 0);
        let rate = self.bytes.zip(length).map(|(bytes, ns)| bytes as f64 / ns as f64);
        let arguments = [
            ("device", Value::Int(Some(device))),
            ("stream", Value::Int(self.stream)),
            ("correlation", Value::Int(self.correlation)),
            ("bytes", Value::Int(self.bytes)),
            ("memory bandwidth (GB/s)", Value::Float(rate)),
        ];
        let track = (Key::Int(device), stream, TrackKind::Stream);
        push_span(processes, pid, (track, self.times), (name, "gpu_memcpy", EventKind::Memcpy), &arguments);
    }
}

/// An API call, or a mark or range of the program.
#[derive(Clone, Debug, Default)]
pub(super) struct Call<'a> {
    /// Domain such as `HIP_RUNTIME_API`.
    pub(super) domain: &'a str,
    pub(super) function: &'a str,
    /// Text of the program's mark or range; CSV tables have it as the function.
    pub(super) message: Option<&'a str>,
    pub(super) tid: Option<i64>,
    pub(super) correlation: Option<i64>,
    pub(super) times: Times,
}

/// Domains by the prefix of their names; all others are library APIs (RCCL, rocDecode).
const DOMAINS: &[(&str, &str, EventKind)] = &[
    ("HIP_", "cuda_runtime", EventKind::Runtime),
    ("HSA_", "cuda_driver", EventKind::Driver),
    ("MARKER_CORE", "user_annotation", EventKind::Annotation),
    ("MARKER_", "", EventKind::Other),
];

/// Functions that end a range: the range itself has a record of its own.
const ENDS: &[&str] = &["roctxRangePop", "roctxRangeStop", "roctxGetThreadId"];
/// Functions whose ranges may end on another thread.
const ACROSS_THREADS: &[&str] = &["roctxProcessRangeA", "roctxRangeStartA"];

impl Call<'_> {
    /// Add the call, mark or range to the trace of its process.
    pub(super) fn push(&self, pid: Option<i64>, processes: &mut Processes<'_>) {
        let domain = DOMAINS.iter().find(|(prefix, ..)| self.domain.starts_with(prefix));
        let &(_, category, kind) = domain.unwrap_or(&("", "", EventKind::Other));
        let track = (Key::Int(pid.unwrap_or(0)), Key::Int(self.tid.unwrap_or(0)), TrackKind::Thread);
        let times = self.times;
        let text = self.message.filter(|text| !text.is_empty()).unwrap_or(self.function);
        let text = if text.is_empty() { "call without a name" } else { text };
        if kind != EventKind::Annotation || ENDS.contains(&self.function) {
            let kind = if kind == EventKind::Annotation { EventKind::Other } else { kind };
            let arguments = [("correlation", Value::Int(self.correlation.filter(|_| kind.is_api_call())))];
            push_span(processes, pid, (track, times), (text, category, kind), &arguments);
            return;
        }
        let range = Range::parse(text);
        let (category, kind) = range.kind();
        let (kind, phase) = match () {
            () if times.0.is_some() && times.0 == times.1 => (EventKind::Instant, Phase::Instant),
            () if ACROSS_THREADS.contains(&self.function) => (EventKind::Async, Phase::Async),
            () => (kind, Phase::Complete),
        };
        let arguments = range.arguments();
        processes.push(pid, &Event { track, times, name: range.name, category, kind, phase, arguments: &arguments });
    }
}

/// Put the kernels of each queue onto a separate stream, with the samples of their instructions, if no kernel has a HIP
/// stream (`rocprofv3 --group-by-queue`, or a program that uses only HSA): all streams are then 0.
pub(super) fn split_queues(trace: &mut Trace) {
    let kernels: Vec<_> = trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Kernel).collect();
    let queue = trace.attr("queue");
    let of_queue: Vec<_> = kernels.iter().filter_map(|&e| Some((e, queue.i64(e)?))).collect();
    let queues: BTreeSet<i64> = of_queue.iter().map(|&(_, queue)| queue).collect();
    let is_0 = |event: &EventId| trace.tracks.get(trace.events.track[event.index()]).tid == Key::Int(0);
    if queues.len() < 2 || of_queue.len() < kernels.len() || !kernels.iter().all(is_0) {
        return;
    }
    for (event, queue) in of_queue {
        let row = event.index();
        let old = trace.events.track[row];
        let device = trace.tracks.pid(old);
        let new =
            trace.tracks.track(device, Key::Str(trace.strings.intern(&format!("queue {queue}"))), TrackKind::Stream);
        trace.events.track[row] = new;
        // Samples follow their kernel.
        let is_sample = |&at: &usize| trace.events.kind[at] == EventKind::Sample && trace.events.track[at] == old;
        let samples = (row + 1..trace.events.len()).take_while(is_sample).count();
        trace.events.track[row + 1..=row + samples].fill(new);
    }
}
