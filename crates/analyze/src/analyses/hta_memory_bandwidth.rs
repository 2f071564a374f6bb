//! Bandwidth of copies and fills over time.
//!
//! The class of an operation is the start of its name (`Memcpy HtoD`, `Memset`), or `Memcpy Unknown`. An operation adds
//! its bandwidth (argument `memory bandwidth (GB/s)`, 0 if missing) to its class at its start and subtracts it at its
//! end; operations of 0 µs last 1 µs. This follows HTA 0.6.1 (`get_memory_bw_time_series`), which uses only rows with a
//! stream whose *name* is a copy or fill by its rules. AMD's `CopyHostToDevice` is excluded.
//!
//! The exact table `memory_bandwidth` covers all copies and fills by name, with bytes, time and bytes per time. HTA's
//! tables are `hta_memory_bandwidth_summary` (statistics of the points above zero) and `hta_memory_bandwidth` (the
//! series).

use crate::hta_rows::HtaRows;
use crate::{Analysis, Display, TableCommand};
use stackline_model::{Table, Trace, Unit};
use stackline_timeline::kernel_type::{HTA_RULES, KernelType, NameTypes};
use stackline_timeline::stats::{columns, describe};
use stackline_timeline::{DefaultWindow, Scope};
use std::collections::BTreeMap;

/// The registered analysis.
pub const ANALYSIS: Analysis = Analysis {
    name: "hta_memory_bandwidth",
    about: "Bytes, time and bandwidth of copies and fills, and bandwidth over time",
    tables: &["memory_bandwidth", "hta_memory_bandwidth_summary", "hta_memory_bandwidth"],
    window: DefaultWindow::WholeAs("HTA"),
    commands: &[TableCommand::Timeline],
    display: Display::Except(&["hta_memory_bandwidth"]),
    run: |trace, scope| {
        let series = series(&HtaRows::load(trace, scope));
        vec![exact(trace, scope), summary(&series), table(&series)]
    },
};

/// Point of a bandwidth curve: time in µs since the first event, and bandwidth in GB/s from that time on.
pub type Point = (f64, f64);

/// Class of a copy or fill by its name: `Memset`, `Memcpy` with direction such as `Memcpy HtoD`, or `Memcpy Unknown`.
fn class(name: &str) -> &str {
    if name.starts_with("Memset") {
        return "Memset";
    }
    if !name.starts_with("Memcpy") {
        return "Memcpy Unknown";
    }
    // The length of "Memcpy DtoH".
    name.char_indices().nth(11).map_or(name, |(end, _)| &name[..end])
}

/// Bandwidth over time of each class of copies and fills, by class name: points of time in µs and GB/s.
pub fn series<'a>(rows: &HtaRows<'a>) -> BTreeMap<&'a str, Vec<Point>> {
    let trace: &'a Trace = rows.trace;
    let bandwidth = trace.attr("memory bandwidth (GB/s)");
    let mut types = NameTypes::new(trace, HTA_RULES);
    let mut starts: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
    let mut ends: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
    for row in rows.gpu().filter(|r| types.type_of(r.name) == KernelType::Memory) {
        let class = class(trace.strings.get(row.name));
        let rate = bandwidth.f64(row.event).unwrap_or(0.0);
        let dur = if row.dur == 0.0 { 1.0 } else { row.dur };
        starts.entry(class).or_default().push((row.ts, rate));
        ends.entry(class).or_default().push((row.ts + dur, -rate));
    }
    for (class, points) in &mut starts {
        points.append(&mut ends.remove(class).unwrap_or_default());
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0.0;
        for point in points.iter_mut() {
            sum += point.1;
            point.1 = sum;
        }
    }
    starts
}

/// Table `hta_memory_bandwidth_summary`: statistics of bandwidths above zero, per class of copies and fills. Classes
/// without a bandwidth above zero are excluded.
pub fn summary(series: &BTreeMap<&str, Vec<Point>>) -> Table {
    let above = |points: &Vec<Point>| points.iter().map(|p| p.1).filter(|&v| v > 0.0).collect::<Vec<f64>>();
    let lines: Vec<_> =
        series.iter().map(|(name, p)| (*name, describe(&above(p)))).filter(|(_, d)| d.count > 0).collect();
    let mut table = Table::new(
        "hta_memory_bandwidth_summary",
        "Statistics of the bandwidth of copies and fills over time (table hta_memory_bandwidth)",
    )
    .text("name", lines.iter().map(|l| l.0.to_owned()));
    table.columns.extend(columns(&lines.iter().map(|l| l.1).collect::<Vec<_>>(), Unit::GBps));
    table
}

/// Table `hta_memory_bandwidth`: bandwidth over time of all classes of copies and fills.
pub fn table(series: &BTreeMap<&str, Vec<Point>>) -> Table {
    let points = || series.iter().flat_map(|(name, points)| points.iter().map(move |p| (*name, p)));
    Table::new("hta_memory_bandwidth", "Bandwidth of copies and fills over time")
        .text("name", points().map(|p| p.0.to_owned()))
        .f64("ts_us", Unit::Us, points().map(|p| p.1.0))
        .f64("memory_bw", Unit::GBps, points().map(|p| p.1.1))
}

/// Table `memory_bandwidth` (times not rounded, unlike HTA): bandwidth by name of copy or fill.
pub fn exact(trace: &Trace, scope: &Scope) -> Table {
    let bytes = trace.attr("bytes");
    let mut lines: BTreeMap<&str, (i64, i64, i64, i64)> = BTreeMap::new();
    let work = scope.gpu_work(trace);
    for gpu in trace.gpu.ids().filter(|&g| work.has(g)) {
        let event = trace.gpu.event[gpu.index()];
        if trace.kind(event) == stackline_model::EventKind::Kernel || !trace.events.is_plausible(event) {
            continue;
        }
        let (size, time) = (bytes.i64(event), trace.events.dur[event.index()]);
        let line = lines.entry(trace.name(event)).or_default();
        line.0 += 1;
        line.1 = line.1.saturating_add(size.unwrap_or(0));
        line.2 = line.2.saturating_add(time);
        // The rate uses only the time of operations with a known size.
        line.3 = line.3.saturating_add(if size.is_some() { time } else { 0 });
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(_, l)| std::cmp::Reverse(l.2));
    Table::new("memory_bandwidth", "Bytes, time and bandwidth of copies and fills, by name (times not rounded)")
        .text("name", lines.iter().map(|l| l.0.to_owned()))
        .i64("count", Unit::None, lines.iter().map(|l| l.1.0))
        .i64("bytes", Unit::Bytes, lines.iter().map(|l| l.1.1))
        .i64("time_ns", Unit::Ns, lines.iter().map(|l| l.1.2))
        .f64("bandwidth", Unit::GBps, lines.iter().map(|l| (l.1.3 > 0).then(|| l.1.1 as f64 / l.1.3 as f64)))
}
