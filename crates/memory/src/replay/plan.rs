//! Plan of applied suggestions, and the resulting memory blocks of each object.

use crate::curve::{Span, span_of};
use crate::suggest::{Action, Suggestion};
use stackline_model::{MemoryObjectId, MemoryTrace};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of objects that use one memory in turn. In a loop, each object could reuse the memory of the previous
/// one without limit, and each lookup would visit all.
const MOST_SUCCESSIVE_OWNERS: usize = 64;

/// Applied suggestions by object, and the reuse of memory between objects.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) trace: &'a MemoryTrace,
    /// Suggestions of single objects.
    pub(super) suggestions: Vec<&'a Suggestion>,
    /// Applied suggestions by object.
    applied: BTreeMap<MemoryObjectId, Vec<usize>>,
    /// Giving object by taking object, and the reverse.
    giver: BTreeMap<MemoryObjectId, MemoryObjectId>,
    taker: BTreeMap<MemoryObjectId, MemoryObjectId>,
    /// Applied recomputations by the objects that they read.
    needed_by: BTreeMap<MemoryObjectId, BTreeSet<usize>>,
}

impl<'a> Plan<'a> {
    /// Create a plan of single-object suggestions, none of which is applied yet.
    pub(super) fn new(trace: &'a MemoryTrace, suggestions: Vec<&'a Suggestion>) -> Self {
        let (giver, taker, needed_by) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { trace, suggestions, applied: BTreeMap::new(), giver, taker, needed_by }
    }

    /// True if a suggestion (by index) is applied.
    pub(super) fn is_applied(&self, suggestion: usize) -> bool {
        let object = self.suggestions[suggestion].object;
        self.applied.get(&object).is_some_and(|applied| applied.contains(&suggestion))
    }

    /// True if a suggestion does not conflict with the applied ones.
    pub(super) fn accepts(&self, suggestion: usize) -> bool {
        let new = self.suggestions[suggestion];
        let mine = self.applied_to(new.object);
        if mine.iter().any(|old| *old == suggestion || !new.action.is_compatible_with(&self.suggestions[*old].action)) {
            return false;
        }
        let shared = self.giver.contains_key(&new.object) || self.taker.contains_key(&new.object);
        let fits = match new.action.giver() {
            Some(owner) => {
                let whole = |at: &usize| self.suggestions[*at].action.keeps_whole();
                let free = !self.giver.contains_key(&new.object) && !self.taker.contains_key(&owner);
                let room = || self.owners_before(owner) + self.owners_after(new.object) + 1 < MOST_SUCCESSIVE_OWNERS;
                free && room() && mine.iter().all(whole) && self.applied_to(owner).iter().all(whole)
            }
            None => !shared || new.action.keeps_whole(),
        };
        fits && self.keeps_inputs_of(new) && self.keeps_needed_inputs(new)
    }

    /// True if the applied suggestions keep all inputs of a new recomputation until it runs; also true for other
    /// suggestions.
    fn keeps_inputs_of(&self, new: &Suggestion) -> bool {
        let Action::Recompute { before, needs, .. } = &new.action else { return true };
        let leaves = |at: &usize| self.suggestions[*at].action.keeps_content_before(*before);
        needs.iter().all(|need| !self.taker.contains_key(need) && self.applied_to(*need).iter().all(leaves))
    }

    /// True if a new suggestion keeps all inputs of applied recomputations until these run.
    fn keeps_needed_inputs(&self, new: &Suggestion) -> bool {
        if new.action.giver().is_some_and(|owner| self.needed_by.contains_key(&owner)) {
            return false;
        }
        let needing = self.needed_by.get(&new.object).into_iter().flatten();
        needing.map(|at| &self.suggestions[*at].action).all(|action| match action {
            Action::Recompute { before, .. } => new.action.keeps_content_before(*before),
            _ => true,
        })
    }

    /// Number of objects that use the memory of this object before it.
    fn owners_before(&self, object: MemoryObjectId) -> usize {
        std::iter::successors(self.giver.get(&object), |owner| self.giver.get(owner)).count()
    }

    /// Number of objects that use the memory of this object after it.
    fn owners_after(&self, object: MemoryObjectId) -> usize {
        std::iter::successors(self.taker.get(&object), |by| self.taker.get(by)).count()
    }

    /// Applied suggestions (by index) of an object.
    fn applied_to(&self, object: MemoryObjectId) -> &[usize] {
        self.applied.get(&object).map_or(&[], Vec::as_slice)
    }

