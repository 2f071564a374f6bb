//! Descriptive statistics of a sample, as the tables show them.

use stackline_timeline::stats::{mean_std, quantile, sum};

/// Descriptive statistics of a sample (count, sum, mean, median, deviation, extremes), in the unit of its values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub count: usize,
    /// Sum.
    pub sum: f64,
    /// Arithmetic mean; 0 for no values.
    pub mean: f64,
    /// Middle value, the mean of the two middle values for an even count.
    pub median: f64,
    /// Standard deviation of the sample (divisor n - 1); `None` below two values.
    pub std: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl Summary {
    /// Compute the statistics of a sample; all are 0 without values.
    pub(crate) fn from_values(values: &[f64]) -> Self {
        let count = values.len();
        if count == 0 {
            return Self::default();
        }
        let (mean, std) = mean_std(values);
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self {
            count,
            sum: sum(values.iter().copied()),
            mean: mean.unwrap_or(0.0),
            median: quantile(&sorted, 0.5).unwrap_or(0.0),
            std,
            min: sorted[0],
            max: sorted[count - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sample() {
        let s = Summary::from_values(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!((s.count, s.sum, s.mean, s.median, s.min, s.max), (4, 10.0, 2.5, 2.5, 1.0, 4.0));
        assert!((s.std.unwrap() - (5.0f64 / 3.0).sqrt()).abs() < 1e-15);
        assert_eq!(Summary::from_values(&[7.0]).std, None);
        assert_eq!(Summary::from_values(&[]).count, 0);
    }
}
