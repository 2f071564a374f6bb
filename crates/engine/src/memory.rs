//! Opens memory traces.

use crate::open::read_options;
use crate::{Error, OpenOptions, open};
use stackline_ingest::memory::{from_trace, is_memory_file, read_path};
use stackline_ingest::recording::{has_streams, read_memory};
use stackline_model::MemoryTrace;
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
    if has_streams(path) {
        let processes = read_memory(path, &read_options(options))?;
        // Of several processes the one with the most to tell: workers that load data allocate, too.
        let busiest = processes.into_iter().rev().max_by_key(|trace| trace.calls.len());
        return busiest.ok_or_else(|| Error::NoMemory { path: path.to_owned() });
    }
    let set = open(&[path.to_owned()], options)?;
    set.traces.iter().find_map(from_trace).ok_or_else(|| Error::NoMemory { path: path.to_owned() })
}
