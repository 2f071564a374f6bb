//! Time of each registered analysis and of the critical path on a training trace of our own generator.
#![allow(missing_docs, reason = "criterion's macros")]

use criterion::{Criterion, criterion_group, criterion_main};
use stackline_analyze::critical_path::hta;
use stackline_analyze::{Scope, analyses};
use stackline_ingest::{ReadOptions, read_bytes};
use std::hint::black_box;

fn every_analysis(c: &mut Criterion) {
    let demo = stackline_synth::demo::generate(&stackline_synth::demo::Config { steps: 40, ..Default::default() });
    let trace = match read_bytes("demo", demo.as_bytes(), &ReadOptions::default()) {
        Ok(trace) => trace,
        Err(error) => panic!("{error}"),
    };
    let mut group = c.benchmark_group("analyses");
    group.sample_size(10);
    for analysis in analyses::ALL {
        group.bench_function(analysis.name, |b| b.iter(|| (analysis.run)(black_box(&trace), &Scope::default())));
    }
    group.bench_function("critical_path_hta", |b| {
        b.iter(|| hta::analyze(black_box(&trace), &hta::HtaOptions::default()).map(|path| path.window_ns()));
    });
    group.finish();
}

criterion_group!(benches, every_analysis);
criterion_main!(benches);
