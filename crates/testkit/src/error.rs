//! Errors of the generators of traces for tests.

use std::path::PathBuf;

/// Reason why a generator has no output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read, created or inflated.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// Attempted action: read, inflate, create or write.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Writing to an already open sink failed.
    #[error("cannot write: {0}")]
    Write(#[from] std::io::Error),
    /// The input is not an undamaged Kineto or Chrome trace in JSON.
    #[error("not a well-formed JSON trace: {0}")]
    NotATrace(&'static str),
}

/// Shorthand for this crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;
