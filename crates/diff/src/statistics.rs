//! Significance tests of differences: Welch's t test of means, or Yuen's variant on trimmed means.
//!
//! Yuen (1974, "The two-sample trimmed t for unequal population variances") excludes the same share of values at both
//! ends, so that one step with a pause does not hide the others, and computes the spread from winsorized values.
//! Without trimming it is Welch's test. Both return a consistent p value and confidence interval of the difference.

/// A trimmed mean with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Location {
    /// The trimmed mean.
    pub(super) center: f64,
    /// Square of its standard error; `None` for a single value.
    pub(super) error2: Option<f64>,
    /// Degrees of freedom of the error.
    freedom: f64,
}

/// Difference of two means, with its confidence interval and p value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Difference {
    /// Confidence interval of the mean after minus the mean before.
    pub(super) interval: (f64, f64),
    /// Two-sided probability of such a difference without a real one.
    pub(super) p: f64,
}

/// Minimum number of values for a correction by autocorrelation, which cannot be estimated from fewer.
const MIN_ORDERED_VALUES: usize = 10;
/// Maximum assumed autocorrelation of neighbors.
const MAX_AUTOCORRELATION: f64 = 0.8;

impl Location {
    /// Estimate the trimmed mean of values in time order; `None` without values. The share `trim` is removed at each
    /// end.
    ///
    /// Correlated neighboring steps (a GPU that warms up, a busy machine) carry less information than independent ones.
    /// The error is increased by their autocorrelation, as for an AR(1) process.
    #[must_use]
    pub(super) fn estimate(values: &[f64], trim: f64) -> Option<Self> {
        let plain = Self::independent(values, trim)?;
        if values.len() < MIN_ORDERED_VALUES {
            return Some(plain);
        }
        let rho = autocorrelation(values);
        let factor = (1.0 + rho) / (1.0 - rho);
        Some(Self {
            error2: plain.error2.map(|error2| error2 * factor),
            freedom: (plain.freedom / factor).max(1.0),
            ..plain
        })
    }

    /// Estimate the trimmed mean of independent values, in any order; `None` without values.
    #[must_use]
    pub(super) fn independent(values: &[f64], trim: f64) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let cut = ((n as f64 * trim) as usize).min((n - 1) / 2);
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let kept = &sorted[cut..n - cut];
        let center = mean(kept);
        if kept.len() < 2 {
            return Some(Self { center, error2: None, freedom: 0.0 });
        }
        let (least, most) = (kept[0], kept[kept.len() - 1]);
        let winsorized: Vec<f64> = sorted.iter().map(|v| v.clamp(least, most)).collect();
        let (h, middle) = (kept.len() as f64, mean(&winsorized));
        let squares: f64 = winsorized.iter().map(|v| (v - middle) * (v - middle)).sum();
        Some(Self { center, error2: Some(squares / (h * (h - 1.0))), freedom: h - 1.0 })
    }
}

/// Arithmetic mean; 0 without values.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Lag-1 autocorrelation, 0 to [`MAX_AUTOCORRELATION`], corrected for its bias in short series (Kendall 1954).
fn autocorrelation(values: &[f64]) -> f64 {
    let middle = mean(values);
    let all: f64 = values.iter().map(|v| (v - middle) * (v - middle)).sum();
    let pairs: f64 = values.windows(2).map(|w| (w[0] - middle) * (w[1] - middle)).sum();
    let found = if all > 0.0 { pairs / all } else { 0.0 };
    (found + (1.0 + 4.0 * found) / values.len() as f64).clamp(0.0, MAX_AUTOCORRELATION)
}

/// Welch's test of the difference of two trimmed means; `None` if each side has a single value.
///
/// `level` is the accepted share of false alarms; the confidence interval contains the true difference in all other
/// cases. `floor2` is the minimum of the squared standard error.
///
/// A side with a single value is assumed to have the spread of the other.
#[must_use]
pub(super) fn welch(before: &Location, after: &Location, level: f64, floor2: f64) -> Option<Difference> {
    let (error2, freedom) = match (before.error2, after.error2) {
        (Some(a), Some(b)) => {
            let terms = a * a / before.freedom.max(1.0) + b * b / after.freedom.max(1.0);
            let freedom = if terms > 0.0 { (a + b) * (a + b) / terms } else { before.freedom + after.freedom };
            (a + b, freedom)
        }
        // The mean of n values with standard deviation s has variance s^2 / n; one more value has s^2.
        (Some(a), None) => (a * (before.freedom + 2.0), before.freedom),
        (None, Some(b)) => (b * (after.freedom + 2.0), after.freedom),
        (None, None) => return None,
    };
    let (change, error) = (after.center - before.center, error2.max(floor2).sqrt());
    let reach = error * student_quantile(level, freedom);
    let p = match (error > 0.0, change == 0.0) {
        (true, _) => student_two_sided(change / error, freedom),
        (false, same) => f64::from(u8::from(same)),
    };
    let interval = (change - reach, change + reach);
    Some(Difference { interval, p })
}

/// Benjamini and Hochberg's adjusted p values: among those up to a level, the expected share of false alarms is at most
/// that level.
#[must_use]
pub(super) fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    let (mut out, mut least) = (vec![1.0; p.len()], 1.0_f64);
    for (from_end, at) in order.into_iter().enumerate() {
        let place = (p.len() - from_end) as f64;
        least = least.min(p[at] * p.len() as f64 / place);
        out[at] = least;
    }
    out
}

/// Holm's adjusted p values: the probability of any false alarm among those up to a level is at most that level (Holm
/// 1979).
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let (mut out, mut most) = (vec![1.0; p.len()], 0.0_f64);
    for (place, at) in order.into_iter().enumerate() {
        most = most.max((p[at] * (p.len() - place) as f64).min(1.0));
        out[at] = most;
    }
    out
}

