//! The parts of a run, and the one message for a part that an input lacks.

use stackline_model::ReadReport;
use std::fmt;
use std::path::{Path, PathBuf};

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Single events on tracks, one trace per rank or file.
    Traces,
    /// The calling context tree of a recording or a profile.
    Profile,
    /// Objects, allocator calls and accesses.
    Memory,
}

/// A part that an input lacks: what it holds, which command shows that, and how to record what is missing.
#[derive(Clone, Debug)]
pub struct Lacks {
    /// The input; of files of memory alone maybe several.
    pub paths: Vec<PathBuf>,
    /// The missing part.
    pub needed: Part,
    /// Parts that the input holds, as far as it was read.
    pub has: Vec<Part>,
    /// Diagnostics of the streams of a recording.
    pub report: ReadReport,
    /// Whether it is one of several inputs.
    pub is_one_of_several: bool,
}

impl std::error::Error for Lacks {}

impl Lacks {
    pub(crate) fn new(path: &Path, needed: Part, has: impl Into<Vec<Part>>) -> Self {
        let (paths, report) = (vec![path.to_owned()], ReadReport::default());
        Self { paths, needed, has: has.into(), report, is_one_of_several: false }
    }

    /// The command that shows what the input holds instead, and its inputs; `None` if that is the traces that most commands show.
    pub fn next(&self) -> Option<(&'static str, &[PathBuf])> {
        match (self.has.first()?, self.paths.len()) {
            (Part::Traces, _) => None,
            (Part::Profile, _) => Some(("calls", &self.paths)),
            (Part::Memory, 1) => Some(("memory", &self.paths)),
            (Part::Memory, _) => Some(("diff", &self.paths[..2])),
        }
    }

    /// What the input is, by what it holds, and where to look at that.
    fn held(&self, path: &Path) -> (String, String) {
        let shown = path.display();
        match self.has.first() {
            None => Default::default(),
            Some(Part::Traces) => (" is a trace, and".to_owned(), format!("`stackline report {shown}`")),
            Some(Part::Memory) => (
                " is of memory, and".to_owned(),
                format!(
                    "`stackline memory {shown}`, in the browser with `stackline view {shown}`, or keep that page with `stackline report \
                     {shown} --html out.html`"
                ),
            ),
            Some(Part::Profile) => {
                let kind = match (path.is_dir(), self.needed) {
                    (false, _) => "profile (it has sums of calls, and not when each was)".to_owned(),
                    (true, Part::Traces) => {
                        format!("recording without single calls ({})", stackline_ingest::no_single_calls(&self.report))
                    }
                    (true, _) => "recording of calls".to_owned(),
                };
                (format!(" is a {kind}, and"), format!("`stackline calls {shown}`"))
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
                "these are {count} files of memory, and none of them holds a trace of what ran; look at one with `stackline memory \
                 {first}`, or compare two with `stackline diff {first} {second}`"
            );
        }
        let path = self.paths.first().map_or(Path::new(""), PathBuf::as_path);
        let ((kind, look), path) = (self.held(path), path.display());
        let (missing, how) = match self.needed {
            Part::Traces => {
                ("trace of what ran", "record one with `stackline record --mode trace` or `torch.profiler.profile`")
            }
            Part::Profile => ("recording of calls", "`stackline record -o RUN -- COMMAND` makes one"),
            Part::Memory => (
                "memory events",
                "record with `stackline record --mode trace --memory` or `torch.profiler.profile(profile_memory=True)`, or give a \
                 memory snapshot (`torch.cuda.memory._dump_snapshot()`)",
            ),
        };
        write!(f, "{path}{kind} holds no {missing}; ")?;
        if !look.is_empty() {
            write!(f, "look at it with {look}; ")?;
        }
        if self.is_one_of_several {
            write!(
                f,
                "only traces are looked at together: give one input at a time (of recordings of ranks, --rank N chooses one), or `stackline \
                 diff` two; "
            )?;
        }
        f.write_str(how)
    }
}
