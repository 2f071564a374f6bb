//! Invariants of TraceLens' tables, steps and operators on any trace, over all Kineto traces of the corpus.

use stackline_analyze::analyses;
use stackline_ingest::{ReadOptions, read_paths};
use stackline_model::{EventKind, GpuOpId, Table, Trace, Values, flags};
use stackline_testkit::corpus;
use stackline_timeline::Scope;

fn tables(name: &str, trace: &Trace) -> Vec<Table> {
    (analyses::find(name).unwrap().run)(trace, &Scope::default())
}

fn numbers(table: &Table, column: &str) -> Vec<f64> {
    match &table.column(column).unwrap_or_else(|| panic!("{} has no {column}", table.name)).values {
        Values::F64(v) => v.iter().map(|v| v.unwrap_or(0.0)).collect(),
        Values::I64(v) => v.iter().map(|v| v.unwrap_or(0) as f64).collect(),
        other => panic!("{column}: {other:?}"),
    }
}

fn sum(table: &Table, column: &str) -> f64 {
    numbers(table, column).iter().sum()
}

fn assert_close(a: f64, b: f64, what: &str) {
    assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{what}: {a} is not {b}");
}

/// Sum of durations in µs of the GPU work that passes the test.
fn gpu_us(trace: &Trace, test: impl Fn(GpuOpId) -> bool) -> f64 {
    let event = |g: GpuOpId| trace.gpu.event[g.index()];
    let counted = trace.gpu.ids().filter(|&g| trace.events.is_plausible(event(g)) && test(g));
    counted.map(|g| trace.events.dur[event(g).index()] as f64 / 1e3).sum()
}

fn timeline(trace: &Trace) {
    let table = &tables("gpu_timeline", trace)[0];
    for part in numbers(table, "time_ms").chunks_exact(8) {
        let [computation, communication, copies, busy, idle, total, all_communication, all_copies] = part else {
            panic!()
        };
        assert_close(computation + communication + copies, *busy, "busy");
        assert_close(busy + idle, *total, "total");
        assert!(part.iter().all(|&t| t >= 0.0) && communication <= all_communication && copies <= all_copies);
    }
}

fn kernels_and_operators(trace: &Trace) {
    let is_kernel = |g: GpuOpId| trace.kind(trace.gpu.event[g.index()]) == EventKind::Kernel;
    assert_close(sum(&tables("kernel_summary", trace)[0], "sum_us"), gpu_us(trace, is_kernel), "kernels");
    let short = tables("short_kernels", trace);
    assert_close(sum(&short[0], "count"), sum(&short[1], "count"), "short kernels");

    let by_name = &tables("ops_summary", trace);
    let by_args = &tables("ops_unique_args", trace);
    let by_category = &tables("ops_summary_by_category", trace);
    for table in by_name.iter().chain(by_category).chain(by_args.iter().step_by(2)) {
        assert_close(sum(table, direct(table)), sum(&by_name[0], "direct_us"), &table.name);
        assert_close(sum(table, "count"), sum(&by_name[0], "count"), &table.name);
        if table.rows() > 0 {
            assert_close(*numbers(table, "cumulative_percent").last().unwrap(), 100.0, &table.name);
        }
    }
    let operators = tables("operators", trace);
    let owned = gpu_us(trace, |g| trace.gpu.operator[g.index()].is_some());
    for table in &operators {
        assert_close(sum(table, "gpu_self_us"), owned, &table.name);
        let (own, total) = (numbers(table, "host_self_us"), numbers(table, "host_total_us"));
        assert!(own.iter().zip(&total).all(|(s, t)| *s >= 0.0 && *t >= 0.0));
    }
    // Without crossing spans, the times of the tree's roots are made of everybody's own times.
    if trace.events.flags.iter().all(|f| f & flags::CROSSING == 0) {
        let depth = numbers(&operators[1], "depth");
        let roots = numbers(&operators[1], "host_total_us").into_iter().zip(depth).filter(|(_, d)| *d == 0.0);
        assert_close(sum(&operators[1], "host_self_us"), roots.map(|(t, _)| t).sum(), "host time");
    }
}

fn direct(table: &Table) -> &str {
    if table.column("direct_us").is_some() { "direct_us" } else { "direct_sum_us" }
}

fn steps(trace: &Trace) {
    let table = &tables("steps", trace)[0];
    let (time, busy) = (numbers(table, "time_us"), numbers(table, "gpu_busy_us"));
    assert!(time.iter().zip(&busy).all(|(t, b)| *b >= 0.0 && b <= t));
    assert_close(sum(table, "launched_gpu_us"), gpu_us(trace, |g| trace.gpu.step[g.index()] != u32::MAX), "steps");
    for table in tables("coll_analysis", trace) {
        let (bus, best) = (numbers(&table, "bus_gbps"), numbers(&table, "bus_best_gbps"));
        assert!(bus.iter().zip(&best).all(|(a, b)| *a <= b * (1.0 + 1e-9)));
    }
}

#[test]
fn invariants_hold_on_the_corpus() {
    if corpus::folder().is_none() {
        return;
    }
    let files = corpus::files("kineto");
    assert!(files.len() > 40, "only {} traces", files.len());
    for file in files {
        let set = read_paths(std::slice::from_ref(&file), &ReadOptions::default()).unwrap();
        for trace in &set.traces {
            println!("{}: {} events", file.display(), trace.events.len());
            timeline(trace);
            kernels_and_operators(trace);
            steps(trace);
        }
    }
}
