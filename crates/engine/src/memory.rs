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
        return recorded(path, options);
    }
    let set = open(&[path.to_owned()], options)?;
    of_traces(path, &set.traces)
}

/// The memory trace of inputs whose traces were opened before: that of a recording, else of the first of the traces that tells
/// of memory. The same as [`open_memory`] gives of a single input.
///
/// # Errors
/// If nothing in them tells of memory.
pub fn memory_of(inputs: &[PathBuf], traces: &[Trace], options: &OpenOptions) -> Result<MemoryTrace, Error> {
    match inputs {
        [path] if has_streams(path) => recorded(path, options),
        [] => Err(Error::NoInput),
        [path, ..] => of_traces(path, traces),
    }
}

fn of_traces(path: &Path, traces: &[Trace]) -> Result<MemoryTrace, Error> {
    traces.iter().find_map(from_trace).ok_or_else(|| Error::NoMemory { path: path.to_owned() })
}

/// Of several processes the one with the most to tell: workers that load data allocate, too.
fn recorded(run: &Path, options: &OpenOptions) -> Result<MemoryTrace, Error> {
    let processes = read_memory(run, &read_options(options))?;
    let busiest = processes.into_iter().rev().max_by_key(|trace| trace.calls.len());
    busiest.ok_or_else(|| Error::NoMemory { path: run.to_owned() })
}
