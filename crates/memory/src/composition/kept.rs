//! Results that a line of a model leaves behind pass after pass, where no backward pass needs them: logits of an evaluation in a list.

use crate::Rules;
use crate::rounds::{Origin, Rounds, is_in_cache, is_steady};
use crate::source_location::frame_of;
use crate::suggest::callers::Callers;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{MemoryFrame, MemoryObjectId, MemoryStackId, MemoryTrace};
use std::collections::BTreeSet;

/// What such lines made.
pub(super) struct KeptResults {
    rounds: Rounds,
    objects: FxHashSet<MemoryObjectId>,
}

impl KeptResults {
    /// Of a trace without backward passes.
    pub(super) fn new(trace: &MemoryTrace, callers: &Callers<'_>) -> Self {
        let least = Rules::default().leak_rounds;
        let rounds = Rounds::of(trace, callers, least);
        let mut frames: FxHashMap<MemoryStackId, Option<MemoryFrame>> = FxHashMap::default();
        let mut lines: FxHashMap<MemoryFrame, (BTreeSet<u32>, Vec<MemoryObjectId>)> = FxHashMap::default();
        let made = trace.objects.ids().filter(|object| callers.phase_of(*object) == "forward");
        for object in made.filter(|_| matches!(rounds.origin, Origin::Passes | Origin::Steps)) {
            let stack = trace.objects.stack[object.index()];
            let frame = *frames
                .entry(stack)
                .or_insert_with(|| frame_of(trace, stack).filter(|frame| frame.line > 0 && !is_in_cache(trace, stack)));
            let Some(frame) = frame else { continue };
            let Some(round) = rounds.at(trace.objects.allocated_by[object.index()]) else { continue };
            let (left, objects) = lines.entry(frame).or_default();
            objects.push(object);
            // What one pass hands to the next one is in use.
            let freed = trace.objects.freed_by[object.index()].some().and_then(|call| rounds.at(call));
            if freed.is_none_or(|freed| freed > round + 1) && round + 1 < rounds.len() {
                left.insert(round);
            }
        }
        let before_last = rounds.len().saturating_sub(1);
        let growing = lines.into_values().filter(|(left, _)| is_steady(left, before_last, least));
        let objects = growing.flat_map(|(_, objects)| objects).collect();
        Self { rounds, objects }
    }

    pub(super) fn has(&self, object: MemoryObjectId) -> bool {
        self.objects.contains(&object)
    }

    /// The number of passes that made objects, and the bytes that each made.
    pub(super) fn passes(&self, trace: &MemoryTrace, objects: &[MemoryObjectId]) -> (u32, u64) {
        let round = |object: &MemoryObjectId| self.rounds.at(trace.objects.allocated_by[object.index()]);
        let passes = objects.iter().filter_map(round).collect::<BTreeSet<u32>>().len().max(1);
        let bytes = objects.iter().map(|object| trace.objects.bytes[object.index()]).fold(0, u64::saturating_add);
        (u32::try_from(passes).unwrap_or(u32::MAX), bytes / passes as u64)
    }
}
