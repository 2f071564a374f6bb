//! Replay of memory: live bytes after suggestions are applied, alone or together.
//!
//! A suggestion changes the lifetime and the size of an object's memory, never its accesses. Memory that is allocated
//! "just before" a call exists at the call's position. Memory that is freed "just after" a call is gone at the next
//! position. Between two calls, frees come before allocations.

mod combine;
mod plan;
mod tree;

pub use combine::Combination;

use crate::curve::{Curve, Peak, device_of};
use crate::suggest::{Action, Suggestion};
use plan::Plan;
use stackline_model::{MemoryDeviceId, MemoryObjectId, MemoryTrace};
use std::ops::Range;
use tree::Tree;

/// Replay of the memory of one device: live bytes over time, with some suggestions applied.
#[derive(Debug)]
pub struct Replay<'a> {
    device: MemoryDeviceId,
    suggestions: &'a [Suggestion],
    /// Members of each suggestion in the plan.
    members: Vec<Range<usize>>,
    /// True per suggestion if none of its members can exclude another one.
    apart: Vec<bool>,
    plan: Plan<'a>,
    tree: Tree,
}

/// True if no member of a suggestion can exclude another one: all make the same kind of change, which involves only
/// their own objects.
fn are_independent(suggestion: &Suggestion) -> bool {
    let is_same = |member: &Suggestion| member.action.name() == suggestion.action.name();
    let leans = suggestion.action.giver().is_some() || matches!(suggestion.action, Action::Recompute { .. });
    !leans && suggestion.members().all(is_same)
}

impl<'a> Replay<'a> {
    /// Replay of a device without applied suggestions. Only suggestions for its objects can be applied.
    pub fn new(trace: &'a MemoryTrace, device: MemoryDeviceId, suggestions: &'a [Suggestion]) -> Self {
        let single: Vec<&Suggestion> = suggestions.iter().flat_map(Suggestion::members).collect();
        let mut members = Vec::with_capacity(suggestions.len());
        let mut first = 0;
        for suggestion in suggestions {
            members.push(first..first + 1 + suggestion.more.len());
            first += 1 + suggestion.more.len();
        }
        let plan = Plan::new(trace, single);
        let here = |object: &MemoryObjectId| device_of(trace, *object) == device;
        let mut positions: Vec<u32> = vec![0];
        let mut own = Vec::new();
        for object in trace.objects.ids().filter(here) {
            own.extend(plan.block(object));
        }
        positions.extend(own.iter().flat_map(|span| [span.from, span.to]));
        for suggestion in plan.suggestions.iter().filter(|suggestion| here(&suggestion.object)) {
            positions.extend(suggestion.positions());
        }
        positions.sort_unstable();
        positions.dedup();
        // The end of the trace is never reached; the first position exists even without calls.
        let end = u32::try_from(trace.calls.len()).unwrap_or(u32::MAX).max(1);
        positions.retain(|position| *position < end);
        let mut tree = Tree::new(positions, end);
        tree.build(&own);
        let apart = suggestions.iter().map(are_independent).collect();
        Self { device, suggestions, members, apart, plan, tree }
    }

    /// Highest peak of the device with the currently applied suggestions.
    pub fn peak(&self) -> Peak {
        self.tree.peak()
    }

    /// Live bytes of the device at a position, with the currently applied suggestions.
    pub fn at(&self, position: u32) -> u64 {
        self.tree.at(position)
    }

    /// Apply a suggestion (by index), with all members that do not conflict.
    ///
    /// Return false, without a change, if it conflicts with the applied ones, or belongs to another device.
    pub fn apply(&mut self, suggestion: usize) -> bool {
        let mut any = false;
        for member in self.members[suggestion].clone() {
            if self.is_on_device(member) && self.plan.accepts(member) {
                self.change(member, true);
                any = true;
            }
        }
        any
    }

    /// True if the member with this index changes an object of the replayed device.
    fn is_on_device(&self, member: usize) -> bool {
        device_of(self.plan.trace, self.plan.suggestions[member].object) == self.device
    }

    /// Undo a memory suggestion, if the replay has applied it.
    pub fn undo(&mut self, suggestion: usize) {
        self.take_back(suggestion);
    }

    /// Undo a suggestion, and return the indices of its members that were applied.
    fn take_back(&mut self, suggestion: usize) -> Vec<usize> {
        let applied: Vec<usize> =
            self.members[suggestion].clone().filter(|member| self.plan.is_applied(*member)).collect();
        applied.iter().rev().for_each(|member| self.change(*member, false));
        applied
    }

    /// Apply or undo one member of a suggestion, and update the live bytes.
    fn change(&mut self, member: usize, apply: bool) {
        let before = self.plan.blocks_around(member);
        self.plan.set_applied(member, apply);
        let after = self.plan.blocks_around(member);
        before.iter().for_each(|span| self.tree.add(*span, false));
        after.iter().for_each(|span| self.tree.add(*span, true));
    }

    /// Bytes by which a suggestion, in addition to the applied ones, would lower the highest peak. The new peak may be
    /// at another position.
    pub fn lowers(&mut self, suggestion: usize) -> u64 {
        let before = self.peak().bytes;
        if !self.apply(suggestion) {
            return 0;
        }
        let after = self.peak().bytes;
        self.undo(suggestion);
        before.saturating_sub(after)
    }

    /// Bytes that a suggestion would save at a position, with all members. Negative if it adds some; 0 if it belongs to
    /// another device, or conflicts with the applied ones.
    pub fn saving_at(&mut self, suggestion: usize, position: u32) -> i64 {
        let sum = |spans: &[crate::curve::Span]| -> i64 {
            let here = spans.iter().filter(|span| span.covers(position));
            here.map(|span| i64::try_from(span.bytes).unwrap_or(i64::MAX)).fold(0, i64::saturating_add)
        };
        let (mut saved, mut tried) = (0i64, Vec::new());
        for member in self.members[suggestion].clone() {
            // Outside of its object's lifetime, only reuse of other memory changes anything.
            let Suggestion { action, .. } = self.plan.suggestions[member];
            let may = action.giver().is_some() || self.plan.suggestions[member].may_affect(position);
            if !may && self.apart[suggestion] || !self.is_on_device(member) || !self.plan.accepts(member) {
                continue;
            }
            let before = if may { sum(&self.plan.blocks_around(member)) } else { 0 };
            // Also without an effect here, because other members may conflict with it.
            self.plan.set_applied(member, true);
            let after = if may { sum(&self.plan.blocks_around(member)) } else { 0 };
            saved = saved.saturating_add(before.saturating_sub(after));
            tried.push(member);
        }
        tried.iter().rev().for_each(|member| self.plan.set_applied(*member, false));
        saved
    }

    /// Curve of live bytes on the device, with the currently applied suggestions.
    pub fn curve(&self) -> Curve {
        let trace = self.plan.trace;
        let here = trace.objects.ids().filter(|object| device_of(trace, *object) == self.device);
        let end = u32::try_from(trace.calls.len()).unwrap_or(u32::MAX);
        Curve::new(self.device, here.flat_map(|object| self.plan.block(object)), end)
    }

    /// Memory blocks of each object of the device, with the currently applied suggestions. Blocks that other objects
    /// reuse are listed only at the first owner.
    pub fn blocks(&self) -> impl Iterator<Item = (MemoryObjectId, Vec<crate::curve::Span>)> + '_ {
        let trace = self.plan.trace;
        let here = trace.objects.ids().filter(|object| device_of(trace, *object) == self.device);
        here.map(|object| (object, self.plan.block(object)))
    }
}
