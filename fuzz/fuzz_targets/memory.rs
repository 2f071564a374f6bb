//! Any bytes as a memory trace (pickle, JSON, page, text): reading ends without panic, and the result keeps its rules.
#![no_main]

use stackline_ingest::memory::read_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(trace) = read_bytes("fuzz", data)
        && let Err(rule) = trace.check()
    {
        panic!("{rule}");
    }
});
