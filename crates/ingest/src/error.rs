//! Why nothing at all could be read. Anything less is a problem in the read report.

use std::path::PathBuf;

/// Reading failed as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened or read.
    #[error("{}: cannot read: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Nothing in it is a trace.
    #[error("{}: no trace found; give a torch.profiler or Chrome trace (JSON, also packed), or a directory of them", path.display())]
    NoTrace {
        /// Which file or directory.
        path: PathBuf,
    },
    /// The content is of a kind that this version does not read.
    #[error("{}: {found}; {advice}", path.display())]
    Unsupported {
        /// Which file.
        path: PathBuf,
        /// What it seems to be.
        found: String,
        /// What to do.
        advice: String,
    },
    /// The content breaks off or makes no sense before any event was found.
    #[error("{}: not a trace: {reason} (byte {offset})", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
        /// Where, in decompressed bytes.
        offset: u64,
    },
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
}
