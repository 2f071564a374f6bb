//! Levels and sizes of timeline tiles.

/// Number of time buckets in a tile.
pub(crate) const BUCKETS: i64 = 512;
/// Number of tiles that cover the whole trace in a query for all of it.
pub(crate) const WHOLE: i64 = 4;
/// Highest level, at which one tile is as long as the longest possible trace.
pub(crate) const LEVELS: u32 = 53;

/// Finest timeline level at which [`WHOLE`] tiles cover a duration in ns.
pub(crate) fn whole_level(ns: i64) -> u32 {
    let least = ns.max(1) as u64 / (WHOLE * BUCKETS) as u64 + 1;
    least.next_power_of_two().trailing_zeros().min(LEVELS)
}
