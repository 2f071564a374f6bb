//! Structured access: each kernel accesses its own slice of an object (definition 3.10 of the paper, for kernels of any
//! name). Launches that access the same bytes share a slice, like the kernels of one iteration in the paper's example
//! (GRAMSCHM). Not all slices may be needed at once.

use super::{Certainty, Measure, Pattern, PatternMatch, intra};
use crate::ObjectUsage;
use intra::ByteAccess;
use stackline_model::MemoryCallId;

/// Append a match to `found` for each object with separate slices per kernel.
pub(super) fn detect(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>) {
    for (object, touches) in intra::by_object(usage.touches()) {
        let (Some(bytes), [first, .., last]) = (usage.bytes(object), touches) else { continue };
        let slices = slices_of_accesses(touches);
        let (needed, touched) = (most_at_once(&slices), slices.iter().map(Slice::bytes).sum::<u64>());
        if needed == touched || count_groups(&slices, touches) < 2 {
            continue;
        }
        let found_here = PatternMatch::new(Pattern::StructuredAccess, object, bytes.saturating_sub(needed))
            .between(first.call, last.call, usage.kernels_between(first.call, last.call))
            .with_certainty(usage, 0..0);
        // Unordered launches may need their slices concurrently on the device.
        let in_order = if usage.is_used_in_order(object) { Certainty::Exact } else { Certainty::Inferred };
        let largest = slices.iter().map(Slice::bytes).max().unwrap_or(0);
        let measure = Some(Measure::Slices { count: slices.len() as u32, largest });
        found.push(PatternMatch { measure, certainty: found_here.certainty.max(in_order), ..found_here });
    }
}

/// Maximum bytes of concurrently needed slices, if each exists only while it is accessed.
fn most_at_once(slices: &[Slice]) -> u64 {
    let begin_and_end = |slice: &Slice| [(slice.first.0, false, slice.bytes()), (slice.last.0, true, slice.bytes())];
    let mut changes: Vec<(u32, bool, u64)> = slices.iter().flat_map(begin_and_end).collect();
    changes.sort_unstable();
    let (mut now, mut most) = (0u64, 0u64);
    for (_, ends, bytes) in changes {
        now = if ends { now - bytes } else { now + bytes };
        most = most.max(now);
    }
    most
}

/// Number of groups of slices, where slices that one launch accesses are in the same group. Accesses are sorted by
/// call.
fn count_groups(slices: &[Slice], touches: &[ByteAccess]) -> usize {
    let slice_of = |touch: &ByteAccess| slices.partition_point(|slice| slice.end <= touch.begin);
    let mut parent: Vec<usize> = (0..slices.len()).collect();
    let mut count = slices.len();
    for of_call in touches.chunk_by(|a, b| a.call == b.call) {
        let first = slice_of(&of_call[0]);
        for touch in &of_call[1..] {
            let (one, other) = (root(&mut parent, first), root(&mut parent, slice_of(touch)));
            if one != other {
                parent[other] = one;
                count -= 1;
            }
        }
    }
    count
}

/// Representative of a set in a union-find forest, with path halving.
fn root(parent: &mut [usize], mut at: usize) -> usize {
    while parent[at] != at {
        parent[at] = parent[parent[at]];
        at = parent[at];
    }
    at
}

/// Slice of an object that is always accessed separately, and its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) first: MemoryCallId,
    pub(crate) last: MemoryCallId,
}

impl Slice {
    /// Size of the slice in bytes.
    fn bytes(&self) -> u64 {
        self.end - self.begin
    }
}

/// Slices of an object: its accessed byte ranges, joined where they overlap, each with its first and last call.
pub(crate) fn slices_of_accesses(touches: &[ByteAccess]) -> Vec<Slice> {
    let mut sorted = touches.to_vec();
    sorted.sort_unstable_by_key(|touch| (touch.begin, touch.end));
    let mut slices: Vec<Slice> = Vec::new();
    for touch in sorted {
        match slices.last_mut().filter(|slice| touch.begin < slice.end) {
            Some(slice) => {
                slice.end = slice.end.max(touch.end);
                slice.first = slice.first.min(touch.call);
                slice.last = slice.last.max(touch.call);
            }
            None => slices.push(Slice { begin: touch.begin, end: touch.end, first: touch.call, last: touch.call }),
        }
    }
    slices
}
