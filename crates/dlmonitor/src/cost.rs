//! Measured cost of reporting operators: one of every `TIMED_EVERY` callbacks is timed.

use crate::clock;
use std::sync::atomic::{AtomicU64, Ordering};

/// One of this many callbacks is timed. A prime number, so that all parts of periodic programs are sampled.
pub(crate) const TIMED_EVERY: u32 = 61;
/// Longer callbacks were interrupted by other threads, so their time is not a cost of reporting. A callback for a new
/// call path allocates memory and takes longer than most without any interruption.
const LONGEST_NS: u64 = 100_000;

/// Number and total duration of the timed callbacks of one kind (begins or ends of operators).
#[derive(Debug)]
pub(crate) struct Timed {
    count: AtomicU64,
    ns: AtomicU64,
}

/// Callbacks at the begin and at the end of operators.
pub(crate) static BEGIN: Timed = Timed::new();
pub(crate) static END: Timed = Timed::new();
/// Cost of `PyTorch` per reported operator in ns, plus 1; 0 if unknown.
static TORCH_COST: AtomicU64 = AtomicU64::new(0);

impl Timed {
    /// Create counts of 0.
    const fn new() -> Self {
        Self { count: AtomicU64::new(0), ns: AtomicU64::new(0) }
    }

    /// Add the duration of a callback that began at the tick `since` and ends now.
    #[cold]
    pub(crate) fn add(&self, since: u64) {
        let took = clock::ns(clock::ticks().saturating_sub(since));
        if took <= LONGEST_NS {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.ns.fetch_add(took, Ordering::Relaxed);
        }
    }

    /// Set number and duration to 0.
    fn reset(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.ns.store(0, Ordering::Relaxed);
    }

    /// Mean duration in ns and number of the timed callbacks; `None` if none was timed.
    fn mean(&self) -> Option<(u32, u64)> {
        let (count, ns) = (self.count.load(Ordering::Relaxed), self.ns.load(Ordering::Relaxed));
        Some((u32::try_from(ns.checked_div(count)?).ok()?, count))
    }
}

/// Mean cost of reporting one operator in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Cost of this library and the observer at its begin.
    pub begin_ns: u32,
    /// Cost of this library and the observer at its end.
    pub end_ns: u32,
    /// Cost of `PyTorch` for calling this library; `None` if unknown.
    pub torch_ns: Option<u32>,
    /// Number of measured operators.
    pub measured: u64,
}

/// Measured cost of reporting one operator; `None` before an operator was measured.
#[must_use]
pub fn cost() -> Option<Cost> {
    let ((begin_ns, measured), (end_ns, _)) = (BEGIN.mean()?, END.mean()?);
    let torch_ns = TORCH_COST.load(Ordering::Relaxed).checked_sub(1).and_then(|ns| u32::try_from(ns).ok());
    Some(Cost { begin_ns, end_ns, torch_ns, measured })
}

/// Set the cost that `PyTorch` itself adds to each reported operator, in ns.
pub(crate) fn set_torch_cost(ns: u64) {
    TORCH_COST.store(ns.saturating_add(1), Ordering::Relaxed);
}

/// Reset the measured cost of reporting when a recording begins. Measurements of another recording, or of the process
/// before a fork, do not count. The cost of `PyTorch` is the same for all recordings.
pub(crate) fn reset() {
    BEGIN.reset();
    END.reset();
}

#[cfg(test)]
mod tests {
    use super::Timed;
    use crate::clock;

    #[test]
    fn interrupted_callbacks_are_not_timed() {
        clock::start();
        let timed = Timed::new();
        assert_eq!(timed.mean(), None);
        let long_ago = clock::ticks();
        std::thread::sleep(std::time::Duration::from_millis(1));
        timed.add(long_ago);
        assert_eq!(timed.mean(), None);
        // The system may interrupt each of these, but not all of them.
        while timed.mean().is_none() {
            timed.add(clock::ticks());
        }
        timed.reset();
        assert_eq!(timed.mean(), None);
    }
}
