//! Cancellation checks inside long loops.

/// Asks from time to time whether to stop.
#[derive(Clone, Copy)]
pub(super) struct Stop<'s>(Option<&'s (dyn Fn() -> bool + Sync)>);

/// Turns of a loop between two questions.
const TURNS: usize = 4096;

impl<'s> Stop<'s> {
    /// Nobody stops it.
    pub(super) const NEVER: Self = Self(None);

    pub(super) fn when(stop: &'s (dyn Fn() -> bool + Sync)) -> Self {
        Self(Some(stop))
    }

    /// Whether to stop now. What was computed since is not to be used.
    pub(super) fn is_asked(self) -> bool {
        self.0.is_some_and(|stop| stop())
    }

    /// The same within a loop, at its turn of this number: asks now and then only.
    pub(super) fn is_asked_at(self, turn: usize) -> bool {
        turn.is_multiple_of(TURNS) && self.is_asked()
    }
}
