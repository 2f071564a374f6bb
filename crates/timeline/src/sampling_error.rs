//! Confidence intervals of counts and shares of samples.

/// Half width of a 95 % interval of the normal distribution, in standard deviations.
const DEVIATIONS: f64 = 1.96;

/// 95 % confidence bounds of the mean of a Poisson distribution, from one observed count. Cube roots of counts are
/// nearly normal (Wilson and Hilferty 1931).
pub fn count_bounds(count: usize) -> (f64, f64) {
    let bound = |count: f64, sign: f64| {
        let root = 1.0 - 1.0 / (9.0 * count) + sign * DEVIATIONS / (3.0 * count.sqrt());
        count * root.max(0.0).powi(3)
    };
    let low = if count == 0 { 0.0 } else { bound(count as f64, -1.0) };
    (low, bound(count as f64 + 1.0, 1.0))
}

/// 95 % confidence bounds of the share of `some` among `all` samples, from 0 to 1 (Wilson 1927).
pub fn share_bounds(some: usize, all: usize) -> (f64, f64) {
    if all == 0 {
        return (0.0, 1.0);
    }
    let (n, share, square) = (all as f64, some as f64 / all as f64, DEVIATIONS * DEVIATIONS);
    let middle = share + square / (2.0 * n);
    let half = DEVIATIONS * (share * (1.0 - share) / n + square / (4.0 * n * n)).sqrt();
    let whole = 1.0 + square / n;
    (((middle - half) / whole).max(0.0), ((middle + half) / whole).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exact bounds from tables of the Poisson distribution.
    #[test]
    fn bounds_of_counts() {
        for (count, low, high) in
            [(0, 0.0, 3.69), (1, 0.025, 5.57), (4, 1.09, 10.24), (20, 12.2, 30.9), (100, 81.4, 121.6)]
        {
            let found = count_bounds(count);
            assert!((found.0 - low).abs() < 0.1 && (found.1 - high).abs() < 0.15, "{count}: {found:?}");
        }
    }

    #[test]
    fn bounds_of_shares() {
        for (some, all, low, high) in
            [(0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0), (5, 10, 0.237, 0.763), (1, 1, 0.207, 1.0)]
        {
            let found = share_bounds(some, all);
            assert!((found.0 - low).abs() < 1e-3 && (found.1 - high).abs() < 1e-3, "{some} of {all}: {found:?}");
        }
        assert_eq!(share_bounds(0, 0), (0.0, 1.0));
    }
}
