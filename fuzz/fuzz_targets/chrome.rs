//! Any bytes at all: reading ends, does not panic, and what comes out is a sound trace.
#![no_main]

#[path = "../../crates/ingest/tests/common/invariants.rs"]
mod invariants;

use stackline_ingest::{ReadOptions, read_bytes};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // One thread: the others only unpack ahead, and cost more than the reading of inputs this small.
    let options = ReadOptions { threads: 1, clip_overlaps: data.len() % 2 == 1, ..ReadOptions::default() };
    if let Ok(trace) = read_bytes("fuzz", data, &options)
        && let Err(broken) = invariants::check(&trace)
    {
        panic!("{broken}");
    }
});
