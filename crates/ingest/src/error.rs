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
    /// A directory holds no recording.
    #[error("{}: no recorded process found; `stackline record -o RUN -- COMMAND` makes a recording", path.display())]
    NoStreams {
        /// The directory.
        path: PathBuf,
    },
    /// A recording holds a tree only.
    #[error("{}: the recording has no single calls, of which traces are made: {}; `stackline calls` shows it, and `stackline record --mode trace` records single calls", path.display(), no_single_calls(report))]
    NoSingleCalls {
        /// The directory.
        path: PathBuf,
        /// What was met in its streams.
        report: Box<ReadReport>,
    },
    /// A profile, which has sums of calls and no trace.
    #[error("{}: a profile: it has sums of calls, and not when each was; `stackline calls`, `diff` and `view` show it, by itself", path.display())]
    OnlyCalls {
        /// The file.
        path: PathBuf,
    },
    /// A file of memory, which has no trace of what ran.
    #[error("{}: {} contains only memory data, no trace of what ran; look at it with `stackline memory`", path.display(), in_words(format))]
    OnlyMemory {
        /// The file or folder.
        path: PathBuf,
        /// Name of its format.
        format: &'static str,
    },
    /// A trace, which has no sums of calls.
    #[error("{}: a trace, and no profile", path.display())]
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
        "drgpum" => "a folder of DrGPUM's".to_owned(),
        "snapshot" => "a memory snapshot".to_owned(),
        "memory-text" => "our text form of memory".to_owned(),
        _ => format!("{article} {}", format.replace('-', " ")),
    }
}

/// Why a recording has no single calls: those that it had may be lost.
#[must_use]
pub fn no_single_calls(report: &ReadReport) -> String {
    let lost = report.problems.iter().find(|problem| problem.severity == Severity::Lost);
    match lost {
        Some(problem) => format!("they are lost ({}: {})", problem.message, problem.example),
        None => "it keeps sums of calls, or no operator ran in it".to_owned(),
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
