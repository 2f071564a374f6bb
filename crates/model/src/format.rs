//! Formatting of numbers, durations, bytes and texts, shared by all outputs.

/// Display scale of a column's numbers: divisor, unit and decimals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Divisor of displayed numbers.
    pub divisor: f64,
    /// Suffix of the unit after the division, empty for none.
    pub suffix: &'static str,
    /// Number of decimals.
    pub decimals: usize,
    /// True to separate thousands.
    pub grouped: bool,
}

/// Units of times, in ns.
pub const TIME: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
/// Units of sizes, in bytes.
pub const BYTES: [(f64, &str); 4] = [(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1_024.0, "KiB"), (1.0, "B")];

/// Format a number with the unit and decimals of a scale.
pub fn number(value: f64, scale: &Scale) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let text = format!("{:.*}", scale.decimals, value / scale.divisor);
    // A rounded -0.0 would show a meaningless sign.
    let text = if text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.') {
        text.trim_start_matches('-').to_owned()
    } else {
        text
    };
    if scale.grouped { group(&text) } else { text }
}

/// Format an integer with separated thousands: `1,234,567`.
pub fn count(value: impl TryInto<i64>) -> String {
    value.try_into().map_or_else(|_| "more than 2^63".to_owned(), |v| group(&v.to_string()))
}

/// Format a time in ns in its best unit, with three or four digits: `12.3 ms`.
pub fn duration(ns: i64) -> String {
    let scale = choose_scale(&TIME, 1.0, (ns as f64).abs(), false);
    let shown = (ns as f64).abs() / scale.divisor;
    let decimals = if scale.suffix == "ns" { 0 } else { decimals_for(shown) };
    format!("{} {}", number(ns as f64, &Scale { decimals, ..scale }), scale.suffix)
}

/// Format a size in bytes in its best unit: `12.3 MiB`.
pub fn bytes(bytes: u64) -> String {
    let scale = choose_scale(&BYTES, 1.0, bytes as f64, false);
    let decimals = if scale.suffix == "B" { 0 } else { decimals_for(bytes as f64 / scale.divisor) };
    format!("{} {}", number(bytes as f64, &Scale { decimals, ..scale }), scale.suffix)
}

/// Number of decimals with which a displayed number has three or four digits.
pub fn decimals_for(shown: f64) -> usize {
    match shown {
        s if s >= 1_000.0 => 0,
        s if s >= 100.0 => 1,
        s if s >= 10.0 => 2,
        _ => 3,
    }
}

/// Choose the display unit and decimals for a list of values, by their largest magnitude. `unit` is the value of 1 in
/// the smallest unit of `steps`; `integer` is true if all values are whole.
pub fn choose_scale(steps: &[(f64, &'static str); 4], unit: f64, largest: f64, integer: bool) -> Scale {
    let largest = largest * unit;
    // A unit is chosen if the largest value has at least two digits before the point, so that small values remain
    // visible.
    let found = steps.iter().find(|(size, _)| largest >= size * 10.0).unwrap_or(&steps[3]);
    let whole = found.0 == 1.0 && integer;
    let decimals = if whole { 0 } else { decimals_for(largest / found.0).min(2) };
    Scale { divisor: found.0 / unit, suffix: found.1, decimals, grouped: largest / found.0 >= 1e4 }
}

/// Separate the thousands of a decimal number by commas.
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

/// Format a duration that may be negative.
pub fn signed_duration(ns: i64) -> String {
    if ns < 0 { format!("-{}", duration(ns.saturating_neg())) } else { duration(ns) }
}

/// Capitalize the first letter of a text.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_readable_units() {
        let texts = (duration(1_134_725_900), duration(-999), bytes(1 << 21));
        assert_eq!(texts, ("1135 ms".into(), "-999 ns".into(), "2048 KiB".into()));
        assert_eq!((signed_duration(-1_500_000), count(1_234_567)), ("-1500 µs".into(), "1,234,567".into()));
        assert_eq!((capital("äpfel"), capital("")), ("Äpfel".into(), String::new()));
    }
}
