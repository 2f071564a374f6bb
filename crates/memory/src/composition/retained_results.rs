//! Results that a line keeps from pass to pass without a backward pass, such as logits of an evaluation in a list.

use crate::Rules;
use crate::iterations::{Iterations, Origin, is_in_cache, is_steady, last_allocation};
use crate::source_location::frame_of;
use crate::suggest::callers::Callers;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{Frame, MemoryObjectId, MemoryStackId, MemoryTrace};
use std::collections::BTreeSet;

/// Set of the objects that are kept results: lines of the program keep them from pass to pass.
pub(super) struct KeptResults {
    iterations: Iterations,
    objects: FxHashSet<MemoryObjectId>,
}

/// Objects that one line allocated, and the iterations that allocated objects that are still live two iterations later.
#[derive(Default)]
struct Line {
    left: BTreeSet<u32>,
    objects: Vec<MemoryObjectId>,
}

impl KeptResults {
    /// Find kept results in a trace without backward passes.
    pub(super) fn new(trace: &MemoryTrace, callers: &Callers<'_>) -> Self {
        let least = Rules::default().leak_iterations;
        let iterations = Iterations::from_trace(trace, callers, least);
        let last_allocation = last_allocation(trace);
        // Iteration of an object's free; none if it is never freed, or only at the end of the program.
        let freed_in = |object: MemoryObjectId| {
            let freed = trace.objects.freed_by[object.index()].some().filter(|call| call.0 < last_allocation)?;
            iterations.at(freed)
        };
        let mut frames: FxHashMap<MemoryStackId, Option<Frame>> = FxHashMap::default();
        let mut lines: FxHashMap<Frame, Line> = FxHashMap::default();
        let made = trace.objects.ids().filter(|object| matches!(callers.phase_of(*object), "forward" | "other"));
        for object in made.filter(|_| matches!(iterations.origin, Origin::Passes | Origin::Steps)) {
            let stack = trace.objects.stack[object.index()];
            let frame = *frames.entry(stack).or_insert_with(|| {
                frame_of(trace, stack).filter(|frame| frame.line().is_some() && !is_in_cache(trace, stack))
            });
            let Some(frame) = frame else { continue };
            let Some(iteration) = iterations.at(trace.objects.allocated_by[object.index()]) else { continue };
            let line = lines.entry(frame).or_default();
            line.objects.push(object);
            // Objects that one pass hands to the next are in use.
            if freed_in(object).is_none_or(|freed| freed > iteration + 1) && iteration + 1 < iterations.len() {
                line.left.insert(iteration);
            }
        }
        let before_last = iterations.len().saturating_sub(1);
        let grows = |line: &Line| {
            is_steady(&line.left, before_last, least)
                && (iterations.is_sure || restarts(trace, &line.objects) < MIN_RETURNS)
        };
        let outlives = |object: &MemoryObjectId| {
            let made = iterations.at(trace.objects.allocated_by[object.index()]);
            freed_in(*object).is_none_or(|freed| Some(freed) > made)
        };
        let growing = lines.into_values().filter(grows).flat_map(|line| line.objects);
        let objects = growing.filter(outlives).collect();
        Self { iterations, objects }
    }

    /// True if an object is a kept result.
    pub(super) fn has(&self, object: MemoryObjectId) -> bool {
        self.objects.contains(&object)
    }

    /// Number of passes that allocated these objects, and mean bytes per pass.
    pub(super) fn passes(&self, trace: &MemoryTrace, objects: &[MemoryObjectId]) -> (u32, u64) {
        let iteration = |object: &MemoryObjectId| self.iterations.at(trace.objects.allocated_by[object.index()]);
        let passes = objects.iter().filter_map(iteration).collect::<BTreeSet<u32>>().len().max(1);
        let bytes = objects.iter().map(|object| trace.objects.bytes[object.index()]).fold(0, u64::saturating_add);
        (u32::try_from(passes).unwrap_or(u32::MAX), bytes / passes as u64)
    }
}

/// If iterations may be layers, a line does not grow if all of its objects are freed this many times before it
/// allocates more: then they are activations of separate passes.
const MIN_RETURNS: usize = 2;

/// Number of times that a line allocates after all its earlier objects are freed.
fn restarts(trace: &MemoryTrace, objects: &[MemoryObjectId]) -> usize {
    let never = u32::MAX;
    let life = |object: &MemoryObjectId| {
        let [made, freed] = [&trace.objects.allocated_by, &trace.objects.freed_by].map(|call| call[object.index()]);
        (made.some().map_or(0, |call| call.0), freed.some().map_or(never, |call| call.0))
    };
    let mut lives: Vec<(u32, u32)> = objects.iter().map(life).collect();
    lives.sort_unstable();
    let mut end = lives.first().map_or(never, |(_, freed)| *freed);
    let mut returns = 0;
    for (made, freed) in lives.into_iter().skip(1) {
        returns += usize::from(end < made);
        end = end.max(freed);
    }
    returns
}
