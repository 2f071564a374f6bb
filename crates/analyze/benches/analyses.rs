//! Time of each registered analysis, of the critical paths and of what-if on a training trace of our own generator, or on
//! the trace that the variable `STACKLINE_BENCH_TRACE` names.
#![allow(missing_docs, reason = "criterion's macros")]

use criterion::{Criterion, criterion_group, criterion_main};
use stackline_analyze::analyses;
use stackline_critical_path::exact::what_if::{Edit, SweepOptions};
use stackline_critical_path::exact::{Exact, WindowChoice};
use stackline_critical_path::hta;
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::Trace;
use stackline_timeline::Scope;
use std::hint::black_box;

/// The trace that is asked for; else a training of 40 steps.
fn training() -> Trace {
    if let Some(path) = std::env::var_os("STACKLINE_BENCH_TRACE") {
        return match stackline_ingest::read_paths(&[path.into()], &ReadOptions::default()) {
            Ok(mut set) => set.traces.remove(0),
            Err(error) => panic!("{error}"),
        };
    }
    let demo = stackline_testkit::demo::generate(&stackline_testkit::demo::Config { steps: 40, ..Default::default() });
    match read_bytes("demo", demo.as_bytes(), &ReadOptions::default()) {
        Ok(trace) => trace,
        Err(error) => panic!("{error}"),
    }
}

fn every_analysis(c: &mut Criterion) {
    let trace = training();
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

/// The exact method by its parts: the graph, the walk over it, the preparation of what-if, one edit, a sweep.
fn exact_and_what_if(c: &mut Criterion) {
    let trace = training();
    let mut group = c.benchmark_group("critical_path_exact");
    group.sample_size(10);
    group.bench_function("graph", |b| b.iter(|| Exact::new(black_box(&trace))));
    let exact = Exact::new(&trace);
    let window = WindowChoice::Whole;
    group.bench_function("walk", |b| b.iter(|| exact.path(black_box(&window))));
    group.bench_function("slack", |b| {
        b.iter(|| exact.path(&window).map(|path| exact.false_hotspots(black_box(&path))));
    });
    group.bench_function("what_if_plan", |b| b.iter(|| black_box(&exact).what_if()));
    let what_if = exact.what_if();
    for text in ["scale kernel:* 0.5", "remove sync:*", "fuse module:Attention", "overlap collective:*"] {
        let edits = match Edit::parse(text) {
            Ok(edit) => [edit],
            Err(error) => panic!("{error}"),
        };
        group.bench_function(text, |b| b.iter(|| what_if.predict(&window, black_box(&edits)).map(|p| p.after_ns)));
    }
    let options = SweepOptions { candidates: 50, threads: 1 };
    group.bench_function("sweep_50", |b| b.iter(|| what_if.sweep(&window, black_box(&options), &|| false)));
    group.finish();
}

criterion_group!(benches, every_analysis, exact_and_what_if);
criterion_main!(benches);
