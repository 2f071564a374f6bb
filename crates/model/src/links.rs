//! Links between events in addition to nesting.

use crate::kind::named_enum;
use crate::{EventId, StrId};
use std::ops::Range;

/// Category of arrows from an event to work that it handed to another thread (contexts of XProf).
pub const CONTEXT_FLOW: &str = "context";

named_enum!(
    /// Meaning of a link between two events. Launches of GPU work are columns of [`crate::GpuTable`].
    LinkKind {
        /// An arrow of the source with both ends.
        Flow = 0 "flow",
        /// Forward operator to its backward operator.
        Backward = 1 "backward",
    }
);

/// Links between events, as columns of equal length, sorted by kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkTable {
    /// Kind of the link.
    pub kind: Vec<LinkKind>,
    /// Event at the start of the link.
    pub from: Vec<EventId>,
    /// Event at the end of the link.
    pub to: Vec<EventId>,
    /// Category in the source (of a flow); [`StrId::NONE`] for inferred links.
    pub category: Vec<StrId>,
}

impl LinkTable {
    /// Replace all links of a kind. Each link has a start, an end and a category.
    pub fn set(&mut self, kind: LinkKind, links: impl IntoIterator<Item = (EventId, EventId, StrId)>) {
        let links: Vec<(EventId, EventId, StrId)> = links.into_iter().collect();
        let rows = self.rows(kind);
        self.kind.splice(rows.clone(), links.iter().map(|_| kind));
        self.from.splice(rows.clone(), links.iter().map(|link| link.0));
        self.to.splice(rows.clone(), links.iter().map(|link| link.1));
        self.category.splice(rows, links.iter().map(|link| link.2));
    }

    /// Range of rows of the link table that have a kind, by binary search.
    fn rows(&self, kind: LinkKind) -> Range<usize> {
        self.kind.partition_point(|other| *other < kind)..self.kind.partition_point(|other| *other <= kind)
    }

    /// Number of links between events.
    pub fn len(&self) -> usize {
        self.from.len()
    }

    /// True if there are no links between events.
    pub fn is_empty(&self) -> bool {
        self.from.is_empty()
    }

    /// Start, end and category of each link of a kind, in the order in which they were set.
    pub fn of_kind(&self, kind: LinkKind) -> impl ExactSizeIterator<Item = (EventId, EventId, StrId)> + '_ {
        self.rows(kind).map(|i| (self.from[i], self.to[i], self.category[i]))
    }

    /// Start and category of each link of a kind that ends at an event, by binary search. The links of the kind must be
    /// in the order of their ends, as backward links are.
    pub(crate) fn ending_at(&self, kind: LinkKind, end: EventId) -> impl Iterator<Item = (EventId, StrId)> + '_ {
        let rows = self.rows(kind);
        let first = rows.start + self.to[rows.clone()].partition_point(|to| *to < end);
        (first..rows.end).take_while(move |&row| self.to[row] == end).map(|row| (self.from[row], self.category[row]))
    }

    /// True if there are links of a kind.
    pub fn has(&self, kind: LinkKind) -> bool {
        !self.rows(kind).is_empty()
    }

    /// Check that all columns are equally long, and that links are sorted by kind.
    pub fn check(&self) -> Result<(), String> {
        let lengths = [self.from.len(), self.to.len(), self.category.len()];
        if lengths.iter().any(|&length| length != self.kind.len()) {
            return Err(format!(
                "the columns of the table of links differ in length: {} and {lengths:?}",
                self.kind.len()
            ));
        }
        if self.kind.is_sorted() {
            Ok(())
        } else {
            Err("the table of links between events is not sorted by kind".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_kind_are_replaced_and_contiguous() {
        let link = |n: u32| (EventId(n), EventId(n + 1), StrId::NONE);
        let mut links = LinkTable::default();
        links.set(LinkKind::Backward, [link(1), link(2)]);
        links.set(LinkKind::Flow, [link(9)]);
        assert!(links.check().is_ok() && links.len() == 3);
        assert_eq!(links.of_kind(LinkKind::Flow).collect::<Vec<_>>(), [link(9)]);
        assert!(links.ending_at(LinkKind::Backward, EventId(3)).eq([(EventId(2), StrId::NONE)]));
        assert!(links.ending_at(LinkKind::Backward, EventId(10)).next().is_none());
        assert_eq!(links.of_kind(LinkKind::Backward).collect::<Vec<_>>(), [link(1), link(2)]);
        links.set(LinkKind::Backward, [link(4)]);
        links.set(LinkKind::Flow, []);
        assert!(!links.has(LinkKind::Flow) && links.has(LinkKind::Backward));
        assert_eq!(links.of_kind(LinkKind::Backward).collect::<Vec<_>>(), [link(4)]);
        links.kind.push(LinkKind::Flow);
        assert!(links.check().is_err());
    }
}
