//! Kinds of content (traces, call trees, memory) that a caller requests, and the content found in an input.

use crate::Error;
use crate::runs::PendingFile;
use stackline_model::{CallingContextTree, MemoryTrace, Trace};

/// Kind of content of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentKind {
    /// Events with their times.
    Trace,
    /// Totals per call path, without events.
    Profile,
    /// Memory data, without an execution trace.
    Memory,
}

impl ContentKind {
    /// Error for an input of this kind, although the caller requested other content.
    pub(crate) fn refusal(self, label: &str) -> Error {
        Error::OtherContent { path: label.into(), content: self }
    }

    /// Second part of the error message for an input of this kind.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            // Callers that request memory get another error.
            Self::Trace => "the input is a trace, not a profile",
            Self::Profile => "the input is a profile with totals per call path, not a trace with event times",
            Self::Memory => "the input contains only memory data, no execution trace",
        }
    }
}

/// Kinds of content to read; other kinds are refused with an error that names them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContentKinds {
    pub(crate) traces: bool,
    pub(crate) calls: bool,
    pub(crate) memory: bool,
}

impl ContentKinds {
    const NOTHING: Self = Self { traces: false, calls: false, memory: false };
    pub(crate) const TRACES: Self = Self { traces: true, ..Self::NOTHING };
    pub(crate) const CALLS: Self = Self { calls: true, ..Self::NOTHING };
    pub(crate) const MEMORY: Self = Self { memory: true, ..Self::NOTHING };
    pub(crate) const TRACES_AND_MEMORY: Self = Self { traces: true, memory: true, ..Self::NOTHING };

    /// Error for an input that contains a trace (with these first bytes), although the caller requested other content.
    pub(crate) fn refusal_of_trace(self, label: &str, head: &[u8]) -> Error {
        if self.calls { ContentKind::Trace.refusal(label) } else { crate::memory::formats::no_memory(label, head) }
    }
}

/// Traces, call trees and memory traces found in one input, with the skipped archive members.
pub(crate) struct Found {
    pub(crate) requested: ContentKinds,
    /// Number of threads that parse an uncompressed file; 0 uses all cores.
    pub(crate) threads: usize,
    pub(crate) traces: Vec<Trace>,
    /// Profiles.
    pub(crate) calls: Vec<CallingContextTree>,
    pub(crate) memory: Vec<MemoryTrace>,
    /// Labels of skipped members with the reason.
    pub(crate) skipped: Vec<(String, Error)>,
    /// Files that are read together with others of their run.
    pub(crate) parts: Vec<PendingFile>,
}

impl Found {
    /// Create an empty collection for the content found in an input.
    pub(crate) fn new(requested: ContentKinds) -> Self {
        Self {
            requested,
            threads: 1,
            traces: Vec::new(),
            calls: Vec::new(),
            memory: Vec::new(),
            skipped: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Check if no content and no file of a run was found; skipped archive members do not count.
    pub(crate) fn is_empty(&self) -> bool {
        self.traces.is_empty() && self.parts.is_empty() && self.calls.is_empty() && self.memory.is_empty()
    }
}
