//! HTA's tables over the corpus against the numbers of HTA 0.6.1 itself, stored by `benches/peers/hta_tables.py` in
//! `fixtures/hta`. Where HTA's unstable sorts make its answer arbitrary, the fixture also has the answer of HTA with
//! stable sorts (`<table>@stable`), and that one is compared. The unmodified one must agree in everything that does not
//! depend on the order within one time (counts, and a series' last value of every time).

use serde_json::Value;
use stackline_analyze::analyses::{
    hta_annotations, hta_comm_comp_overlap, hta_counters, hta_idle_time, hta_kernel_breakdown, hta_launch_stats,
    hta_memory_bandwidth, hta_queue_length, hta_temporal_breakdown,
};
use stackline_analyze::hta_rows::HtaRows;
use stackline_model::{Table, Trace};
use stackline_testkit::corpus;
use stackline_timeline::Scope;
use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::hta_support::{number, text};
use crate::support::read_file;

fn fnv1a64(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// The fixtures' short form of a name.
fn key(name: &str) -> String {
    if name.len() <= 96 {
        return name.to_owned();
    }
    format!("{}#{:016x}", name.chars().take(64).collect::<String>(), fnv1a64(name))
}

fn checksum(values: impl Iterator<Item = f64>) -> String {
    let text: Vec<String> = values.map(|v| format!("{}", v as i64)).collect();
    format!("{:016x}", fnv1a64(&text.join(",")))
}

/// Collector of differences, so that one run shows all of them.
struct Differences {
    trace: String,
    found: Vec<String>,
    compared: usize,
}

impl Differences {
    fn same(&mut self, what: &str, ours: Option<f64>, theirs: &Value) {
        self.compared += 1;
        let equal = match (ours, theirs.as_f64()) {
            (None, None) => true,
            (Some(a), Some(b)) => (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-6),
            _ => false,
        };
        if !equal {
            self.found.push(format!("{}: {what}: ours {ours:?}, HTA's {theirs}", self.trace));
        }
    }

    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, ours: &T, theirs: &T) {
        self.compared += 1;
        if ours != theirs {
            self.found.push(format!("{}: {what}: ours {ours:?}, HTA's {theirs:?}", self.trace));
        }
    }

    /// Rows of a fixture against rows of a table, in order: pairs of (fixture column, our column).
    fn rows(&mut self, what: &str, table: &Table, fixture: &Value, columns: &[(&str, &str)]) {
        let rows = fixture["rows"].as_array().unwrap();
        self.equal(&format!("{what}: rows"), &table.rows(), &rows.len());
        for (i, row) in rows.iter().enumerate().take(table.rows()) {
            for (theirs, ours) in columns {
                self.cell(&format!("{what}[{i}].{theirs}"), table, ours, i, &row[position(fixture, theirs)]);
            }
        }
    }

    fn cell(&mut self, what: &str, table: &Table, column: &str, row: usize, theirs: &Value) {
        match theirs.as_str() {
            Some(s) => {
                let lower = matches!(column, "kernel_type");
                let s = if lower { s.to_lowercase() } else { s.to_owned() };
                self.equal(what, &key(&text(table, column, row)), &s);
            }
            None => self.same(what, number(table, column, row), theirs),
        }
    }
}

fn position(fixture: &Value, column: &str) -> usize {
    let columns = fixture["columns"].as_array().unwrap();
    columns.iter().position(|c| c == column).unwrap_or_else(|| panic!("the fixture has no column {column}"))
}

/// HTA's answer with stable sorts where it has one of its own, else HTA's answer; `None` if HTA failed.
fn table<'a>(fixture: &'a Value, name: &str) -> Option<&'a Value> {
    let stable = &fixture[format!("{name}@stable")];
    let value = if stable.is_null() { &fixture[name] } else { stable };
    value.get("error").is_none().then_some(value)
}

