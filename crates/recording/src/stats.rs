//! Count, sum and spread of the values of a metric.

use serde::{Deserialize, Serialize};

/// Count, sum and spread of a metric at one node. Exact: sums of squares are kept as integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: u64,
    /// Smallest value, 0 without values.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Sum of the squares.
    pub sum_of_squares: u128,
}

impl Stats {
    /// Add one value to the statistics of a metric.
    pub fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.sum_of_squares = self.sum_of_squares.saturating_add(u128::from(value) * u128::from(value));
    }

    /// Add the statistics of another set of a metric's values to these; commutative and associative.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
    }

    /// Mean of a metric's values, 0 without values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Standard deviation of the values (population), 0 without values.
    #[must_use]
    pub fn standard_deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        // n Σx² − (Σx)² in integers if they fit, because the difference of two large floats would be inexact.
        let (n, sum) = (u128::from(self.count), u128::from(self.sum));
        let spread = match (n.checked_mul(self.sum_of_squares), sum.checked_mul(sum)) {
            (Some(squares), Some(square)) => squares.saturating_sub(square) as f64,
            _ => return (self.sum_of_squares as f64 / n as f64 - self.mean() * self.mean()).max(0.0).sqrt(),
        };
        spread.sqrt() / n as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Stats;
    use proptest::prelude::*;

    fn stats_of(values: &[u64]) -> Stats {
        let mut stats = Stats::default();
        for &value in values {
            stats.add(value);
        }
        stats
    }

    proptest! {
        #[test]
        fn merging_equals_adding(a in proptest::collection::vec(0_u64..1 << 40, 0..20),
                             b in proptest::collection::vec(0_u64..1 << 40, 0..20)) {
            let both = stats_of(&[a.clone(), b.clone()].concat());
            let (mut left, mut right) = (stats_of(&a), stats_of(&b));
            left.merge(&stats_of(&b));
            right.merge(&stats_of(&a));
            prop_assert_eq!(left, both);
            prop_assert_eq!(right, both);
        }

        #[test]
        fn deviation_equals_the_textbook_formula(values in proptest::collection::vec(0_u64..1 << 30, 1..50)) {
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            let variance = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum::<f64>() / values.len() as f64;
            let stats = stats_of(&values);
            prop_assert!((stats.mean() - mean).abs() <= 1e-6 * mean.max(1.0));
            prop_assert!((stats.standard_deviation() - variance.sqrt()).abs() <= 1e-6 * variance.sqrt().max(1.0));
        }
    }
}
