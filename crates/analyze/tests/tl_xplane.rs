//! Every row of TraceLens' report on a profile of JAX that has a counterpart here, to 1e-6. The section "Comparison
//! with TraceLens" of `docs/formats/xplane.md` names the columns that have none.

use crate::support::read_file;
use crate::tl_support::compare::{cell, same};
use crate::tl_support::{Csv, python};

use stackline_analyze::analyses;
use stackline_model::{AttrValue, EventId, EventKind, Table, Trace};
use stackline_testkit::corpus;
use stackline_timeline::Scope;
use std::collections::BTreeMap;
use std::fmt::Display;

fn reference(table: &str) -> Csv {
    let file = corpus::file(&format!("reference/tracelens/jax-0.6-amd-conv/{table}.csv")).unwrap();
    Csv::read(&file).unwrap()
}

/// The profile; `None` without a corpus.
fn profile() -> Option<Trace> {
    Some(read_file(&corpus::file("xplane/jax-0.6-amd-conv.xplane.pb")?))
}

fn check(what: &str, ours: &dyn Display, theirs: &str) {
    let ours = ours.to_string();
    assert!(same(&ours, theirs), "{what}: {ours}, TraceLens has {theirs}");
}

/// Columns of a kernel in TraceLens' tables: times in µs, and the source of its operator.
struct Kernel {
    name: String,
    duration: f64,
    /// Time from the start of the call to the start of the kernel.
    latency: f64,
    device: i32,
    stream: i64,
    operator: String,
    source: String,
}

/// Kernels by start, as TraceLens' `UID` numbers them.
fn kernels(trace: &Trace) -> Vec<Kernel> {
    let text = |event: EventId, key: &str| match trace.attr(key).get(event) {
        Some(AttrValue::Str(text) | AttrValue::Json(text)) => trace.strings.get(text).to_owned(),
        _ => String::new(),
    };
    let start = |event: EventId| trace.events.start[event.index()];
    let rows = (0..trace.gpu.len()).filter(|&gpu| trace.kind(trace.gpu.event[gpu]) == EventKind::Kernel);
    let mut rows: Vec<usize> = rows.collect();
    rows.sort_by_key(|&gpu| start(trace.gpu.event[gpu]));
    let kernel = |gpu: usize| {
        let event = trace.gpu.event[gpu];
        Kernel {
            name: trace.name(event).to_owned(),
            duration: trace.events.dur[event.index()] as f64 / 1e3,
            latency: (start(event) - start(trace.gpu.launch[gpu])) as f64 / 1e3,
            device: trace.gpu.device[gpu],
            stream: trace.gpu.stream[gpu],
            operator: text(event, "op_name"),
            source: text(event, "source"),
        }
    };
    rows.into_iter().map(kernel).collect()
}

/// True for a kernel that XLA made; the others are of a library, here for convolutions.
fn is_fusion(kernel: &&Kernel) -> bool {
    kernel.name.contains("fusion")
}

/// A member of XLA's metadata, such as `op_name="…"` or `source_line=77`; empty if it is missing.
fn member<'m>(metadata: &'m str, key: &str) -> &'m str {
    let Some((_, rest)) = metadata.split_once(&format!("{key}=")) else { return "" };
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or(""),
        None => rest.split([' ', '}']).next().unwrap_or(""),
    }
}

/// Compare a table of single kernels.
fn check_launchers(table: &str, kernels: &[&Kernel]) {
    let reference = reference(table);
    assert_eq!(reference.rows.len(), kernels.len(), "{table}");
    for (row, kernel) in kernels.iter().enumerate() {
        let check = |column: &str, ours: &dyn Display| {
            check(&format!("{table}, row {row}, {column}"), ours, reference.get(row, column));
        };
        check("name", &kernel.name);
        check("total_direct_kernel_time", &kernel.duration);
        check("direct_kernel_count", &1);
        // TraceLens' processes count from 1, the GPUs from 0.
        check("pid", &(kernel.device + 1));
        check("tid", &kernel.stream);
        check("GPU_kernel_launch_latency", &kernel.latency);
        let details = python(reference.get(row, "kernel_details"));
        assert_eq!((&details[0]["name"], details.as_array().map(Vec::len)), (&kernel.name.as_str().into(), Some(1)));
        let metadata = details[0]["metadata"].as_str().unwrap();
        assert_eq!(kernel.operator, member(metadata, "op_name"), "{table}, row {row}");
        let source = [member(metadata, "source_file"), member(metadata, "source_line")].join(":");
        assert_eq!(kernel.source, source.trim_matches(':'), "{table}, row {row}");
    }
}

