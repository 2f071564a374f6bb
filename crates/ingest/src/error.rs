//! Errors of inputs that cannot be read at all. Lesser problems are in the read report.

use crate::content_kinds::ContentKind;
use stackline_model::{Problem, ReadReport, Severity};
use std::path::{Path, PathBuf};

/// Failure to read an input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened or read.
    #[error("{}: cannot read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The temporary folder cannot hold the unpacked copy of an input.
    #[error("{}: cannot copy the unpacked input to the temporary folder {}: {reason}. Set TMPDIR to a folder with more free space, or give the unpacked file, which needs no copy", path.display(), folder.display())]
    TemporaryCopy {
        /// The file.
        path: PathBuf,
        /// The temporary folder.
        folder: PathBuf,
        /// Reason with the size of the incomplete copy.
        reason: String,
    },
    /// The input contains no trace.
    #[error("{}: no trace found. Give a torch.profiler or Chrome trace (JSON, also compressed), or a directory of traces", path.display())]
    NoTrace {
        /// The file or directory.
        path: PathBuf,
    },
    /// The format is not supported by this version.
    #[error("{}: {found}; {advice}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The format that was recognized.
        found: String,
        /// Advice on how to get a supported input.
        advice: String,
    },
    /// The content is truncated or invalid before the first event.
    #[error("{}: not a trace: {reason} (byte {offset})", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Description of the fault.
        reason: String,
        /// Offset of the fault, in decompressed bytes.
        offset: u64,
    },
    /// The directory contains no recording.
    #[error("{}: no recorded process found. Record with `stackline record -o RUN -- COMMAND`", path.display())]
    NoStreams {
        /// The directory.
        path: PathBuf,
    },
    /// The recording contains only a call tree.
    #[error("{}: the recording contains no individual calls with their times, so it has no trace: {}. Show the call tree with `stackline calls`, or record with `stackline record --mode trace`", path.display(), no_single_calls(report))]
    NoSingleCalls {
        /// The directory.
        path: PathBuf,
        /// Read report of the streams.
        report: Box<ReadReport>,
    },
    /// The input contains other content than the caller requested.
    #[error("{}: {}", path.display(), content.in_words())]
    OtherContent {
        /// The file or folder.
        path: PathBuf,
        /// Kind of its content.
        content: ContentKind,
    },
    /// The caller stopped the read.
    #[error("cancelled")]
    Cancelled,
}

/// Message that explains why a recording has no individual calls: their records are missing, or only totals were
/// recorded.
#[must_use]
pub fn no_single_calls(report: &ReadReport) -> String {
    let lost = report.problems.iter().find(|problem| problem.severity == Severity::Lost);
    match lost {
        Some(Problem { message, example, .. }) => {
            format!("records of individual calls are missing: {message} ({example})")
        }
        None => "only totals per call path were recorded, or no operator ran".to_owned(),
    }
}

impl Error {
    /// Replace the trace label at the start of an error's path by the caller's file path. A suffix after the label,
    /// such as an archive member, is kept.
    pub(crate) fn located(mut self, label: &str, file: &Path) -> Self {
        if let Self::Malformed { path, .. }
        | Self::Unsupported { path, .. }
        | Self::TemporaryCopy { path, .. }
        | Self::NoTrace { path }
        | Self::OtherContent { path, .. } = &mut self
            && let Ok(rest) = path.strip_prefix(label)
        {
            *path = if rest.as_os_str().is_empty() { file.to_owned() } else { file.join(rest) };
        }
        self
    }
}