const DESCRIBE: [(&str, &str); 8] = [
    ("count", "count"),
    ("mean", "mean"),
    ("std", "std"),
    ("min", "min"),
    ("25%", "p25"),
    ("50%", "p50"),
    ("75%", "p75"),
    ("max", "max"),
];

const NAME_COLUMNS: [(&str, &str); 6] = [
    ("name", "name"),
    ("sum (us)", "sum_us"),
    ("max (us)", "max_us"),
    ("min (us)", "min_us"),
    ("stddev", "stddev_us"),
    ("mean (us)", "mean_us"),
];

fn temporal(d: &mut Differences, rows: &HtaRows, fixture: &Value) {
    let ours = hta_temporal_breakdown::hta(rows);
    if let Some(theirs) = table(fixture, "temporal_breakdown") {
        let columns = [
            ("idle_time(us)", "idle_time_us"),
            ("compute_time(us)", "compute_time_us"),
            ("non_compute_time(us)", "non_compute_time_us"),
            ("kernel_time(us)", "kernel_time_us"),
            ("idle_time_pctg", "idle_time_pct"),
            ("compute_time_pctg", "compute_time_pct"),
            ("non_compute_time_pctg", "non_compute_time_pct"),
        ];
        d.rows("temporal_breakdown", &ours, theirs, &columns);
    } else {
        d.equal("temporal_breakdown: HTA fails", &(ours.rows(), ours.notes.is_empty()), &(0, false));
    }
    let overlap = table(fixture, "comm_comp_overlap").unwrap();
    let column = ("comp_comm_overlap_pctg", "comp_comm_overlap_pctg");
    d.rows("comm_comp_overlap", &hta_comm_comp_overlap::hta(rows), overlap, &[column]);
}

fn idle(d: &mut Differences, rows: &HtaRows, fixture: &Value) {
    let [breakdown, intervals] = hta_idle_time::hta(rows, hta_idle_time::KERNEL_WAIT_US);
    let Some(theirs) = table(fixture, "idle_time") else {
        d.equal("idle_time: HTA fails without GPU rows", &breakdown.rows(), &0);
        return;
    };
    let mut columns = vec![
        ("stream", "stream"),
        ("idle_category", "idle_category"),
        ("idle_time", "idle_time_us"),
        ("idle_time_ratio", "idle_time_ratio"),
    ];
    d.rows("idle_time", &breakdown, &theirs["breakdown"], &columns);
    columns.truncate(2);
    columns.extend(DESCRIBE);
    d.rows("idle_intervals", &intervals, &theirs["intervals"], &columns);
}

fn types(d: &mut Differences, what: &str, ours: &Table, theirs: &Value) {
    // Kinds that tie in time have no order in HTA.
    let lines: BTreeMap<String, usize> = (0..ours.rows()).map(|i| (text(ours, "kernel_type", i), i)).collect();
    let rows = theirs["rows"].as_array().unwrap();
    d.equal(&format!("{what}: rows"), &lines.len(), &rows.len());
    for row in rows {
        let kind = row[0].as_str().unwrap().to_lowercase();
        let at = lines.get(&kind);
        d.same(&format!("{what} {kind} sum"), at.and_then(|&i| number(ours, "sum_us", i)), &row[1]);
        d.same(&format!("{what} {kind} percent"), at.and_then(|&i| number(ours, "percentage", i)), &row[2]);
    }
}

fn kernels(d: &mut Differences, rows: &HtaRows, fixture: &Value) {
    for (name, memory) in [("kernel_breakdown", true), ("kernel_breakdown_no_memory", false)] {
        let theirs = table(fixture, name).unwrap();
        types(d, name, &hta_kernel_breakdown::types(rows, memory), &theirs["types"]);
        let top = hta_kernel_breakdown::kernels_top(rows, memory, 10, 0.8);
        let columns: Vec<_> = NAME_COLUMNS.into_iter().chain([("kernel_type", "kernel_type")]).collect();
        d.rows(name, &top, &theirs["kernels"], &columns);
    }
    let theirs = table(fixture, "kernel_breakdown_all").unwrap();
    let ours = hta_kernel_breakdown::kernels(rows, true);
    longest(d, "kernel_breakdown_all", &ours, theirs, &theirs["kernels"]);
}