    /// Mark a suggestion (by index) of its object as applied, or as not applied. Blocks are computed on request.
    pub(super) fn set_applied(&mut self, suggestion: usize, apply: bool) {
        let Suggestion { object, action, .. } = self.suggestions[suggestion];
        let applied = self.applied.entry(*object).or_default();
        applied.retain(|other| *other != suggestion);
        if apply {
            applied.push(suggestion);
        }
        if let Some(owner) = action.giver() {
            if apply {
                self.giver.insert(*object, owner);
                self.taker.insert(owner, *object);
            } else {
                self.giver.remove(object);
                self.taker.remove(&owner);
            }
        }
        if let Action::Recompute { needs, .. } = action {
            needs.iter().for_each(|need| self.note_need(*need, suggestion, apply));
        }
    }

    /// Record that an applied recomputation reads an object, or remove that record when it is undone.
    fn note_need(&mut self, need: MemoryObjectId, suggestion: usize, apply: bool) {
        // Common inputs (weights, a batch) are added and removed thousands of times.
        let needing = self.needed_by.entry(need).or_default();
        if apply {
            needing.insert(suggestion);
            return;
        }
        needing.remove(&suggestion);
        if needing.is_empty() {
            self.needed_by.remove(&need);
        }
    }

    /// Memory blocks that a suggestion can influence: of its object, and of the object whose memory it reuses.
    pub(super) fn blocks_around(&self, suggestion: usize) -> Vec<Span> {
        let Suggestion { object, action, .. } = self.suggestions[suggestion];
        let mut roots = vec![self.memory_owner(*object)];
        roots.extend(action.giver().map(|owner| self.memory_owner(owner)));
        roots.sort_unstable();
        roots.dedup();
        roots.into_iter().flat_map(|root| self.block(root)).collect()
    }

    /// Object whose memory an object uses: the first of a chain of reuse, or the object itself.
    fn memory_owner(&self, mut object: MemoryObjectId) -> MemoryObjectId {
        while let Some(giver) = self.giver.get(&object) {
            object = *giver;
        }
        object
    }

    /// Lifetime and size of the memory of an object, including all objects that reuse it; empty if the object itself
    /// reuses memory of another.
    pub(super) fn block(&self, object: MemoryObjectId) -> Vec<Span> {
        if self.giver.contains_key(&object) {
            return Vec::new();
        }
        if !self.taker.contains_key(&object) {
            return self.own_spans(object);
        }
        let mut whole: Option<Span> = None;
        let mut next = Some(object);
        while let Some(object) = next {
            for span in self.own_spans(object) {
                whole = Some(whole.map_or(span, |whole| Span {
                    from: whole.from.min(span.from),
                    to: whole.to.max(span.to),
                    bytes: whole.bytes.max(span.bytes),
                }));
            }
            next = self.taker.get(&object).copied();
        }
        whole.into_iter().collect()
    }

    /// Spans of memory that an object itself takes under the applied suggestions, without objects that reuse it.
    fn own_spans(&self, object: MemoryObjectId) -> Vec<Span> {
        let mut span = span_of(self.trace, object);
        let mut away: Vec<(u32, u32)> = Vec::new();
        let mut scratch = Vec::new();
        for at in self.applied_to(object) {
            let action = &self.suggestions[*at].action;
            away.extend(action.away().map(|(after, before)| (after.0 + 1, before.0)));
            match action {
                Action::Remove => return Vec::new(),
                Action::Split { slices } => return slices.clone(),
                Action::MoveAllocation { before } => span.from = span.from.max(before.0),
                Action::MoveFree { after } => span.to = span.to.min(after.0 + 1),
                Action::Shrink { to } | Action::SmallerDtype { to } => span.bytes = span.bytes.min(*to),
                Action::Recompute { before, scratch: bytes, .. } => {
                    scratch.push(Span { from: before.0, to: before.0 + 1, bytes: *bytes });
                }
                _ => {}
            }
        }
        away.sort_unstable();
        let mut spans = Vec::with_capacity(away.len() + 1);
        for (gone, back) in away {
            spans.push(Span { to: span.to.min(gone), ..span });
            span.from = span.from.max(back);
        }
        spans.push(span);
        spans.extend(scratch.into_iter().filter(|scratch| scratch.bytes > 0));
        spans.retain(|span| span.from < span.to);
        spans
    }
}
