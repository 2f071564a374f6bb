//! What is wanted of an input, and what it gave.

use crate::Error;
use crate::runs::Part;
use stackline_model::{CallingContextTree, MemoryTrace, Trace};

/// Kinds of content that are read; others are refused by their names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) traces: bool,
    pub(crate) calls: bool,
    pub(crate) memory: bool,
}

impl Wanted {
    const NOTHING: Self = Self { traces: false, calls: false, memory: false };
    pub(crate) const TRACES: Self = Self { traces: true, ..Self::NOTHING };
    pub(crate) const CALLS: Self = Self { calls: true, ..Self::NOTHING };
    pub(crate) const MEMORY: Self = Self { memory: true, ..Self::NOTHING };
    pub(crate) const TRACES_AND_MEMORY: Self = Self { traces: true, memory: true, ..Self::NOTHING };

    /// Why a trace that begins like this is refused.
    pub(crate) fn refusal_of_trace(self, label: &str, head: &[u8]) -> Error {
        if self.calls { Error::NoCalls { path: label.into() } } else { crate::memory::formats::no_memory(label, head) }
    }
}

/// What one input gave, and members of archives that are nothing of it.
pub(crate) struct Found {
    pub(crate) wanted: Wanted,
    pub(crate) traces: Vec<Trace>,
    /// Profiles.
    pub(crate) calls: Vec<CallingContextTree>,
    pub(crate) memory: Vec<MemoryTrace>,
    /// Label and reason.
    pub(crate) skipped: Vec<(String, Error)>,
    /// Files that are read with others of their run.
    pub(crate) parts: Vec<Part>,
}

impl Found {
    /// Nothing yet.
    pub(crate) fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            traces: Vec::new(),
            calls: Vec::new(),
            memory: Vec::new(),
            skipped: Vec::new(),
            parts: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.traces.is_empty() && self.parts.is_empty() && self.calls.is_empty() && self.memory.is_empty()
    }
}
