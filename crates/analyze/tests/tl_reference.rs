//! Every number of TraceLens' reference tables over the corpus' Kineto traces, to 1e-6, in the definition of TraceLens;
//! and in ours wherever TraceLens' definition loses nothing. `docs/analyses/tracelens-differences.md` has the reasons.

use crate::tl_support;

use serde_json::Value;
use stackline_analyze::analyses::{
    tl_coll_analysis, tl_gpu_timeline, tl_kernel_summary, tl_ops_summary, tl_ops_summary_by_category,
    tl_ops_unique_args, tl_short_kernels,
};
use stackline_ingest::{ReadOptions, read_paths};
use stackline_model::{Table, Trace};
use stackline_testkit::corpus;
use stackline_timeline::Scope;
use stackline_timeline::gpu_view::{Definition, GpuView};
use stackline_timeline::vocabulary::categories::TRACELENS_OTHER;
use std::collections::BTreeMap;
use std::path::Path;
use tl_support::compare::{
    Comparison, Convert, call_stack, cell, keep, literal, lower_bool, module, plain, same, set, tracelens_categories,
    unknown_is_empty,
};
use tl_support::{Csv, python};

/// Trace and folder of its reference tables.
const TRACES: &[(&str, &str)] = &[
    ("nvidia-h100-bert-small", "nvidia-h100-bert-small"),
    ("amd-mi300-bert-small", "amd-mi300-bert-small"),
    ("nvidia-h100-qwen1.5-0.5b", "nvidia-h100-qwen1.5-0.5b"),
    ("amd-mi300-qwen1.5-0.5b", "amd-mi300-qwen1.5-0.5b"),
    ("nvidia-h100-timesformer", "nvidia-h100-timesformer"),
    ("amd-mi300-timesformer", "amd-mi300-timesformer"),
    ("amd-mi300-normalization", "amd-mi300-normalization"),
    ("amd-mi300-torch-compile-triton", "amd-mi300-torch-compile-triton"),
    ("amd-mi300-resnet-ddp-checkpointing", "amd-mi300-resnet-ddp-checkpointing"),
    ("amd-mi300-sd3.5-diffusion", "amd-mi300-sd3.5-diffusion"),
    ("amd-mi210-gpu-only", "amd-mi210-gpu-only"),
    ("amd-mi300-sglang-decode-graph-replay", "amd-mi300-sglang-decode"),
    ("amd-vllm-piecewise-graph-replay", "amd-vllm-piecewise"),
];

/// References whose operator tables TraceLens made from two files, the trace of the replay and the one of the graph's
/// capture: only their timeline is that of one trace. Reviewed; section "Graph replay" of the page.
const MERGED_WITH_CAPTURE: &[&str] = &["amd-mi300-sglang-decode", "amd-vllm-piecewise"];

/// Traces with GPU work that TraceLens leaves out of its timeline and operator tables, and how many operations: those
/// launched before the recording, and fills on AMD GPUs. Reviewed; sections "Work without arrow" of the page.
const LOSSY: &[(&str, usize)] = &[
    ("nvidia-h100-qwen1.5-0.5b", 509),
    ("amd-mi300-qwen1.5-0.5b", 463),
    ("amd-mi300-normalization", 5),
    ("amd-mi300-sd3.5-diffusion", 1),
    ("amd-mi300-resnet-ddp-checkpointing", 1049),
];

/// Number of values in all references, so that none is lost to a renamed column.
const COMPARED_AT_LEAST: usize = 31_000;

/// One trace with its references.
struct Case<'a> {
    name: &'a str,
    folder: std::path::PathBuf,
    trace: Trace,
    definition: Definition,
    failures: Vec<String>,
    compared: usize,
}

