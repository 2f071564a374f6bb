//! Any bytes as a profile (pprof, speedscope, collapsed stacks, the Firefox Profiler's): reading ends without panic, and trees keep their rules.

use stackline_ingest::{ReadOptions, read_profile_bytes};

/// Panics where it does not hold.
pub(crate) fn check(data: &[u8]) {
    let options = ReadOptions { threads: 1, ..ReadOptions::default() };
    if let Ok(tree) = read_profile_bytes("fuzz", data, &options)
        && let Err(broken) = tree.check()
    {
        panic!("{broken}");
    }
}