/// A fixture of the longest names: found by name, since equal totals have no order.
fn longest(d: &mut Differences, what: &str, ours: &Table, theirs: &Value, lines: &Value) {
    d.same(&format!("{what} count"), Some(ours.rows() as f64), &theirs["count"]);
    let total: f64 = (0..ours.rows()).filter_map(|i| number(ours, "sum_us", i)).sum();
    d.same(&format!("{what} total"), Some(total), &theirs["total_us"]);
    let by_name: BTreeMap<String, usize> = (0..ours.rows()).map(|i| (key(&text(ours, "name", i)), i)).collect();
    for row in lines["rows"].as_array().unwrap() {
        let name = row[0].as_str().unwrap();
        match by_name.get(name) {
            None => d.equal(&format!("{what}: {name} is missing"), &false, &true),
            Some(&i) => {
                for (theirs, ours_column) in &NAME_COLUMNS[1..] {
                    let cell = &row[position(lines, theirs)];
                    d.cell(&format!("{what} {name} {theirs}"), ours, ours_column, i, cell);
                }
            }
        }
    }
}

fn launches(d: &mut Differences, rows: &HtaRows, fixture: &Value) {
    for (name, memory) in [("launch_stats", true), ("launch_stats_no_memory", false)] {
        let theirs = table(fixture, name).unwrap();
        let pairs = hta_launch_stats::pairs(rows, memory);
        let summary = hta_launch_stats::hta_summary(&pairs);
        for (i, field) in ["count", "short_kernels", "runtime_outliers", "launch_delay_outliers"].iter().enumerate() {
            d.same(&format!("{name} {field}"), number(&summary, "count", i), &theirs[field]);
        }
        let list = hta_launch_stats::hta_launches(&pairs);
        let columns = ["correlation", "cpu_duration_us", "gpu_duration_us", "launch_delay_us"];
        let mut lines: Vec<Vec<f64>> =
            (0..list.rows()).map(|i| columns.iter().filter_map(|c| number(&list, c, i)).collect()).collect();
        lines.sort_by(|a, b| a.partial_cmp(b).unwrap());
        for (i, column) in columns[1..].iter().enumerate() {
            let sum: f64 = lines.iter().map(|l| l[i + 1]).sum();
            d.same(&format!("{name} sum of {column}"), Some(sum), &theirs["sums"][i]);
        }
        let sum = checksum(lines.iter().flatten().copied());
        d.equal(&format!("{name} checksum"), &sum.as_str(), &theirs["checksum"].as_str().unwrap());
    }
}

