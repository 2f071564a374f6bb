//! Conversion of recordings in `trace` mode into traces for `critical-path`, `report` and all other analyses.
//!
//! Operators, backward nodes, spans, samples, launches and operations of devices were recorded. Python frames, module
//! calls and training steps are inferred and marked so ([`stackline_model::INFERRED`]).

mod calls;
mod device_clock;
mod device_operations;
mod devices;
mod files;
mod frames;
mod id_tables;
mod in_flight;
mod inputs;
mod machine;
mod memory;
mod rows;
mod sampled_python_spans;
mod steps;
mod thread_names;
mod times;

use super::ends::{self, Ends};
use super::{start_and_pid, streams};
use crate::byte_offsets::ByteOffsets;
use crate::{Error, ReadOptions, diagnostics, resolve};
use calls::{Calls, ThreadCalls};
use device_operations::TraceDevices;
use machine::MachineProcess;
use memory::MemoryOfStreams;
pub use memory::{is_shown_by, memory_of, read_memory};
use rows::Rows;
use stackline_model::{LinkKind, MemoryTrace, RECORDING_FORMAT, ReadReport, StrId, Trace, TraceSet};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

/// Limit on the clock difference of processes on one machine, in ns, for streams without a machine ID. Smaller
/// differences come from adjustments of the system time.
const SAME_MACHINE_NS: i64 = 1_000_000_000;

/// Calls of one stream, with its start, PID and read report.
struct Stream {
    start: i64,
    pid: u32,
    calls: Option<Calls>,
    report: ReadReport,
}

impl Stream {
    /// Read the individual calls of one stream, with a separate read report; no calls if the stream is unreadable. The
    /// stream's memory trace is added to `memory`.
    fn read(name: &str, file: &[u8], ends: &Ends, memory: Option<&mut MemoryOfStreams>) -> Self {
        let mut report = ReadReport::default();
        let (start, pid) = start_and_pid(file);
        let mut calls = Calls::decode(name, file, &mut report);
        if let Some(calls) = &mut calls {
            if let Some(memory) = memory {
                memory.add(calls, name, report.clone());
            }
            in_flight::note_end(calls, name, &mut report, ends);
        }
        Self { start, pid, calls, report }
    }
}

/// Traces and memory traces of a recording, from one decoding of its streams.
#[derive(Debug, Default)]
pub struct TracesAndMemory {
    /// Traces of [`read_traces`].
    pub traces: TraceSet,
    /// Memory traces of [`read_memory`]; `None` if it returns an error, because a stream cannot be read.
    pub memory: Option<Vec<MemoryTrace>>,
}

/// Traces of a recording in `trace` mode: one per rank, in rank order, or one of all processes if there are no ranks.
///
/// # Errors
/// If there are no streams, none can be read, or none has individual calls.
pub fn read_traces(run: &Path, options: &ReadOptions) -> Result<TraceSet, Error> {
    read(run, options, None)
}

/// Traces and memory traces of a recording in `trace` mode. Each stream is read and decoded once.
///
/// # Errors
/// Same as [`read_traces`].
pub fn read_traces_and_memory(run: &Path, options: &ReadOptions) -> Result<TracesAndMemory, Error> {
    let mut memory = MemoryOfStreams::default();
    let traces = read(run, options, Some(&mut memory))?;
    Ok(TracesAndMemory { traces, memory: memory.into_traces(&run_name(run)) })
}

