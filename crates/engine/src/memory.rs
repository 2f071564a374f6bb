//! Opens memory traces.

use crate::Error;
use stackline_model::MemoryTrace;
use std::path::Path;

/// Opens the memory trace of a file.
///
/// # Errors
/// If nothing in it tells of memory.
pub fn open_memory(path: &Path) -> Result<MemoryTrace, Error> {
    Ok(stackline_ingest::memory::read_path(path)?)
}
