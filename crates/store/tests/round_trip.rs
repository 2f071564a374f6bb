//! Written data are restored, completely or in the requested parts.

use crate::common;

use common::{assert_same, assert_same_rows, random, sample};
use proptest::prelude::*;
use stackline_model::{DeviceClock, EventId, Trace, TraceSet};
use stackline_store::{Attributes, ReadSelection, WriteOptions, read_manifest, read_run, write_run};
use stackline_testkit::corpus;
use std::path::Path;

fn quick() -> WriteOptions {
    WriteOptions { sync: false, ..WriteOptions::default() }
}

fn round_trip(set: &TraceSet, selection: &ReadSelection) -> TraceSet {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a.stackline");
    write_run(set, &[], &run, &quick()).unwrap();
    read_run(&run, selection).unwrap()
}

fn check_all(set: &TraceSet) {
    let again = round_trip(set, &ReadSelection::all());
    assert_eq!(again.traces.len(), set.traces.len());
    for (a, b) in set.traces.iter().zip(&again.traces) {
        assert_same(a, b);
    }
}

#[test]
fn all_columns_of_all_tables_survive_a_round_trip() {
    check_all(&TraceSet { traces: vec![sample(), Trace::default(), sample()] });
    check_all(&TraceSet::default());
}

#[test]
fn only_requested_arguments_are_read() {
    let set = TraceSet { traces: vec![sample()] };
    let keys = ["correlation", "occupancy", "no such key"];
    let attributes = Attributes::Keys(keys.map(str::to_owned).into());
    let again = round_trip(&set, &ReadSelection { attributes, ..ReadSelection::all() });
    let (a, b) = (&set.traces[0], &again.traces[0]);
    assert_same_rows(a, b);
    for event in a.events.ids() {
        for key in keys {
            assert_eq!(a.attr(key).get(event), b.attr(key).get(event), "{key} of {event:?}");
        }
        assert_eq!(b.attr("Input Dims").get(event), None);
        assert_eq!(b.attr("External id").get(event), None);
    }
    assert!(a.attr("Input Dims").get(EventId(1)).is_some(), "the sample lost its point");
}

#[test]
fn single_traces_of_a_run_can_be_read() {
    let mut second = sample();
    second.meta.rank = Some(4);
    let mut clock = DeviceClock::new(2);
    clock.add_launch(-70);
    second.meta.clocks = vec![clock];
    let set = TraceSet { traces: vec![sample(), second] };
    let selection = ReadSelection { traces: Some(vec![1]), ..ReadSelection::all() };
    let again = round_trip(&set, &selection);
    assert_eq!(again.traces.len(), 1);
    assert_same(&set.traces[1], &again.traces[0]);
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a.stackline");
    write_run(&set, &[], &run, &quick()).unwrap();
    let selection = ReadSelection { traces: Some(vec![2]), ..ReadSelection::all() };
    let error = read_run(&run, &selection).unwrap_err().to_string();
    assert_eq!(error, "the run has no trace 2: it has 2 traces, numbered from 0");
}

#[test]
fn equal_traces_give_equal_bytes() {
    let set = TraceSet { traces: vec![sample()] };
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a.stackline"), folder.path().join("b.stackline"));
    write_run(&set, &[], &a, &quick()).unwrap();
    write_run(&read_run(&a, &ReadSelection::all()).unwrap(), &[], &b, &quick()).unwrap();
    assert_eq!(std::fs::read(a.join("manifest.json")).unwrap(), std::fs::read(b.join("manifest.json")).unwrap());
    for table in read_manifest(&a).unwrap().traces[0].tables.keys() {
        let file = format!("trace=0/{table}.parquet");
        assert_eq!(std::fs::read(a.join(&file)).unwrap(), std::fs::read(b.join(&file)).unwrap(), "{file}");
    }
}

/// More keys than columns, every type of each, and records with duplicate keys.
#[test]
fn keys_without_a_column_survive_a_round_trip() {
    check_all(&TraceSet { traces: vec![random::many_keys(400)] });
}

/// Memory does not grow with keys times records, even if each record has its own key.
#[test]
fn keys_unique_to_a_record_survive_a_round_trip() {
    check_all(&TraceSet { traces: vec![random::key_per_record(20_000)] });
}

/// Row groups and batches end within data, and threads take them as they become free.
#[test]
fn traces_of_several_row_groups_survive_on_any_number_of_threads() {
    let set = TraceSet { traces: vec![random::long(600_000)] };
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a.stackline");
    write_run(&set, &[], &run, &quick()).unwrap();
    for threads in [1, 2, usize::MAX] {
        let again = read_run(&run, &ReadSelection { threads, ..ReadSelection::all() }).unwrap();
        assert_same(&set.traces[0], &again.traces[0]);
    }
}

#[test]
fn corpus_survives() {
    if corpus::folder().is_none() {
        return;
    }
    let options = stackline_ingest::ReadOptions::default();
    let mut read = 0;
    for file in corpus::files("kineto") {
        // Errors of other files are the reader's.
        let Ok(set) = stackline_ingest::read_paths(std::slice::from_ref(&file), &options) else { continue };
        println!("{}", Path::new(file.file_name().unwrap()).display());
        check_all(&set);
        read += 1;
    }
    assert!(read > 20, "only {read} traces of the corpus could be read");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn random_traces_survive_a_run(trace in random::trace()) {
        check_all(&TraceSet { traces: vec![trace] });
    }
}
