//! Recording streams of each format, with any records in a whole chunk: the result is a tree, and its values add up.

use stackline_ingest::recording::{read_streams, traces_of};

/// Panics where it does not hold.
pub(crate) fn check(data: &[u8]) {
    // The right length and checksum: only records are left to be wrong.
    let prefix = [(data.len() as u32).to_le_bytes(), crc32fast::hash(data).to_le_bytes()].concat();
    for version in 1..=2 {
        check_stream(&[b"SLREC\0\0", [version].as_slice(), prefix.as_slice(), data].concat());
    }
}

fn check_stream(file: &[u8]) {
    for trace in traces_of("fuzz", [("fuzz", file)]).traces {
        if let Err(rule) = trace.events.check() {
            panic!("{rule:?}");
        }
    }
    let tree = read_streams([("fuzz", file)]);
    if let Err(rule) = tree.check() {
        panic!("{rule}");
    }
    for metric in tree.measured() {
        let exclusive = tree.exclusive(metric, |_| true);
        let inclusive = tree.inclusive(metric, &exclusive);
        assert!(inclusive[0].sum >= exclusive[0].sum);
    }
}
