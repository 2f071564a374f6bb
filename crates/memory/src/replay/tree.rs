//! Segment tree of live bytes over positions, with fast updates of spans and a fast maximum.
//!
//! Sums have 64 bits. Together, spans of a damaged trace may exceed them. Then sums saturate, and results for such a
//! trace are as wrong as its sizes.

use crate::curve::{Peak, Span};
use stackline_model::MemoryCallId;

/// Segment tree; between two adjacent `positions` the bytes are constant.
#[derive(Debug)]
pub(super) struct Tree {
    positions: Vec<u32>,
    end: u32,
    /// Number of leaves, a power of two.
    leaves: usize,
    /// Per node: the maximum below it, without additions of its ancestors.
    most: Vec<i64>,
    /// Per node: bytes added to the whole subtree.
    added: Vec<i64>,
}

impl Tree {
    /// Empty tree. `positions` ascend; changes may occur at these and at `end`.
    pub(super) fn new(positions: Vec<u32>, end: u32) -> Self {
        let leaves = positions.len().next_power_of_two();
        Self { positions, end, leaves, most: vec![0; 2 * leaves], added: vec![0; 2 * leaves] }
    }

    /// Fill the segment tree with the live bytes of these lifetimes of memory blocks.
    pub(super) fn build(&mut self, spans: &[Span]) {
        let mut changes = vec![0i64; self.positions.len() + 1];
        for span in spans.iter().filter(|span| span.from < span.to) {
            let bytes = i64::try_from(span.bytes).unwrap_or(i64::MAX);
            let (from, to) = (self.leaf(span.from), self.leaf(span.to));
            changes[from] = changes[from].saturating_add(bytes);
            changes[to] = changes[to].saturating_sub(bytes);
        }
        let mut bytes = 0;
        for (leaf, change) in changes.iter().take(self.positions.len()).enumerate() {
            bytes = i64::saturating_add(bytes, *change);
            self.most[self.leaves + leaf] = bytes;
        }
        for node in (1..self.leaves).rev() {
            self.most[node] = self.most[2 * node].max(self.most[2 * node + 1]);
        }
    }

    /// Leaf of a position; one past the last leaf for the end.
    fn leaf(&self, position: u32) -> usize {
        if position >= self.end {
            self.positions.len()
        } else {
            self.positions.partition_point(|known| *known < position)
        }
    }

    /// Add the bytes of a memory block over its lifetime to the segment tree, or subtract them.
    pub(super) fn add(&mut self, span: Span, plus: bool) {
        let (first, end) = (self.leaf(span.from), self.leaf(span.to));
        if first < end {
            let bytes = i64::try_from(span.bytes).unwrap_or(i64::MAX);
            self.add_below(1, 0, self.leaves, (first, end), if plus { bytes } else { -bytes });
        }
    }

    /// Add bytes to the leaves in `span` below a node, which covers `count` leaves from `begin`, and update the maxima.
    fn add_below(&mut self, node: usize, begin: usize, count: usize, span: (usize, usize), bytes: i64) {
        if span.0 >= begin + count || span.1 <= begin {
            return;
        }
        if span.0 <= begin && begin + count <= span.1 {
            self.most[node] = self.most[node].saturating_add(bytes);
            self.added[node] = self.added[node].saturating_add(bytes);
            return;
        }
        let half = count / 2;
        self.add_below(2 * node, begin, half, span, bytes);
        self.add_below(2 * node + 1, begin + half, half, span, bytes);
        let below = self.most[2 * node].max(self.most[2 * node + 1]);
        self.most[node] = self.added[node].saturating_add(below);
    }

    /// Maximum of the live bytes over all positions, at its first position.
    pub(super) fn peak(&self) -> Peak {
        let mut node = 1;
        while node < self.leaves {
            let (left, right) = (2 * node, 2 * node + 1);
            node = if self.most[left] >= self.most[right] { left } else { right };
        }
        let position = self.positions.get(node - self.leaves).copied().unwrap_or(0);
        Peak { position: MemoryCallId(position), bytes: u64::try_from(self.most[1]).unwrap_or(0) }
    }

    /// Live bytes at a position, as summed up in the segment tree.
    pub(super) fn at(&self, position: u32) -> u64 {
        let leaf = self.positions.partition_point(|known| *known <= position).saturating_sub(1);
        let mut node = self.leaves + leaf;
        let mut bytes = self.most[node];
        while node > 1 {
            node /= 2;
            bytes = bytes.saturating_add(self.added[node]);
        }
        u64::try_from(bytes).unwrap_or(0)
    }
}
