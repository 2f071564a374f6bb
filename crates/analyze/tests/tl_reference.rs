//! Every number of TraceLens' reference tables over the corpus' Kineto traces, to 1e-6, in the definition of TraceLens;
//! and in ours wherever TraceLens' definition loses nothing. `docs/analyses/tracelens-differences.md` has the reasons.

mod tl_support;

use serde_json::Value;
use stackline_analyze::analyses::{
    tl_coll_analysis, tl_gpu_timeline, tl_kernel_summary, tl_ops_summary, tl_ops_summary_by_category,
    tl_ops_unique_args, tl_short_kernels,
};
use stackline_analyze::{Scope, tracelens::Definition};
use stackline_ingest::{ReadOptions, read_paths};
use stackline_model::{Table, Trace, Values};
use std::collections::BTreeMap;
use std::path::Path;
use tl_support::{Csv, corpus, python};

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

/// How many values the references have in all, so that none is lost to a renamed column.
const COMPARED_AT_LEAST: usize = 15_000;

type Convert = fn(&str) -> String;

fn plain(cell: &str) -> String {
    cell.to_owned()
}

/// Python tuples as the JSON that our tables have.
fn literal(cell: &str) -> String {
    if cell.is_empty() { String::new() } else { python(cell).to_string() }
}

fn lower_bool(cell: &str) -> String {
    cell.to_lowercase()
}

fn unknown_is_empty(cell: &str) -> String {
    if cell == "Unknown" { String::new() } else { cell.to_owned() }
}

fn module(cell: &str) -> String {
    if cell == "NA" { String::new() } else { cell.trim().trim_start_matches("nn.Module: ").to_owned() }
}

/// `{'a', 'b'}` or `['a']` as `a, b`.
fn set(cell: &str) -> String {
    let mut names: Vec<String> =
        cell.trim_matches(|c| "{}[]".contains(c)).split(", ").map(|n| n.trim_matches('\'').to_owned()).collect();
    names.sort();
    names.join(", ")
}

/// `['aten::mm', 'nn.Module: B_0', 'nn.Module: A_0']` as `A_0 > B_0`.
fn call_stack(cell: &str) -> String {
    let Value::Array(names) = python(cell) else { panic!("{cell}") };
    let path = names.iter().skip(1).rev().map(|n| n.as_str().unwrap().trim_start_matches("nn.Module: ").to_owned());
    path.collect::<Vec<_>>().join(" > ")
}

fn cell(table: &Table, column: &str, row: usize) -> String {
    let column = table.column(column).unwrap_or_else(|| panic!("{} has no column {column}", table.name));
    match &column.values {
        Values::I64(v) => v[row].map_or_else(String::new, |v| v.to_string()),
        Values::F64(v) => v[row].map_or_else(String::new, |v| v.to_string()),
        Values::Bool(v) => v[row].map_or_else(String::new, |v| v.to_string()),
        Values::Str(v) => v[row].clone().unwrap_or_default(),
    }
}

/// JSON text with the spacing that `serde_json` writes.
fn canonical(text: &str) -> String {
    let json = text.starts_with(['[', '{']).then(|| serde_json::from_str::<Value>(text).ok()).flatten();
    json.map_or_else(|| text.to_owned(), |v| v.to_string())
}

fn same(a: &str, b: &str) -> bool {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 1e-6 * b.abs().max(1e-9),
        _ => canonical(a) == canonical(b),
    }
}

/// A comparison of one reference table with ours.
struct Comparison<'a> {
    label: String,
    reference: &'a Csv,
    ours: &'a Table,
    /// Columns that identify a row: theirs, ours, conversion.
    keys: Vec<(&'a str, &'a str, Convert)>,
    /// Numbers: theirs, ours, factor to ours.
    numbers: Vec<(&'a str, &'a str, f64)>,
    /// Other text.
    texts: Vec<(&'a str, &'a str, Convert)>,
    /// Column of ours by which both are sorted, and theirs.
    order: Option<(&'a str, &'a str, f64)>,
}

impl<'a> Comparison<'a> {
    fn new(trace: &str, reference: &'a Csv, ours: &'a Table, keys: &[(&'a str, &'a str, Convert)]) -> Self {
        let label = format!("{trace}/{}", ours.name);
        let keys = keys.iter().copied().filter(|(theirs, ..)| reference.has(theirs)).collect();
        Self { label, reference, ours, keys, numbers: vec![], texts: vec![], order: None }
    }

    fn numbers(mut self, columns: &[(&'a str, &'a str, f64)]) -> Self {
        self.numbers.extend(columns);
        self
    }

    fn texts(mut self, columns: &[(&'a str, &'a str, Convert)]) -> Self {
        self.texts.extend(columns.iter().filter(|(theirs, ..)| self.reference.has(theirs)));
        self
    }

    fn order(mut self, theirs: &'a str, ours: &'a str, factor: f64) -> Self {
        self.order = Some((theirs, ours, factor));
        self
    }

