//! Time that a change saves, with bounds.

/// Time that a change saves, in ns, with bounds: `low <= likely <= high`. Negative if the change costs time.
///
/// What-if and findings share this type. The unit of memory findings is bytes, so they have their own type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gain {
    /// Predicted gain.
    pub likely_ns: i64,
    /// Lower bound: missing facts are assumed against the change.
    pub low_ns: i64,
    /// Upper bound: missing facts are assumed in favor of the change.
    pub high_ns: i64,
    /// True if the change may be impossible, such as half of the time of a kernel. What-if assumes that the given edits
    /// are possible.
    pub is_speculative: bool,
}

impl Gain {
    /// Create the gain of a possible change.
    pub const fn new(likely_ns: i64, low_ns: i64, high_ns: i64) -> Self {
        Self { likely_ns, low_ns, high_ns, is_speculative: false }
    }

    /// Gain without uncertainty.
    pub const fn exact(ns: i64) -> Self {
        Self::new(ns, ns, ns)
    }

    /// Mark the gain as speculative.
    #[must_use]
    pub const fn speculative(self) -> Self {
        Self { is_speculative: true, ..self }
    }

    /// Apply a function to the gain and to both bounds, such as a division by the number of steps.
    #[must_use]
    pub fn map(self, change: impl Fn(i64) -> i64) -> Self {
        let [likely_ns, low_ns, high_ns] = [self.likely_ns, self.low_ns, self.high_ns].map(change);
        Self { likely_ns, low_ns, high_ns, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::Gain;

    #[test]
    fn speculation_survives_changes_of_the_numbers() {
        let gain = Gain::new(80, 60, 100);
        assert_eq!((gain.is_speculative, gain.speculative().is_speculative), (false, true));
        assert_eq!(gain.speculative().map(|ns| ns / 20), Gain::new(4, 3, 5).speculative());
        assert_eq!(Gain::exact(7).map(|ns| -ns), Gain::new(-7, -7, -7));
    }
}