impl Case<'_> {
    fn reference(&self, table: &str) -> Option<Csv> {
        Csv::read(&self.folder.join(format!("{table}.csv")))
    }

    fn timeline(&mut self) {
        let Some(reference) = self.reference("gpu_timeline") else { return };
        let ours = tl_gpu_timeline::table(&self.trace, &Scope::default(), self.definition);
        let split = reference.has("is_recompute");
        let keys: [(&str, &str, Convert); 2] = [("type", "type", plain), ("is_recompute", "recompute", lower_bool)];
        self.compared += Comparison::new(self.name, &reference, &ours, &keys)
            .rounding(self.definition)
            .numbers(&[("time ms", "time_ms", 1.0), ("percent", "percent", 1.0)])
            .run(&mut self.failures, &|t, row| cell(t, "recompute", row).is_empty() == split);
    }

    fn operators(&mut self) {
        let scope = Scope::default();
        let pick = |mut tables: Vec<Table>, by_module: bool, second: usize| {
            tables.swap_remove(if by_module { second } else { 0 })
        };
        let keys: [(&str, &str, Convert); 4] = [
            ("name", "name", plain),
            ("op category", "category", plain),
            ("parent_module", "module", module),
            ("is_recompute", "recompute", lower_bool),
        ];
        let shares = [("Percentage (%)", "percent", 1.0), ("Cumulative Percentage (%)", "cumulative_percent", 1.0)];
        let sums = [("Count", "count", 1.0), ("total_direct_kernel_time_ms", "direct_us", 1e3), shares[0]];
        let stack: [(&str, &str, Convert); 1] = [("call_stack_first", "module_path_first", call_stack)];
        if let Some(reference) = self.reference("ops_summary") {
            let ours = tl_ops_summary::tables(&self.trace, &scope, self.definition);
            let ours = tracelens_categories(pick(ours, reference.has("parent_module"), 1));
            self.compared += Comparison::new(self.name, &reference, &ours, &keys)
                .rounding(self.definition)
                .numbers(&sums)
                .numbers(&[
                    ("total_direct_kernel_time_sum", "direct_us", 1.0),
                    ("total_subtree_kernel_time_sum", "subtree_us", 1.0),
                ])
                .texts(&[("Categories", "categories", set)])
                .texts(&stack)
                .order("Cumulative Percentage (%)", "cumulative_percent", 1.0)
                .run(&mut self.failures, &keep);
        }
        // In our definition attention is not in "other": that moves rows of this table.
        let same_categories = self.definition == Definition::TraceLens
            || !self.trace.strings.iter().any(|name| TRACELENS_OTHER.contains(&name));
        if let Some(reference) = self.reference("ops_summary_by_category").filter(|_| same_categories) {
            let ours = tl_ops_summary_by_category::tables(&self.trace, &scope, self.definition);
            let ours = pick(ours, reference.has("parent_module"), 1);
            self.compared += Comparison::new(self.name, &reference, &ours, &keys)
                .rounding(self.definition)
                .numbers(&sums)
                .texts(&stack)
                .order("Cumulative Percentage (%)", "cumulative_percent", 1.0)
                .run(&mut self.failures, &keep);
        }
        if let Some(reference) = self.reference("ops_unique_args") {
            let ours = tl_ops_unique_args::tables(&self.trace, &scope, self.definition);
            let ours: Vec<Table> = ours.into_iter().map(tracelens_categories).collect();
            let by_module = reference.has("parent_module");
            self.unique_args(
                &reference,
                &ours[if by_module { 2 } else { 0 }],
                &ours[if by_module { 3 } else { 1 }],
                &keys,
            );
        }
    }

    fn unique_args(&mut self, reference: &Csv, ours: &Table, kernels: &Table, keys: &[(&str, &str, Convert)]) {
        let mut keys = keys.to_vec();
        keys.extend([
            ("process_name", "process", unknown_is_empty as Convert),
            ("process_label", "process_label", unknown_is_empty),
            ("thread_name", "thread", unknown_is_empty),
            ("Input Dims", "input_dims", literal),
            ("Input type", "input_types", literal),
            ("Input Strides", "input_strides", literal),
            ("Concrete Inputs", "concrete_inputs", literal),
        ]);
        let mut comparison = Comparison::new(self.name, reference, ours, &keys)
            .rounding(self.definition)
            .numbers(&[("operation_count", "count", 1.0), ("ex_UID", "example_event", 1.0)])
            .numbers(&[("Percentage (%)", "percent", 1.0)])
            .texts(&[("call_stack", "module_path_first", call_stack), ("num_kernels", "kernels_first", plain)])
            .order("Cumulative Percentage (%)", "cumulative_percent", 1.0);
        let names: Vec<(String, String)> =
            [("direct", "total_direct_kernel_time"), ("subtree", "total_subtree_kernel_time")]
                .iter()
                .flat_map(|(ours, theirs)| {
                    ["mean", "median", "std", "min", "max", "sum"]
                        .map(|s| (format!("{theirs}_{s}"), format!("{ours}_{s}_us")))
                })
                .collect();
        comparison.numbers.extend(names.iter().map(|(theirs, ours)| (theirs.as_str(), ours.as_str(), 1.0)));
        self.compared += comparison.run(&mut self.failures, &keep);
        self.kernel_details(reference, ours, kernels);
    }

    /// `kernel_details_summary`: the kernels of each row, found by the row's example event.
    fn kernel_details(&mut self, reference: &Csv, ours: &Table, kernels: &Table) {
        let mut by_row: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for row in 0..kernels.rows() {
            by_row.entry(cell(kernels, "row", row)).or_default().push(row);
        }
        let example: BTreeMap<String, usize> =
            (0..ours.rows()).map(|row| (cell(ours, "example_event", row), row)).collect();
        for row in 0..reference.rows.len() {
            let Value::Array(details) = python(reference.get(row, "kernel_details_summary")) else { panic!() };
            let Some(at) = example.get(reference.get(row, "ex_UID")) else { continue };
            // Theirs are in order of duration, ours in order of launch.
            let mut mine = by_row[&at.to_string()].clone();
            let sum = |row: &usize| cell(kernels, "kernel_sum_us", *row).parse::<f64>().unwrap();
            mine.sort_by(|a, b| sum(a).total_cmp(&sum(b)));
            let label = format!("{}/{}: kernels of event {}", self.name, ours.name, reference.get(row, "ex_UID"));
            if mine.len() != details.len() {
                self.failures.push(format!("{label}: {} kernels, not {}", mine.len(), details.len()));
                continue;
            }
            for (detail, &row) in details.iter().zip(&mine) {
                let count = detail["count"].as_f64().unwrap();
                let sample = if count > 1.0 { (count / (count - 1.0)).sqrt() } else { f64::NAN };
                let expected = [
                    ("kernel", detail["name"].as_str().unwrap().to_owned()),
                    ("stream", detail["stream"].to_string()),
                    ("count", detail["count"].to_string()),
                    ("kernel_sum_us", detail["total_duration_us"].to_string()),
                    ("kernel_mean_us", detail["mean_duration_us"].to_string()),
                    ("kernel_median_us", detail["median_duration_us"].to_string()),
                    ("kernel_min_us", detail["min_duration_us"].to_string()),
                    ("kernel_max_us", detail["max_duration_us"].to_string()),
                    ("kernel_std_us", (detail["std_dev_duration_us"].as_f64().unwrap() * sample).to_string()),
                ];
                for (column, theirs) in expected {
                    let value = cell(kernels, column, row);
                    self.compared += 1;
                    if !(same(&value, &theirs) || value.is_empty() && theirs == "NaN") {
                        self.failures.push(format!("{label}: {column} is {value}, not {theirs}"));
                    }
                }
            }
        }
    }

    fn kernels(&mut self) {
        let scope = Scope::default();
        if let Some(reference) = self.reference("kernel_summary") {
            let ours = tracelens_categories(tl_kernel_summary::table(&self.trace, &scope, self.definition));
            let keys: [(&str, &str, Convert); 4] = [
                ("Parent op category", "category", plain),
                ("Parent cpu_op", "operator", plain),
                ("Kernel name", "kernel", plain),
                ("Kernel stream", "stream", plain),
            ];
            self.compared += Comparison::new(self.name, &reference, &ours, &keys)
                .rounding(self.definition)
                .numbers(&[
                    ("Kernel duration (µs)_sum", "sum_us", 1.0),
                    ("Kernel duration (µs)_count", "count", 1.0),
                    ("Kernel duration (µs)_mean", "mean_us", 1.0),
                    ("Kernel duration (µs)_min", "min_us", 1.0),
                    ("Kernel duration (µs)_max", "max_us", 1.0),
                    ("Percent of kernels time (%)", "kernels_percent", 1.0),
                    ("Percent of total time (%)", "timeline_percent", 1.0),
                ])
                .order("Kernel duration (µs)_sum", "sum_us", 1.0)
                .run(&mut self.failures, &keep);
        }
        let ours = tl_short_kernels::tables(&self.trace, &scope, self.definition);
        if let Some(reference) = self.reference("short_kernels_summary") {
            let keys: [(&str, &str, Convert); 5] = [
                ("Parent cpu_op", "operator", plain),
                ("Input dims", "input_dims", literal),
                ("Input strides", "input_strides", literal),
                ("Concrete Inputs", "concrete_inputs", literal),
                ("Kernel name", "kernel", plain),
            ];
            self.compared += Comparison::new(self.name, &reference, &ours[0], &keys)
                .rounding(self.definition)
                .numbers(&[
                    ("Short Kernel duration (µs) sum", "sum_us", 1.0),
                    ("Short Kernel count", "count", 1.0),
                    ("Short Kernel duration (µs) mean", "mean_us", 1.0),
                    ("Short Kernel duration (µs) percent of total time", "timeline_percent", 1.0),
                ])
                .order("Short Kernel duration (µs) sum", "sum_us", 1.0)
                .run(&mut self.failures, &keep);
        }
        if let Some(reference) = self.reference("short_kernel_histogram") {
            assert_eq!(reference.rows.len(), ours[1].rows(), "{}", self.name);
            for row in 0..reference.rows.len() {
                for (theirs, column) in [("bin_start", "bin_start_us"), ("bin_end", "bin_end_us"), ("count", "count")] {
                    let (theirs, value) = (reference.get(row, theirs), cell(&ours[1], column, row));
                    self.compared += 1;
                    if !same(&value, theirs) {
                        self.failures
                            .push(format!("{}/histogram: {column} of {row} is {value}, not {theirs}", self.name));
                    }
                }
            }
        }
    }

    fn collectives(&mut self) {
        let Some(reference) = self.reference("coll_analysis") else { return };
        let ours = tl_coll_analysis::table(&self.trace, &Scope::default(), self.definition);
        let keys: [(&str, &str, Convert); 10] = [
            ("rank", "rank", plain),
            ("Process Group Name", "process_group", plain),
            ("Process Group Ranks", "ranks", literal),
            ("Collective name", "collective", plain),
            ("Group size", "group_size", |n| n.trim_end_matches(".0").to_owned()),
            ("dtype", "dtype", plain),
            ("In msg nelems", "elements_in", |n| n.trim_end_matches(".0").to_owned()),
            ("Out msg nelems", "elements_out", |n| n.trim_end_matches(".0").to_owned()),
            ("In split size", "split_in", literal),
            ("Out split size", "split_out", literal),
        ];
        self.compared += Comparison::new(self.name, &reference, &ours, &keys)
            .numbers(&[
                ("stream", "stream", 1.0),
                ("In msg size (MB)_first", "size_in_mib", 1.0),
                ("Out msg size (MB)_first", "size_out_mib", 1.0),
                ("dur_sum", "sum_us", 1.0),
                ("dur_mean", "mean_us", 1.0),
                ("dur_std", "std_us", 1.0),
                ("dur_min", "min_us", 1.0),
                ("dur_max", "max_us", 1.0),
                ("operation_count", "count", 1.0),
            ])
            .order("dur_sum", "sum_us", 1.0)
            .run(&mut self.failures, &keep);
    }
}

