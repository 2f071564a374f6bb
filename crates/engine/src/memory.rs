//! Opens memory traces.

use crate::open::read_options;
use crate::{Error, OpenOptions, open};
use stackline_ingest::memory::{from_trace, is_memory_file, read_path};
use stackline_ingest::recording::{has_streams, read_memory};
use stackline_model::{MemoryTrace, Trace};
use std::path::Path;

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
    let none = || Error::NoMemory { path: path.to_owned() };
    if has_streams(path) {
        return memory_beside(path, options)?.ok_or_else(none);
    }
    let set = open(&[path.to_owned()], options)?;
    set.traces.iter().find_map(from_trace).ok_or_else(none)
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
