//! Numbers for people: one unit per column, chosen so that its largest value reads well.

use stackline_model::{Column, Unit, Values};

/// How the numbers of a column are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Numbers are divided by this before they are shown.
    pub divisor: f64,
    /// The unit's suffix after the division, empty for none.
    pub suffix: &'static str,
    /// Digits after the point.
    pub decimals: usize,
    /// Whether thousands are separated.
    pub grouped: bool,
}

const TIME: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
const BYTES: [(f64, &str); 4] = [(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1_024.0, "KiB"), (1.0, "B")];

/// The scale for a column, from its unit and its largest magnitude.
pub fn scale(column: &Column) -> Scale {
    let largest = largest(&column.values);
    let integer = matches!(column.values, Values::I64(_));
    match column.unit {
        Unit::Ns => ladder(&TIME, 1.0, largest, integer),
        Unit::Us => ladder(&TIME, 1e3, largest, false),
        Unit::Ms => ladder(&TIME, 1e6, largest, false),
        Unit::Bytes => ladder(&BYTES, 1.0, largest, integer),
        Unit::MiB => ladder(&BYTES, 1_048_576.0, largest, false),
        Unit::Percent => Scale { divisor: 1.0, suffix: "%", decimals: 1, grouped: false },
        unit => {
            let decimals = if integer { 0 } else { decimals_for(largest) };
            Scale { divisor: 1.0, suffix: unit.suffix(), decimals, grouped: largest >= 1e4 && !is_id(&column.name) }
        }
    }
}

/// A number under a scale.
pub fn number(value: f64, scale: &Scale) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let text = format!("{:.*}", scale.decimals, value / scale.divisor);
    // A rounded -0.0 would show a sign that means nothing.
    let text = if text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.') {
        text.trim_start_matches('-').to_owned()
    } else {
        text
    };
    if scale.grouped { group(&text) } else { text }
}

/// An integer with thousands separated: `1,234,567`.
pub fn count(value: impl TryInto<i64>) -> String {
    value.try_into().map_or_else(|_| "more than 2^63".to_owned(), |v| group(&v.to_string()))
}

/// A time in ns with its own best unit, three or four digits: `12.3 ms`.
pub fn duration(ns: i64) -> String {
    let scale = ladder(&TIME, 1.0, (ns as f64).abs(), false);
    let shown = (ns as f64).abs() / scale.divisor;
    let decimals = if scale.suffix == "ns" { 0 } else { decimals_for(shown) };
    format!("{} {}", number(ns as f64, &Scale { decimals, ..scale }), scale.suffix)
}

/// A size in bytes with its own best unit: `12.3 MiB`.
pub fn bytes(bytes: u64) -> String {
    let scale = ladder(&BYTES, 1.0, bytes as f64, false);
    let decimals = if scale.suffix == "B" { 0 } else { decimals_for(bytes as f64 / scale.divisor) };
    format!("{} {}", number(bytes as f64, &Scale { decimals, ..scale }), scale.suffix)
}

fn decimals_for(shown: f64) -> usize {
    match shown {
        s if s >= 1_000.0 => 0,
        s if s >= 100.0 => 1,
        s if s >= 10.0 => 2,
        _ => 3,
    }
}

fn ladder(steps: &[(f64, &'static str); 4], unit: f64, largest: f64, integer: bool) -> Scale {
    let largest = largest * unit;
    // A unit is taken once the largest value has at least two digits before the point, so that small rows still show.
    let found = steps.iter().find(|(size, _)| largest >= size * 10.0).unwrap_or(&steps[3]);
    let whole = found.0 == 1.0 && integer;
    let decimals = if whole { 0 } else { decimals_for(largest / found.0).min(2) };
    Scale { divisor: found.0 / unit, suffix: found.1, decimals, grouped: largest / found.0 >= 1e4 }
}

fn largest(values: &Values) -> f64 {
    let finite = |m: f64, v: f64| if v.is_finite() { m.max(v.abs()) } else { m };
    match values {
        Values::I64(v) => v.iter().flatten().map(|&v| v as f64).fold(0.0, finite),
        Values::F64(v) => v.iter().flatten().copied().fold(0.0, finite),
        _ => 0.0,
    }
}

/// Whether the numbers of a column name something: those are never grouped.
fn is_id(name: &str) -> bool {
    let last = name.rsplit(['_', ' ']).next().unwrap_or(name).to_ascii_lowercase();
    matches!(last.as_str(), "id" | "index" | "rank" | "step" | "stream" | "device" | "pid" | "tid" | "correlation")
}

fn group(text: &str) -> String {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |r| ("-", r));
    let (whole, fraction) = rest.find('.').map_or((rest, ""), |dot| rest.split_at(dot));
    let mut out = String::with_capacity(text.len() + whole.len() / 3);
    out.push_str(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(fraction);
    out
}

/// A duration that may be negative.
pub fn signed_duration(ns: i64) -> String {
    if ns < 0 { format!("-{}", duration(-ns)) } else { duration(ns) }
}

/// A text with its first letter as a capital.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
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
    fn durations_and_sizes_choose_their_own() {
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
