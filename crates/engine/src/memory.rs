//! Opens memory traces.

use crate::open::read_options;
use crate::{Error, OpenOptions, open};
use stackline_ingest::memory::{from_trace, is_memory_file, read_path};
use stackline_ingest::recording::{has_streams, read_memory};
use stackline_model::{MemoryTrace, Trace};
use std::path::{Path, PathBuf};

/// Opens the memory trace of a file: a snapshot, a timeline, an execution trace, a recording (`record --mode trace --memory`;
/// of several processes the busiest), or a trace of `torch.profiler` (also in a run directory or archive; of several ranks the
/// first that tells of memory).
///
/// # Errors
/// If nothing in it tells of memory.
pub fn open_memory(path: &Path, options: &OpenOptions) -> Result<MemoryTrace, Error> {
    if path == Path::new("-") || is_memory_file(path)? {
        return Ok(read_path(path)?);
    }
    if has_streams(path) {
        return memory_beside(path, options)?.ok_or_else(|| none(path));
    }
    let set = open(&[path.to_owned()], options)?;
    of_traces(path, &set.traces)
}

/// Whether an input is of memory alone, and holds no trace of what ran. Standard input is not looked at.
///
/// # Errors
/// If it cannot be read.
pub fn is_memory_alone(path: &Path) -> Result<bool, Error> {
    Ok(path != Path::new("-") && is_memory_file(path)?)
}

/// The memory trace that a run holds beside its traces: that of a recording (of several processes the busiest).
///
/// # Errors
/// If it is there and cannot be read.
pub fn memory_beside(path: &Path, options: &OpenOptions) -> Result<Option<MemoryTrace>, Error> {
    if !has_streams(path) {
        return Ok(None);
    }
    let processes = read_memory(path, &read_options(options))?;
    // Of several processes the one with the most to tell: workers that load data allocate, too.
    Ok(processes.into_iter().rev().max_by_key(|trace| trace.calls.len()))
}

/// The memory trace within a trace of `torch.profiler`; none if it does not tell of memory.
pub fn memory_within(trace: &Trace) -> Option<MemoryTrace> {
    from_trace(trace)
}

/// The memory trace of inputs whose traces were opened before: that of a recording, else of the first of the traces that tells
/// of memory. The same as [`open_memory`] gives of a single input.
///
/// # Errors
/// If nothing in them tells of memory.
pub fn memory_of(inputs: &[PathBuf], traces: &[Trace], options: &OpenOptions) -> Result<MemoryTrace, Error> {
    match inputs {
        [path] if has_streams(path) => memory_beside(path, options)?.ok_or_else(|| none(path)),
        [] => Err(Error::NoInput),
        [path, ..] => of_traces(path, traces),
    }
}

fn of_traces(path: &Path, traces: &[Trace]) -> Result<MemoryTrace, Error> {
    traces.iter().find_map(from_trace).ok_or_else(|| none(path))
}

fn none(path: &Path) -> Error {
    Error::NoMemory { path: path.to_owned() }
}
