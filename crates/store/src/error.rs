//! Errors of reading and writing run directories, with advice.

use std::path::{Path, PathBuf};

/// Error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The target exists and must not be replaced.
    #[error("{} exists already; choose another name or replace it (--force; in Python overwrite=True)", path.display())]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// The directory to be replaced is not a run, and is never deleted.
    #[error("{} exists and is not a Stackline run, so it is not replaced; choose another name", path.display())]
    Foreign {
        /// The target.
        path: PathBuf,
    },
    /// The path is not a run directory.
    #[error("{} is not a Stackline run: {detail}", path.display())]
    NotARun {
        /// Path.
        path: PathBuf,
        /// Missing or unexpected content.
        detail: String,
    },
    /// The directory has tables but no manifest.
    #[error("{} is incomplete, because its import did not finish; import the source again", path.display())]
    Incomplete {
        /// Directory.
        path: PathBuf,
    },
    /// A later Stackline wrote the run.
    #[error(
        "{} has format version {found}, but this Stackline reads versions 1 to {supported}; update Stackline, or \
         import the source again",
        path.display()
    )]
    Newer {
        /// Manifest.
        path: PathBuf,
        /// Version of the manifest.
        found: u64,
        /// Newest supported version.
        supported: u32,
    },
    /// A file of the run has invalid content.
    #[error("{} is damaged: {detail}; import the source again", path.display())]
    Damaged {
        /// File.
        path: PathBuf,
        /// Description of the damage.
        detail: String,
    },
    /// The caller canceled the work; nothing was published.
    #[error("canceled by the user; no run was written")]
    Cancelled,
    /// The operating system reported an error.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Attempted action, such as "write".
        action: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A table could not be encoded.
    #[error("cannot write {}: {detail}", path.display())]
    Encode {
        /// File.
        path: PathBuf,
        /// Error of the encoder.
        detail: String,
    },
    /// The model to write is inconsistent (an error of the caller).
    #[error("trace {trace} cannot be written: {detail}")]
    Invalid {
        /// Name of the trace.
        trace: String,
        /// Violated rule.
        detail: String,
    },
    /// The requested trace does not exist.
    #[error("the run has no trace {index}: it has {count} traces, numbered from 0")]
    NoSuchTrace {
        /// Requested index.
        index: usize,
        /// Number of traces.
        count: usize,
    },
    /// A result table is inconsistent (an error of the caller).
    #[error("table {name} cannot be converted: {detail}")]
    Table {
        /// Name of the table.
        name: String,
        /// Violated rule.
        detail: String,
    },
}

impl Error {
    /// Create a function that converts an error of the operating system, during `action` on a path, to an error of the
    /// store.
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Self::Io { path, action, source }
    }

    /// Create the error that a file or directory is damaged, with details.
    pub(crate) fn damaged(path: &Path, detail: impl std::fmt::Display) -> Self {
        Self::Damaged { path: path.to_path_buf(), detail: detail.to_string() }
    }

    /// Convert an error of the Parquet encoder; errors of the operating system (disk full) become [`Self::Io`].
    pub(crate) fn encode(path: &Path, error: parquet::errors::ParquetError) -> Self {
        match error {
            parquet::errors::ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
                Ok(source) => Self::Io { path: path.to_path_buf(), action: "write", source: *source },
                Err(other) => Self::Encode { path: path.to_path_buf(), detail: other.to_string() },
            },
            other => Self::Encode { path: path.to_path_buf(), detail: other.to_string() },
        }
    }
}
