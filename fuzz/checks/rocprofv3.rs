//! Any bytes as a document or a table of rocprofv3: reading ends without panic, and traces keep their rules.

use crate::invariants;
use stackline_ingest::{ReadOptions, read_bytes};

/// Panics where it does not hold.
pub(crate) fn check(data: &[u8]) {
    let options = ReadOptions { threads: 1, ..ReadOptions::default() };
    for name in ["908_results.json", "908_kernel_trace.csv"] {
        if let Ok(trace) = read_bytes(name, data, &options)
            && let Err(broken) = invariants::check(&trace)
        {
            panic!("{name}: {broken}");
        }
    }
}
