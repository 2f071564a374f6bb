//! Values of metrics at nodes: written by the thread that owns the tree, read by the writer of the stream.

use stackline_recording::{Metric, Stats};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The values of one metric at one node: a line of the processor's cache, since finding it there is what adding to it
/// costs.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot {
    pub(crate) node: u32,
    pub(crate) metric: Metric,
    /// Of the first of two slots: whether the second one has values of its own. Until then its values are those of the first:
    /// an operator that calls no other takes as long with as without what it calls.
    parted: AtomicBool,
    count: AtomicU64,
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
    squares: [AtomicU64; 2],
}

impl Slot {
    /// No value yet.
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

    /// Takes the values of another one over.
    #[cold]
    fn copy(&self, from: &Self) {
        for (to, from) in self.values().into_iter().zip(from.values()) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Adds one value, by plain loads and stores: only the owner of the tree writes.
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

    fn values(&self) -> [&AtomicU64; 6] {
        let [low, high] = &self.squares;
        [&self.count, &self.sum, &self.min, &self.max, low, high]
    }
}

/// One of the slots of a node that lie side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    slots: &'a [Slot],
    nth: usize,
}

impl<'a> Place<'a> {
    pub(crate) fn new(slots: &'a [Slot], nth: usize) -> Self {
        Self { slots, nth }
    }

    /// The slot, for its node and metric: its values may be those of another one ([`Self::values`]).
    pub(crate) fn slot(&self) -> &'a Slot {
        &self.slots[self.nth]
    }

    /// Its values now, each by itself: whoever wants all of one moment sees to that.
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

/// Adds the times of one call to the slots of both, in ns: without the calls inside it, and in all.
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
