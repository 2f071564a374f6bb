//! Parameters that no set of sizes tells: frozen ones, which have neither gradients nor state of an optimizer, and those of programs
//! without a backward pass.

use super::{Evidence, Lookups, ObjectUse, Use};
use crate::source_location::frame_of;
use rustc_hash::FxHashSet;
use stackline_model::{Frame, MemoryCallId, MemoryObjectId};

/// What tells weights among the objects that are in no set.
pub(super) struct Weights<'a> {
    lookups: &'a Lookups<'a>,
    /// Lines of the program that made parameters which sets of sizes tell.
    lines: FxHashSet<Frame>,
    /// Whether it is known which parameters have gradients or state of an optimizer.
    pub(super) knows_trained: bool,
}

impl<'a> Weights<'a> {
    /// Of the sets that are recognized at a position.
    pub(super) fn new(lookups: &'a Lookups<'a>, position: MemoryCallId, recognized: &[ObjectUse]) -> Self {
        let parameters = recognized.iter().filter(|(_, of, _)| *of == Use::Parameters);
        let line = |&(object, ..): &ObjectUse| {
            let frame = frame_of(lookups.trace, lookups.trace.objects.stack[object.index()]);
            frame.filter(|frame| frame.line().is_some())
        };
        let knows_trained = knows_trained(lookups, position, recognized);
        Self { lookups, lines: parameters.filter_map(line).collect(), knows_trained }
    }

    /// What an object is for if it is a weight: code that makes modules made it and it stays in use; or the line made it that made other
    /// parameters, and it is in use from before the first pass of the model to the end.
    pub(super) fn of(&self, object: MemoryObjectId) -> Option<ObjectUse> {
        let Lookups { trace, callers, lifetimes, .. } = self.lookups;
        if !matches!(callers.phase_of(object), "other") {
            return None;
        }
        let use_of_weights = if self.knows_trained { Use::FrozenParameters } else { Use::Parameters };
        if callers.is_of_weights(object) && lifetimes.is_kept(object) {
            return Some((object, use_of_weights, Evidence::CallPath));
        }
        if self.lines.is_empty() || !lifetimes.outlasts_passes(object) {
            return None;
        }
        let line = frame_of(trace, trace.objects.stack[object.index()])?;
        self.lines.contains(&line).then_some((object, use_of_weights, Evidence::Lifetime))
    }
}

/// Whether recognized sets tell all parameters that are trained: an optimizer has state of them, or they have the gradients of a backward
/// pass that is over. Within a backward pass only the layers done so far have gradients.
fn knows_trained(lookups: &Lookups<'_>, position: MemoryCallId, recognized: &[ObjectUse]) -> bool {
    let is_state = |of: Use| matches!(of, Use::FirstMoments | Use::SecondMoments | Use::OptimizerState);
    if recognized.iter().any(|(_, of, _)| is_state(*of)) {
        return true;
    }
    let (objects, callers) = (&lookups.trace.objects, &lookups.callers);
    let made = |object: MemoryObjectId| objects.allocated_by[object.index()].some();
    let gradients = recognized.iter().filter(|(_, of, _)| *of == Use::Gradients);
    let Some(last) = gradients.filter_map(|(object, ..)| made(*object)).max() else { return false };
    let is_after = |object: &MemoryObjectId| made(*object).is_some_and(|call| call > last && call <= position);
    objects.ids().filter(is_after).any(|object| matches!(callers.phase_of(object), "forward" | "optimizer"))
}
