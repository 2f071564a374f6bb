//! Arithmetic of half-open spans `(start, end)`: unions, intersections and lengths.
//!
//! Analyses use exact nanoseconds (`i64`). The functions are generic so that the same code can reproduce the
//! floating-point arithmetic of other tools. All functions take and return spans as pairs. "Disjoint" means sorted by
//! start, without overlap or contact, as [`union`] returns them.

use std::cmp::Ordering;

/// Number type of span bounds: integer ns or floating point. Damaged traces have arbitrary times, so integers saturate.
pub trait Bound: Copy + PartialOrd {
    /// Zero.
    const ZERO: Self;

    /// Sum of two span bounds.
    #[must_use]
    fn plus(self, other: Self) -> Self;

    /// Difference of two span bounds.
    #[must_use]
    fn minus(self, other: Self) -> Self;
}

impl Bound for i64 {
    const ZERO: Self = 0;

    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }

    fn minus(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Bound for f64 {
    const ZERO: Self = 0.0;

    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn minus(self, other: Self) -> Self {
        self - other
    }
}

fn max<T: Bound>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

fn min<T: Bound>(a: T, b: T) -> T {
    if b < a { b } else { a }
}

/// Union of spans, as disjoint spans in order of start. Touching spans become one.
pub fn union<T: Bound>(spans: impl IntoIterator<Item = (T, T)>) -> Vec<(T, T)> {
    let mut sorted: Vec<(T, T)> = spans.into_iter().collect();
    sorted.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
    let mut kept = 0;
    for i in 0..sorted.len() {
        let (start, end) = sorted[i];
        if kept > 0 && start <= sorted[kept - 1].1 {
            sorted[kept - 1].1 = max(sorted[kept - 1].1, end);
        } else {
            sorted[kept] = (start, end);
            kept += 1;
        }
    }
    sorted.truncate(kept);
    sorted
}

/// Parts of the spans `from` outside of the spans `remove`. Both inputs are disjoint and sorted.
pub fn subtract<T: Bound>(from: &[(T, T)], remove: &[(T, T)]) -> Vec<(T, T)> {
    let mut rest = Vec::with_capacity(from.len());
    let mut first = 0;
    for &(start, end) in from {
        while first < remove.len() && remove[first].1 <= start {
            first += 1;
        }
        let mut at = start;
        for &(cut_start, cut_end) in &remove[first..] {
            if cut_start >= end || at >= end {
                break;
            }
            if cut_start > at {
                rest.push((at, cut_start));
            }
            at = max(at, cut_end);
        }
        if at < end {
            rest.push((at, end));
        }
    }
    rest
}

/// Parts that the spans of both inputs cover. Both inputs are disjoint and sorted.
pub fn intersect<T: Bound>(a: &[(T, T)], b: &[(T, T)]) -> Vec<(T, T)> {
    let (mut i, mut j) = (0, 0);
    let mut both = Vec::new();
    while i < a.len() && j < b.len() {
        let (start, end) = (max(a[i].0, b[j].0), min(a[i].1, b[j].1));
        if start < end {
            both.push((start, end));
        }
        if a[i].1 < b[j].1 { i += 1 } else { j += 1 }
    }
    both
}

/// Sum of the lengths of spans; overlaps count several times.
pub fn total<T: Bound>(spans: &[(T, T)]) -> T {
    spans.iter().fold(T::ZERO, |sum, &(start, end)| sum.plus(end.minus(start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn covers(spans: &[(i64, i64)], point: i64) -> bool {
        spans.iter().any(|&(a, b)| (a..b).contains(&point))
    }

    fn spans() -> impl Strategy<Value = Vec<(i64, i64)>> {
        proptest::collection::vec((0i64..60, 0i64..12).prop_map(|(a, d)| (a, a + d)), 0..14)
    }

    proptest! {
        #[test]
        fn operations_equal_set_operations_on_points(a in spans(), b in spans()) {
            let (ua, ub) = (union(a.clone()), union(b.clone()));
            prop_assert!(ua.windows(2).all(|w| w[0].1 < w[1].0));
            let (rest, both) = (subtract(&ua, &ub), intersect(&ua, &ub));
            for p in 0..80 {
                let (in_a, in_b) = (covers(&a, p), covers(&b, p));
                prop_assert_eq!(covers(&ua, p), in_a);
                prop_assert_eq!(covers(&rest, p), in_a && !in_b);
                prop_assert_eq!(covers(&both, p), in_a && in_b);
            }
            prop_assert_eq!(total(&rest) + total(&both), total(&ua));
        }
    }
}
