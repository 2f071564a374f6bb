//! TraceLens' tables, steps and operators on a trace small enough to work out by hand.
//!
//! ```text
//! step 5: 0..100   linear 10..60 { addmm 20..50 { launch k1, launch k2 }, launch k3 }
//! step 6: 100..300 linear 110..150 { addmm 115..135 { launch k1 } }, allreduce 160..180 { launch nccl },
//!                  f 190..240 { f 200..230 }
//! GPU: k1 40..60, k2 50..70 (other stream), k3 80..110, k1 150..160, nccl 155..210, and 220..225 one that nobody launched
//! ```

use stackline_analyze::{Scope, analyses};
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::{Table, Trace, Values};

fn span(category: &str, name: &str, track: (i64, i64), at: (i64, i64), args: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{},"tid":{},"ts":{}.000,"dur":{}.000,"args":{{{args}}}}}"#,
        track.0,
        track.1,
        at.0,
        at.1 - at.0
    )
}

fn trace() -> Trace {
    let cpu = (1, 1);
    let op = |name: &str, at, dims: &str| span("cpu_op", name, cpu, at, &format!(r#""Input Dims":{dims}"#));
    let launch = |at: i64, id: i64| {
        span("cuda_runtime", "cudaLaunchKernel", cpu, (at, at + 3), &format!(r#""correlation":{id}"#))
    };
    let kernel = |name: &str, stream: i64, at, id: i64, more: &str| {
        let args = format!(r#""device":0,"stream":{stream},"correlation":{id}{more}"#);
        span("kernel", name, (0, stream), at, &args)
    };
    let group = r#","Collective name":"allreduce","Group size":4,"dtype":"Float","In msg nelems":1000000,"Out msg nelems":1000000"#;
    let events = [
        span("user_annotation", "ProfilerStep#5", cpu, (0, 100), ""),
        span("user_annotation", "ProfilerStep#6", cpu, (100, 300), ""),
        op("linear", (10, 60), "[[2,3]]"),
        op("addmm", (20, 50), "[[2,3],[3,4]]"),
        launch(25, 1),
        launch(35, 2),
        launch(52, 3),
        op("linear", (110, 150), "[[2,3]]"),
        op("addmm", (115, 135), "[[2,9],[9,4]]"),
        launch(120, 4),
        op("allreduce", (160, 180), "[[1000000]]"),
        launch(165, 5),
        op("f", (190, 240), "[]"),
        op("f", (200, 230), "[]"),
        kernel("k1", 7, (40, 60), 1, ""),
        kernel("k2", 8, (50, 70), 2, ""),
        kernel("k3", 7, (80, 110), 3, ""),
        kernel("k1", 7, (150, 160), 4, ""),
        kernel("ncclDevKernel_AllReduce", 9, (155, 210), 5, group),
        kernel("orphan", 7, (220, 225), 99, ""),
    ];
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    read_bytes("case.json", text.as_bytes(), &ReadOptions::default()).unwrap()
}

fn run(name: &str) -> Vec<Table> {
    run_in(name, &Scope::default())
}

fn run_in(name: &str, scope: &Scope) -> Vec<Table> {
    (analyses::find(name).unwrap().run)(&trace(), scope)
}

/// The row whose first column with this name holds `key`, as text per column asked for.
fn row<const N: usize>(table: &Table, by: &str, key: &str, columns: [&str; N]) -> [String; N] {
    let at = (0..table.rows()).find(|&r| cell(table, by, r) == key);
    let at = at.unwrap_or_else(|| panic!("{} has no {by} {key}", table.name));
    columns.map(|column| cell(table, column, at))
}

fn cell(table: &Table, column: &str, row: usize) -> String {
    match &table.column(column).unwrap_or_else(|| panic!("{} has no column {column}", table.name)).values {
        Values::I64(v) => v[row].map_or_else(String::new, |v| v.to_string()),
        Values::F64(v) => v[row].map_or_else(String::new, |v| format!("{}", (v * 1e3).round() / 1e3)),
        Values::Bool(v) => v[row].map_or_else(String::new, |v| v.to_string()),
        Values::Str(v) => v[row].clone().unwrap_or_default(),
    }
}

#[test]
fn gpu_timeline() {
    let tables = run("gpu_timeline");
    for (kind, ms, percent) in [
        ("computation_time", "0.075", "40.541"),
        ("exposed_comm_time", "0.05", "27.027"),
        ("exposed_memcpy_time", "0", "0"),
        ("busy_time", "0.125", "67.568"),
        ("idle_time", "0.06", "32.432"),
        ("total_time", "0.185", "100"),
        ("total_comm_time", "0.055", "29.73"),
        ("total_memcpy_time", "0", "0"),
    ] {
        assert_eq!(row(&tables[0], "type", kind, ["time_ms", "percent", "recompute"]), [ms, percent, ""], "{kind}");
    }
    // 140 of 145 µs have a launch.
    assert!(tables[0].notes[0].contains("96.4 %"), "{:?}", tables[0].notes);
}

#[test]
fn ops_summary_and_its_relatives() {
    let table = &run("ops_summary")[0];
    let columns = ["count", "direct_us", "subtree_us", "percent", "cumulative_percent"];
    assert_eq!(row(table, "name", "addmm", columns), ["2", "40", "40", "57.143", "57.143"]);
    assert_eq!(row(table, "name", "linear", columns), ["1", "30", "60", "42.857", "100"]);
    assert_eq!(table.rows(), 2, "communication is in coll_analysis");

    let table = &run("ops_summary_by_category")[0];
    assert_eq!(row(table, "category", "other", ["count", "direct_us"]), ["3", "70"]);

    let tables = run("ops_unique_args");
    let columns = ["name", "count", "kernels_first", "example_event", "direct_sum_us", "direct_std_us"];
    assert_eq!(row(&tables[0], "input_dims", "[[2,3],[3,4]]", columns), ["addmm", "1", "2", "3", "30", ""]);
    assert_eq!(row(&tables[0], "input_dims", "[[2,9],[9,4]]", columns), ["addmm", "1", "1", "8", "10", ""]);
    assert_eq!(row(&tables[1], "kernel", "k2", ["row", "position", "stream", "kernel_mean_us"]), ["1", "1", "8", "20"]);

    let second = Scope::of_steps(Some((6, 6)));
    assert_eq!(row(&run_in("ops_summary", &second)[0], "name", "addmm", ["count", "direct_us"]), ["1", "10"]);
}

#[test]
fn kernel_summary_and_short_kernels() {
    let table = &run("kernel_summary")[0];
    let columns = ["category", "operator", "count", "sum_us", "min_us", "kernels_percent", "timeline_percent"];
    assert_eq!(row(table, "kernel", "k1", columns), ["other", "addmm", "2", "30", "10", "21.429", "16.216"]);
    assert_eq!(row(table, "kernel", "orphan", columns), ["", "", "1", "5", "5", "3.571", "2.703"]);
    let tables = run("short_kernels");
    assert_eq!(row(&tables[0], "kernel", "orphan", ["operator", "count", "sum_us"]), ["", "1", "5"]);
    assert_eq!(tables[0].rows(), 1, "10 µs is not short");
    assert_eq!(tables[1].rows(), 100);
}

#[test]
fn coll_analysis() {
    let table = &run("coll_analysis")[0];
    let columns = ["family", "group_size", "size_in_mib", "count", "algorithm_gbps", "bus_gbps", "process_group"];
    assert_eq!(
        row(table, "collective", "allreduce", columns),
        ["all_reduce", "4", "3.815", "1", "72.727", "109.091", ""]
    );
}

#[test]
fn steps() {
    let tables = run("steps");
    let columns = ["start_us", "time_us", "gpu_busy_us", "gpu_busy_percent", "launched_gpu_us", "launched_kernels"];
    assert_eq!(row(&tables[0], "step", "5", columns), ["0", "100", "50", "50", "70", "3"]);
    assert_eq!(row(&tables[0], "step", "6", columns), ["100", "200", "75", "37.5", "65", "2"]);
    let columns = ["steps", "mean_us", "min_us", "p90_us", "max_us", "spread_percent"];
    assert_eq!(row(&tables[1], "measure", "time", columns), ["2", "150", "100", "190", "200", "66.667"]);
}

#[test]
fn operators() {
    let tables = run("operators");
    let columns =
        ["calls", "host_self_us", "host_total_us", "gpu_self_us", "gpu_total_us", "launches_self", "launches_total"];
    assert_eq!(row(&tables[0], "name", "linear", columns), ["2", "40", "90", "30", "80", "1", "4"]);
    assert_eq!(row(&tables[0], "name", "addmm", columns), ["2", "50", "50", "50", "50", "3", "3"]);
    assert_eq!(row(&tables[0], "name", "f", columns), ["2", "50", "50", "0", "0", "0", "0"], "outermost calls only");
    assert_eq!(row(&tables[0], "name", "addmm", ["shapes", "common_shape"]), ["2", "[[2,3],[3,4]]"]);
    let tree: Vec<String> = (0..tables[1].rows())
        .map(|r| ["node", "parent", "depth", "name", "calls"].map(|c| cell(&tables[1], c, r)).join(" "))
        .collect();
    let expected = ["0  0 linear 2", "1 0 1 addmm 2", "2  0 allreduce 1", "3  0 f 1", "4 3 1 f 1"];
    assert_eq!(tree, expected);
}

#[test]
fn empty_trace() {
    for analysis in analyses::ALL {
        let tables = (analysis.run)(&Trace::default(), &Scope::default());
        assert!(!tables.is_empty(), "{} says nothing about an empty trace", analysis.name);
    }
}
