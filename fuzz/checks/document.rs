//! Differential: each Chrome document that serde_json accepts is read the same, and reported as undamaged.

use crate::oracle;
use stackline_ingest::{ReadOptions, read_bytes};

/// Panics where it does not hold.
pub(crate) fn check(data: &[u8]) {
    let Some((records, others)) = oracle::parse(data) else { return };
    if !oracle::has_rows(&records) {
        return;
    }
    let options = ReadOptions { threads: 1, ..ReadOptions::default() };
    let compared = read_bytes("fuzz", data, &options)
        .map_err(|e| e.to_string())
        .and_then(|trace| oracle::compare(&trace, &records, &others));
    if let Err(difference) = compared {
        panic!("{difference}");
    }
}