fn load(corpus: &Path, trace: &str) -> Trace {
    let path = corpus.join("kineto").join(format!("{trace}.json.gz"));
    let mut set = read_paths(&[path], &ReadOptions::default()).unwrap_or_else(|e| panic!("{trace}: {e}"));
    set.traces.swap_remove(0)
}

fn compare(corpus: &Path, name: &str, folder: &str, definition: Definition, failures: &mut Vec<String>) -> usize {
    let mut case = Case {
        name,
        folder: corpus.join("reference/tracelens").join(folder),
        trace: load(corpus, name),
        definition,
        failures: Vec::new(),
        compared: 0,
    };
    case.timeline();
    if !MERGED_WITH_CAPTURE.contains(&folder) {
        case.operators();
        case.kernels();
        case.collectives();
    }
    println!("{name}: {} values, {} differ", case.compared, case.failures.len());
    failures.append(&mut case.failures);
    case.compared
}

fn finish(compared: usize, at_least: usize, failures: &[String]) {
    println!("{compared} values compared");
    let text: Vec<String> = failures.iter().take(60).map(|f| f.chars().take(400).collect()).collect();
    assert!(failures.is_empty(), "{} of {compared} differ:\n{}", failures.len(), text.join("\n"));
    assert!(compared > at_least, "only {compared} values compared");
}

