//! Why nothing at all could be read. Anything less is a problem in the read report.

use stackline_model::{ReadReport, Severity};
use std::path::{Path, PathBuf};

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
    #[error("{}: no trace found. Give a torch.profiler or Chrome trace (JSON, also compressed), or a directory of traces", path.display())]
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
    /// A directory holds no recording.
    #[error("{}: no recorded process found. Record with `stackline record -o RUN -- COMMAND`", path.display())]
    NoStreams {
        /// The directory.
        path: PathBuf,
    },
    /// A recording holds a tree only.
    #[error("{}: no trace, because the recording has no single calls: {}. Show the call tree with `stackline calls`, or record with `stackline record --mode trace`", path.display(), no_single_calls(report))]
    NoSingleCalls {
        /// The directory.
        path: PathBuf,
        /// What was met in its streams.
        report: Box<ReadReport>,
    },
    /// A profile, which has sums of calls and no trace.
    #[error("{}: a profile with sums per call path, not a trace with times. Open it alone with `stackline calls`, `diff` or `view`", path.display())]
    OnlyCalls {
        /// The file.
        path: PathBuf,
    },
    /// A file of memory, which has no trace of what ran.
    #[error("{}: {} contains only memory data, no execution trace. Analyze it with `stackline memory`", path.display(), in_words(format))]
    OnlyMemory {
        /// The file or folder.
        path: PathBuf,
        /// Name of its format.
        format: &'static str,
    },
    /// A trace, which has no sums of calls.
    #[error("{}: a trace, not a profile", path.display())]
    NoCalls {
        /// The file.
        path: PathBuf,
    },
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
}

/// A format by its name, as part of a sentence.
fn in_words(format: &str) -> String {
    let article = if format.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    match format {
        "drgpum" => "a DrGPUM folder".to_owned(),
        "snapshot" => "a memory snapshot".to_owned(),
        "memory-text" => "a memory text file".to_owned(),
        _ => format!("{article} {}", format.replace('-', " ")),
    }
}

/// Why a recording has no single calls: those that it had may be lost.
#[must_use]
pub fn no_single_calls(report: &ReadReport) -> String {
    let lost = report.problems.iter().find(|problem| problem.severity == Severity::Lost);
    match lost {
        Some(problem) => format!("single calls were lost ({}: {})", problem.message, problem.example),
        None => "only sums per call path were recorded, or no operator ran".to_owned(),
    }
}

impl Error {
    /// Readers know a file by the label of its trace; callers need the path that they gave. Inside an archive, what
    /// follows the label stays.
    pub(crate) fn located(mut self, label: &str, file: &Path) -> Self {
        if let Self::Malformed { path, .. }
        | Self::Unsupported { path, .. }
        | Self::NoTrace { path }
        | Self::OnlyCalls { path }
        | Self::OnlyMemory { path, .. }
        | Self::NoCalls { path } = &mut self
            && let Ok(rest) = path.strip_prefix(label)
        {
            *path = if rest.as_os_str().is_empty() { file.to_owned() } else { file.join(rest) };
        }
        self
    }
}
