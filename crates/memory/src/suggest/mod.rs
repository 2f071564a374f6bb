//! What could be changed, and what each change would save.

pub(crate) mod callers;
mod cost;
mod describe;
mod expandable;
mod in_place;
mod make;
mod recompute;
mod sites;
mod smaller;

pub use describe::{call as describe_call, describe};
pub use make::suggestions;
pub(crate) use sites::{Site, Sites};
pub use sites::{grouped, sites};

use crate::curve::Span;
use crate::{Certainty, Pattern};
use stackline_model::{MemoryCallId, MemoryObjectId};
use std::collections::BTreeSet;

/// A change of one object's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Do not make it at all, nor fill it.
    Remove,
    /// Free it just after this call; what fills it later is left out.
    MoveFree {
        /// The last call that needs it.
        after: MemoryCallId,
    },
    /// Allocate it, and fill it, just before this call.
    MoveAllocation {
        /// The first call that needs it.
        before: MemoryCallId,
    },
    /// Free it just after a call and allocate it again, and fill it, just before another one.
    FreeWhileIdle {
        /// The last call that needs what is in it.
        after: MemoryCallId,
        /// The first call that needs its memory again.
        before: MemoryCallId,
    },
    /// The same for a gradient: `zero_grad(set_to_none=True)`.
    SetToNone {
        /// The last call that needs what is in it.
        after: MemoryCallId,
        /// The first call that needs its memory again.
        before: MemoryCallId,
    },
    /// Take the memory of an object whose last use is over.
    Reuse {
        /// That object.
        of: MemoryObjectId,
    },
    /// Let the operator that makes it write into its input, which nobody needs any more.
    InPlace {
        /// The input, of the same size and type.
        of: MemoryObjectId,
    },
    /// Allocate fewer bytes.
    Shrink {
        /// This many.
        to: u64,
    },
    /// Allocate its slices one by one, each while it is touched.
    Split {
        /// The slices' memory.
        slices: Vec<Span>,
    },
    /// Move it to the host after a call and back before another one.
    Offload {
        /// The call after which it is idle.
        after: MemoryCallId,
        /// The call that needs it again.
        before: MemoryCallId,
    },
    /// Free it after a call, and make it again by the same operator before another one.
    Recompute {
        /// The call after which it is idle.
        after: MemoryCallId,
        /// The call that needs it again.
        before: MemoryCallId,
        /// The call that made it.
        by: MemoryCallId,
        /// The call that makes an input anew which is gone by then, if it takes one.
        first: Option<MemoryCallId>,
        /// What is read to make it, and must be there and unchanged just before `before`.
        needs: Vec<MemoryObjectId>,
        /// Bytes that are in use besides while it is made.
        scratch: u64,
    },
    /// Keep its elements in a type of half the size. This changes numbers.
    SmallerDtype {
        /// Bytes that are left.
        to: u64,
    },
    /// `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`: nothing changes but what the allocator holds of the object's device.
    ExpandableSegments,
}

impl Action {
    /// Stable name.
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

    /// How much work it is, from 0: leaving something out is less than moving it, and that less than to make it again or to
    /// copy it away. What changes numbers is the last resort.
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

    /// Whether the program computes other numbers with it.
    pub fn changes_numbers(&self) -> bool {
        matches!(self, Self::SmallerDtype { .. })
    }

    /// Whether it follows from what is known of the object's use. The others are general means, against no pattern.
    pub fn is_against_pattern(&self) -> bool {
        !matches!(self, Self::SmallerDtype { .. } | Self::ExpandableSegments)
    }

    /// The object whose memory is taken.
    pub(crate) fn giver(&self) -> Option<MemoryObjectId> {
        match self {
            Self::Reuse { of } | Self::InPlace { of } => Some(*of),
            _ => None,
        }
    }

    /// The calls between which the object has no memory.
    pub(crate) fn away(&self) -> Option<(MemoryCallId, MemoryCallId)> {
        match self {
            Self::FreeWhileIdle { after, before }
            | Self::SetToNone { after, before }
            | Self::Offload { after, before }
            | Self::Recompute { after, before, .. } => Some((*after, *before)),
            _ => None,
        }
    }

