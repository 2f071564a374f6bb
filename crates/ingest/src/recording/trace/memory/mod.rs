//! Recordings in `trace` mode with memory as memory traces: each process has one, of the memory of its CPU tensors.
//!
//! Allocations and frees are as they were recorded. That an operator reads and writes is inferred from what it was called
//! with, from its name, and from what was allocated in it and outlived it ([`stackline_model::AccessEvidence::OperatorLevel`]).
//! What is done to memory outside of operators (by `NumPy`, for instance) is not seen.

mod described;
mod kinds;
mod names;
mod operators;
mod paths;
mod sweep;

use super::calls::Calls;
use crate::recording::streams;
use crate::{Error, ReadOptions, problems};
use stackline_model::{MemoryTrace, ReadReport};
use std::path::Path;

/// The memory traces of a recording, of each process that has one, in the order in which they began; none if the
/// recording has no single allocations (`record --mode trace --memory`).
///
/// # Errors
/// If there are no streams, or if one cannot be read.
pub fn read_memory(run: &Path, options: &ReadOptions) -> Result<Vec<MemoryTrace>, Error> {
    let paths = streams(run)?;
    if paths.is_empty() {
        return Err(Error::NoStreams { path: run.to_owned() });
    }
    let label = run.file_name().map_or_else(|| run.to_string_lossy(), |name| name.to_string_lossy()).into_owned();
    let mut found = Vec::new();
    for path in paths {
        if options.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let file = std::fs::read(&path).map_err(|source| Error::Io { path: path.clone(), source })?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        found.extend(of_stream(&name, &file));
    }
    found.sort_by_key(|(began, _)| *began);
    let several = found.len() > 1;
    let named = found.into_iter().map(|((_, pid), mut trace)| {
        trace.label = if several { format!("{label}:{pid}") } else { label.clone() };
        trace
    });
    Ok(named.collect())
}

/// The memory trace of a stream in memory, with a name for the read report; `None` if it has no single allocations.
pub fn memory_of(name: &str, stream: &[u8]) -> Option<MemoryTrace> {
    of_stream(name, stream).map(|(_, trace)| trace)
}

/// The memory trace of a stream, and when its process began and its number; `None` if it has no single allocations.
fn of_stream(name: &str, file: &[u8]) -> Option<((i64, u32), MemoryTrace)> {
    let mut report = ReadReport::default();
    let calls = Calls::read(name, file, &mut report)?;
    if calls.threads.iter().all(|thread| thread.touches.is_empty()) {
        return None;
    }
    let mut trace = sweep::sweep(&calls);
    trace.report.merge(report);
    let is_ours = |what: &str| what.starts_with("touches_") || what.starts_with("inputs_");
    for what in calls.lost.iter().filter(|(what, _)| is_ours(what)) {
        problems::NOT_RECORDED.count_many(&mut trace.report, what.1, None, &format!("{name}: {}", what.0));
    }
    Some(((calls.process.start_unix_ns, calls.process.pid), trace))
}
