//! Index of events by enclosing span: the events within a span are one range of a depth-first order.
//!
//! Rules query the contents of hundreds of spans. The index answers with two look-ups per span, without a pass over all
//! events.

use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{EventId, Trace};
use std::cmp::Reverse;
use std::ops::Range;

/// Index of events in depth-first order of their enclosing spans, with the range of each span.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    events: Vec<EventId>,
    /// Range of each event and of each enclosing span.
    within: FxHashMap<EventId, Within>,
}

/// Number of a span in depth-first order, and index range of the events within it.
#[derive(Clone, Copy, Debug)]
struct Within {
    /// Depth-first number of the span: spans precede their contents.
    number: usize,
    first: usize,
    end: usize,
}

impl Nesting {
    /// Build the index of distinct events.
    pub(super) fn from_trace(trace: &Trace, events: impl IntoIterator<Item = EventId>) -> Self {
        let mut indexed: Vec<EventId> = events.into_iter().collect();
        indexed.sort_unstable();
        indexed.dedup();
        let mut inside: FxHashMap<EventId, Vec<EventId>> = FxHashMap::default();
        let (mut roots, mut known) = (Vec::new(), FxHashSet::default());
        for &event in &indexed {
            let mut at = event;
            while known.insert(at) {
                let Some(around) = trace.events.parent[at.index()].some() else {
                    roots.push(at);
                    break;
                };
                inside.entry(around).or_default().push(at);
                at = around;
            }
        }
        let mut found = Self::default();
        // Entries with a `Within` were entered before and are left now.
        let mut ahead: Vec<(EventId, Option<Within>)> = roots.into_iter().rev().map(|root| (root, None)).collect();
        let mut number = 0;
        while let Some((event, begun)) = ahead.pop() {
            if let Some(begun) = begun {
                found.within.insert(event, Within { end: found.events.len(), ..begun });
                continue;
            }
            let first = found.events.len();
            ahead.push((event, Some(Within { number, first, end: first })));
            number += 1;
            if indexed.binary_search(&event).is_ok() {
                found.events.push(event);
            }
            ahead.extend(inside.remove(&event).into_iter().flatten().rev().map(|inner| (inner, None)));
        }
        found
    }

    /// All indexed events, in depth-first order of their nesting.
    pub(super) fn events(&self) -> &[EventId] {
        &self.events
    }

    /// Index ranges of the events within each span, including the span itself; empty for a span nested in another given
    /// span.
    pub(super) fn ranges(&self, spans: &[EventId]) -> Vec<Range<usize>> {
        let mut found = vec![0..0; spans.len()];
        let of = |(at, span): (usize, &EventId)| self.within.get(span).map(|within| (*within, at));
        let mut known: Vec<(Within, usize)> = spans.iter().enumerate().filter_map(of).collect();
        known.sort_unstable_by_key(|(within, at)| (within.number, Reverse(*at)));
        let mut end = 0;
        for (within, at) in known {
            // Ranges are nested or disjoint.
            if within.first >= end {
                found[at] = within.first..within.end;
                end = within.end;
            }
        }
        found
    }

    /// Events within any of the spans, including the spans themselves, ascending.
    pub(super) fn inside(&self, spans: &[EventId]) -> Vec<EventId> {
        let mut found: Vec<EventId> =
            self.ranges(spans).into_iter().flat_map(|range| &self.events[range]).copied().collect();
        found.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::Trace;

    /// Spans around each other, by the position of that around each.
    fn nested(around: &[Option<usize>]) -> Trace {
        let mut trace = Trace::default();
        for around in around {
            trace.events.parent.push(around.map_or(EventId::NONE, EventId::new));
        }
        trace
    }

    #[test]
    fn events_within_a_span_are_one_range() {
        // 0 (2 1 (3 4)) 5 (6), in the order of traversal.
        let trace = nested(&[None, Some(0), Some(0), Some(1), Some(1), None, Some(5)]);
        let id = EventId::new;
        let ids = |all: &[usize]| all.iter().map(|&at| id(at)).collect::<Vec<_>>();
        let nesting = Nesting::from_trace(&trace, ids(&[4, 2, 3, 6, 3]));
        assert_eq!(nesting.events(), ids(&[2, 3, 4, 6]));
        assert_eq!(nesting.ranges(&ids(&[0, 5])), [0..3, 3..4]);
        assert_eq!(nesting.ranges(&ids(&[3, 1, 0])), [0..0, 0..0, 0..3], "the outermost one has all");
        assert_eq!(nesting.ranges(&ids(&[2, 1])), [0..1, 1..3]);
        assert_eq!(nesting.inside(&ids(&[2, 1, 6])), ids(&[2, 3, 4, 6]));
        let deep = Nesting::from_trace(&nested(&[None, Some(0), Some(1)]), ids(&[2]));
        assert_eq!(deep.ranges(&ids(&[1, 0, 2])), [0..0, 0..1, 0..0], "of equal ranges that of the outermost");
        assert_eq!(nesting.ranges(&ids(&[0, 0])), [0..0, 0..3], "the last one of equal spans");
    }
}
