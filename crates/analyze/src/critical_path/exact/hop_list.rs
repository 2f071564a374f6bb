//! The hops of a path, packed: a long path has one for every few events of the trace.

use super::category::Category;
use super::walk::Hop;
use crate::critical_path::gpu_order::Evidence;
use stackline_model::{EventId, TrackId};

/// Hops without gap or overlap. Each begins where the one before it ends, so that only ends are kept; columns, so that
/// nothing is spent on alignment: 23 bytes a hop instead of 48.
#[derive(Clone, Debug, PartialEq)]
pub struct Hops {
    /// Start of the first one.
    from: i64,
    /// Latest first, as the walk finds them; so are the other columns.
    end: Vec<i64>,
    node: Vec<u32>,
    event: Vec<EventId>,
    track: Vec<TrackId>,
    category: Vec<Category>,
    evidence: Vec<Evidence>,
    rule: Vec<u8>,
    /// The rules that occur. There are a few dozen.
    rules: Vec<&'static str>,
}

impl Hops {
    /// No hops, of a path that ends at `end`.
    pub(super) fn new(end: i64) -> Self {
        Self {
            from: end,
            end: Vec::new(),
            node: Vec::new(),
            event: Vec::new(),
            track: Vec::new(),
            category: Vec::new(),
            evidence: Vec::new(),
            rule: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// Adds the hop before those that are there.
    pub(super) fn push_front(&mut self, hop: &Hop) {
        debug_assert_eq!((hop.end, hop.start <= hop.end), (self.from, true), "a gap or an overlap");
        self.from = hop.start;
        let rule = self.rules.iter().position(|&r| r == hop.rule).unwrap_or_else(|| {
            self.rules.push(hop.rule);
            self.rules.len() - 1
        });
        debug_assert!(rule <= usize::from(u8::MAX), "more rules than a byte counts");
        self.end.push(hop.end);
        self.node.push(hop.node);
        self.event.push(hop.event);
        self.track.push(hop.track);
        self.category.push(hop.category);
        self.evidence.push(hop.evidence);
        self.rule.push(rule as u8);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.end.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.end.is_empty()
    }

    /// The hop at a position in time order.
    ///
    /// # Panics
    /// If there is none.
    pub fn at(&self, position: usize) -> Hop {
        let row = self.len() - 1 - position;
        Hop {
            start: self.end.get(row + 1).copied().unwrap_or(self.from),
            end: self.end[row],
            category: self.category[row],
            track: self.track[row],
            event: self.event[row],
            evidence: self.evidence[row],
            rule: self.rules[usize::from(self.rule[row])],
            node: self.node[row],
        }
    }

    /// Length of the hop at a position in time order, in ns.
    ///
    /// # Panics
    /// If there is none.
    pub fn length_ns(&self, position: usize) -> i64 {
        let row = self.len() - 1 - position;
        self.end[row] - self.end.get(row + 1).copied().unwrap_or(self.from)
    }

    /// All hops in time order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Hop> + ExactSizeIterator + '_ {
        (0..self.len()).map(|position| self.at(position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_come_back_as_they_were() {
        let hop = |start, end, rule, node| Hop {
            start,
            end,
            category: Category::HostPython,
            track: TrackId::NONE,
            event: EventId::NONE,
            evidence: Evidence::Exact,
            rule,
            node,
        };
        let all = [hop(-5, 3, "gap", 7), hop(3, 4, "innermost_span", 8), hop(4, 90, "gap", u32::MAX)];
        let mut hops = Hops::new(90);
        assert!(hops.is_empty());
        for latest_first in all.iter().rev() {
            hops.push_front(latest_first);
        }
        assert_eq!(hops.iter().collect::<Vec<_>>(), all);
        assert_eq!((hops.len(), hops.length_ns(2)), (3, 86));
    }
}
