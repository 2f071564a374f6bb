//! Descriptive statistics with the definitions of pandas (sample standard deviation, linear quantiles), as in HTA's
//! tables.

use stackline_model::{Column, Unit, Values};

/// Descriptive statistics of a list of numbers: count, mean, standard deviation, extremes and quartiles. All fields
/// except the count are `None` where they are not defined.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Describe {
    /// Number of values.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Sample standard deviation (divided by n - 1); `None` for fewer than two numbers.
    pub std: Option<f64>,
    /// Minimum.
    pub min: Option<f64>,
    /// First quartile.
    pub q25: Option<f64>,
    /// Median.
    pub q50: Option<f64>,
    /// Third quartile.
    pub q75: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
}

/// Compute descriptive statistics of numbers. Their order affects only the last bits of sums.
pub fn describe(values: &[f64]) -> Describe {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (mean, std) = mean_std(values);
    Describe {
        count: values.len(),
        mean,
        std,
        min: sorted.first().copied(),
        q25: quantile(&sorted, 0.25),
        q50: quantile(&sorted, 0.5),
        q75: quantile(&sorted, 0.75),
        max: sorted.last().copied(),
    }
}

/// Sum of numbers; 0 if there are none (the standard library returns -0, which would be visible).
pub fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |a, b| a + b)
}

/// Mean and sample standard deviation of values; `None` for fewer than one or two values.
pub fn mean_std(values: &[f64]) -> (Option<f64>, Option<f64>) {
    if values.is_empty() {
        return (None, None);
    }
    let n = values.len() as f64;
    let mean = sum(values.iter().copied()) / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    (Some(mean), (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()))
}

/// Quantile `q` (0 to 1) of sorted numbers, interpolated linearly between neighbors; `None` without numbers.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64))
}

/// Round to `digits` decimals, halves to even, as numpy does.
pub fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round_ties_even() / scale
}

/// Table columns `count`, `mean`, `std`, `min`, `p25`, `p50`, `p75`, `max`, with one row per description.
pub fn columns(rows: &[Describe], unit: Unit) -> Vec<Column> {
    let number = |name: &str, get: fn(&Describe) -> Option<f64>| Column {
        name: name.to_owned(),
        unit,
        values: Values::F64(rows.iter().map(get).collect()),
    };
    let count = Values::I64(rows.iter().map(|d| Some(d.count as i64)).collect());
    vec![
        Column { name: "count".to_owned(), unit: Unit::None, values: count },
        number("mean", |d| d.mean),
        number("std", |d| d.std),
        number("min", |d| d.min),
        number("p25", |d| d.q25),
        number("p50", |d| d.q50),
        number("p75", |d| d.q75),
        number("max", |d| d.max),
    ]
}

/// `part` of `whole` in percent; `None` if `whole` is not positive.
pub fn percent(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| 100.0 * part / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_like_pandas() {
        let d = describe(&[1.0, 2.0, 4.0, 8.0]);
        assert_eq!((d.count, d.mean, d.q25, d.q50, d.q75), (4, Some(3.75), Some(1.75), Some(3.0), Some(5.0)));
        assert!((d.std.unwrap() - 3.095_695_936_834_452).abs() < 1e-12);
        assert_eq!(describe(&[5.0]).std, None);
        assert_eq!(describe(&[]), Describe::default());
        assert_eq!(round(0.125, 2), 0.12);
    }

    #[test]
    fn percent_of_zero_is_none() {
        assert_eq!((percent(1.0, 0.0), percent(1.0, 4.0)), (None, Some(25.0)));
    }
}