/// Read the traces of a recording; the memory traces of its streams are added to `memory`.
fn read(run: &Path, options: &ReadOptions, mut memory: Option<&mut MemoryOfStreams>) -> Result<TraceSet, Error> {
    let mut read = Vec::new();
    let paths = streams(run)?;
    let ends = Ends::read(run);
    if paths.is_empty() {
        return Err(Error::NoStreams { path: run.to_owned() });
    }
    for path in paths {
        if options.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match std::fs::read(&path) {
            Ok(file) => {
                if let Some(progress) = &options.progress {
                    progress(file.len() as u64);
                }
                read.push(Stream::read(&name, &file, &ends, memory.as_deref_mut()));
            }
            Err(error) => {
                let mut report = ReadReport::default();
                diagnostics::UNREADABLE_STREAM.count(&mut report, None, &format!("{name}: {error}"));
                if let Some(memory) = memory.as_deref_mut() {
                    memory.lacks_stream = true;
                }
                read.push(Stream { start: i64::MAX, pid: u32::MAX, calls: None, report });
            }
        }
    }
    let name = run_name(run);
    let mut report = ReadReport::default();
    read.iter().for_each(|stream| report.merge(stream.report.clone()));
    let set = traces(&name, read, &ends, options);
    if options.is_cancelled() {
        return Err(Error::Cancelled);
    }
    if set.traces.is_empty() {
        return Err(Error::NoSingleCalls { path: run.to_owned(), report: Box::new(report) });
    }
    Ok(set)
}

/// Traces of streams in memory, each with a name for the read report; empty if there are no individual calls.
pub fn traces_of<'a>(name: &str, streams: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> TraceSet {
    let read = streams.into_iter().map(|(name, file)| Stream::read(name, file, &Ends::default(), None)).collect();
    traces(name, read, &Ends::default(), &ReadOptions::default())
}

/// One trace per rank with the diagnostics of its streams. Diagnostics of streams without a rank belong to the first
/// trace.
fn traces(name: &str, mut read: Vec<Stream>, ends: &Ends, options: &ReadOptions) -> TraceSet {
    read.sort_by_key(|stream| (stream.start, stream.pid));
    let (mut reports, mut processes) = (Vec::new(), Vec::new());
    for stream in read {
        reports.push((stream.calls.as_ref().and_then(|calls| calls.process.rank), stream.report));
        processes.extend(stream.calls);
    }
    let has_ranks = has_ranks(processes.iter().map(TraceMatch::new));
    let offsets = offsets(&processes);
    let begins = offsets.iter().zip(&processes);
    let base = begins.map(|(offset, calls)| offset + calls.process.start_monotonic_ns).min().unwrap_or(0);
    let described = offsets.iter().zip(&processes).map(|(offset, calls)| MachineProcess::new(calls, offset - base));
    let described: Vec<MachineProcess> = described.collect();
    let mut ranks: BTreeMap<Option<u32>, Vec<(i64, Calls)>> = BTreeMap::new();
    let mut rest = ReadReport::default();
    for (offset, calls) in offsets.into_iter().zip(processes) {
        let rank = calls.process.rank;
        if TraceMatch::new(&calls).has_trace(has_ranks) {
            ranks.entry(rank).or_default().push((offset - base, calls));
        } else if calls.has_events() {
            diagnostics::WITHOUT_RANK.count(&mut rest, None, &calls.process.command.join(" "));
        }
    }
    let mut found: BTreeMap<Option<u32>, ReadReport> =
        ranks.keys().map(|&rank| (rank, ReadReport::default())).collect();
    for (rank, report) in reports {
        found.get_mut(&rank).unwrap_or(&mut rest).merge(report);
    }
    if let Some(first) = found.values_mut().next() {
        first.merge(rest);
    }
    let several = ranks.len() > 1;
    let mut traces = Vec::new();
    for ((rank, processes), report) in ranks.into_iter().zip(found.into_values()) {
        let killed = processes.iter().filter(|(_, calls)| calls.killed).map(|(_, calls)| calls.process.pid).collect();
        let mut trace = trace(label(name, rank, several), base, rank, processes, report, options);
        ends::note_after_steps(&mut trace, base, &killed, ends);
        trace.meta.entries.extend(machine::entry(&described, rank));
        traces.push(trace);
    }
    TraceSet { traces }
}

/// Name of a recording: that of its folder.
fn run_name(run: &Path) -> String {
    run.file_name().map_or_else(|| run.to_string_lossy(), |name| name.to_string_lossy()).into_owned()
}

/// Name of a rank's trace; the rank is added to the run's name if there are several.
fn label(name: &str, rank: Option<u32>, several: bool) -> String {
    match rank {
        Some(rank) if several => format!("{name}:rank{rank}"),
        _ => name.to_owned(),
    }
}

