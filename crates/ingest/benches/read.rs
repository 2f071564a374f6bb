//! Rates of reading, in bytes of text per second: `cargo bench -p stackline-ingest`.
//!
//! * `inflate`: only unpacking, the lower bound for a packed trace.
//! * `scan`: the text with each record turned into metadata, so that records are scanned and their arguments read, but
//!   no rows are made and nothing is resolved.
//! * `read`: text in memory to a sealed trace.
//! * `open`: the packed file to a sealed trace, unpacking on a second thread.
//! * `serde_json`: the yardstick, a parser that checks the text and keeps nothing of it.
//!
//! On a replicated trace of the generator, and on the largest trace of the corpus where there is one.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use stackline_ingest::{ReadOptions, open_text, read_bytes, read_paths};
use stackline_testkit::{corpus, demo, io, replicate};
use std::hint::black_box;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

const EVENTS: u64 = 100_000;

/// The generator's trace, repeated to a realistic length.
fn replicated() -> Vec<u8> {
    let step = demo::generate(&demo::Config::default());
    let mut text = Vec::new();
    replicate::replicate(step.as_bytes(), EVENTS, &mut text).unwrap();
    text
}

fn corpus_trace() -> Option<PathBuf> {
    corpus::file("kineto/amd-mi300-sd3.5-diffusion.json.gz")
}

/// The same text without event rows (`scan`).
fn as_metadata(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let text = text.replace("\"ph\": \"X\"", "\"ph\": \"M\"").replace("\"ph\":\"X\"", "\"ph\":\"M\"");
    text.into_bytes()
}

fn rates(criterion: &mut Criterion, name: &str, packed: &Path) {
    let mut text = Vec::new();
    open_text(packed).unwrap().read_to_end(&mut text).unwrap();
    let metadata = as_metadata(&text);
    let options = ReadOptions { threads: 1, ..ReadOptions::default() };
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(5));
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("inflate", |b| {
        b.iter(|| std::io::copy(&mut open_text(packed).unwrap(), &mut std::io::sink()).unwrap());
    });
    group.bench_function("scan", |b| b.iter(|| black_box(read_bytes("t", &metadata, &options).unwrap())));
    group.bench_function("read", |b| b.iter(|| black_box(read_bytes("t", &text, &options).unwrap())));
    let two = ReadOptions { threads: 2, ..ReadOptions::default() };
    group.bench_function("open", |b| b.iter(|| black_box(read_paths(&[packed.to_owned()], &two).unwrap())));
    group.bench_function("serde_json", |b| {
        b.iter(|| black_box(serde_json::from_slice::<serde::de::IgnoredAny>(&text).unwrap()));
    });
    group.finish();
}

fn bench(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replicated.json.gz");
    std::fs::write(&path, io::gzip(&replicated())).unwrap();
    rates(criterion, "replicated", &path);
    if let Some(path) = corpus_trace() {
        rates(criterion, "sd3.5", &path);
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
