//! Metric values of nodes: written by the thread that owns the tree, read by the writer of the stream.

use stackline_recording::{Metric, Stats};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Values of one metric at one node, in one cache line, because a cache miss is the main cost of adding a value.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot {
    pub(crate) node: u32,
    pub(crate) metric: Metric,
    /// In the first of two slots: true once the second slot has separate values. Until then the second has the values
    /// of the first, because the exclusive and inclusive times of an operator without callees are equal.
    parted: AtomicBool,
    count: AtomicU64,
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
    squares: [AtomicU64; 2],
}

impl Slot {
    /// Create a metric slot of a call-tree node, without values.
    pub(crate) fn new(node: u32, metric: Metric) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            node,
            metric,
            parted: AtomicBool::new(false),
            count: zero(),
            sum: zero(),
            min: AtomicU64::new(u64::MAX),
            max: zero(),
            squares: [zero(), zero()],
        }
    }

    /// Overwrite this slot's values with those of the slot `from`.
    #[cold]
    fn copy(&self, from: &Self) {
        for (to, from) in self.values().into_iter().zip(from.values()) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Add a value to count, sum, extremes and squares. Plain loads and stores, because only the owner of the tree
    /// writes.
    #[inline]
    pub(crate) fn add(&self, value: u64) {
        let change = |cell: &AtomicU64, to: u64| cell.store(to, Ordering::Relaxed);
        change(&self.count, self.count.load(Ordering::Relaxed) + 1);
        change(&self.sum, self.sum.load(Ordering::Relaxed).wrapping_add(value));
        if value < self.min.load(Ordering::Relaxed) {
            change(&self.min, value);
        }
        if value > self.max.load(Ordering::Relaxed) {
            change(&self.max, value);
        }
        let square = u128::from(value) * u128::from(value);
        let (low, carry) = self.squares[0].load(Ordering::Relaxed).overflowing_add(square as u64);
        change(&self.squares[0], low);
        let high = (square >> 64) as u64 + u64::from(carry);
        if high != 0 {
            change(&self.squares[1], self.squares[1].load(Ordering::Relaxed).wrapping_add(high));
        }
    }

    /// Count, sum, minimum, maximum, and both words of the sum of squares.
    fn values(&self) -> [&AtomicU64; 6] {
        let [low, high] = &self.squares;
        [&self.count, &self.sum, &self.min, &self.max, low, high]
    }
}

/// One of a node's adjacent metric slots, for reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeSlot<'a> {
    slots: &'a [Slot],
    nth: usize,
}

impl<'a> NodeSlot<'a> {
    /// Slot number `nth` among the one or two adjacent slots of a node.
    pub(crate) fn new(slots: &'a [Slot], nth: usize) -> Self {
        Self { slots, nth }
    }

    /// Metric slot with its node and metric; [`Self::values`] may come from another slot.
    pub(crate) fn slot(&self) -> &'a Slot {
        &self.slots[self.nth]
    }

    /// Current values, read separately: a caller that needs a consistent set must ensure it.
    pub(crate) fn values(&self) -> Stats {
        let slot = if self.slots[0].parted.load(Ordering::Relaxed) { self.slot() } else { &self.slots[0] };
        let [count, sum, min, max, low, high] = slot.values().map(|value| value.load(Ordering::Relaxed));
        Stats {
            count,
            sum,
            min: if count == 0 { 0 } else { min },
            max,
            sum_of_squares: u128::from(high) << 64 | u128::from(low),
        }
    }
}

/// Add the exclusive and inclusive time of a call, in ns, to its two slots.
#[inline]
pub(crate) fn add_call([own, call]: &[Slot; 2], own_ns: u64, call_ns: u64) {
    let parted = own.parted.load(Ordering::Relaxed);
    if !parted && own_ns != call_ns {
        call.copy(own);
        own.parted.store(true, Ordering::Relaxed);
    }
    own.add(own_ns);
    if parted || own_ns != call_ns {
        call.add(call_ns);
    }
}
