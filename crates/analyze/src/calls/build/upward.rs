//! Views towards callers without paths: all values go up one caller at a time, together, row by row.
//!
//! The values of a row stand side by side, and who called them is told by a column of labels: nothing is looked up in a map, and
//! of a caller that is too narrow no row is made.

use super::linear::Seen;
use super::{Builder, Value};
use crate::calls::CallLabel;
use stackline_model::{CallNodeId, CallingContextTree};

/// How much callers must hold, in the metric's unit.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Least {
    /// To have a row.
    pub(in super::super) shown: f64,
    /// To have their own callers followed.
    pub(in super::super) followed: f64,
}

/// A value on its way up: where it is, and which one it is.
#[derive(Clone, Copy, Debug)]
struct Climber {
    at: CallNodeId,
    value: u32,
}

/// What the callers of a row hold, by label; the labels that have any are told apart from those of the row before.
#[derive(Debug)]
struct Tally {
    sums: Vec<u64>,
    /// Where the values of a label go next: none where they stay.
    slots: Vec<Slot>,
    touched: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    many: usize,
    row: Option<usize>,
    next: Option<usize>,
}

impl Tally {
    fn new(labels: usize) -> Self {
        Self { sums: vec![0; labels], slots: vec![Slot::default(); labels], touched: Vec::new() }
    }

    fn clear(&mut self) {
        for label in self.touched.drain(..) {
            (self.sums[label], self.slots[label]) = (0, Slot::default());
        }
    }

    fn add(&mut self, label: usize, sum: u64) {
        if self.slots[label].many == 0 {
            self.touched.push(label);
        }
        self.slots[label].many += 1;
        self.sums[label] = self.sums[label].saturating_add(sum);
    }
}

/// Values of one depth, those of a row side by side, and where each row's end.
#[derive(Debug, Default)]
struct Front {
    climbers: Vec<Climber>,
    rows: Vec<(usize, usize)>,
}

impl Builder {
    /// Puts values towards their callers, below these labels if any are given: then row 0 is the last of them. What is `least` is
    /// asked once it is known how much there is.
    pub(super) fn add_upwards(
        &mut self,
        seen: &Seen<'_>,
        mut values: Vec<Value>,
        below: &[CallLabel],
        least: impl Fn(u64) -> Least,
    ) {
        for value in &mut values {
            // What was hit is not shown: its calls are not those of its callers.
            value.calls = if seen.is_shown(value.node) { value.calls } else { 0 };
        }
        let up = nearest(seen);
        let start = |(at, value): (usize, &Value)| Climber { at: up[value.node.index()], value: at as u32 };
        let mut climbers: Vec<Climber> = values.iter().enumerate().map(start).collect();
        for label in below {
            let label = self.ids.get(label).copied();
            climbers.retain(|one| one.at != CallingContextTree::ROOT && Some(seen.label(one.at)) == label);
            climbers.iter_mut().for_each(|one| one.at = up[seen.parent(one.at).index()]);
        }
        let is_own = |value: &Value| seen.is_shown(value.node);
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
        let mut front = Front { rows: vec![(0, climbers.len())], climbers };
        let mut is_first = below.is_empty();
        while !front.climbers.is_empty() {
            front = self.climb(seen, &up, &values, &front, (&mut tally, least, is_first));
            is_first = false;
        }
    }

    /// Makes the rows of the callers of each row; gives the values whose callers are to be followed on.
    fn climb(
        &mut self,
        seen: &Seen<'_>,
        up: &[CallNodeId],
        values: &[Value],
        front: &Front,
        (tally, least, is_first): (&mut Tally, Least, bool),
    ) -> Front {
        let mut next = Front::default();
        let mut from = 0;
        for &(row, end) in &front.rows {
            let here = &front.climbers[from..end];
            from = end;
            tally.clear();
            for one in here.iter().filter(|one| one.at != CallingContextTree::ROOT) {
                tally.add(seen.label(one.at), values[one.value as usize].stats.sum);
            }
            self.place(row, tally, least, &mut next);
            for one in here.iter().filter(|one| one.at != CallingContextTree::ROOT) {
                let slot = &mut tally.slots[seen.label(one.at)];
                let Some(caller) = slot.row else { continue };
                let value = &values[one.value as usize];
                let node = &mut self.nodes[caller];
                node.inclusive.merge(&value.stats);
                node.calls += value.calls;
                if is_first && seen.is_shown(value.node) {
                    node.exclusive.merge(&value.stats);
                }
                if let Some(place) = &mut slot.next {
                    next.climbers[*place] = Climber { at: up[seen.parent(one.at).index()], value: one.value };
                    *place += 1;
                }
            }
        }
        next
    }

    /// Makes rows of the callers that hold enough, and room for the values of those that are followed.
    fn place(&mut self, row: usize, tally: &mut Tally, least: Least, next: &mut Front) {
        for &label in &tally.touched {
            let sum = tally.sums[label] as f64;
            if sum < least.shown {
                self.note_narrow(row);
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

    /// Counts a caller of a row that has no row of its own.
    fn note_narrow(&mut self, row: usize) {
        if self.narrow.len() <= row {
            self.narrow.resize(row + 1, 0);
        }
        self.narrow[row] += 1;
    }
}

/// By node: the nearest one with a frame that is shown, at or above it; the root if there is none.
fn nearest(seen: &Seen<'_>) -> Vec<CallNodeId> {
    let mut nearest = vec![CallingContextTree::ROOT; seen.tree.nodes.len()];
    for node in seen.tree.nodes.ids().skip(1) {
        let above = nearest[seen.parent(node).index()];
        nearest[node.index()] = if seen.is_shown(node) { node } else { above };
    }
    nearest
}
