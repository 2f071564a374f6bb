//! What can go wrong with a run directory, each with what to do about it.

use std::path::{Path, PathBuf};

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The target exists and must not be replaced.
    #[error("{} exists already; choose another name, or allow replacement", path.display())]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// The directory to be replaced is not a run: never deleted.
    #[error("{} exists and is not a Stackline run, so it is not replaced; choose another name", path.display())]
    Foreign {
        /// The target.
        path: PathBuf,
    },
    /// The path is no run directory at all.
    #[error("{} is not a Stackline run: {detail}", path.display())]
    NotARun {
        /// The path.
        path: PathBuf,
        /// What is missing.
        detail: String,
    },
    /// The directory has tables but no manifest.
    #[error("{} is incomplete: the import ended before it wrote the manifest; import the source again", path.display())]
    Incomplete {
        /// The directory.
        path: PathBuf,
    },
    /// The run was written by a later Stackline.
    #[error(
        "{} has format version {found}, but this Stackline reads versions 1 to {supported}; update Stackline, or \
         import the source again",
        path.display()
    )]
    Newer {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest version that we read.
        supported: u32,
    },
    /// A file of the run does not hold what it must.
    #[error("{} is damaged: {detail}; import the source again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// The caller asked to stop; nothing was published.
    #[error("stopped before the end, as asked; no run was written")]
    Cancelled,
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried, such as "write".
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A table could not be encoded.
    #[error("cannot write {}: {detail}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What the encoder said.
        detail: String,
    },
    /// The model to be written contradicts itself (an error of the caller).
    #[error("trace {trace} cannot be written: {detail}")]
    Invalid {
        /// Name of the trace.
        trace: String,
        /// Which rule is broken.
        detail: String,
    },
    /// The caller asked for a trace that the run does not have.
    #[error("the run has {count} traces, no trace {index}")]
    NoSuchTrace {
        /// What was asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A result table contradicts itself (an error of the caller).
    #[error("table {name} cannot be converted: {detail}")]
    Table {
        /// Its name.
        name: String,
        /// Which rule is broken.
        detail: String,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Self::Io { path, action, source }
    }

    pub(crate) fn damaged(path: &Path, detail: impl std::fmt::Display) -> Self {
        Self::Damaged { path: path.to_path_buf(), detail: detail.to_string() }
    }

    /// A failure while encoding; the operating system's errors (disk full) come out as such.
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