#[test]
fn kernels_agree() {
    let Some(trace) = profile() else { return };
    let kernels = kernels(&trace);
    check_launchers("kernel_launchers", &kernels.iter().collect::<Vec<_>>());
    check_launchers("df_xla_perf", &kernels.iter().filter(is_fusion).collect::<Vec<_>>());
}

/// Compare a table of sums with durations by its key, in its order.
fn check_sums(table: &str, key: &str, groups: &BTreeMap<String, Vec<f64>>) {
    let reference = reference(table);
    assert_eq!(reference.rows.len(), groups.len(), "{table}");
    let all: f64 = groups.values().flatten().sum();
    let mut until = 0.0;
    for row in 0..reference.rows.len() {
        let name = reference.get(row, key);
        let durations = groups.get(name).unwrap_or_else(|| panic!("{table}: no {name}"));
        let sum: f64 = durations.iter().sum();
        until += 100.0 * sum / all;
        let check = |column: &str, ours: &dyn Display| {
            check(&format!("{table}, {name}, {column}"), ours, reference.get(row, column));
        };
        if reference.has("total_direct_kernel_time_sum") {
            check("total_direct_kernel_time_sum", &sum);
        }
        check("Count", &durations.len());
        check("total_direct_kernel_time_ms", &(sum / 1e3));
        check("Percentage (%)", &(100.0 * sum / all));
        check("Cumulative Percentage (%)", &until);
        check("time ms per gpu", &(sum / 1e3));
    }
}

/// Durations in µs by a key of their kernel.
fn durations<'k>(
    kernels: impl Iterator<Item = &'k Kernel>,
    key: impl Fn(&Kernel) -> String,
) -> BTreeMap<String, Vec<f64>> {
    let mut groups = BTreeMap::<String, Vec<f64>>::new();
    kernels.for_each(|kernel| groups.entry(key(kernel)).or_default().push(kernel.duration));
    groups
}

#[test]
fn sums_agree() {
    let Some(trace) = profile() else { return };
    let kernels = kernels(&trace);
    let by_name = durations(kernels.iter(), |kernel| kernel.name.clone());
    check_sums("kernel_launchers_summary", "name", &by_name);
    let category = |kernel: &Kernel| if is_fusion(&kernel) { "Uncategorized Events/XLA" } else { "Conv" }.to_owned();
    check_sums("kernel_launchers_summary_by_category", "op category", &durations(kernels.iter(), category));
    // TraceLens merges instructions whose names differ in their last number.
    let instruction = |kernel: &Kernel| kernel.name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    check_sums("xla_summary", "name", &durations(kernels.iter().filter(is_fusion), instruction));
}

