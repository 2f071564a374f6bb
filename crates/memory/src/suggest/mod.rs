//! Suggested changes of memory use, with their savings.

pub(crate) mod callers;
mod cost;
mod describe;
mod expandable;
mod from_patterns;
mod in_place;
mod recompute;
mod sites;
mod smaller_types;

pub use describe::{call as describe_call, describe};
pub use from_patterns::suggestions;
pub(crate) use sites::{Site, Sites};
pub use sites::{grouped, sites};

use crate::curve::Span;
use crate::{Certainty, Pattern};
use stackline_model::{MemoryCallId, MemoryObjectId};
use std::collections::BTreeSet;

/// Suggested change of one object's memory, such as an earlier free or an offload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Remove the object and its fills.
    Remove,
    /// Free the object just after a call; later fills are left out.
    MoveFree {
        /// Last call that needs the object.
        after: MemoryCallId,
    },
    /// Allocate and fill the object just before a call.
    MoveAllocation {
        /// First call that needs the object.
        before: MemoryCallId,
    },
    /// Free the object just after a call; allocate and fill it again just before another one.
    FreeWhileIdle {
        /// Last call that needs the content.
        after: MemoryCallId,
        /// First call that needs the memory again.
        before: MemoryCallId,
    },
    /// `FreeWhileIdle` for a gradient: `zero_grad(set_to_none=True)`.
    SetToNone {
        /// Last call that needs the content.
        after: MemoryCallId,
        /// First call that needs the memory again.
        before: MemoryCallId,
    },
    /// Reuse the memory of an object after its last use.
    Reuse {
        /// Object whose memory is reused.
        owner: MemoryObjectId,
    },
    /// Write the result into the operator's input, after its last use.
    InPlace {
        /// Input, of the same size and type.
        owner: MemoryObjectId,
    },
    /// Allocate fewer bytes.
    Shrink {
        /// New size in bytes.
        to: u64,
    },
    /// Allocate slices one at a time, each while it is accessed.
    Split {
        /// Memory of the slices.
        slices: Vec<Span>,
    },
    /// Copy the object to the host after a call, and back before another one.
    Offload {
        /// Call after which the object is idle.
        after: MemoryCallId,
        /// Call that needs the object again.
        before: MemoryCallId,
    },
    /// Free the object after a call, and recompute it by the same operator before another one.
    Recompute {
        /// Call after which the object is idle.
        after: MemoryCallId,
        /// Call that needs the object again.
        before: MemoryCallId,
        /// Call that computed the object.
        by: MemoryCallId,
        /// Call that recomputes a freed input first, if needed.
        first: Option<MemoryCallId>,
        /// Inputs of the recomputation, which must be live and unchanged just before `before`.
        needs: Vec<MemoryObjectId>,
        /// Bytes of temporary objects during the recomputation.
        scratch: u64,
    },
    /// Keep elements in a type of half the size. This changes numerical results.
    SmallerDtype {
        /// Remaining bytes.
        to: u64,
    },
    /// `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`: changes only the reserved memory of the object's device.
    ExpandableSegments,
}

impl Action {
    /// Stable name of the suggested memory change.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::MoveFree { .. } => "move free",
            Self::MoveAllocation { .. } => "move allocation",
            Self::FreeWhileIdle { .. } => "free while idle",
            Self::SetToNone { .. } => "set to none",
            Self::Reuse { .. } => "reuse",
            Self::Shrink { .. } => "shrink",
            Self::Split { .. } => "split",
            Self::Offload { .. } => "offload",
            Self::InPlace { .. } => "in place",
            Self::Recompute { .. } => "recompute",
            Self::SmallerDtype { .. } => "smaller dtype",
            Self::ExpandableSegments => "expandable segments",
        }
    }

    /// Effort of the change, from 0: removing is less than moving, which is less than recomputing or copying. Changes
    /// of numerical results come last.
    pub fn effort(&self) -> u8 {
        match self {
            Self::Remove | Self::ExpandableSegments => 0,
            Self::MoveFree { .. } | Self::MoveAllocation { .. } | Self::SetToNone { .. } => 1,
            Self::FreeWhileIdle { .. } | Self::Shrink { .. } | Self::InPlace { .. } => 2,
            Self::Reuse { .. } => 3,
            Self::Split { .. } => 4,
            Self::Recompute { .. } => 5,
            Self::Offload { .. } => 6,
            Self::SmallerDtype { .. } => 7,
        }
    }

    /// True if the suggested change alters numerical results.
    pub(crate) fn changes_numbers(&self) -> bool {
        matches!(self, Self::SmallerDtype { .. })
    }

    /// True if the change follows from a pattern of the object's use. Other changes are general.
    pub fn is_against_pattern(&self) -> bool {
        !matches!(self, Self::SmallerDtype { .. } | Self::ExpandableSegments)
    }

    /// Object whose memory this change reuses, if it reuses any.
    pub(crate) fn giver(&self) -> Option<MemoryObjectId> {
        match self {
            Self::Reuse { owner } | Self::InPlace { owner } => Some(*owner),
            _ => None,
        }
    }

    /// Two calls between which the object has no memory; `None` for other changes.
    pub(crate) fn away(&self) -> Option<(MemoryCallId, MemoryCallId)> {
        match self {
            Self::FreeWhileIdle { after, before }
            | Self::SetToNone { after, before }
            | Self::Offload { after, before }
            | Self::Recompute { after, before, .. } => Some((*after, *before)),
            _ => None,
        }
    }

    /// True if, with the suggested change, the object stays one block of its size during its lifetime.
    pub(crate) fn keeps_whole(&self) -> bool {
        let moves = matches!(self, Self::MoveFree { .. } | Self::MoveAllocation { .. } | Self::ExpandableSegments);
        moves || self.giver().is_some()
    }

    /// True if this and another suggested change can apply to one object.
    pub(crate) fn is_compatible_with(&self, other: &Self) -> bool {
        let is_setting = |action: &Self| *action == Self::ExpandableSegments;
        if is_setting(self) || is_setting(other) {
            return self != other;
        }
        let alone = |action: &Self| matches!(action, Self::Remove | Self::Split { .. });
        let twice = match (self.away(), other.away()) {
            (Some(one), Some(two)) => one.0 < two.1 && two.0 < one.1,
            _ => self.giver().is_some() && other.giver().is_some(),
        };
        !(alone(self) || alone(other) || twice)
    }

    /// True if the content of the object is still readable just before `call`, provided that it is without this change.
    pub(crate) fn keeps_content_before(&self, call: MemoryCallId) -> bool {
        match self {
            Self::Remove | Self::Split { .. } => false,
            Self::MoveFree { after } => call <= *after,
            _ => self.away().is_none_or(|(after, before)| call <= after || before < call),
        }
    }
}

