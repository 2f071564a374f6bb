//! Numbers for people: one unit per column, chosen so that its largest value reads well.

use stackline_model::format::{BYTES, TIME, choose_scale, decimals_for};
use stackline_model::{Column, Unit, Values};

pub use stackline_model::format::{Scale, bytes, capital, count, duration, number, signed_duration};

/// Scale for the numbers of a table column, from its unit and its largest magnitude.
pub fn scale(column: &Column) -> Scale {
    let largest = largest(&column.values);
    let integer = matches!(column.values, Values::I64(_));
    match column.unit {
        Unit::Ns if is_far_from_origin(&column.values) => EPOCH,
        Unit::Ns => choose_scale(&TIME, 1.0, largest, integer),
        Unit::Us => choose_scale(&TIME, 1e3, largest, false),
        Unit::Ms => choose_scale(&TIME, 1e6, largest, false),
        Unit::Bytes => choose_scale(&BYTES, 1.0, largest, integer),
        Unit::MiB => choose_scale(&BYTES, 1_048_576.0, largest, false),
        Unit::Percent => Scale { divisor: 1.0, suffix: "%", decimals: 1, grouped: false },
        unit => {
            let decimals = if integer { 0 } else { decimals_for(largest) };
            Scale { divisor: 1.0, suffix: unit.suffix(), decimals, grouped: largest >= 1e4 && !is_id(&column.name) }
        }
    }
}

/// Times since an epoch in seconds, to the µs.
const EPOCH: Scale = Scale { divisor: 1e9, suffix: "s", decimals: 6, grouped: false };
/// Longer times in ns, which lie within a thousandth of each other, are times since an epoch (1970, or the start of the machine).
const LONG_NS: u64 = 10_000_000_000_000;

/// Check if a column contains absolute times, since an epoch, whose differences the usual scale would hide.
fn is_far_from_origin(values: &Values) -> bool {
    let Values::I64(values) = values else { return false };
    let times = || values.iter().flatten().copied();
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return false };
    let nearest = if (first < 0) == (last < 0) { first.unsigned_abs().min(last.unsigned_abs()) } else { 0 };
    nearest >= LONG_NS && last.abs_diff(first) < nearest / 1000
}

/// Largest finite magnitude of a column's numbers; 0 for text.
pub(super) fn largest(values: &Values) -> f64 {
    let finite = |m: f64, v: f64| if v.is_finite() { m.max(v.abs()) } else { m };
    match values {
        Values::I64(v) => v.iter().flatten().map(|&v| v as f64).fold(0.0, finite),
        Values::F64(v) => v.iter().flatten().copied().fold(0.0, finite),
        _ => 0.0,
    }
}

/// Check if a column name denotes identifiers such as ranks, whose digits are not grouped.
fn is_id(name: &str) -> bool {
    let last = name.rsplit(['_', ' ']).next().unwrap_or(name).to_ascii_lowercase();
    matches!(last.as_str(), "id" | "index" | "rank" | "step" | "stream" | "device" | "pid" | "tid" | "correlation")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, unit: Unit, values: &[f64]) -> Column {
        Column { name: name.to_owned(), unit, values: Values::F64(values.iter().copied().map(Some).collect()) }
    }

    #[test]
    fn one_unit_per_column() {
        let scale = scale(&column("time", Unit::Ns, &[12_345_678.0, 1_500.0]));
        assert_eq!(
            (scale.suffix, number(12_345_678.0, &scale), number(1_500.0, &scale)),
            ("ms", "12.35".into(), "0.00".into())
        );
        let us = super::scale(&column("time", Unit::Us, &[52_000_000.0]));
        assert_eq!((us.suffix, number(52_000_000.0, &us)), ("s", "52.00".into()));
    }

    #[test]
    fn times_since_an_epoch_stay_distinguishable() {
        let formatted = |values: [i64; 2]| {
            let values = Values::I64(values.map(Some).to_vec());
            scale(&Column { name: "time_ns".to_owned(), unit: Unit::Ns, values })
        };
        let epoch = formatted([1_621_401_187_000_123_000, 1_621_401_187_001_000_000]);
        assert_eq!((epoch.suffix, number(1_621_401_187_000_123_000.0, &epoch)), ("s", "1621401187.000123".into()));
        assert_eq!(formatted([0, 1_621_401_187_000_123_000]).decimals, 0, "durations");
        assert_eq!(formatted([1_000, 2_000_000]).suffix, "µs");
    }

    #[test]
    fn durations_and_sizes_have_separate_units() {
        assert_eq!(duration(950), "950 ns");
        assert_eq!(duration(15_200), "15.20 µs");
        assert_eq!(duration(-1_234_000_000), "-1234 ms");
        assert_eq!(bytes(10 * 1024 * 1024), "10.00 MiB");
    }

    #[test]
    fn ids_are_not_grouped_and_counts_are() {
        let ids = scale(&column("stream_id", Unit::None, &[123_456.0]));
        assert_eq!(number(123_456.0, &ids), "123456");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(-999), "-999");
        assert_eq!(number(-0.04, &Scale { divisor: 1.0, suffix: "%", decimals: 1, grouped: false }), "0.0");
    }
}
