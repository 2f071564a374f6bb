//! Links between events that are not nesting.

use crate::{EventId, StrId};

/// Pairs of events, as columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkTable {
    /// Where the link starts.
    pub from: Vec<EventId>,
    /// Where the link ends.
    pub to: Vec<EventId>,
    /// What the source calls it (a flow's category); [`StrId::NONE`] for links that we inferred.
    pub category: Vec<StrId>,
}

impl LinkTable {
    /// Appends a link.
    pub fn push(&mut self, from: EventId, to: EventId, category: StrId) {
        self.from.push(from);
        self.to.push(to);
        self.category.push(category);
    }

    /// Number of links.
    pub fn len(&self) -> usize {
        self.from.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.from.is_empty()
    }

    /// From, to and category of each link.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (EventId, EventId, StrId)> + '_ {
        (0..self.len()).map(|i| (self.from[i], self.to[i], self.category[i]))
    }
}

/// Frames as a prefix tree, parents before children: a stack is one number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StackTable {
    /// The calling frame's node.
    pub parent: Vec<crate::StackId>,
    /// Name of the frame.
    pub frame: Vec<StrId>,
    /// Category (module, library) of the frame.
    pub category: Vec<StrId>,
    /// Events that carry a stack, ascending.
    pub event: Vec<EventId>,
    /// The stack of the event at the same position.
    pub stack: Vec<crate::StackId>,
}
