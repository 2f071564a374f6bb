//! Idle time of GPU streams by cause: late host, setup of the next kernel, or other.
//!
//! The gap before an operation is its start minus the end of the previous operation on the stream (in order of start).
//! It is `host_wait` if the operation was launched after that end; else `kernel_wait` if the gap is under a threshold
//! (30 µs); else `other` (waiting for another stream, for an event, or an unknown launch).
//!
//! The exact table groups streams by device, in nanoseconds; overlaps are no gaps. HTA's tables (HTA 0.6.1
//! `get_idle_time_breakdown`) group streams by number only, select kernels, copies and fills by category, and use
//! microseconds. There, overlapping operations count as negative gaps, and an operation without linked launch cannot be
//! `host_wait`. The first operation of a stream has no gap but adds the category `other`.

use crate::hta_rows::{HtaRows, Row};
use crate::{Analysis, Display, TableCommand};
use stackline_model::{GpuOpId, Table, Trace, Unit};
use stackline_timeline::stats::percent;
use stackline_timeline::stats::{Describe, columns, describe, round, sum};
use stackline_timeline::{DefaultWindow, Scope};
use std::collections::BTreeMap;

/// The registered analysis.
pub const ANALYSIS: Analysis = Analysis {
    name: "hta_idle_time",
    about: "Idle time of GPU streams by cause: host wait, kernel wait, other",
    tables: &["idle_time", "hta_idle_time", "hta_idle_intervals"],
    window: DefaultWindow::WholeAs("HTA"),
    commands: &[TableCommand::Timeline],
    display: Display::Except(&["hta_idle_intervals"]),
    run: |trace, scope| {
        let [breakdown, intervals] = hta(&HtaRows::load(trace, scope), KERNEL_WAIT_US);
        vec![exact(trace, scope, KERNEL_WAIT_US * 1000), breakdown, intervals]
    },
};

/// Gaps below this many microseconds are `kernel_wait`: HTA's default.
pub const KERNEL_WAIT_US: i64 = 30;

/// Categories that HTA counts as GPU work here.
const CATEGORIES: &[&str] = &["kernel", "Kernel", "gpu_memset", "Memset", "gpu_memcpy", "Memcpy", "mtia_ccp_events"];

const CAUSES: [&str; 3] = ["host_wait", "kernel_wait", "other"];

/// Cause of a gap, as an index into [`CAUSES`]: late launch, gap below the threshold, or other. All times in one unit.
fn cause<T: PartialOrd + Copy>(launch: Option<T>, end_before: T, gap: T, threshold: T) -> usize {
    if launch.is_some_and(|l| l > end_before) {
        0
    } else if gap < threshold {
        1
    } else {
        2
    }
}

/// Table `idle_time` (times not rounded, unlike HTA): gaps and idle time per device, stream and cause.
pub fn exact(trace: &Trace, scope: &Scope, threshold_ns: i64) -> Table {
    let mut streams: BTreeMap<(i32, i64), Vec<GpuOpId>> = BTreeMap::new();
    let work = scope.gpu_work(trace);
    for gpu in trace.gpu.ids().filter(|&g| work.has(g)) {
        if trace.events.is_plausible(trace.gpu.event[gpu.index()]) {
            let key = (trace.gpu.device[gpu.index()], trace.gpu.stream[gpu.index()]);
            streams.entry(key).or_default().push(gpu);
        }
    }
    let mut rows = Vec::new();
    for (key, mut operations) in streams {
        let event = |g: GpuOpId| trace.gpu.event[g.index()];
        operations.sort_by_key(|&g| (trace.events.start[event(g).index()], g));
        let mut sums = [(0i64, 0i64); 3];
        let mut busy_until: Option<i64> = None;
        for gpu in operations {
            let start = trace.events.start[event(gpu).index()];
            if let Some(before) = busy_until.filter(|&b| b < start) {
                let launch = trace.gpu.launch[gpu.index()].some().map(|l| trace.events.start[l.index()]);
                let sum = &mut sums[cause(launch, before, start - before, threshold_ns)];
                *sum = (sum.0 + 1, sum.1 + start - before);
            }
            busy_until = busy_until.max(Some(trace.events.end(event(gpu))));
        }
        let all: i64 = sums.iter().map(|s| s.1).sum();
        rows.extend((0..3).map(|i| (key, CAUSES[i], sums[i], all)));
    }
    Table::new("idle_time", "Idle time between operations of a stream by cause (times not rounded)")
        .i64("device", Unit::None, rows.iter().map(|r| i64::from(r.0.0)))
        .i64("stream", Unit::None, rows.iter().map(|r| r.0.1))
        .text("cause", rows.iter().map(|r| r.1.to_owned()))
        .i64("gaps", Unit::None, rows.iter().map(|r| r.2.0))
        .i64("time_ns", Unit::Ns, rows.iter().map(|r| r.2.1))
        .f64("percent", Unit::Percent, rows.iter().map(|r| percent(r.2.1 as f64, r.3 as f64)))
}

