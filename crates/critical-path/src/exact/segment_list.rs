//! Segments of the critical path in a packed list, because a long path has more segments than the trace has events.

use super::category::Category;
use crate::gpu_dependency::Evidence;
use stackline_model::{EventId, TrackId};

/// Segment of the critical path: a time range with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSegment {
    /// Start in ns since the trace's base.
    pub start: i64,
    /// End in ns since the trace's base.
    pub end: i64,
    /// Cause.
    pub category: Category,
    /// Thread or stream; none for unexplained time.
    pub track: TrackId,
    /// Event that ran; for lags, the event after the lag. None in gaps of a thread.
    pub event: EventId,
    /// Evidence of the cause.
    pub evidence: Evidence,
    /// Rule of the segment: `innermost_span`, `gap`, `wait_samples` and `unrecorded_steps` for host time, `record` for
    /// GPU work, otherwise that of the dependency.
    pub rule: &'static str,
    /// Node of the graph; for lags, the node after the lag.
    pub node: u32,
}

/// Packed critical-path segments without gap or overlap: 10 bytes each, plus 24 for each run of segments of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSegments {
    /// Start of the first segment.
    from: i64,
    /// Runs of segments. All columns have the latest segment first, in the order of the backward pass.
    runs: Vec<Run>,
    /// Time in ns from the end of each segment to the end of its run. Each segment begins at the end of the previous
    /// one.
    before_end: Vec<u32>,
    event: Vec<EventId>,
    cause: Vec<u16>,
    /// Distinct causes, a few dozen.
    causes: Vec<Cause>,
}

/// Run of consecutive segments of one node and one track, short enough for 32-bit offsets from its end.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    /// End of the last segment, in ns since the trace's base.
    end: i64,
    /// Row of the last segment.
    row: u32,
    node: u32,
    track: TrackId,
}

/// Cause of path segments with evidence and rule, stored once and referred to by position.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cause {
    category: Category,
    evidence: Evidence,
    rule: &'static str,
}

impl PathSegments {
    /// Create an empty list for a path that ends at `end` and has at most `most` segments.
    pub(super) fn new(end: i64, most: usize) -> Self {
        Self {
            from: end,
            runs: Vec::new(),
            // Growing columns would leave unused copies in memory; unfilled capacity takes none.
            before_end: Vec::with_capacity(most),
            event: Vec::with_capacity(most),
            cause: Vec::with_capacity(most),
            causes: Vec::new(),
        }
    }

    /// Add a segment before the existing ones.
    pub(super) fn push_front(&mut self, segment: &PathSegment) {
        debug_assert_eq!((segment.end, segment.start <= segment.end), (self.from, true), "a gap or an overlap");
        self.from = segment.start;
        let run = self.runs.last().filter(|run| (run.node, run.track) == (segment.node, segment.track));
        let before_end = run.and_then(|run| u32::try_from(run.end - segment.end).ok());
        if before_end.is_none() {
            self.runs.push(Run { end: segment.end, row: self.len() as u32, node: segment.node, track: segment.track });
        }
        let cause = Cause { category: segment.category, evidence: segment.evidence, rule: segment.rule };
        let known = self.causes.iter().position(|&c| c == cause);
        let known = known.unwrap_or_else(|| {
            self.causes.push(cause);
            self.causes.len() - 1
        });
        self.before_end.push(before_end.unwrap_or(0));
        self.event.push(segment.event);
        self.cause.push(known as u16);
    }

    /// Number of critical-path segments.
    pub fn len(&self) -> usize {
        self.event.len()
    }

    /// True if the list has no critical-path segments.
    pub fn is_empty(&self) -> bool {
        self.event.is_empty()
    }

    /// Index of the run of segments that contains a row.
    fn run_of(&self, row: usize) -> usize {
        self.runs.partition_point(|run| run.row as usize <= row) - 1
    }

    /// Unpack the end time of a segment, in ns, from the indices of the segment and of its group of consecutive segments.
    fn end(&self, row: usize, run: usize) -> i64 {
        self.runs[run].end - i64::from(self.before_end[row])
    }

    /// Segment in a row of a run.
    fn segment(&self, row: usize, run: usize) -> PathSegment {
        let Cause { category, evidence, rule } = self.causes[usize::from(self.cause[row])];
        let Run { node, track, .. } = self.runs[run];
        let is_last_row = self.runs.get(run + 1).is_some_and(|next| next.row as usize == row + 1);
        let before = run + usize::from(is_last_row);
        let start = if row + 1 < self.len() { self.end(row + 1, before) } else { self.from };
        PathSegment { start, end: self.end(row, run), category, track, event: self.event[row], evidence, rule, node }
    }

    /// Length in ns of the segment at a position; positions are in time order.
    ///
    /// # Panics
    /// Panics if the position is out of range.
    pub fn length_ns(&self, position: usize) -> i64 {
        let row = self.len() - 1 - position;
        let segment = self.segment(row, self.run_of(row));
        segment.end - segment.start
    }

    /// All critical-path segments in time order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = PathSegment> + '_ {
        let mut run = self.runs.len();
        (0..self.len()).rev().map(move |row| {
            if self.runs.get(run).is_none_or(|current| current.row as usize > row) {
                run -= 1;
            }
            self.segment(row, run)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lengths near the time range of a run, few nodes, all rules.
    fn segments() -> impl Strategy<Value = Vec<PathSegment>> {
        let length = prop_oneof![0..1000i64, (i64::from(u32::MAX) - 2)..(i64::from(u32::MAX) + 3)];
        let one = (length, 0..3u32, 0..2u32, 0..Category::ALL.len(), any::<bool>(), 0..3usize);
        proptest::collection::vec(one, 0..50).prop_map(|all| {
            let mut start = -5;
            let segment = |(length, node, event, category, is_exact, rule): (i64, u32, u32, usize, bool, usize)| {
                let end = start + length;
                PathSegment {
                    start: std::mem::replace(&mut start, end),
                    end,
                    category: Category::ALL[category],
                    track: TrackId(node / 2),
                    event: EventId(event),
                    evidence: if is_exact { Evidence::Exact } else { Evidence::Inferred },
                    rule: ["gap", "record", "innermost_span"][rule],
                    node,
                }
            };
            all.into_iter().map(segment).collect()
        })
    }

    proptest! {
        #[test]
        fn segments_round_trip(all in segments()) {
            let mut packed = PathSegments::new(all.last().map_or(0, |segment| segment.end), all.len());
            for latest_first in all.iter().rev() {
                packed.push_front(latest_first);
            }
            prop_assert_eq!(packed.is_empty(), all.is_empty());
            prop_assert_eq!(&packed.iter().collect::<Vec<_>>(), &all);
            let lengths: Vec<i64> = (0..packed.len()).map(|position| packed.length_ns(position)).collect();
            prop_assert_eq!(lengths, all.iter().map(|segment| segment.end - segment.start).collect::<Vec<_>>());
        }
    }
}