fn queue(d: &mut Differences, rows: &HtaRows, fixture: &Value) {
    let series = hta_queue_length::series(rows);
    let Some(theirs) = table(fixture, "queue_length").filter(|t| !t.is_null()) else {
        d.equal("queue_length: none in HTA", &series.len(), &0);
        return;
    };
    // The unmodified HTA too must have these.
    for theirs in [theirs, &fixture["queue_length"]] {
        let streams = theirs["series"].as_array().unwrap();
        d.equal("queue_length streams", &series.len(), &streams.len());
        for (line, (stream, points)) in streams.iter().zip(&series) {
            let what = |field: &str| format!("queue_length stream {stream} {field}");
            d.same(&what("number"), Some(*stream as f64), &line["stream"]);
            d.same(&what("points"), Some(points.len() as f64), &line["points"]);
            let last: BTreeMap<i64, i64> = points.iter().map(|p| (p.ts as i64, p.length)).collect();
            let sum = checksum(last.iter().flat_map(|(t, v)| [*t as f64, *v as f64]));
            d.equal(&what("checksum"), &sum.as_str(), &line["checksum"].as_str().unwrap());
        }
    }
    let summary = hta_queue_length::summary(rows, &series);
    for (i, line) in theirs["summary"].as_array().unwrap().iter().enumerate() {
        for (theirs, ours) in DESCRIBE {
            d.same(&format!("queue_length summary {i} {theirs}"), number(&summary, ours, i), &line[theirs]);
        }
    }
    for (limit, theirs) in theirs["full_queue"].as_object().unwrap() {
        if theirs.get("error").is_some() {
            continue;
        }
        // HTA overwrites the row of a rank with every further stream: it has the last one.
        let ours = hta_queue_length::full_queue(rows, &series, limit.parse().unwrap());
        match theirs["rows"].as_array().unwrap().as_slice() {
            [] => d.equal("full_queue: none in HTA", &ours.rows(), &0),
            [line] => {
                let last = ours.rows().checked_sub(1).expect("HTA found a full queue");
                let columns = ["stream", "duration_at_max_queue_length_us", "relative_duration_at_max_queue_length"];
                for (i, column) in columns.iter().enumerate() {
                    d.same(&format!("full_queue {limit} {column}"), number(&ours, column, last), &line[i + 1]);
                }
            }
            more => panic!("one rank, {} rows", more.len()),
        }
    }
}

fn bandwidth(d: &mut Differences, rows: &HtaRows, fixture: &Value) {
    let series = hta_memory_bandwidth::series(rows);
    let Some(theirs) = table(fixture, "memory_bandwidth").filter(|t| !t.is_null()) else {
        d.equal("memory_bandwidth: none in HTA", &series.len(), &0);
        return;
    };
    let classes = theirs["series"].as_array().unwrap();
    d.equal("memory_bandwidth classes", &series.len(), &classes.len());
    for (line, (name, points)) in classes.iter().zip(&series) {
        let what = |field: &str| format!("memory_bandwidth {name} {field}");
        d.equal(&what("name"), name, &line["name"].as_str().unwrap());
        d.same(&what("points"), Some(points.len() as f64), &line["points"]);
        let last: BTreeMap<i64, f64> = points.iter().map(|p| (p.0 as i64, p.1)).collect();
        let sum = checksum(last.keys().map(|&t| t as f64));
        d.equal(&what("times"), &sum.as_str(), &line["checksum_times"].as_str().unwrap());
        for sample in line["samples"].as_array().unwrap() {
            let (at, value) = last.iter().nth(sample[0].as_u64().unwrap() as usize).unwrap();
            d.same(&what("time"), Some(*at as f64), &sample[1][0]);
            d.same(&what("value"), Some(*value), &sample[1][1]);
        }
    }
    let summary = hta_memory_bandwidth::summary(&series);
    let lines = theirs["summary"].as_array().unwrap();
    d.equal("memory_bandwidth summary", &summary.rows(), &lines.len());
    for (i, line) in lines.iter().enumerate() {
        for (theirs, ours) in DESCRIBE {
            d.same(&format!("memory_bandwidth summary {i} {theirs}"), number(&summary, ours, i), &line[theirs]);
        }
    }
}

fn annotations(d: &mut Differences, rows: &HtaRows, fixture: &Value) {
    for (name, gpu) in [("gpu_annotations", true), ("cpu_annotations", false)] {
        let ours = hta_annotations::annotations(rows, gpu, usize::MAX);
        match table(fixture, name).filter(|t| !t.is_null()) {
            None => d.equal(&format!("{name}: none in HTA"), &ours.rows(), &0),
            Some(theirs) => {
                longest(d, name, &ours, theirs, &theirs["rows"]);
                let top = hta_annotations::annotations(rows, gpu, 3);
                let columns = NAME_COLUMNS;
                // Up to three names HTA keeps its order by total; ours is by name.
                if ours.rows() > 3 {
                    d.rows(&format!("{name} top 3"), &top, &theirs["top3"], &columns);
                }
            }
        }
    }
    let ours = hta_annotations::kernels(rows);
    match table(fixture, "kernels_with_annotations") {
        None => {}
        Some(theirs) if theirs.is_null() => d.equal("kernels_with_annotations: none in HTA", &ours.rows(), &0),
        Some(theirs) => {
            let columns = [("s_user_annotation", "annotation"), ("count", "count"), ("sum", "time_us")];
            d.rows("kernels_with_annotations", &ours, &theirs["groups"], &columns);
        }
    }
}

