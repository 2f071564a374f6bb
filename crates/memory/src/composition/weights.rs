//! Parameters that no gradient or optimizer state of equal size identifies: frozen ones, and those of programs without
//! a backward pass.
//!
//! Evidence for a frozen weight: an optimizer step (or backward pass) has ended in which other weights got state
//! (gradients).

use super::sets::{Classes, SIZE_RATIOS};
use super::{Evidence, ObjectUse, SharedLookups, Use};
use crate::source_location::frame_of;
use rustc_hash::FxHashSet;
use stackline_model::{Frame, MemoryCallId, MemoryObjectId};

/// Search for weights among the objects that belong to no set of equal sizes.
pub(super) struct Weights<'a> {
    lookups: &'a SharedLookups<'a>,
    /// Lines of the program that allocated parameters of recognized sets.
    lines: FxHashSet<Frame>,
    /// True if a step has ended that gave trained parameters their gradients or state.
    is_step_over: bool,
    /// Sizes of gradients and optimizer state outside of the recognized sets. Weights of these sizes may be trained.
    unassigned: FxHashSet<u64>,
}

impl<'a> Weights<'a> {
    /// Prepare the search from the sets that are recognized at a position.
    pub(super) fn new(
        lookups: &'a SharedLookups<'a>,
        position: MemoryCallId,
        classes: &Classes,
        recognized: &[ObjectUse],
    ) -> Self {
        let parameters = recognized.iter().filter(|(_, purpose, _)| *purpose == Use::Parameters);
        let line = |&(object, ..): &ObjectUse| {
            let frame = frame_of(lookups.trace, lookups.trace.objects.stack[object.index()]);
            frame.filter(|frame| frame.line().is_some())
        };
        let is_optimizer_step_over = is_optimizer_step_over(lookups, position, recognized);
        let mut unassigned = sizes_of_later_state(lookups, position);
        // After a whole step, objects of the backward pass outside of all sets are temporaries.
        if !is_optimizer_step_over {
            let known: FxHashSet<MemoryObjectId> = recognized.iter().map(|(object, ..)| *object).collect();
            let gradients = classes.backward.iter().filter(|object| !known.contains(*object));
            unassigned.extend(gradients.map(|object| lookups.trace.objects.requested[object.index()]));
        }
        let is_step_over = is_optimizer_step_over || is_backward_over(lookups, position, recognized);
        Self { lookups, lines: parameters.filter_map(line).collect(), is_step_over, unassigned }
    }

    /// Purpose of an object, if it is a weight; otherwise `None`. Code of modules allocated a weight and it stays live.
    /// Or a line that allocated other parameters did, and it is live from before the first pass until the end.
    pub(super) fn use_of(&self, object: MemoryObjectId) -> Option<ObjectUse> {
        let SharedLookups { trace, callers, lifetimes, .. } = self.lookups;
        if !matches!(callers.phase_of(object), "other") {
            return None;
        }
        let use_of_weight = || if self.is_frozen(object) { Use::FrozenParameters } else { Use::Parameters };
        if callers.is_of_weights(object) && lifetimes.is_kept(object) {
            return Some((object, use_of_weight(), Evidence::CallPath));
        }
        if self.lines.is_empty() || !lifetimes.is_live_over_all_passes(object) {
            return None;
        }
        let line = frame_of(trace, trace.objects.stack[object.index()])?;
        self.lines.contains(&line).then(|| (object, use_of_weight(), Evidence::Lifetime))
    }

    /// True if a step has ended, and no gradient or state outside of the recognized sets can belong to this weight.
    fn is_frozen(&self, weight: MemoryObjectId) -> bool {
        let bytes = self.lookups.trace.objects.requested[weight.index()];
        let is_unassigned =
            |(times, part): &(u64, u64)| self.unassigned.contains(&(bytes.saturating_mul(*times) / part));
        self.is_step_over && !SIZE_RATIOS.iter().any(is_unassigned)
    }
}

/// True if a forward pass follows the first optimizer state: within the first step only some parameters have state.
fn is_optimizer_step_over(lookups: &SharedLookups<'_>, position: MemoryCallId, recognized: &[ObjectUse]) -> bool {
    let (objects, callers) = (&lookups.trace.objects, &lookups.callers);
    let made = |object: MemoryObjectId| objects.allocated_by[object.index()].some();
    let is_state = |purpose: Use| matches!(purpose, Use::FirstMoments | Use::SecondMoments | Use::OptimizerState);
    let states = recognized.iter().filter(|(_, purpose, _)| is_state(*purpose));
    // State that is older than the records precedes all calls.
    let Some(first) = states.map(|(object, ..)| made(*object)).min() else { return false };
    let is_after = |object: &MemoryObjectId| made(*object).is_some_and(|call| Some(call) > first && call <= position);
    objects.ids().filter(is_after).any(|object| callers.phase_of(object) == "forward")
}

/// True if the recognized gradients belong to a finished backward pass: during the pass only some layers have
/// gradients. An optimizer may run within the backward pass, layer by layer.
fn is_backward_over(lookups: &SharedLookups<'_>, position: MemoryCallId, recognized: &[ObjectUse]) -> bool {
    let (objects, callers) = (&lookups.trace.objects, &lookups.callers);
    let made = |object: MemoryObjectId| objects.allocated_by[object.index()].some();
    let gradients = recognized.iter().filter(|(_, purpose, _)| *purpose == Use::Gradients);
    let Some(last) = gradients.filter_map(|(object, ..)| made(*object)).max() else { return false };
    let is_after = |object: &MemoryObjectId| made(*object).is_some_and(|call| call > last && call <= position);
    objects.ids().filter(is_after).any(|object| match callers.phase_of(object) {
        "forward" => true,
        "optimizer" => !callers.in_backward(objects.stack[object.index()]),
        _ => false,
    })
}

/// Sizes of optimizer state that is allocated after a position, for parameters before their first step.
fn sizes_of_later_state(lookups: &SharedLookups<'_>, position: MemoryCallId) -> FxHashSet<u64> {
    let SharedLookups { trace, callers, lifetimes, .. } = lookups;
    let objects = &trace.objects;
    let is_later = |object: &MemoryObjectId| objects.allocated_by[object.index()].some().is_some_and(|c| c > position);
    let is_state =
        |object: &MemoryObjectId| callers.phase_of(*object) == "optimizer" && !lifetimes.is_temporary(*object);
    let states = objects.ids().filter(is_later).filter(is_state);
    states.map(|object| objects.requested[object.index()]).collect()
}
