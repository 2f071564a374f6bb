//! Common unit for the columns of a spread of times (mean, median, minimum, maximum), which readers compare within a
//! row.

use super::human::{self, Scale};
use stackline_model::{Column, Unit, Values};

/// Columns of a spread. Tables with the first four have it whole.
const COLUMNS: [&str; 5] = ["mean_us", "median_us", "min_us", "max_us", "p90_us"];
const WHOLE: usize = 4;
/// Maximum number of decimals, for small values next to large ones.
const MOST_DECIMALS: usize = 3;
/// Limit in percent above which spreads are written as a multiple.
const LARGE_PERCENT: f64 = 1000.0;

/// Scale of a column in a table with a whole spread (mean, median, minimum, maximum): the median's unit, with digits
/// for the least value. `None` for other columns.
pub(super) fn scale(columns: &[Column], at: usize) -> Option<Scale> {
    let find_column = |name: &str| columns.iter().find(|column| column.name == name);
    if !COLUMNS.contains(&&*columns[at].name) || !COLUMNS[..WHOLE].iter().all(|name| find_column(name).is_some()) {
        return None;
    }
    let median = human::scale(find_column("median_us")?);
    let all = || COLUMNS.iter().filter_map(|name| find_column(name));
    let values = || all().flat_map(|column| magnitudes(&column.values)).filter(|value| *value > 0.0);
    let (least, most) = values().fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)));
    let decimals = |scale: &Scale| {
        let shows = |decimals: &usize| least / scale.divisor >= 0.5 / 10_f64.powi(*decimals as i32);
        (scale.decimals..=MOST_DECIMALS).find(shows)
    };
    let finest = all().map(human::scale).min_by(|a, b| a.divisor.total_cmp(&b.divisor))?;
    let scale = if decimals(&median).is_some() { median } else { finest };
    let decimals = decimals(&scale).unwrap_or(MOST_DECIMALS);
    Some(Scale { decimals, grouped: most / scale.divisor >= 1e4, ..scale })
}

fn magnitudes(values: &Values) -> Vec<f64> {
    match values {
        Values::I64(values) => values.iter().flatten().map(|value| (*value as f64).abs()).collect(),
        Values::F64(values) => values.iter().flatten().map(|value| value.abs()).collect(),
        _ => Vec::new(),
    }
}

/// Format a spread above 1000 % as a multiple, such as `12 times`; `None` for smaller values and other columns.
pub(super) fn multiple(column: &Column, value: f64) -> Option<String> {
    let is_large = value.is_finite() && value > LARGE_PERCENT;
    let is_spread = column.unit == Unit::Percent && column.name.starts_with("spread");
    (is_large && is_spread).then(|| format!("{} times", human::count((value / 100.0).round() as i64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presenters::terminal::{Style, table};
    use stackline_model::Table;

    fn spread(rows: [[f64; 4]; 2], percent: [f64; 2]) -> String {
        let mut spread = Table::new("steps_spread", "Spread between steps");
        for (at, name) in COLUMNS[..WHOLE].iter().enumerate() {
            spread = spread.f64(name, Unit::Us, rows.map(|row| row[at]));
        }
        table(&spread.f64("spread_percent", Unit::Percent, percent), &Style::default())
    }

    #[test]
    fn a_row_has_one_unit() {
        let text = spread([[222_000.0, 222_000.0, 219_700.0, 224_800.0], [5e6, 5e6, 100.0, 1e7]], [2.3, 200.0]);
        assert!(text.contains("mean (ms)  median (ms)  min (ms)  max (ms)  spread (%)"), "{text}");
        assert!(text.contains("5,000.0") && text.contains("0.1") && text.contains("10,000.0"), "{text}");
        // Too small for the unit of the median.
        let text = spread([[900.0; 4], [3e6, 5e6, 0.02, 1e7]], [0.0, 200.0]);
        assert!(text.contains(" mean (µs) ") && text.contains(" median (µs) ") && text.contains("0.02"), "{text}");
    }

    #[test]
    fn large_spreads_are_multiples() {
        let text = spread([[900.0; 4], [900.0; 4]], [999.5, 1_500_000.0]);
        assert!(text.contains("999.5") && text.contains("15,000 times"), "{text}");
    }
}
