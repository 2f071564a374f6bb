//! Scaling of durations by the factors of edits.

/// Multiply a duration in ns by a factor, rounded to whole ns.
pub(super) fn scaled(ns: i64, factor: f64) -> i64 {
    // Durations are far below 2^53 ns.
    (ns as f64 * factor).round() as i64
}
