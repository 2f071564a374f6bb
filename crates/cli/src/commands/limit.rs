//! Parsing of `--fail-on` conditions such as `idle>=30%` into subject, comparison and limit, shared by `report`, `diff`
//! and `findings`.

/// Comparison operator of a `--fail-on` condition: `>`, `>=`, `<` or `<=`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// Parsed `--fail-on` condition: subject, comparison operator and limit (percent for shares).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limit<'a> {
    pub(crate) what: &'a str,
    pub(crate) comparison: Comparison,
    pub(crate) limit: f64,
}

impl<'a> Limit<'a> {
    /// Parse a condition such as `idle>=30%`; `None` for other forms. The command validates name and number.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        // Names of kernels and paths have such signs, too; the last one is the limit's.
        let at = text.rfind(['<', '>'])?;
        let (what, rest) = text.split_at(at);
        let (number, or_equal) = match rest[1..].strip_prefix('=') {
            Some(number) => (number, true),
            None => (&rest[1..], false),
        };
        let comparison = match (rest.starts_with('>'), or_equal) {
            (true, false) => Comparison::Above,
            (true, true) => Comparison::AtLeast,
            (false, false) => Comparison::Below,
            (false, true) => Comparison::AtMost,
        };
        let limit = number.trim().trim_end_matches('%').trim_end().parse().ok()?;
        Some(Self { what: what.trim(), comparison, limit })
    }
}

impl Comparison {
    /// Check if a value meets the comparison with the limit: `value > limit`, for example.
    pub(crate) fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Above => value > limit,
            Self::AtLeast => value >= limit,
            Self::Below => value < limit,
            Self::AtMost => value <= limit,
        }
    }

    /// True for `>` and `>=`: the limit is an upper one.
    pub(crate) fn is_upper(self) -> bool {
        matches!(self, Self::Above | Self::AtLeast)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_comparison_sign_begins_the_limit() {
        let parse = |text| Limit::parse(text).map(|limit| (limit.what, limit.comparison, limit.limit));
        assert_eq!(parse("idle >= 40"), Some(("idle", Comparison::AtLeast, 40.0)));
        assert_eq!(parse("kernel:void f<int>(a) > 3 %"), Some(("kernel:void f<int>(a)", Comparison::Above, 3.0)));
        assert_eq!(parse("path:A > B>10%"), Some(("path:A > B", Comparison::Above, 10.0)));
        assert_eq!(parse("busy<=5%"), Some(("busy", Comparison::AtMost, 5.0)));
        for bad in ["", "idle", "idle>", "idle>much", "idle=3"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert!(Comparison::AtLeast.holds(1.0, 1.0) && !Comparison::Above.holds(1.0, 1.0));
    }
}