/// Statistics of durations by the names of TraceLens' columns; `std` is that of a sample.
fn statistics(durations: &[f64]) -> [(&'static str, f64); 6] {
    let mut sorted = durations.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let sum: f64 = sorted.iter().sum();
    let squares: f64 = sorted.iter().map(|duration| (duration - sum / count).powi(2)).sum();
    let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    let std = (squares / (count - 1.0)).sqrt();
    let (min, max) = (sorted[0], sorted[sorted.len() - 1]);
    [("mean", sum / count), ("median", median), ("std", std), ("min", min), ("max", max), ("sum", sum)]
}

#[test]
fn statistics_agree() {
    let Some(trace) = profile() else { return };
    let by_name = durations(kernels(&trace).iter(), |kernel| kernel.name.clone());
    let summary = &(analyses::find("kernel_summary").unwrap().run)(&trace, &Scope::default())[0];
    let launchers = reference("kernel_launchers_unique_args");
    assert_eq!((launchers.rows.len(), summary.rows()), (by_name.len(), by_name.len()));
    for row in 0..launchers.rows.len() {
        let name = launchers.get(row, "name");
        let statistics = statistics(&by_name[name]);
        for (statistic, ours) in statistics {
            check(name, &ours, launchers.get(row, &format!("total_direct_kernel_time_{statistic}")));
        }
        check(name, &by_name[name].len(), launchers.get(row, "operation_count"));
        let details = python(launchers.get(row, "kernel_details_summary"));
        let population = (by_name[name].len() as f64 - 1.0) / by_name[name].len() as f64;
        for (statistic, ours) in statistics {
            let (key, ours) = match statistic {
                "sum" => ("total_duration_us".to_owned(), ours),
                "std" => ("std_dev_duration_us".to_owned(), ours * population.sqrt()),
                other => (format!("{other}_duration_us"), ours),
            };
            check(name, &ours, &details[0][key].to_string());
        }
        // Our own table, which is in the same order.
        assert_eq!(cell(summary, "kernel", row), name);
        for (column, theirs) in [
            ("count", "operation_count"),
            ("sum_us", "total_direct_kernel_time_sum"),
            ("mean_us", "total_direct_kernel_time_mean"),
            ("min_us", "total_direct_kernel_time_min"),
            ("max_us", "total_direct_kernel_time_max"),
            ("kernels_percent", "Percentage (%)"),
        ] {
            check(name, &cell(summary, column, row), launchers.get(row, theirs));
        }
    }
    let convolutions = reference("op_conv");
    assert_eq!(convolutions.rows.len(), 2);
    for row in 0..convolutions.rows.len() {
        let name = convolutions.get(row, "name");
        for (statistic, ours) in statistics(&by_name[name]) {
            check(name, &ours, convolutions.get(row, &format!("Kernel Time (µs)_{statistic}")));
        }
        check(name, &by_name[name].len(), convolutions.get(row, "name_count"));
    }
}

/// Times in ms of a GPU by TraceLens' names, from our table `gpu_time`.
fn times(table: &Table, device: i32) -> BTreeMap<&'static str, f64> {
    let sum = |is: &dyn Fn(&str) -> bool| -> f64 {
        let rows = (0..table.rows()).filter(|&row| cell(table, "device", row) == device.to_string());
        let of_kind = rows.filter(|&row| is(&cell(table, "category", row)));
        of_kind.map(|row| cell(table, "time_ns", row).parse::<f64>().unwrap() / 1e6).sum()
    };
    let [computation, communication, memory] =
        ["computation", "communication", "memory"].map(|category| sum(&|other| other == category));
    BTreeMap::from([
        ("computation_time", computation),
        ("exposed_comm_time", communication),
        ("exposed_memcpy_time", memory),
        ("busy_time", computation + communication + memory),
        ("idle_time", sum(&|category| category.starts_with("idle_"))),
        ("total_time", sum(&|_| true)),
        // Nothing overlaps here.
        ("total_comm_time", communication),
        ("total_memcpy_time", memory),
    ])
}

#[test]
fn timelines_of_gpus_agree() {
    let Some(trace) = profile() else { return };
    let table = &(analyses::find("gpu_time").unwrap().run)(&trace, &Scope::default())[0];
    let check_row = |reference: &Csv, row: usize, times: &BTreeMap<&str, f64>| {
        let kind = reference.get(row, "type");
        check(kind, &times[kind], reference.get(row, "time ms"));
        check(kind, &(100.0 * times[kind] / times["total_time"]), reference.get(row, "percent"));
    };
    let timeline = reference("gpu_timeline");
    assert_eq!(timeline.rows.len(), 16);
    for row in 0..timeline.rows.len() {
        let process: i32 = timeline.get(row, "gpu_pid").parse().unwrap();
        check_row(&timeline, row, &times(table, process - 1));
    }
    let averages = reference("gpu_events_averages");
    assert_eq!(averages.rows.len(), 8);
    let (one, other) = (times(table, 0), times(table, 7));
    let mean: BTreeMap<&str, f64> = one.iter().map(|(kind, ms)| (*kind, f64::midpoint(*ms, other[kind]))).collect();
    for row in 0..averages.rows.len() {
        check_row(&averages, row, &mean);
    }
}
