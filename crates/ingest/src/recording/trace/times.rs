//! Times of a stream, which are differences from earlier times.

/// Limit on times in ns (of 1970: after 2043): larger ones are damage, and sums of smaller ones cannot overflow.
pub(super) const MAX_NS: i64 = 1 << 61;

/// Time in ns at a difference from another time; `None` if so large that the stream must be damaged.
pub(super) fn time(from: i64, delta: i64) -> Option<i64> {
    from.checked_add(delta).filter(|time| (-MAX_NS..=MAX_NS).contains(time))
}
