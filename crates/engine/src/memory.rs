//! Opens memory traces.

use crate::open::{read_options, runs_below, size};
use crate::{Error, OpenOptions, is_run, open, select_rank};
use stackline_ingest::memory::{asked_for_memory, from_trace, is_memory_file, one_trace, read_path};
use stackline_ingest::recording::{has_streams, is_shown_by, read_memory};
use stackline_ingest::{problems, read_traces_and_memory};
use stackline_memory::curve::curves;
use stackline_model::{MemoryTrace, Trace, TraceSet};
use std::path::{Path, PathBuf};

/// Opens the memory trace of a file: a snapshot, a timeline, an execution trace, a recording (`record --mode trace --memory`;
/// of several processes that with the highest peak), a run directory that keeps one, or a trace of `torch.profiler` (also in a run directory or
/// archive; of several ranks the first that tells of memory).
///
/// # Errors
/// If nothing in it tells of memory.
pub fn open_memory(path: &Path, options: &OpenOptions) -> Result<MemoryTrace, Error> {
    if let Some(beside) = memory_beside(path, options)? {
        return Ok(beside);
    }
    if has_streams(path) {
        return Err(none(path));
    }
    let inputs = [path.to_owned()];
    if is_run(path) || path.is_dir() && !runs_below(path).is_empty() {
        let set = open(&inputs, options).map_err(|error| match error {
            Error::Ingest(error) => asked_for_memory(error).into(),
            other => other,
        })?;
        return of_traces(path, &set.traces);
    }
    options.watch.expect(size(path, 0));
    match read_traces_and_memory(&inputs, &read_options(options)) {
        // What is packed beside traces is not what a folder of traces is asked for.
        Ok((set, memory)) if memory.is_empty() || path.is_dir() && !set.traces.is_empty() => {
            of_traces(path, &set.traces)
        }
        Ok((_, memory)) => Ok(one_trace(path, memory)?),
        Err(stackline_ingest::Error::Cancelled) => Err(Error::Cancelled),
        Err(stackline_ingest::Error::OnlyCalls { .. }) if path.is_file() => {
            Err(Error::OnlyCalls { path: path.to_owned(), report: Box::default() })
        }
        Err(error) => Err(asked_for_memory(error).into()),
    }
}

/// Whether an input is of memory alone, and holds no trace of what ran. Standard input is not looked at.
///
/// # Errors
/// If it cannot be read.
pub fn is_memory_alone(path: &Path) -> Result<bool, Error> {
    Ok(path != Path::new("-") && (is_memory_file(path)? || is_run_of_memory(path)))
}

/// The memory traces of a file or run that is of memory alone; `None` if it holds traces of what ran, too, or nothing of memory.
///
/// # Errors
/// If it is damaged.
pub fn only_memory(path: &Path) -> Result<Option<Vec<MemoryTrace>>, Error> {
    // What cannot be read at all is said where it is opened.
    if path != Path::new("-") && is_memory_file(path).unwrap_or(false) {
        return Ok(Some(vec![read_path(path)?]));
    }
    Ok(if is_run_of_memory(path) { Some(stackline_store::read_memory(path)?) } else { None })
}

/// The memory trace that a run holds beside its traces: that of a recording (of several processes that with the highest peak), or
/// the first that `import` kept. Its read report says of how many it was chosen.
///
/// # Errors
/// If it is there and cannot be read.
pub fn memory_beside(path: &Path, options: &OpenOptions) -> Result<Option<MemoryTrace>, Error> {
    if has_streams(path) {
        let processes = of_recording(path, options)?;
        let count = processes.len();
        return Ok(processes.into_iter().next().map(|first| one_of(first, count)));
    }
    if !keeps_memory(path) {
        return Ok(None);
    }
    let count = stackline_store::read_manifest(path)?.memory.len();
    Ok(Some(one_of(stackline_store::read_memory_at(path, 0)?, count)))
}

/// The memory traces of all processes that an input holds beside its traces, that with the highest peak first.
///
/// # Errors
/// If they are there and cannot be read.
pub fn memory_of_processes(path: &Path, options: &OpenOptions) -> Result<Vec<MemoryTrace>, Error> {
    let processes = all_beside(path, options)?;
    let count = processes.len();
    Ok(processes.into_iter().map(|trace| one_of(trace, count)).collect())
}

/// A trace that says of how many it was chosen.
fn one_of(mut trace: MemoryTrace, count: usize) -> MemoryTrace {
    if count > 1 {
        problems::note_one_of_processes(&mut trace.report, count as u64);
    }
    trace
}

/// The memory trace within a trace of `torch.profiler`; none if it does not tell of memory.
pub fn memory_within(trace: &Trace) -> Option<MemoryTrace> {
    from_trace(trace)
}