fn counters(d: &mut Differences, rows: &HtaRows, fixture: &Value) {
    let ours = hta_counters::counters(rows);
    let Some(theirs) = table(fixture, "counters").filter(|t| !t.is_null()) else {
        d.equal("counters: none in HTA", &ours.rows(), &0);
        return;
    };
    d.same("counters", Some(ours.rows() as f64), &theirs["count"]);
    let columns = theirs["columns"].as_array().unwrap();
    for sample in theirs["samples"].as_array().unwrap() {
        let at = sample[0].as_u64().unwrap() as usize;
        for (column, theirs) in columns.iter().zip(sample[1].as_array().unwrap()) {
            match column.as_str().unwrap() {
                "index" => d.cell("counters index", &ours, "event_index", at, theirs),
                "op_stack_depth" => {}
                column => d.cell(&format!("counters[{at}].{column}"), &ours, column, at, theirs),
            }
        }
    }
    for (column, sum) in columns[6..].iter().zip(theirs["sums"].as_array().unwrap()) {
        let column = column.as_str().unwrap();
        let total = (0..ours.rows()).filter_map(|i| number(&ours, column, i)).sum();
        d.same(&format!("counters: sum of {column}"), Some(total), sum);
    }
}

fn compare(trace: &Trace, fixture: &Value, d: &mut Differences) {
    let rows = HtaRows::load(trace, &Scope::default());
    if let Some(count) = fixture["rows"].as_u64() {
        d.equal("rows after loading", &(rows.rows.len() as u64), &count);
        temporal(d, &rows, fixture);
        idle(d, &rows, fixture);
        kernels(d, &rows, fixture);
        launches(d, &rows, fixture);
        queue(d, &rows, fixture);
        bandwidth(d, &rows, fixture);
        annotations(d, &rows, fixture);
        counters(d, &rows, fixture);
    }
    // What HTA cannot load or analyse still gives tables here, with columns of one length.
    for analysis in stackline_analyze::analyses::ALL.iter().filter(|a| a.name.starts_with("hta_")) {
        for table in (analysis.run)(trace, &Scope::default()) {
            assert!(table.columns.iter().all(|c| c.values.len() == table.rows()), "{}", table.name);
        }
    }
}

#[test]
fn tables_equal_hta_on_the_corpus() {
    let Some(corpus) = corpus::folder() else { return };
    let mut fixtures: Vec<PathBuf> =
        std::fs::read_dir(corpus::repository().join("fixtures/hta")).unwrap().map(|e| e.unwrap().path()).collect();
    fixtures.retain(|p| p.extension().is_some_and(|e| e == "json"));
    fixtures.sort();
    let (mut found, mut compared) = (Vec::new(), 0);
    for path in &fixtures {
        let fixture: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let name = fixture["trace"].as_str().unwrap();
        let trace = read_file(&corpus.join("kineto").join(name));
        let mut d = Differences { trace: name.to_owned(), found: Vec::new(), compared: 0 };
        compare(&trace, &fixture, &mut d);
        compared += d.compared;
        found.append(&mut d.found);
    }
    println!("{compared} numbers of {} traces compared", fixtures.len());
    assert!(fixtures.len() >= 40 && compared > 10_000, "{compared} numbers of {} fixtures", fixtures.len());
    assert!(found.is_empty(), "{} of {compared} numbers differ:\n{}", found.len(), found.join("\n"));
}