    /// Whether the object stays one piece of its size from its first to its last moment.
    pub(crate) fn keeps_whole(&self) -> bool {
        let moves = matches!(self, Self::MoveFree { .. } | Self::MoveAllocation { .. } | Self::ExpandableSegments);
        moves || self.giver().is_some()
    }

    /// Whether both can be done to one object.
    pub(crate) fn goes_with(&self, other: &Self) -> bool {
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

    /// Whether what is in the object can still be read just before `call`, if it can without this.
    pub(crate) fn leaves(&self, call: MemoryCallId) -> bool {
        match self {
            Self::Remove | Self::Split { .. } => false,
            Self::MoveFree { after } => call <= *after,
            _ => self.away().is_none_or(|(after, before)| call <= after || before < call),
        }
    }
}

/// A change that would save memory: of one object or, if there are `more`, of all that one line makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// The object.
    pub object: MemoryObjectId,
    /// What to do.
    pub action: Action,
    /// The pattern that it is against; of general means ([`Action::is_against_pattern`]) the nearest one.
    pub pattern: Pattern,
    /// How sure that pattern is.
    pub certainty: Certainty,
    /// Sets and copies that move with it, are left out, or become shorter.
    pub fills: u32,
    /// Bytes that it makes free while it has an effect.
    pub bytes: u64,
    /// Offload: how long one copy takes at the assumed bandwidth, ns.
    pub copy_ns: u64,
    /// What it adds to the run's time, ns. Offload: what of both copies the idle time does not hide (all, where times are not
    /// known). Recompute: the measured time of the operators that run again.
    pub cost_ns: u64,
    /// Where the object's memory can change, for a quick look whether a position is concerned at all.
    span: (u32, u32),
    /// The same change of other objects that the same line makes; these have no `more`. What stands above is of the first one
    /// alone.
    pub more: Vec<Suggestion>,
}

impl Suggestion {
    /// The suggestion for each object; of one object there may be several, at several times.
    pub fn members(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.more)
    }

    /// How many objects it is about.
    pub fn objects(&self) -> usize {
        let objects: BTreeSet<MemoryObjectId> = self.members().map(|member| member.object).collect();
        objects.len()
    }

    /// Bytes of all members.
    pub fn total_bytes(&self) -> u64 {
        self.members().map(|member| member.bytes).fold(0, u64::saturating_add)
    }

    /// How long one copy of each member takes, ns.
    pub fn total_copy_ns(&self) -> u64 {
        self.members().map(|member| member.copy_ns).fold(0, u64::saturating_add)
    }

    /// What all members add to the run's time, ns. `None` if it is a change that costs none.
    pub fn total_cost_ns(&self) -> Option<u64> {
        let costs = matches!(self.action, Action::Offload { .. } | Action::Recompute { .. });
        costs.then(|| self.members().map(|member| member.cost_ns).fold(0, u64::saturating_add))
    }

    /// How sure the least sure member is.
    pub fn weakest(&self) -> Certainty {
        self.members().map(|member| member.certainty).fold(self.certainty, Certainty::max)
    }

    /// The same with those members alone that pass a test; none if there are none.
    pub fn only(&self, keep: impl Fn(&Self) -> bool) -> Option<Self> {
        let alone = |member: &Self| Self { more: Vec::new(), ..member.clone() };
        let mut kept = self.members().filter(|member| keep(member)).map(alone);
        let first = kept.next()?;
        Some(Self { more: kept.collect(), ..first })
    }

    /// Positions at which memory may change if this is applied, of the first member alone.
    pub(crate) fn positions(&self) -> Vec<u32> {
        match &self.action {
            Action::MoveFree { after } => vec![after.0 + 1],
            Action::MoveAllocation { before } => vec![before.0],
            Action::Split { slices } => slices.iter().flat_map(|slice| [slice.from, slice.to]).collect(),
            Action::Recompute { after, before, .. } => vec![after.0 + 1, before.0, before.0 + 1],
            action => action.away().map_or(Vec::new(), |(after, before)| vec![after.0 + 1, before.0]),
        }
    }

    /// Whether less may be in use at a position, by the first member alone.
    pub(crate) fn reaches(&self, position: u32) -> bool {
        self.span.0 <= position && position < self.span.1
    }
}
