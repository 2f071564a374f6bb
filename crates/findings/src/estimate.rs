//! Estimates from counts of samples, with confidence intervals.

/// Time in ns with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Estimate {
    pub(super) ns: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Estimate {
    /// Add waiting time, in ns, that probably belongs to the estimated work. The lower bound stays, because this time
    /// is uncertain.
    pub(super) fn with_waits(self, ns: f64) -> Self {
        let ns = self.ns + ns;
        Self { ns, high: self.high.max(ns), ..self }
    }

    /// Sum independent estimates and their bounds; errors partly cancel.
    pub(super) fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        let (mut sum, mut below, mut above) = (Self::default(), 0.0, 0.0);
        for Self { ns, low, high } in all {
            sum.ns += ns;
            below += (ns - low) * (ns - low);
            above += (high - ns) * (high - ns);
        }
        Self { low: (sum.ns - below.sqrt()).max(0.0), high: sum.ns + above.sqrt(), ..sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_sums_partly_even_out() {
        let one = Estimate { ns: 10.0, low: 7.0, high: 14.0 };
        let sum = Estimate::sum([one; 4]);
        assert_eq!((sum.ns, sum.low, sum.high), (40.0, 34.0, 48.0));
        assert_eq!(Estimate::sum([]), Estimate::default());
    }
}
