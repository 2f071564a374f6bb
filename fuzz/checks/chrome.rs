//! Any bytes at all: reading ends, does not panic, and the result is a valid trace.

use crate::invariants;
use stackline_ingest::{ReadOptions, read_bytes};

/// Panics where it does not hold.
pub(crate) fn check(data: &[u8]) {
    // One thread: the others only unpack ahead, and cost more than the reading of inputs this small.
    let options = ReadOptions { threads: 1, clip_overlaps: !data.len().is_multiple_of(2), ..ReadOptions::default() };
    if let Ok(trace) = read_bytes("fuzz", data, &options)
        && let Err(broken) = invariants::check(&trace)
    {
        panic!("{broken}");
    }
}