/// The memory trace of inputs whose traces were opened before: that of the first input that holds one beside its traces, else
/// that of the first of the traces that tells of memory. The same as [`open_memory`] gives of a single input.
///
/// # Errors
/// If nothing in them tells of memory, or what does cannot be read.
pub fn memory_of(inputs: &[PathBuf], traces: &[Trace], options: &OpenOptions) -> Result<MemoryTrace, Error> {
    let path = inputs.first().ok_or(Error::NoInput)?;
    for input in inputs {
        if let Some(beside) = memory_beside(input, options)? {
            return Ok(beside);
        }
    }
    of_traces(path, traces)
}

/// `None` in place of the error that nothing tells of memory.
///
/// # Errors
/// All others.
pub fn if_any(memory: Result<MemoryTrace, Error>) -> Result<Option<MemoryTrace>, Error> {
    match memory {
        Err(Error::NoMemory { .. }) => Ok(None),
        other => other.map(Some),
    }
}

/// The memory trace of one of several ranks: of its processes that with the highest peak in a recording, what a run keeps under the name of its
/// trace, else what the trace tells itself.
///
/// # Errors
/// If a run is damaged, or nothing tells of this rank's memory.
pub fn memory_of_rank(inputs: &[PathBuf], trace: &Trace, options: &OpenOptions) -> Result<MemoryTrace, Error> {
    for path in inputs {
        let beside = all_beside(path, options)?;
        if let Some(own) = beside.into_iter().find(|memory| is_shown_by(memory, &trace.meta.name)) {
            return Ok(own);
        }
    }
    from_trace(trace).ok_or_else(|| none(Path::new(&trace.meta.name)))
}

/// The memory trace of one rank of whatever an input holds: [`memory_of_rank`] of the trace that has it.
///
/// # Errors
/// If the input cannot be read, has no such rank, or tells nothing of the rank's memory.
pub fn open_memory_of_rank(path: &Path, rank: i64, options: &OpenOptions) -> Result<MemoryTrace, Error> {
    let inputs = [path.to_owned()];
    let set = select_rank(open(&inputs, options)?, rank)?;
    set.traces.first().map_or_else(|| Err(none(path)), |trace| memory_of_rank(&inputs, trace, options))
}

/// The memory traces that an input holds beside its traces, of a recording that with the highest peak first.
fn all_beside(path: &Path, options: &OpenOptions) -> Result<Vec<MemoryTrace>, Error> {
    if has_streams(path) {
        return of_recording(path, options);
    }
    if keeps_memory(path) { Ok(stackline_store::read_memory(path)?) } else { Ok(Vec::new()) }
}

/// The memory traces to keep with the traces of some inputs: what recordings and runs hold of it, and what the traces say
/// themselves. The first is the one that [`open_memory`] gives.
///
/// # Errors
/// If a run is damaged, or if the watch was cancelled.
pub fn all_memory(inputs: &[PathBuf], set: &TraceSet, options: &OpenOptions) -> Result<Vec<MemoryTrace>, Error> {
    let mut found = Vec::new();
    for input in inputs {
        if has_streams(input) {
            match of_recording(input, options) {
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                // A stream that cannot be read is in the read report of the traces.
                of_processes => found.extend(of_processes.unwrap_or_default()),
            }
        } else if keeps_memory(input) {
            found.extend(stackline_store::read_memory(input)?);
        }
    }
    // What a run keeps was worked out of the traces beside it.
    let is_new = |name: &str| found.iter().all(|known: &MemoryTrace| known.label != name);
    let of_traces: Vec<MemoryTrace> =
        set.traces.iter().filter(|trace| is_new(&trace.meta.name)).filter_map(from_trace).collect();
    found.extend(of_traces);
    Ok(found)
}

/// Whether a path is a run directory with memory traces alone.
fn is_run_of_memory(path: &Path) -> bool {
    let is_alone = |run: stackline_store::Manifest| run.traces.is_empty() && !run.memory.is_empty();
    is_run(path) && stackline_store::read_manifest(path).is_ok_and(is_alone)
}

/// Whether a path is a run directory with a memory trace.
pub fn keeps_memory(path: &Path) -> bool {
    is_run(path) && stackline_store::read_manifest(path).is_ok_and(|run| !run.memory.is_empty())
}

/// The memory traces of a recording, the process with the highest peak first: workers that load data allocate, too, and may make
/// many more calls.
fn of_recording(path: &Path, options: &OpenOptions) -> Result<Vec<MemoryTrace>, Error> {
    let mut processes = match read_memory(path, &read_options(options)) {
        Err(stackline_ingest::Error::Cancelled) => return Err(Error::Cancelled),
        other => other?,
    };
    let highest = |trace: &MemoryTrace| curves(trace).iter().map(|curve| curve.peak().bytes).max();
    processes.sort_by_cached_key(|trace| std::cmp::Reverse((highest(trace), trace.calls.len())));
    Ok(processes)
}

fn of_traces(path: &Path, traces: &[Trace]) -> Result<MemoryTrace, Error> {
    traces.iter().find_map(from_trace).ok_or_else(|| none(path))
}

fn none(path: &Path) -> Error {
    Error::NoMemory { path: path.to_owned() }
}