/// Change that saves memory: of one object or, with `more`, of all objects of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// Object.
    pub object: MemoryObjectId,
    /// Change.
    pub action: Action,
    /// Pattern that the change removes; for general changes ([`Action::is_against_pattern`]) the nearest one.
    pub pattern: Pattern,
    /// Certainty of the pattern.
    pub certainty: Certainty,
    /// Sets and copies that move with the object, are left out, or become shorter.
    pub fills: u32,
    /// Bytes that are freed while the change has an effect.
    pub bytes: u64,
    /// Offload: duration of one copy at the assumed bandwidth, ns.
    pub copy_ns: u64,
    /// Added run time, ns. Offload: the part of both copies that the gap does not hide (all without times). Recompute:
    /// the measured time of the operators that run again.
    pub cost_ns: u64,
    /// Range of positions in which the object's memory can change, for a fast check.
    span: (u32, u32),
    /// Same change for other objects of the same line; these have no `more`. The fields above describe the first object
    /// only.
    pub more: Vec<Suggestion>,
}

impl Suggestion {
    /// This suggestion and those in `more`, one per object; an object may have several, at several times.
    pub fn members(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.more)
    }

    /// Number of memory objects that a suggestion changes.
    pub fn objects(&self) -> usize {
        let objects: BTreeSet<MemoryObjectId> = self.members().map(|member| member.object).collect();
        objects.len()
    }

    /// Total bytes of all members of a memory suggestion.
    pub fn total_bytes(&self) -> u64 {
        self.members().map(|member| member.bytes).fold(0, u64::saturating_add)
    }

    /// Duration of one copy of each member, ns.
    pub fn total_copy_ns(&self) -> u64 {
        self.members().map(|member| member.copy_ns).fold(0, u64::saturating_add)
    }

    /// Added run time of all members, ns. `None` for changes without cost.
    pub fn total_cost_ns(&self) -> Option<u64> {
        let costs = matches!(self.action, Action::Offload { .. } | Action::Recompute { .. });
        costs.then(|| self.members().map(|member| member.cost_ns).fold(0, u64::saturating_add))
    }

    /// Least certainty among the members of a memory suggestion.
    pub fn weakest(&self) -> Certainty {
        self.members().map(|member| member.certainty).fold(self.certainty, Certainty::max)
    }

    /// Suggestion with only the members that pass a test; `None` if no member does.
    pub fn with_members(&self, keep: impl Fn(&Self) -> bool) -> Option<Self> {
        let alone = |member: &Self| Self { more: Vec::new(), ..member.clone() };
        let mut kept = self.members().filter(|member| keep(member)).map(alone);
        let first = kept.next()?;
        Some(Self { more: kept.collect(), ..first })
    }

    /// Positions in the order of calls at which memory in use may change if the first suggestion of the group is applied.
    pub(crate) fn positions(&self) -> Vec<u32> {
        match &self.action {
            Action::MoveFree { after } => vec![after.0 + 1],
            Action::MoveAllocation { before } => vec![before.0],
            Action::Split { slices } => slices.iter().flat_map(|slice| [slice.from, slice.to]).collect(),
            Action::Recompute { after, before, .. } => vec![after.0 + 1, before.0, before.0 + 1],
            action => action.away().map_or(Vec::new(), |(after, before)| vec![after.0 + 1, before.0]),
        }
    }

    /// True if the first member may lower the live bytes at a position.
    pub(crate) fn may_affect(&self, position: u32) -> bool {
        self.span.0 <= position && position < self.span.1
    }
}
