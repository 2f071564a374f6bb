//! Parts of a run, and the error message for a part that a command needs and the input lacks.

use crate::Error;
use crate::calls::is_profile;
use crate::run::is_read_once;
use stackline_ingest::ContentKind;
use stackline_ingest::memory::{as_memory_error, is_memory_file};
use stackline_model::ReadReport;
use std::fmt;
use std::path::{Path, PathBuf};

/// Part of a run: traces, profile or memory data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Single events on tracks, one trace per rank or file.
    Traces,
    /// The calling context tree of a recording or a profile.
    Profile,
    /// Objects, allocator calls and accesses.
    Memory,
}

impl From<ContentKind> for Part {
    fn from(content: ContentKind) -> Self {
        match content {
            ContentKind::Trace => Self::Traces,
            ContentKind::Profile => Self::Profile,
            ContentKind::Memory => Self::Memory,
        }
    }
}

/// Convert an error of a reader of one part: inputs with other content lack this part.
pub(crate) fn read_error(error: stackline_ingest::Error, inputs: &[PathBuf], needed: Part) -> Error {
    use stackline_ingest::Error as Read;
    let is_memory = |path: &PathBuf| is_memory_file(path).unwrap_or(false);
    // Of several memory files, or in an archive of several, no single one is at fault.
    let is_of_all = match &error {
        Read::OtherContent { content, .. } => *content == ContentKind::Memory && inputs.len() > 1,
        error => matches!(error, Read::NoTrace { .. }),
    };
    match (error, inputs) {
        (Read::Cancelled, _) => Error::Cancelled,
        (_, [first, ..]) if needed == Part::Traces && is_of_all && inputs.iter().all(is_memory) => {
            Lacks { paths: inputs.to_vec(), ..Lacks::new(first, needed, [Part::Memory]) }.into()
        }
        (Read::OtherContent { path, content }, _) => {
            Lacks::new(&existing(path, inputs), needed, [Part::from(content)]).into()
        }
        (Read::NoSingleCalls { path, report }, _) => {
            Lacks { report: *report, ..Lacks::new(&path, needed, [Part::Profile]) }.into()
        }
        (error, _) if needed == Part::Memory => as_memory_error(error).into(),
        (error, _) => error.into(),
    }
}

/// Path for the message about the content at `path`: the only input, or the file of a folder, also if the content is a
/// member of an archive.
fn existing(path: PathBuf, inputs: &[PathBuf]) -> PathBuf {
    match inputs {
        [input] if !input.is_dir() => input.clone(),
        _ => {
            let found = path.ancestors().find(|path| path.exists()).map(Path::to_owned);
            found.unwrap_or(path)
        }
    }
}

/// Missing part of an input: the parts that the input has, the command that shows them, and how to record the missing
/// one.
#[derive(Clone, Debug)]
pub struct Lacks {
    /// The input; several only for memory files.
    pub paths: Vec<PathBuf>,
    /// The missing part.
    pub needed: Part,
    /// Known parts of the input.
    pub has: Vec<Part>,
    /// Diagnostics of the streams of a recording.
    pub report: ReadReport,
    /// True if the command has several inputs.
    pub is_one_of_several: bool,
}

impl std::error::Error for Lacks {}

impl Lacks {
    /// Create the error that the input at a path lacks a part.
    pub(crate) fn new(path: &Path, needed: Part, has: impl Into<Vec<Part>>) -> Self {
        let (paths, report) = (vec![path.to_owned()], ReadReport::default());
        Self { paths, needed, has: has.into(), report, is_one_of_several: false }
    }

    /// True if the parts are those of the only input, and can still be read. False for one of several inputs, for a
    /// file in a folder, and for a profile from a pipe.
    pub(crate) fn is_of_all(&self, inputs: &[PathBuf]) -> bool {
        let is_consumed = |path: &PathBuf| self.has == [Part::Profile] && is_read_once(path);
        inputs.len() == 1 && self.paths == inputs && !inputs.iter().any(is_consumed)
    }

    /// Command that shows the content of the input, and the paths to pass to it; `None` for traces, which most commands
    /// show, and for standard input.
    pub fn next(&self) -> Option<(&'static str, &[PathBuf])> {
        if self.paths.iter().any(|path| path == Path::new("-")) {
            return None;
        }
        match (self.has.first()?, self.paths.len()) {
            (Part::Traces, _) => None,
            (Part::Profile, _) => Some(("calls", &self.paths)),
            (Part::Memory, 1) => Some(("memory", &self.paths)),
            (Part::Memory, _) => Some(("diff", &self.paths[..2])),
        }
    }

    /// Two parts of an error message: the input with its content and its missing part, and the commands that show it.
    /// No commands if nothing is known of the input.
    fn held(&self, path: &Path, missing: &str) -> (String, Option<String>) {
        let shown = path.display();
        match self.has.first() {
            None => (format!("{shown} has no {missing}"), None),
            Some(Part::Traces) => (
                format!("{shown} is a trace and has no {missing}"),
                Some(format!("open it with `stackline report {shown}`")),
            ),
            Some(Part::Memory) => (
                format!("{shown} contains only memory data and has no {missing}"),
                Some(format!(
                    "open it with `stackline memory {shown}`, or in the browser with `stackline view {shown}`, or save \
                     the browser page with `stackline report {shown} --html out.html`"
                )),
            ),
            Some(Part::Profile) => {
                let content = match (is_profile(path), self.needed) {
                    (true, _) => format!(
                        "{shown} is a profile (totals per call path, without individual calls) and has no {missing}"
                    ),
                    (false, Part::Traces) => format!(
                        "{shown} is a recording without individual calls ({}) and has no {missing}",
                        stackline_ingest::no_single_calls(&self.report)
                    ),
                    (false, _) => format!("{shown} is a call-tree recording and has no {missing}"),
                };
                (content, Some(format!("open it with `stackline calls {shown}`")))
            }
        }
    }
}

impl fmt::Display for Lacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [first, second, ..] = &self.paths[..] {
            let (count, first, second) = (self.paths.len(), first.display(), second.display());
            return write!(
                f,
                "the {count} inputs contain only memory data, no execution trace. Open one with `stackline memory {first}`, or compare two \
                 with `stackline diff {first} {second}`"
            );
        }
        let path = self.paths.first().map_or(Path::new(""), PathBuf::as_path);
        let (missing, how) = match self.needed {
            Part::Traces => {
                ("execution trace", "record a trace with `stackline record --mode trace` or `torch.profiler.profile`")
            }
            Part::Profile => ("call-tree recording", "record a call tree with `stackline record -o RUN -- COMMAND`"),
            Part::Memory => (
                "memory events",
                "record memory with `stackline record --mode trace --memory` or `torch.profiler.profile(profile_memory=True)`, or pass a \
                 memory snapshot (`torch.cuda.memory._dump_snapshot()`)",
            ),
        };
        let (content, look) = self.held(path, missing);
        write!(f, "{content}; ")?;
        if let Some(look) = look {
            write!(f, "{look}; ")?;
        }
        if self.is_one_of_several {
            write!(
                f,
                "several inputs can be analyzed together only if all are traces: pass one input at a time (--rank N \
                 selects one rank of a recording), or compare two inputs with `stackline diff`; "
            )?;
        }
        f.write_str(how)
    }
}
