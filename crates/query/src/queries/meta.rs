//! Query that describes the run: its traces, sources, devices and missing records.

use crate::prefetch::{Stage, for_baseline, one_empty_set};
use crate::{Answer, Arguments, OpenRun, QueryError};
use serde::Serialize;
use stackline_model::{CallProcess, CallingContextTree, DeviceClock, EventKind, FrameKind, ReadReport, Trace};
use stackline_present::TraceInfo;
use stackline_timeline::recording::Recording;

/// Metadata entries of a trace, with their labels for people.
const ENTRIES: [&str; 12] = [
    "schemaVersion",
    "trace_name",
    "hostname",
    "torch_version",
    "pytorch_version",
    "cuda_runtime_version",
    "cuda_driver_version",
    "hip_runtime_version",
    "with_stack",
    "record_shapes",
    "profile_memory",
    "distributedInfo",
];

/// Description of the run: its traces, recording, memory file, kinds of data and possible queries.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct Meta<'a> {
    name: &'a str,
    /// Identity of the content: answers are kept by it.
    hash: &'a str,
    version: &'static str,
    traces: Vec<TraceMeta<'a>>,
    recording: Option<RecordingMeta<'a>>,
    /// A file of memory data alone.
    memory: Option<MemoryFile<'a>>,
    has: Has,
    /// Working directory of the server, the base of relative paths.
    folder: Option<String>,
    /// Name of the run that it is compared with.
    baseline: Option<&'a str>,
    queries: Vec<QueryMeta>,
}

/// Description of one trace of the run: steps, environment, clocks and missing records.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct TraceMeta<'a> {
    #[cfg_attr(test, ts(as = "crate::queries::foreign::TraceInfo"))]
    info: &'a TraceInfo,
    /// Number, start and end of each step, in ns since the start of the trace.
    steps: Vec<(i64, i64, i64)>,
    /// First and last of the steps that findings look at: all but first ones that warm up.
    chosen: Option<(i64, i64)>,
    /// Key and value.
    environment: Vec<(&'static str, String)>,
    clocks: Vec<Clock>,
    recording_cost: Option<RecordingCost>,
    #[cfg_attr(test, ts(as = "crate::queries::foreign::ReadReport"))]
    report: &'a ReadReport,
}

/// Clock offset of a device: bounds of the required shift of its times, and the applied shift.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Clock {
    device: i32,
    least_ns: Option<i64>,
    most_ns: Option<i64>,
    shift_ns: Option<i64>,
    applied_ns: i64,
    contradictory: bool,
    early: u64,
    late: u64,
}

/// Cost to record an operator, as measured during the recording.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct RecordingCost {
    operator_ns: f64,
    torch_ns: Option<f64>,
    measured: f64,
    operators: usize,
}

/// Description of a recording of totals per call path.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct RecordingMeta<'a> {
    processes: Vec<Process<'a>>,
    threads: usize,
    nodes: usize,
    #[cfg_attr(test, ts(as = "crate::queries::foreign::ReadReport"))]
    report: &'a ReadReport,
}

/// Description of a process of a recording.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Process<'a> {
    pid: u32,
    role: &'static str,
    rank: Option<u32>,
    lasted_ns: Option<u64>,
    command: &'a [String],
    python: &'a str,
    torch: &'a str,
    sources: Vec<RecordedSource<'a>>,
    lost: Vec<Lost<'a>>,
}

/// Data source of a recording: if it was active, and details or the reason.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct RecordedSource<'a> {
    name: &'a str,
    on: bool,
    detail: &'a str,
}

/// Number of dropped records of one kind.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Lost<'a> {
    what: &'a str,
    count: u64,
}

/// Description of a run that is only a memory file: its label and missing records.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct MemoryFile<'a> {
    label: &'a str,
    #[cfg_attr(test, ts(as = "crate::queries::foreign::ReadReport"))]
    report: &'a ReadReport,
}

/// Flags for the kinds of data that the run has.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Has {
    timeline: bool,
    events: bool,
    steps: bool,
    gpu: bool,
    python: bool,
    memory: bool,
}

/// Description of a query that the page can ask: name, purpose and arguments.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct QueryMeta {
    name: &'static str,
    about: &'static str,
    arguments: &'static [&'static str],
}

/// Answer the query that describes the run.
pub(super) fn answer(opened: &OpenRun, _: &Arguments) -> Result<Answer, QueryError> {
    let traces: Vec<TraceMeta<'_>> = (0..)
        .zip(opened.set.traces.iter().zip(&opened.infos))
        .map(|(at, (trace, info))| of_trace(trace, info, opened.chosen(at)))
        .collect();
    let query = |entry: &super::Query| QueryMeta { name: entry.name, about: entry.about, arguments: entry.arguments };
    Answer::document(&Meta {
        name: opened.name(),
        hash: opened.hash(),
        version: env!("CARGO_PKG_VERSION"),
        traces,
        recording: opened.recording.as_ref().map(recording),
        memory: memory_alone(opened),
        has: has(opened),
        folder: std::env::current_dir().ok().map(|folder| folder.display().to_string()),
        baseline: opened.baseline.as_ref().map(|baseline| baseline.name()),
        queries: super::ALL.iter().map(query).collect(),
    })
}

