//! What it costs to report operators: one callback of so many is timed.

use crate::clock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A callback of so many is timed: a prime, so that programs that repeat themselves are met everywhere.
pub(crate) const EVERY: u32 = 61;
/// A callback that takes longer was interrupted, by other threads for their turn of a processor: that is not its cost. One
/// that meets a place for the first time, and takes memory for it, is honestly longer than most.
const LONGEST_NS: u64 = 100_000;

/// Callbacks that were timed.
#[derive(Debug)]
pub(crate) struct Timed {
    count: AtomicU64,
    ns: AtomicU64,
}

/// When operators begin, and when they end.
pub(crate) static BEGIN: Timed = Timed::new();
pub(crate) static END: Timed = Timed::new();
/// Of `PyTorch` for each operator that it reports, in ns and one more; 0 is not known.
static TORCH: AtomicU64 = AtomicU64::new(0);

impl Timed {
    const fn new() -> Self {
        Self { count: AtomicU64::new(0), ns: AtomicU64::new(0) }
    }

    /// A callback began at this tick and ends now.
    #[cold]
    pub(crate) fn add(&self, since: u64) {
        let took = clock::ns(clock::ticks().saturating_sub(since));
        if took <= LONGEST_NS {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.ns.fetch_add(took, Ordering::Relaxed);
        }
    }

    fn reset(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.ns.store(0, Ordering::Relaxed);
    }

    fn mean(&self) -> Option<(u32, u64)> {
        let (count, ns) = (self.count.load(Ordering::Relaxed), self.ns.load(Ordering::Relaxed));
        Some((u32::try_from(ns.checked_div(count)?).ok()?, count))
    }
}

/// What it costs to report one operator: mean values, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Of ours and the observer's when it begins,
    pub begin_ns: u32,
    /// and when it ends.
    pub end_ns: u32,
    /// Of `PyTorch`, to call us; `None` if that is not known.
    pub torch_ns: Option<u32>,
    /// So many operators were measured.
    pub measured: u64,
}

/// What reporting cost up to now; `None` before any operator was measured.
#[must_use]
pub fn cost() -> Option<Cost> {
    let ((begin_ns, measured), (end_ns, _)) = (BEGIN.mean()?, END.mean()?);
    let torch_ns = TORCH.load(Ordering::Relaxed).checked_sub(1).and_then(|ns| u32::try_from(ns).ok());
    Some(Cost { begin_ns, end_ns, torch_ns, measured })
}

/// `PyTorch` takes so long to report an operator.
pub(crate) fn set_torch(ns: u64) {
    TORCH.store(ns.saturating_add(1), Ordering::Relaxed);
}

/// A recording begins: what was measured for another one, or by the process that this one was forked from, is not its own.
/// What `PyTorch` takes is the same for all.
pub(crate) fn reset() {
    BEGIN.reset();
    END.reset();
}

#[cfg(test)]
mod tests {
    use super::Timed;
    use crate::clock;

    #[test]
    fn interrupted_callbacks_do_not_count() {
        clock::start();
        let timed = Timed::new();
        assert_eq!(timed.mean(), None);
        let long_ago = clock::ticks();
        std::thread::sleep(std::time::Duration::from_millis(1));
        timed.add(long_ago);
        assert_eq!(timed.mean(), None);
        // The machine may interrupt any of these, but not always.
        while timed.mean().is_none() {
            timed.add(clock::ticks());
        }
        timed.reset();
        assert_eq!(timed.mean(), None);
    }
}
