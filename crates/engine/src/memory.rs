//! Opens memory traces.

use crate::open::read_options;
use crate::{Error, OpenOptions, is_run, open};
use stackline_ingest::memory::{from_trace, is_memory_file, read_path};
use stackline_ingest::recording::{has_streams, read_memory};
use stackline_model::{MemoryTrace, TraceSet};
use std::path::{Path, PathBuf};

/// Opens the memory trace of a file: a snapshot, a timeline, an execution trace, a recording (`record --mode trace --memory`;
/// of several processes the busiest), a run directory that keeps one, or a trace of `torch.profiler` (also in an archive; of
/// several ranks the first that tells of memory).
///
/// # Errors
/// If nothing in it tells of memory.
pub fn open_memory(path: &Path, options: &OpenOptions) -> Result<MemoryTrace, Error> {
    if path == Path::new("-") || is_memory_file(path)? {
        return Ok(read_path(path)?);
    }
    let none = || Error::NoMemory { path: path.to_owned() };
    if has_streams(path) {
        return of_recording(path, options)?.into_iter().next().ok_or_else(none);
    }
    if keeps_memory(path) {
        return Ok(stackline_store::read_memory_at(path, 0)?);
    }
    let set = open(&[path.to_owned()], options)?;
    set.traces.iter().find_map(from_trace).ok_or_else(none)
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
    let is_run = is_run(path) && stackline_store::read_manifest(path).is_ok_and(|run| run.traces.is_empty());
    Ok(if is_run && keeps_memory(path) { Some(stackline_store::read_memory(path)?) } else { None })
}

/// The memory traces to keep with the traces of some inputs: what recordings and runs hold of it, and what the traces say
/// themselves. The first is the one that [`open_memory`] gives.
///
/// # Errors
/// If a run is damaged, or if the watch was cancelled.
pub fn memory_of(inputs: &[PathBuf], set: &TraceSet, options: &OpenOptions) -> Result<Vec<MemoryTrace>, Error> {
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

/// Whether a path is a run directory with a memory trace.
pub(crate) fn keeps_memory(path: &Path) -> bool {
    is_run(path) && stackline_store::read_manifest(path).is_ok_and(|run| !run.memory.is_empty())
}

/// The memory traces of a recording, the busiest process first: workers that load data allocate, too.
fn of_recording(path: &Path, options: &OpenOptions) -> Result<Vec<MemoryTrace>, Error> {
    let mut processes = match read_memory(path, &read_options(options)) {
        Err(stackline_ingest::Error::Cancelled) => return Err(Error::Cancelled),
        other => other?,
    };
    processes.sort_by_key(|trace| std::cmp::Reverse(trace.calls.len()));
    Ok(processes)
}
