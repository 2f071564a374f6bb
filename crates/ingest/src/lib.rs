//! Readers: bytes in, model and read report out.
#![forbid(unsafe_code)]

mod decimal;
mod error;

pub use error::Error;
use std::path::PathBuf;
use stackline_model::{Trace, TraceSet};

/// Settings of a read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Threads to use over several files; 0 means as many as there are cores. Never changes the result.
    pub threads: usize,
}

/// Reads one trace from bytes in memory (JSON, gzip, zstd); archives give their first trace. `name` is its label.
pub fn read_bytes(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<Trace, Error> {
    let _ = (bytes, options);
    Err(Error::NoTrace { path: name.into() })
}

/// Reads traces from files, archives and directories, in the order given (directories and archives: by name).
/// `-` is standard input.
pub fn read_paths(paths: &[PathBuf], options: &ReadOptions) -> Result<TraceSet, Error> {
    let _ = options;
    Err(Error::NoTrace { path: paths.first().cloned().unwrap_or_default() })
}
