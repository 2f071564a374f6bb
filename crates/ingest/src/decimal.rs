//! Exact conversion of decimal text to integer nanoseconds, without floating point.

/// A time or duration in nanoseconds, parsed from decimal microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nanos {
    /// Nanoseconds; more than three decimals are rounded half away from zero.
    pub(crate) ns: i64,
    /// True if the text has a point or an exponent. Readers that use floats, such as HTA, lose digits in such columns.
    pub(crate) fractional: bool,
    /// True if the number was taken as nanoseconds, because it is beyond the year 5000 in µs.
    pub(crate) was_ns: bool,
}

/// Largest time stamp in µs; larger ones can only be nanoseconds.
const MAX_MICROSECONDS: i128 = 100_000_000_000_000_000;

/// Parse a decimal number of microseconds, such as `1419247332972.313`, `-5` or `1.5e3`. `None` if the text is not a
/// number or does not fit.
pub(crate) fn parse_micros(text: &[u8]) -> Option<Nanos> {
    parse_plain(text).or_else(|| parse_any(text))
}

/// Convert integer microseconds to nanoseconds; a number too large for microseconds is taken as nanoseconds. `None` if
/// the result does not fit.
#[inline]
pub(crate) fn whole_micros(micros: i64) -> Option<Nanos> {
    if i128::from(micros).abs() >= MAX_MICROSECONDS {
        return Some(Nanos { ns: micros, fractional: false, was_ns: true });
    }
    micros.checked_mul(1000).map(|ns| Nanos { ns, fractional: false, was_ns: false })
}

/// Parse microseconds of up to 15 digits, optionally with a point and up to three more digits; `None` for other forms.
fn parse_plain(text: &[u8]) -> Option<Nanos> {
    let mut value = 0i64;
    let mut at = 0;
    while at < text.len() && at <= 15 && text[at].is_ascii_digit() {
        value = value * 10 + i64::from(text[at] - b'0');
        at += 1;
    }
    if at == 0 || at > 15 {
        return None;
    }
    let mut fraction = 0;
    if at < text.len() {
        let digits = &text[at + 1..];
        if text[at] != b'.' || digits.is_empty() || digits.len() > 3 {
            return None;
        }
        for &digit in digits {
            if !digit.is_ascii_digit() {
                return None;
            }
            fraction = fraction * 10 + i64::from(digit - b'0');
        }
        for _ in digits.len()..3 {
            fraction *= 10;
        }
    }
    Some(Nanos { ns: value * 1000 + fraction, fractional: at < text.len(), was_ns: false })
}

/// Parse microseconds in any JSON number form, also with a leading plus: sign, digits, fraction, exponent.
fn parse_any(text: &[u8]) -> Option<Nanos> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match digits.find(['e', 'E']) {
        Some(at) => (&digits[..at], digits[at + 1..].parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + fraction.len() == 0 || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    // value = digits * 10^scale in nanoseconds
    let fraction = fraction.trim_end_matches('0');
    let all: String = [whole, fraction].concat();
    let all = all.trim_start_matches('0');
    if all.is_empty() {
        return Some(Nanos {
            ns: 0,
            fractional: mantissa.len() < digits.len() || mantissa.contains('.'),
            was_ns: false,
        });
    }
    let scale = exponent.checked_sub(fraction.len() as i32)?;
    let micros_whole = scaled(all, scale)?;
    let was_ns = micros_whole.0 >= MAX_MICROSECONDS;
    let (value, rest) = if was_ns { micros_whole } else { scaled(all, scale.checked_add(3)?)? };
    let rounded = if rest >= 5 { value + 1 } else { value };
    let ns = i64::try_from(if negative { -rounded } else { rounded }).ok()?;
    Some(Nanos { ns, fractional: mantissa.len() < digits.len() || mantissa.contains('.'), was_ns })
}

/// Compute `digits * 10^scale`, truncated to an integer, with the first digit that was cut; `None` beyond 30 digits.
fn scaled(digits: &str, scale: i32) -> Option<(i128, u8)> {
    if scale >= 0 {
        let zeros = usize::try_from(scale).ok()?;
        if digits.len() + zeros > 30 {
            return None;
        }
        return Some((digits.parse::<i128>().ok()?.checked_mul(10i128.checked_pow(scale as u32)?)?, 0));
    }
    let cut = scale.unsigned_abs() as usize;
    if cut > digits.len() {
        return Some((0, 0));
    }
    let (kept, dropped) = digits.split_at(digits.len() - cut);
    let kept = if kept.is_empty() {
        Some(0)
    } else if kept.len() > 30 {
        None
    } else {
        kept.parse().ok()
    };
    Some((kept?, dropped.as_bytes().first().map_or(0, |d| d - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ns(text: &str) -> Option<i64> {
        parse_micros(text.as_bytes()).map(|n| n.ns)
    }

    #[test]
    fn times_of_real_traces_are_parsed() {
        assert_eq!(ns("1419247332972.313"), Some(1_419_247_332_972_313));
        assert_eq!(ns("1695835535123456.001"), Some(1_695_835_535_123_456_001));
        assert_eq!(ns("10"), Some(10_000));
        assert_eq!(ns("0.5"), Some(500));
        assert_eq!(ns("-3.25"), Some(-3_250));
        assert_eq!(ns("1.5e3"), Some(1_500_000));
        assert_eq!(ns("1e-3"), Some(1));
        assert_eq!(ns("1.0005"), Some(1_001));
        assert_eq!(ns("1.00049"), Some(1_000));
        assert_eq!(ns("0.0"), Some(0));
        assert_eq!(
            parse_micros(b"1695835535123456001").map(|n| (n.ns, n.was_ns)),
            Some((1_695_835_535_123_456_001, true))
        );
        for bad in ["", "-", ".", "1.2.3", "0x10", "nan", "1e999999999", "1e400", "99999999999999999999999999999999"] {
            assert_eq!(ns(bad), None, "{bad}");
        }
        assert!(parse_micros(b"1.500").unwrap().fractional);
        assert!(parse_micros(b"1.000").unwrap().fractional);
        assert!(!parse_micros(b"1000").unwrap().fractional);
    }

    proptest! {
        #[test]
        fn exact_for_three_decimals(micros in -1_000_000_000_000_000i64..1_000_000_000_000_000, sub in 0i64..1000) {
            let text = format!("{micros}.{sub:03}");
            let magnitude = micros.abs() * 1000 + sub;
            let expected = if text.starts_with('-') { -magnitude } else { magnitude };
            prop_assert_eq!(ns(&text), Some(expected));
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse_micros(&bytes);
        }
    }
}
