//! Any bytes as a profile of XProf: reading ends without panic, and traces keep their rules.

use crate::invariants;
use stackline_ingest::{ReadOptions, read_bytes};

/// Panics where it does not hold.
pub(crate) fn check(data: &[u8]) {
    let options = ReadOptions { threads: 1, ..ReadOptions::default() };
    if let Ok(trace) = read_bytes("fuzz", data, &options)
        && let Err(broken) = invariants::check(&trace)
    {
        panic!("{broken}");
    }
}
