//! Writing and reading a run directory: a Kineto trace of the corpus if there is one, else a made-up trace. Run with
//! `cargo bench -p stackline-store`; throughput is in events.

#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

#[path = "../tests/common/mod.rs"]
mod common;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use stackline_model::TraceSet;
use stackline_store::{Attributes, ReadSelection, WriteOptions, read_run, write_run};
use std::path::Path;

/// The largest trace of the corpus that `STACKLINE_BENCH_TRACE` does not override.
fn set() -> TraceSet {
    let given = std::env::var_os("STACKLINE_BENCH_TRACE").map(std::path::PathBuf::from);
    let largest =
        || stackline_testkit::corpus::files("kineto").into_iter().max_by_key(|p| p.metadata().map_or(0, |m| m.len()));
    match given.or_else(largest) {
        Some(path) => stackline_ingest::read_paths(&[path], &Default::default()).unwrap(),
        None => TraceSet { traces: vec![common::random::long(500_000)] },
    }
}

fn write(set: &TraceSet, run: &Path) {
    let options = WriteOptions { sync: false, ..WriteOptions::default() };
    write_run(set, &[], run, &options).unwrap();
}

/// All events and links, and only arguments with these keys.
fn with_keys<const N: usize>(keys: [&str; N]) -> ReadSelection {
    ReadSelection { attributes: Attributes::Keys(keys.map(str::to_owned).into()), ..ReadSelection::all() }
}

fn benches(c: &mut Criterion) {
    let set = set();
    let events: usize = set.traces.iter().map(|t| t.events.len()).sum();
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a.stackline");
    write(&set, &run);
    let mut group = c.benchmark_group("store");
    group.sample_size(10).throughput(Throughput::Elements(events as u64));
    group.bench_function("write", |b| {
        let fresh = || tempfile::tempdir().unwrap();
        b.iter_batched(fresh, |folder| write(&set, &folder.path().join("b.stackline")), BatchSize::PerIteration);
    });
    let parts = [
        ("read all", ReadSelection::all()),
        ("read events and two arguments", with_keys(["correlation", "bytes"])),
        ("read events", ReadSelection { skip_side_tables: true, ..with_keys([]) }),
    ];
    for (name, selection) in parts {
        group.bench_function(name, |b| b.iter_with_large_drop(|| read_run(&run, &selection).unwrap()));
    }
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