#[test]
fn reference_values_match_in_tracelens_definition() {
    let Some(corpus) = corpus::folder() else { return };
    let (mut compared, mut failures) = (0, Vec::new());
    for &(name, folder) in TRACES {
        compared += compare(&corpus, name, folder, Definition::TraceLens, &mut failures);
    }
    finish(compared, COMPARED_AT_LEAST, &failures);
}

#[test]
fn exact_definition_agrees_where_tracelens_is_complete() {
    let Some(corpus) = corpus::folder() else { return };
    let (mut compared, mut failures) = (0, Vec::new());
    for &(name, folder) in TRACES.iter().filter(|(name, _)| !LOSSY.iter().any(|(lossy, _)| lossy == name)) {
        compared += compare(&corpus, name, folder, Definition::Exact, &mut failures);
    }
    finish(compared, 8_000, &failures);
}

/// The traces of which TraceLens leaves out GPU work lose exactly the amounts on the page.
#[test]
fn omitted_gpu_work_is_as_documented() {
    let Some(corpus) = corpus::folder() else { return };
    for &(name, folder) in TRACES {
        let trace = load(&corpus, name);
        let scope = Scope::default();
        let [exact, theirs] = [Definition::Exact, Definition::TraceLens].map(|d| GpuView::new(&trace, &scope, d));
        let count = |flags: &[bool]| flags.iter().filter(|f| **f).count();
        let lost = count(exact.timed()) - count(theirs.timed());
        let documented = LOSSY.iter().find(|(lossy, _)| *lossy == name).map_or(0, |(_, lost)| *lost);
        assert_eq!(lost, documented, "{name} ({folder}): GPU operations outside TraceLens' timeline");
    }
}
