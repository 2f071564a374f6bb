//! Structured access: each launch of a kernel touches another slice of an object, and no two slices overlap.
//!
//! Judged per kernel name, as the paper's example is: other kernels may touch the same slices. The slices of the object
//! are what is left when everything that overlaps is put together.

use super::{Measure, Pattern, PatternMatch, intra};
use crate::Facts;
use intra::Touch;
use stackline_model::{MemoryCallId, StrId};
use std::collections::BTreeMap;

pub(super) fn detect(facts: &Facts<'_>, found: &mut Vec<PatternMatch>) {
    for (object, touches) in intra::by_object(facts.touches()) {
        let Some(bytes) = facts.bytes(object) else { continue };
        let Some((first, last)) = disjoint_kernel(facts, touches) else { continue };
        let slices = overlapping(touches);
        if slices.len() < 2 {
            continue;
        }
        let largest = slices.iter().map(|slice| slice.end - slice.begin).max().unwrap_or(0);
        let kernels = facts.kernels_between(first, last);
        let found_here = PatternMatch::new(Pattern::StructuredAccess, object, bytes.saturating_sub(largest))
            .between(first, last, kernels)
            .judged(facts, 0..0);
        let measure = Some(Measure::Slices { count: slices.len() as u32, largest });
        found.push(PatternMatch { measure, ..found_here });
    }
}

/// The first and last launch of a kernel (by name) that is launched at least twice, each time on bytes of its own.
fn disjoint_kernel(facts: &Facts<'_>, touches: &[Touch]) -> Option<(MemoryCallId, MemoryCallId)> {
    let mut launches: BTreeMap<StrId, Vec<Touch>> = BTreeMap::new();
    for touch in touches {
        launches.entry(facts.trace.calls.name[touch.call.index()]).or_default().push(*touch);
    }
    launches.into_values().find_map(|mut touches| {
        let (first, last) = (touches.first()?.call, touches.last()?.call);
        touches.sort_unstable_by_key(|touch| (touch.begin, touch.end));
        let mut reach = (0, touches.first()?.call);
        let disjoint = touches.iter().all(|touch| {
            let alone = touch.begin >= reach.0 || touch.call == reach.1;
            if touch.end >= reach.0 {
                reach = (touch.end, touch.call);
            }
            alone
        });
        (disjoint && first != last).then_some((first, last))
    })
}

/// A part of an object that is always touched on its own, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) first: MemoryCallId,
    pub(crate) last: MemoryCallId,
}

/// Touches, put together where they overlap.
pub(crate) fn overlapping(touches: &[Touch]) -> Vec<Slice> {
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
