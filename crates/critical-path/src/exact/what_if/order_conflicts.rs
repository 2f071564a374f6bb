//! Order conflicts of locks: points in time that lie in an interval before an edit but not after it, or the reverse.
//!
//! With many threads, almost every point lies in intervals of all threads, so a test of all pairs would be too slow.
//! For each interval, only the first point matters that lies outside on the other axis. A segment tree finds that
//! point.

/// Half-open time interval, before an edit (`x`) and after it (`y`); the latter may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) group: u32,
    pub(super) x: (i64, i64),
    pub(super) y: (i64, i64),
    pub(super) length: i64,
}

/// Point in time, before an edit (`x`) and after it (`y`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) group: u32,
    pub(super) x: i64,
    pub(super) y: i64,
}

/// Lengths of the intervals that contain a point of another group on the first axis but not on the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OrderConflicts {
    /// Covered length of the first axis, by the ranges from the first such point to the end of the interval. A waiting
    /// thread waits for one holder at a time, and a path contains one waiting thread at a time.
    pub(super) left: i64,
    /// Length of the longest such interval.
    pub(super) longest: i64,
}

/// Find order conflicts between intervals and points of other groups. The time is linear except for sorting, searching,
/// and points outside of intervals of their own group.
pub(super) fn find_order_conflicts(intervals: &[Interval], points: &[Point]) -> OrderConflicts {
    let mut points = points.to_vec();
    points.sort_by_key(|m| (m.x, m.y, m.group));
    let extremes = Extremes::new(&points);
    let mut left: Vec<(i64, i64)> = Vec::new();
    let mut longest = 0;
    for s in intervals.iter().filter(|s| s.x.0 < s.x.1) {
        let mut inside = points.partition_point(|m| m.x < s.x.0)..points.partition_point(|m| m.x < s.x.1);
        while let Some(first) = extremes.first_outside(inside.clone(), s.y) {
            if points[first].group != s.group {
                left.push((points[first].x, s.x.1));
                longest = longest.max(s.length);
                break;
            }
            inside.start = first + 1;
        }
    }
    OrderConflicts { left: covered(left), longest }
}

/// Total length that intervals cover; overlaps count once.
pub(super) fn covered(mut intervals: Vec<(i64, i64)>) -> i64 {
    intervals.sort_unstable();
    let (mut sum, mut until) = (0, i64::MIN);
    for (from, to) in intervals {
        let from = from.max(until);
        sum += (to - from).max(0);
        until = until.max(to);
    }
    sum
}

/// Segment tree with the minimum and maximum second coordinate of points.
struct Extremes {
    leaves: usize,
    /// Nodes of the tree: the children of `i` are `2 i` and `2 i + 1`.
    nodes: Vec<(i64, i64)>,
}

impl Extremes {
    /// Build the segment tree over the second coordinates of points, in the order of the points.
    fn new(points: &[Point]) -> Self {
        let leaves = points.len();
        let mut nodes = vec![(i64::MAX, i64::MIN); leaves];
        nodes.extend(points.iter().map(|m| (m.y, m.y)));
        for i in (1..leaves).rev() {
            let (a, b) = (nodes[2 * i], nodes[2 * i + 1]);
            nodes[i] = (a.0.min(b.0), a.1.max(b.1));
        }
        Self { leaves, nodes }
    }

    /// Position of the first point in a range whose second coordinate is outside of an interval; `None` without one.
    fn first_outside(&self, range: std::ops::Range<usize>, (low, high): (i64, i64)) -> Option<usize> {
        let holds = |node: usize| self.nodes[node].0 < low || self.nodes[node].1 >= high;
        // Nodes that cover the range: leftmost first on the way up, then the others.
        let (mut from, mut to) = (range.start + self.leaves, range.end + self.leaves);
        let mut right = Vec::new();
        let mut found = None;
        while from < to && found.is_none() {
            if from % 2 == 1 {
                found = Some(from).filter(|&node| holds(node));
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                right.push(to);
            }
            (from, to) = (from / 2, to / 2);
        }
        let mut node = found.or_else(|| right.into_iter().rev().find(|&node| holds(node)))?;
        while node < self.leaves {
            node = if holds(2 * node) { 2 * node } else { 2 * node + 1 };
        }
        Some(node - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Brute force over every pair and every point of the axis.
    fn brute_force(intervals: &[Interval], points: &[Point]) -> OrderConflicts {
        let mut found = OrderConflicts::default();
        let mut positions = std::collections::BTreeSet::new();
        for point in points {
            for s in intervals.iter().filter(|s| s.group != point.group && (s.x.0..s.x.1).contains(&point.x)) {
                if !(s.y.0..s.y.1).contains(&point.y) {
                    positions.extend(point.x..s.x.1);
                    found.longest = found.longest.max(s.length);
                }
            }
        }
        found.left = positions.len() as i64;
        found
    }

    /// Consecutive intervals of one group on both axes: gaps and lengths on both.
    fn group(drawn: Vec<(i64, i64, i64, i64)>, group: u32) -> Vec<Interval> {
        let (mut x, mut y) = (0, 0);
        let next = |(gap, length, other_gap, other): (i64, i64, i64, i64)| {
            let interval =
                Interval { group, x: (x + gap, x + gap + length), y: (y + other_gap, y + other_gap + other), length };
            (x, y) = (interval.x.1, interval.y.1);
            interval
        };
        drawn.into_iter().map(next).collect()
    }

    proptest! {
        #[test]
        fn tree_equals_brute_force(
            groups in proptest::collection::vec(proptest::collection::vec((0i64..9, 0i64..9, 0i64..9, 0i64..9), 0..12), 0..5),
            points in proptest::collection::vec((0u32..5, 0i64..60, -12i64..12), 0..40),
        ) {
            let intervals: Vec<Interval> = (0..).zip(groups).flat_map(|(number, drawn)| group(drawn, number)).collect();
            let points: Vec<Point> =
                points.into_iter().map(|(group, x, moved)| Point { group, x, y: x + moved }).collect();
            prop_assert_eq!(find_order_conflicts(&intervals, &points), brute_force(&intervals, &points));
        }
    }
}
