//! Undamaged trace text with a list of edits, which damage the trace.

use std::ops::Range;

use super::Mutation;
use crate::rng::Rng;
use crate::scan::{self, Layout, Member};

/// Document of a trace to be damaged: its text, the byte ranges of its events, and the edits so far.
#[derive(Debug)]
pub(super) struct Doc<'a> {
    pub(super) text: &'a [u8],
    pub(super) layout: Layout,
    pub(super) events: Vec<Range<usize>>,
    edits: Vec<(Range<usize>, Vec<u8>)>,
}

impl<'a> Doc<'a> {
    /// Parse an undamaged trace; `None` if `text` is not well-formed.
    pub(super) fn new(text: &'a [u8]) -> Option<Self> {
        let layout = scan::layout(text)?;
        let events = scan::elements(text, &layout.events)?;
        Some(Self { text, layout, events, edits: Vec::new() })
    }

    /// Positions of the members (keys and values) of event `index` in the trace text.
    pub(super) fn members(&self, index: usize) -> Vec<Member> {
        scan::members(self.text, self.events[index].start).map_or_else(Vec::new, |found| found.0)
    }

    /// Positions of key and value of member `key` of event `index`.
    pub(super) fn member(&self, index: usize, key: &str) -> Option<Member> {
        self.members(index).into_iter().find(|m| m.name(self.text) == key.as_bytes())
    }

    /// Positions of key and value of argument `key` of event `index`.
    pub(super) fn argument(&self, index: usize, key: &str) -> Option<Member> {
        self.arguments(index).into_iter().find(|m| m.name(self.text) == key.as_bytes())
    }

    /// Positions of the arguments of event `index` in the trace text.
    pub(super) fn arguments(&self, index: usize) -> Vec<Member> {
        let args = self.member(index, "args").filter(|m| self.text[m.value.start] == b'{');
        args.and_then(|m| scan::members(self.text, m.value.start)).map_or_else(Vec::new, |found| found.0)
    }

    /// Text of member `key` of event `index`, quotes included; empty if it has none.
    pub(super) fn value(&self, index: usize, key: &str) -> &'a [u8] {
        self.member(index, key).map_or(&[], |m| &self.text[m.value])
    }

    /// True if event `index` is a slice of one of these categories (lower case, as in current versions of Kineto).
    pub(super) fn is_slice_of(&self, index: usize, categories: &[&str]) -> bool {
        let found = self.value(index, "cat");
        self.value(index, "ph") == b"\"X\""
            && found.len() > 2
            && categories.iter().any(|c| c.as_bytes() == &found[1..found.len() - 1])
    }

    /// True if event `index` is a slice on a GPU.
    pub(super) fn on_gpu(&self, index: usize) -> bool {
        self.is_slice_of(index, &["kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"])
    }

    /// True if event `index` is a slice.
    pub(super) fn is_slice(&self, index: usize) -> bool {
        self.value(index, "ph") == b"\"X\""
    }

    /// Indices of all events of the trace that satisfy `is_candidate`, in file order.
    pub(super) fn all(&self, is_candidate: impl Fn(&Self, usize) -> bool) -> Vec<usize> {
        (0..self.events.len()).filter(|&index| is_candidate(self, index)).collect()
    }

    /// Indices of one to `most` random events that satisfy `is_candidate`; empty if no event does.
    pub(super) fn some(&self, rng: &mut Rng, most: usize, is_candidate: impl Fn(&Self, usize) -> bool) -> Vec<usize> {
        let found = self.all(is_candidate);
        let count = 1 + rng.below(most);
        rng.sample(found.len(), count).into_iter().map(|i| found[i]).collect()
    }

    /// Add an edit that replaces `range` of the trace text with `bytes`.
    pub(super) fn replace(&mut self, range: Range<usize>, bytes: impl Into<Vec<u8>>) {
        self.edits.push((range, bytes.into()));
    }

    /// Add an edit that inserts `bytes` before the byte at `at` of the trace text.
    pub(super) fn insert(&mut self, at: usize, bytes: impl Into<Vec<u8>>) {
        self.replace(at..at, bytes);
    }

    /// Add an edit that adds arguments (text without the enclosing braces) to event `index`.
    pub(super) fn add_arguments(&mut self, index: usize, text: &str) {
        match self.member(index, "args").filter(|m| self.text[m.value.start] == b'{') {
            Some(args) => {
                let empty = self.arguments(index).is_empty();
                self.insert(args.value.start + 1, if empty { text.to_owned() } else { format!("{text}, ") });
            }
            None => self.insert(self.events[index].end - 1, format!(", \"args\": {{{text}}}")),
        }
    }

    /// Add an edit that appends whole events (text, separated by commas) to the event array.
    pub(super) fn add_events(&mut self, text: &str) {
        match self.events.last() {
            Some(last) => self.insert(last.end, format!(",\n  {text}")),
            None => self.insert(self.layout.events.start + 1, text),
        }
    }

    /// Add an edit that adds a member (text `"key": value`) to the header; returns false for a bare array.
    pub(super) fn add_header(&mut self, text: &str) -> bool {
        if self.layout.object {
            self.insert(scan::skip_space(self.text, 0) + 1, format!("\n  {text},"));
        }
        self.layout.object
    }

    /// Apply the edits to the trace text. If two overlap, the later one is dropped.
    pub(super) fn finish(mut self) -> Mutation {
        self.edits.sort_by_key(|edit| edit.0.start);
        let (mut bytes, mut offsets, mut done) = (Vec::with_capacity(self.text.len() + 4096), Vec::new(), 0);
        for (range, new) in self.edits {
            if range.start < done || new == self.text[range.clone()] {
                continue;
            }
            bytes.extend_from_slice(&self.text[done..range.start]);
            offsets.push(bytes.len());
            bytes.extend_from_slice(&new);
            done = range.end;
        }
        bytes.extend_from_slice(&self.text[done..]);
        Mutation { bytes, offsets }
    }
}