/// Probability that a value of Student's t distribution is at least as far from 0 as `t`.
#[must_use]
fn student_two_sided(t: f64, freedom: f64) -> f64 {
    if !t.is_finite() || !freedom.is_finite() || freedom <= 0.0 {
        return if t.is_nan() || freedom.is_nan() { 1.0 } else { f64::from(u8::from(t.is_finite())) };
    }
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// Two-sided quantile of Student's t distribution for this probability.
#[must_use]
fn student_quantile(two_sided: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while student_two_sided(high, freedom) > two_sided && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        // No number lies between the two.
        if middle <= low || middle >= high {
            break;
        }
        if student_two_sided(middle, freedom) > two_sided {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Regularized incomplete beta function, by its continued fraction.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    // The fraction converges fast only on one side of the mean.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(1.0 - x, b, a) / b
    }
}

/// Continued fraction of the incomplete beta function (modified Lentz's method).
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let nonzero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..10_000 {
        let m = f64::from(m);
        for term in [
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ] {
            d = 1.0 / nonzero(1.0 + term * d);
            c = nonzero(1.0 + term / c);
            value *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// Logarithm of the gamma function for positive numbers (Lanczos, with Godfrey's coefficients for g = 7).
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        let pi = std::f64::consts::PI;
        return (pi / (pi * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let sum = (1..9).fold(COEFFICIENTS[0], |sum, i| sum + COEFFICIENTS[i] / (x + i as f64));
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() <= 1e-9 * expected.abs().max(1e-3), "{got} is not {expected}");
    }

    /// SciPy 1.17.1: `stats.t.sf(t, df) * 2`, `stats.t.isf(p / 2, df)`.
    #[test]
    fn students_distribution_is_scipys() {
        close(student_two_sided(2.0, 3.0), 0.139_325_968_558_843_06);
        close(student_two_sided(-0.5, 1.5), 0.680_567_110_669_94);
        close(student_two_sided(12.0, 30.0) * 1e13, 5.580_185_415_199_261);
        close(student_quantile(0.05, 4.0), 2.776_445_105_197_794_3);
        close(student_quantile(0.05, 1.0), 12.706_204_736_174_705);
        close(student_quantile(0.01, 57.3), 2.664_389_436_492_397_2);
    }

    /// SciPy 1.17.1: `stats.ttest_ind(b, a, equal_var=False, trim=trim)` with its `confidence_interval(0.95)`, and
    /// `stats.trim_mean`.
    #[test]
    fn the_test_is_scipys() {
        let a = [10.1, 9.8, 10.4, 10.0, 9.9, 10.2, 30.0, 10.1, 9.7];
        let b = [10.6, 10.9, 10.5, 11.0, 10.4, 10.8, 10.7];
        let of = |trim| {
            let (a, b) = (Location::independent(&a, trim).unwrap(), Location::independent(&b, trim).unwrap());
            welch(&a, &b, 0.05, 0.0).unwrap()
        };
        let plain = of(0.0);
        close(plain.p, 0.506_653_260_962_022);
        close(plain.interval.0, -6.666_109_993_110_274_5);
        close(plain.interval.1, 3.577_221_104_221_386);
        let trimmed = of(0.2);
        close(trimmed.p, 0.001_086_963_036_301_508);
        close(trimmed.interval.0, 0.321_289_146_130_304_35);
        close(trimmed.interval.1, 0.935_853_711_012_548_3);
        let center = |values: &[f64]| Location::independent(values, 0.2).unwrap().center;
        close(center(&a), 10.071_428_571_428_571);
        close(center(&b), 10.7);
    }

    /// SciPy 1.17.1: `stats.ttest_ind([5.9], x, equal_var=True)`, `stats.false_discovery_control`.
    #[test]
    fn one_value_and_many_rows_are_scipys() {
        let x = Location::independent(&[5.0, 5.2, 4.9, 5.1], 0.0).unwrap();
        let one = Location::independent(&[5.9], 0.2).unwrap();
        let tested = welch(&x, &one, 0.05, 0.0).unwrap();
        close(tested.p, 0.009_772_625_841_292_4);
        close(tested.interval.0, 0.390_653_442_240_731_34);
        close(tested.interval.1, 1.309_346_557_759_269_8);
        for (got, expected) in
            benjamini_hochberg(&[0.001, 0.04, 0.03, 0.2, 0.9]).iter().zip([0.005, 1.0 / 15.0, 1.0 / 15.0, 0.25, 0.9])
        {
            close(*got, expected);
        }
        assert!(welch(&one, &one, 0.05, 0.0).is_none(), "nothing has a spread");
    }

    #[test]
    fn values_without_spread_are_compared_exactly() {
        let of = |value: f64| Location::estimate(&[value; 4], 0.2).unwrap();
        assert_eq!(welch(&of(3.0), &of(3.0), 0.05, 0.0).unwrap().p, 1.0);
        let changed = welch(&of(3.0), &of(4.0), 0.05, 0.0).unwrap();
        assert_eq!((changed.p, changed.interval), (0.0, (1.0, 1.0)));
        assert!(Location::estimate(&[], 0.2).is_none());
    }

    /// Computed by hand: 4 times the smallest, 3 times the next, and no value less than the previous one.
    #[test]
    fn holm_adjusted_p_values() {
        let holm = [holm(&[0.04, 0.01, 0.03, 0.9]), holm(&[0.6, 0.7])].concat();
        assert_eq!(holm.len(), 6);
        for (got, expected) in holm.iter().zip([0.09, 0.04, 0.09, 0.9, 1.0, 1.0]) {
            assert!((got - expected).abs() < 1e-12, "{holm:?}");
        }
    }
}