    /// Compares all cells; returns how many. `skip` leaves out rows of ours by index.
    fn run(&self, failures: &mut Vec<String>, skip: &dyn Fn(&Table, usize) -> bool) -> usize {
        let mut index: BTreeMap<String, usize> = BTreeMap::new();
        for row in (0..self.ours.rows()).filter(|&r| !skip(self.ours, r)) {
            let key: Vec<String> =
                self.keys.iter().map(|(_, ours, _)| canonical(&cell(self.ours, ours, row))).collect();
            index.insert(key.join("\u{1f}"), row);
        }
        let mut fail = |text: String| failures.push(format!("{}: {text}", self.label));
        if index.len() != self.reference.rows.len() {
            fail(format!("{} rows, the reference has {}", index.len(), self.reference.rows.len()));
        }
        let mut compared = 0;
        for row in 0..self.reference.rows.len() {
            let key: Vec<String> =
                self.keys.iter().map(|(theirs, _, convert)| convert(self.reference.get(row, theirs))).collect();
            compared += key.len();
            let Some(&at) = index.get(&key.join("\u{1f}")) else {
                fail(format!("no row {key:?}"));
                continue;
            };
            let numbers = self.numbers.iter().map(|&(theirs, ours, factor)| {
                let text = self.reference.get(row, theirs);
                (ours, text.parse::<f64>().map_or_else(|_| text.to_owned(), |v| (v * factor).to_string()))
            });
            let texts =
                self.texts.iter().map(|&(theirs, ours, convert)| (ours, convert(self.reference.get(row, theirs))));
            for (ours, theirs) in numbers.chain(texts) {
                let value = cell(self.ours, ours, at);
                compared += 1;
                if !same(&value, &theirs) {
                    fail(format!("{ours} of {key:?} is {value}, not {theirs}"));
                }
            }
            if let Some((theirs, ours, factor)) = self.order {
                let theirs = self.reference.get(row, theirs).parse::<f64>().unwrap() * factor;
                if !same(&cell(self.ours, ours, row), &theirs.to_string()) {
                    fail(format!("row {row} is not in the order of {ours}"));
                }
            }
        }
        compared
    }
}

fn keep(_: &Table, _: usize) -> bool {
    false
}

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
            let ours = pick(ours, reference.has("parent_module"), 1);
            self.compared += Comparison::new(self.name, &reference, &ours, &keys)
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
        if let Some(reference) = self.reference("ops_summary_by_category") {
            let ours = tl_ops_summary_by_category::tables(&self.trace, &scope, self.definition);
            let ours = pick(ours, reference.has("parent_module"), 1);
            self.compared += Comparison::new(self.name, &reference, &ours, &keys)
                .numbers(&sums)
                .texts(&stack)
                .order("Cumulative Percentage (%)", "cumulative_percent", 1.0)
                .run(&mut self.failures, &keep);
        }
        if let Some(reference) = self.reference("ops_unique_args") {
            let ours = tl_ops_unique_args::tables(&self.trace, &scope, self.definition);
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

    /// `kernel_details_summary`: the kernels behind each row, found by the row's example event.
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
            let mine = &by_row[&at.to_string()];
            let label = format!("{}/{}: kernels of event {}", self.name, ours.name, reference.get(row, "ex_UID"));
            if mine.len() != details.len() {
                // TraceLens puts whatever kernels stand at one position under the first one's name.
                let positions: std::collections::BTreeSet<String> =
                    mine.iter().map(|&r| cell(kernels, "position", r)).collect();
                if positions.len() == mine.len() {
                    self.failures.push(format!("{label}: {} kernels, not {}", mine.len(), details.len()));
                }
                continue;
            }
            for (detail, &row) in details.iter().zip(mine) {
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
            let ours = tl_kernel_summary::table(&self.trace, &scope, self.definition);
            let keys: [(&str, &str, Convert); 4] = [
                ("Parent op category", "category", plain),
                ("Parent cpu_op", "operator", plain),
                ("Kernel name", "kernel", plain),
                ("Kernel stream", "stream", plain),
            ];
            self.compared += Comparison::new(self.name, &reference, &ours, &keys)
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
        let ours = tl_coll_analysis::table(&self.trace, &Scope::default());
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

#[test]
fn every_reference_value_in_tracelens_definition() {
    let Some(corpus) = corpus() else { return };
    let (mut compared, mut failures) = (0, Vec::new());
    for &(name, folder) in TRACES {
        let mut case = Case {
            name,
            folder: corpus.join("reference/tracelens").join(folder),
            trace: load(&corpus, name),
            definition: Definition::TraceLens,
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
        compared += case.compared;
        failures.append(&mut case.failures);
    }
    println!("{compared} values compared");
    let text: Vec<String> = failures.iter().take(60).map(|f| f.chars().take(400).collect()).collect();
    assert!(failures.is_empty(), "{} of {compared} differ:\n{}", failures.len(), text.join("\n"));
    assert!(compared > COMPARED_AT_LEAST, "only {compared} values compared");
}
