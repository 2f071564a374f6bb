//! What is written comes back.

mod common;

use common::{assert_same, sample};
use stackline_model::{Trace, TraceSet};
use stackline_store::{ReadSelection, WriteOptions, read_run, write_run};

fn quick() -> WriteOptions {
    WriteOptions { sync: false, ..WriteOptions::default() }
}

#[test]
fn every_column_of_every_table_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a.stackline");
    let set = TraceSet { traces: vec![sample(), Trace::default(), sample()] };
    write_run(&set, &run, &quick()).unwrap();
    let again = read_run(&run, &ReadSelection::all()).unwrap();
    assert_eq!(again.traces.len(), 3);
    for (a, b) in set.traces.iter().zip(&again.traces) {
        assert_same(a, b);
    }
}
