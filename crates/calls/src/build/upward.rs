//! Construction of bottom-up views without the path of each value: all values move up one caller at a time.
//!
//! The values of a row are contiguous, and their callers are identified by a column of labels, without a map lookup.
//! Callers that are too small get no row.

use super::labeled_tree::LabeledTree;
use super::{Builder, Value};
use crate::CallLabel;
use stackline_model::{CallNodeId, CallingContextTree};

/// Minimum sums of callers, in the metric's unit.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Thresholds {
    /// Minimum for a row.
    pub(in super::super) shown: f64,
    /// Minimum to follow the caller's own callers.
    pub(in super::super) followed: f64,
}

/// Metric value that moves up its call path, with the node that it has reached.
#[derive(Clone, Copy, Debug)]
struct Climber {
    at: CallNodeId,
    value: u32,
}

/// Sums of the metric per caller of one row, by the caller's label. `touched` lists the labels in use.
#[derive(Debug)]
struct Tally {
    sums: Vec<u64>,
    /// Target row and next position of a label's values; `None` if they stay.
    slots: Vec<Slot>,
    touched: Vec<usize>,
}

/// Caller of a row: its number of values, its own row, and the next position of its values in the frontier.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    many: usize,
    row: Option<usize>,
    next: Option<usize>,
}

impl Tally {
    /// Create sums for this number of labels, all 0.
    fn new(labels: usize) -> Self {
        Self { sums: vec![0; labels], slots: vec![Slot::default(); labels], touched: Vec::new() }
    }

    /// Reset the labels in use.
    fn clear(&mut self) {
        for label in self.touched.drain(..) {
            (self.sums[label], self.slots[label]) = (0, Slot::default());
        }
    }

    /// Add a value of the metric to the sum of a caller's label.
    fn add(&mut self, label: usize, sum: u64) {
        if self.slots[label].many == 0 {
            self.touched.push(label);
        }
        self.slots[label].many += 1;
        self.sums[label] = self.sums[label].saturating_add(sum);
    }
}

/// Values at one depth of a bottom-up view, contiguous per row, with the end of each row.
#[derive(Debug, Default)]
struct Frontier {
    climbers: Vec<Climber>,
    rows: Vec<(usize, usize)>,
}

impl Builder {
    /// Add values to the rows of their callers, from the measured frame upwards. With labels in `below`, only values
    /// whose path starts with these labels count, and row 0 is the last label. `least` returns the thresholds for a
    /// total.
    pub(super) fn add_upwards(
        &mut self,
        labeled: &LabeledTree<'_>,
        mut values: Vec<Value>,
        below: &[CallLabel],
        least: impl Fn(u64) -> Thresholds,
    ) {
        for value in &mut values {
            // The measured frame is hidden, and its calls are not calls of its callers.
            value.calls = if labeled.is_shown(value.node) { value.calls } else { 0 };
        }
        let up = nearest(labeled);
        let start = |(at, value): (usize, &Value)| Climber { at: up[value.node.index()], value: at as u32 };
        let mut climbers: Vec<Climber> = values.iter().enumerate().map(start).collect();
        for label in below {
            let label = self.ids.get(label).copied();
            climbers.retain(|one| one.at != CallingContextTree::ROOT && Some(labeled.label(one.at)) == label);
            climbers.iter_mut().for_each(|one| one.at = up[labeled.parent(one.at).index()]);
        }
        let is_own = |value: &Value| labeled.is_shown(value.node);
        let root = &mut self.nodes[0];
        for value in climbers.iter().map(|one| &values[one.value as usize]) {
            root.inclusive.merge(&value.stats);
            root.calls += if below.is_empty() { 0 } else { value.calls };
            if below.len() == 1 && is_own(value) {
                root.exclusive.merge(&value.stats);
            }
        }
        root.label = below.last().and_then(|label| self.ids.get(label)).copied().unwrap_or(0);
        let least = least(root.inclusive.sum);
        let mut tally = Tally::new(self.labels.len());
        let mut front = Frontier { rows: vec![(0, climbers.len())], climbers };
        let mut is_first = below.is_empty();
        while !front.climbers.is_empty() {
            front = self.climb(labeled, &up, &values, &front, (&mut tally, least, is_first));
            is_first = false;
        }
    }

    /// Move all values one caller up, and create the rows of the callers. Returns the values whose callers are followed
    /// next.
    fn climb(
        &mut self,
        labeled: &LabeledTree<'_>,
        up: &[CallNodeId],
        values: &[Value],
        front: &Frontier,
        (tally, least, is_first): (&mut Tally, Thresholds, bool),
    ) -> Frontier {
        let mut next = Frontier::default();
        let mut from = 0;
        for &(row, end) in &front.rows {
            let here = &front.climbers[from..end];
            from = end;
            tally.clear();
            for one in here.iter().filter(|one| one.at != CallingContextTree::ROOT) {
                tally.add(labeled.label(one.at), values[one.value as usize].stats.sum);
            }
            self.add_caller_rows(row, tally, least, &mut next);
            for one in here.iter().filter(|one| one.at != CallingContextTree::ROOT) {
                let slot = &mut tally.slots[labeled.label(one.at)];
                let Some(caller) = slot.row else { continue };
                let value = &values[one.value as usize];
                let node = &mut self.nodes[caller];
                node.inclusive.merge(&value.stats);
                node.calls += value.calls;
                if is_first && labeled.is_shown(value.node) {
                    node.exclusive.merge(&value.stats);
                }
                if let Some(place) = &mut slot.next {
                    next.climbers[*place] = Climber { at: up[labeled.parent(one.at).index()], value: one.value };
                    *place += 1;
                }
            }
        }
        next
    }

    /// Create a row for each caller of `row` above the threshold, and reserve space for the values to follow.
    fn add_caller_rows(&mut self, row: usize, tally: &mut Tally, least: Thresholds, next: &mut Frontier) {
        for &label in &tally.touched {
            let sum = tally.sums[label] as f64;
            if sum < least.shown {
                self.count_small_caller(row);
                continue;
            }
            let slot = &mut tally.slots[label];
            let caller = self.push_row(row, label);
            slot.row = Some(caller);
            if sum >= least.followed {
                let first = next.climbers.len();
                slot.next = Some(first);
                next.climbers.resize(first + slot.many, Climber { at: CallingContextTree::ROOT, value: 0 });
                next.rows.push((caller, first + slot.many));
            }
        }
    }

    /// Count a caller of `row` that is too small for its own row.
    fn count_small_caller(&mut self, row: usize) {
        if self.small_callers.len() <= row {
            self.small_callers.resize(row + 1, 0);
        }
        self.small_callers[row] += 1;
    }
}

/// By node: the nearest node with a shown frame, at or above it; the root if there is none.
fn nearest(labeled: &LabeledTree<'_>) -> Vec<CallNodeId> {
    let mut nearest = vec![CallingContextTree::ROOT; labeled.tree.nodes.len()];
    for node in labeled.tree.nodes.ids().skip(1) {
        let above = nearest[labeled.parent(node).index()];
        nearest[node.index()] = if labeled.is_shown(node) { node } else { above };
    }
    nearest
}
