//! TraceLens' tables, steps and operators on a trace small enough to work out by hand.
//!
//! ```text
//! step 5: 0..100   linear 10..60 { addmm 20..50 { launch k1, launch k2 }, launch k3 }
//! step 6: 100..300 linear 110..150 { addmm 115..135 { launch k1 } }, allreduce 160..180 { launch nccl },
//!                  f 190..240 { f 200..230 }
//! GPU: k1 40..60, k2 50..70 (other stream), k3 80..110, k1 150..160, nccl 155..210, and 220..225 one that nobody launched
//! ```

use crate::support::read_mini;
use stackline_analyze::analyses;
use stackline_model::{Table, Trace, Values};
use stackline_timeline::Scope;

fn trace() -> Trace {
    read_mini(
        "1/1     user_annotation  ProfilerStep#5           0..100
         1/1     user_annotation  ProfilerStep#6           100..300
         1/1     cpu_op           linear                   10..60    Input Dims=[[2,3]]
         1/1     cpu_op           addmm                    20..50    Input Dims=[[2,3],[3,4]]
         1/1     cuda_runtime     cudaLaunchKernel         25..28    correlation=1
         1/1     cuda_runtime     cudaLaunchKernel         35..38    correlation=2
         1/1     cuda_runtime     cudaLaunchKernel         52..55    correlation=3
         1/1     cpu_op           linear                   110..150  Input Dims=[[2,3]]
         1/1     cpu_op           addmm                    115..135  Input Dims=[[2,9],[9,4]]
         1/1     cuda_runtime     cudaLaunchKernel         120..123  correlation=4
         1/1     cpu_op           allreduce                160..180  Input Dims=[[1000000]]
         1/1     cuda_runtime     cudaLaunchKernel         165..168  correlation=5
         1/1     cpu_op           f                        190..240  Input Dims=[]
         1/1     cpu_op           f                        200..230  Input Dims=[]
         gpu0/7  kernel           k1                       40..60    correlation=1
         gpu0/8  kernel           k2                       50..70    correlation=2
         gpu0/7  kernel           k3                       80..110   correlation=3
         gpu0/7  kernel           k1                       150..160  correlation=4
         gpu0/9  kernel           ncclDevKernel_AllReduce  155..210  correlation=5 Collective name=allreduce Group size=4 \
                 dtype=Float In msg nelems=1000000 Out msg nelems=1000000
         gpu0/7  kernel           orphan                   220..225  correlation=99",
    )
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

    let second = Scope::from_steps(Some((6, 6)));
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