/// Find the kinds of data that the run has.
fn has(opened: &OpenRun) -> Has {
    let traces = &opened.set.traces;
    Has {
        timeline: !traces.is_empty(),
        events: traces.iter().any(has_events),
        steps: traces.iter().any(|trace| !trace.steps.is_empty()),
        gpu: traces.iter().any(|trace| !trace.gpu.is_empty()),
        python: has_python(opened),
        memory: opened.has_memory(),
    }
}

/// Describe the processes of a recording, with its numbers of threads and nodes.
fn recording(tree: &CallingContextTree) -> RecordingMeta<'_> {
    RecordingMeta {
        processes: tree.processes.iter().map(process).collect(),
        threads: tree.threads.len(),
        nodes: tree.nodes.len(),
        report: &tree.report,
    }
}

/// Description of a run that is only a memory file; `None` for other runs, whose memory the Memory page shows.
fn memory_alone(opened: &OpenRun) -> Option<MemoryFile<'_>> {
    let memory = opened.is_memory_alone().then(|| opened.memory(None).ok()).flatten()?;
    Some(MemoryFile { label: &memory.trace.label, report: &memory.trace.report })
}

/// Check if a trace has any event with a duration. Findings require one.
fn has_events(trace: &Trace) -> bool {
    trace.events.ids().any(|event| trace.events.is_timed(event))
}

/// Describe one trace; times are relative to its start.
fn of_trace<'a>(trace: &'a Trace, info: &'a TraceInfo, chosen: Option<(i64, i64)>) -> TraceMeta<'a> {
    let origin = info.start_ns.unwrap_or(0);
    let since = |ns: i64| ns.saturating_sub(origin);
    let entry = |key: &'static str| Some((key, super::shortened(trace.meta.entry(key)?)));
    TraceMeta {
        info,
        steps: trace.steps.iter().map(|step| (step.number, since(step.start), since(step.end))).collect(),
        chosen,
        environment: ENTRIES.into_iter().filter_map(entry).collect(),
        clocks: trace.meta.clocks.iter().map(clock).collect(),
        recording_cost: cost(trace),
        report: &trace.report,
    }
}

/// Convert the clock offset of a device to its JSON form.
fn clock(device_clock: &DeviceClock) -> Clock {
    Clock {
        device: device_clock.device,
        least_ns: device_clock.least_ns,
        most_ns: device_clock.most_ns,
        shift_ns: device_clock.shift_ns(),
        applied_ns: device_clock.applied_ns,
        contradictory: device_clock.is_contradictory(),
        early: device_clock.early,
        late: device_clock.late,
    }
}

/// Cost to record an operator, measured in a recording by Stackline; `None` for other traces, or if not measured.
fn cost(trace: &Trace) -> Option<RecordingCost> {
    let cost = Recording::from_trace(trace)?.operator_cost()?;
    let operators = trace.events.kind.iter().filter(|kind| **kind == EventKind::Operator).count();
    Some(RecordingCost { operator_ns: cost.ns(), torch_ns: cost.torch_ns, measured: cost.measured, operators })
}

fn process(process: &CallProcess) -> Process<'_> {
    let sources = process.sources.iter();
    Process {
        pid: process.pid,
        role: process.role.name(),
        rank: process.rank,
        lasted_ns: process.lasted_ns,
        command: &process.command,
        python: &process.python,
        torch: &process.torch,
        sources: sources
            .map(|source| RecordedSource { name: &source.name, on: source.on, detail: &source.detail })
            .collect(),
        lost: process.lost.iter().map(|(what, count)| Lost { what, count: *count }).collect(),
    }
}

/// Check if the run has Python frames.
fn has_python(opened: &OpenRun) -> bool {
    let recorded = |tree: &CallingContextTree| tree.frames.iter().any(|frame| frame.kind() == FrameKind::Python);
    opened.recording.as_ref().is_some_and(recorded)
        || opened.set.traces.iter().any(|trace| trace.events.kind.contains(&EventKind::PythonFunction))
}

/// Prefetched arguments of the query for the description of the run, by part of the page.
pub(super) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    match stage {
        Stage::Urgent | Stage::Opening | Stage::OpeningOfMemory => one_empty_set(),
        Stage::Comparison => for_baseline(opened, |_| one_empty_set()),
        _ => Vec::new(),
    }
}