/// Rank and content of a process, which determine the trace that shows it.
#[derive(Clone, Copy)]
struct TraceMatch {
    rank: Option<u32>,
    has_events: bool,
    has_calls: bool,
}

impl TraceMatch {
    fn new(calls: &Calls) -> Self {
        Self { rank: calls.process.rank, has_events: calls.has_events(), has_calls: calls.has_calls() }
    }

    /// Check if a trace shows this process. Among ranks, a process without a rank must have called an operator.
    fn has_trace(self, has_ranks: bool) -> bool {
        self.has_events && (!has_ranks || self.rank.is_some() || self.has_calls)
    }
}

/// Check if any process is a rank of a job.
fn has_ranks(mut processes: impl Iterator<Item = TraceMatch>) -> bool {
    processes.any(|shown| shown.rank.is_some() && shown.has_events)
}

/// Offsets in ns that convert the monotonic times of each process to ns since 1970. Processes of one machine share a
/// clock, independent of adjustments of the system time.
fn offsets(processes: &[Calls]) -> Vec<i64> {
    // The reader limits both values.
    let own = |calls: &Calls| calls.process.start_unix_ns - calls.process.start_monotonic_ns;
    let share = |a: &Calls, b: &Calls| match (a.boot, b.boot) {
        (Some(a), Some(b)) => a == b,
        _ => own(a).abs_diff(own(b)) < SAME_MACHINE_NS.unsigned_abs(),
    };
    let first = |calls| own(processes.iter().find(|other| share(other, calls)).unwrap_or(calls));
    processes.iter().map(first).collect()
}

/// Build and resolve the trace of one rank from its processes, each with the offset to ns since the base.
fn trace(
    name: String,
    base_ns: i64,
    rank: Option<u32>,
    processes: Vec<(i64, Calls)>,
    report: ReadReport,
    options: &ReadOptions,
) -> Trace {
    let mut trace = Trace::default();
    trace.report = report;
    trace.meta.name = name;
    // Same entry as Kineto's, so that exports agree.
    trace.meta.entries.push(("baseTimeNanoseconds".to_owned(), base_ns.to_string()));
    if let Some(rank) = rank {
        trace.meta.entries.push(("distributedInfo".to_owned(), format!("{{\"rank\":{rank}}}")));
    }
    let (mut backward, mut has_numbers) = (Vec::new(), false);
    let (mut devices, mut correlation_base) = (TraceDevices::default(), 0_i64);
    // If several processes train, concurrently or one after another, the one with most steps provides the steps.
    let training = (0..processes.len()).max_by_key(|&at| (steps::count_optimizer_spans(&processes[at].1), Reverse(at)));
    for (at, (offset, mut calls)) in processes.into_iter().enumerate() {
        if training == Some(at) {
            trace.meta.entries.extend(steps::pauses_entry(&calls, offset));
        }
        let mut rows = Rows::new(&mut trace, offset, correlation_base);
        rows.add(&mut calls, training == Some(at));
        rows.add_operations(&calls, &mut devices);
        correlation_base = correlation_base.saturating_add(calls.last_correlation());
        backward.extend(rows.backward_links().into_iter().map(|(from, to)| (from, to, StrId::NONE)));
        has_numbers |= rows.has_sequence_numbers();
    }
    trace.meta.entries.extend(devices.entry());
    trace.meta.format = RECORDING_FORMAT.to_owned();
    resolve::resolve(&mut trace, Vec::new(), &ByteOffsets::default(), options);
    // The links were recorded per thread, so no inference is necessary.
    if has_numbers {
        trace.links.set(LinkKind::Backward, backward);
    }
    trace
}

impl Calls {
    /// Check if any thread of the process has individual calls, of operators or into runtimes of devices.
    fn has_calls(&self) -> bool {
        self.threads.iter().any(ThreadCalls::has_calls)
    }

    /// Check if the process has individual calls, samples or operations of devices.
    fn has_events(&self) -> bool {
        let has_samples = self.threads.iter().any(|thread| !thread.samples.is_empty());
        self.has_calls() || has_samples || !self.devices.operations.is_empty()
    }
}
