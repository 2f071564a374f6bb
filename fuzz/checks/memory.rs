//! Any bytes as a memory trace (pickle, JSON, page, text): reading ends without panic, and the result keeps its rules.

use stackline_ingest::memory::read_bytes;

/// Panics where it does not hold.
pub(crate) fn check(data: &[u8]) {
    if let Ok(trace) = read_bytes("fuzz", data)
        && let Err(rule) = trace.check()
    {
        panic!("{rule}");
    }
}