/// HTA's tables `hta_idle_time` (sums per stream and cause) and `hta_idle_intervals` (statistics of the gaps).
pub fn hta(rows: &HtaRows, threshold_us: i64) -> [Table; 2] {
    // Streams in the order of their first row, as in HTA.
    let mut order: Vec<i64> = Vec::new();
    let mut streams: BTreeMap<i64, Vec<&Row>> = BTreeMap::new();
    for row in rows.gpu().filter(|r| CATEGORIES.contains(&rows.trace.category(r.event))) {
        let of_stream = streams.entry(row.stream).or_default();
        if of_stream.is_empty() {
            order.push(row.stream);
        }
        of_stream.push(row);
    }
    let (mut keys, mut sums, mut stats) = (Vec::new(), Vec::new(), Vec::new());
    for stream in order {
        let gaps = gaps(rows, &streams[&stream], threshold_us as f64);
        let all: f64 = sum(gaps.iter().flatten().flatten().copied());
        for (cause, found) in gaps.iter().enumerate() {
            if let Some(found) = found {
                let total = sum(found.iter().copied());
                keys.push((stream, CAUSES[cause]));
                sums.push((round(total, 2), (all != 0.0).then(|| round(total / all, 2))));
                stats.push(rounded(describe(found)));
            }
        }
    }
    let keyed = |name, title| {
        Table::new(name, title)
            .i64("stream", Unit::None, keys.iter().map(|k| k.0))
            .text("idle_category", keys.iter().map(|k| k.1.to_owned()))
    };
    let breakdown = keyed("hta_idle_time", "Idle time by cause as HTA 0.6.1 counts it")
        .f64("idle_time_us", Unit::Us, sums.iter().map(|s| s.0))
        .f64("idle_time_ratio", Unit::None, sums.iter().map(|s| s.1));
    let mut intervals = keyed("hta_idle_intervals", "Gaps between operations by cause as HTA 0.6.1 counts them");
    intervals.columns.extend(columns(&stats, Unit::Us));
    [rows.note_negative(breakdown), intervals]
}

/// Gaps between consecutive operations of a stream in µs, by cause (`CAUSES`). `None` for a cause without gaps, but the
/// cause "other" is listed for every stream with operations, as in HTA.
fn gaps(rows: &HtaRows, of_stream: &[&Row], threshold_us: f64) -> [Option<Vec<f64>>; 3] {
    let mut sorted = of_stream.to_vec();
    sorted.sort_by(|a, b| a.ts.total_cmp(&b.ts));
    let mut found: [Option<Vec<f64>>; 3] = [None, None, None];
    if !sorted.is_empty() {
        found[2] = Some(Vec::new());
    }
    for pair in sorted.windows(2) {
        let (end, row) = (pair[0].end(), pair[1]);
        let gap = row.ts - end;
        let launch = rows.linked(row).map(|l| l.ts);
        found[cause(launch, end, gap, threshold_us)].get_or_insert_default().push(gap);
    }
    found
}

/// Statistics with two decimals, as HTA shows them; the count is unchanged.
fn rounded(d: Describe) -> Describe {
    let r = |v: Option<f64>| v.map(|v| round(v, 2));
    Describe {
        mean: r(d.mean),
        std: r(d.std),
        min: r(d.min),
        q25: r(d.q25),
        q50: r(d.q50),
        q75: r(d.q75),
        max: r(d.max),
        ..d
    }
}
