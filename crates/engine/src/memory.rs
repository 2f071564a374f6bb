//! Opens memory traces.

use crate::{Error, OpenOptions, open};
use stackline_ingest::memory::{from_trace, is_memory_file, read_path};
use stackline_model::MemoryTrace;
use std::path::Path;

/// Opens the memory trace of a file: a snapshot, a timeline, an execution trace, or a trace of `torch.profiler` (also in a
/// run directory or archive; of several ranks the first that tells of memory).
///
/// # Errors
/// If nothing in it tells of memory.
pub fn open_memory(path: &Path, options: &OpenOptions) -> Result<MemoryTrace, Error> {
    if path == Path::new("-") || is_memory_file(path)? {
        return Ok(read_path(path)?);
    }
    let set = open(&[path.to_owned()], options)?;
    set.traces.iter().find_map(from_trace).ok_or_else(|| Error::NoMemory { path: path.to_owned() })
}
