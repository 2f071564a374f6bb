//! Periodic checks of a stop request inside long loops.

/// Request to stop a computation, which long loops check periodically.
#[derive(Clone, Copy)]
pub(super) struct Stop<'s>(Option<&'s (dyn Fn() -> bool + Sync)>);

/// Number of loop iterations between two checks.
const CHECK_INTERVAL: usize = 4096;

impl<'s> Stop<'s> {
    /// Stop request for computations that are never stopped.
    pub(super) const NEVER: Self = Self(None);

    /// Create a stop request from a function that returns true once the computation must stop.
    pub(super) fn when(stop: &'s (dyn Fn() -> bool + Sync)) -> Self {
        Self(Some(stop))
    }

    /// True if the computation must stop. Results since the last check are then invalid.
    pub(super) fn is_requested(self) -> bool {
        self.0.is_some_and(|stop| stop())
    }

    /// True if the computation must stop, for use in a loop. The request is checked only every [`CHECK_INTERVAL`]
    /// iterations.
    pub(super) fn is_requested_at(self, iteration: usize) -> bool {
        iteration.is_multiple_of(CHECK_INTERVAL) && self.is_requested()
    }
}
