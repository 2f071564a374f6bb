//! Number of queued operations per stream over time.
//!
//! A launch call adds one to its operation's stream at its start; the operation subtracts one at its start. The value
//! is constant until the next point. Streams are identified by number only, as in HTA (0.6.1
//! `get_queue_length_time_series`), which counts the calls in [`LAUNCHES`]. Points at equal times are ordered launch
//! before operation, then by row. HTA uses an unstable sort, so values *within* one time may differ, but not the last
//! value of a time.
//!
//! Tables:
//! - `hta_queue_length_summary`: pandas' statistics over the points with equal weights, as in HTA. Also the mean over
//!   time, which is independent of the order of points.
//! - `hta_queue_length`: the series.
//! - `hta_full_queue`: time with at least 1024 queued operations, where a launch call blocks. HTA returns only the last
//!   stream.

use crate::hta_rows::{CallPairs, HtaRows, note_limited};
use crate::{Analysis, Display, TableCommand};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{Column, EventId, Table, Unit, Values};
use stackline_timeline::hta_view::LAUNCHES;
use stackline_timeline::stats::{columns, describe};
use stackline_timeline::{DefaultWindow, Scope};
use std::collections::BTreeMap;

/// The registered analysis.
pub const ANALYSIS: Analysis = Analysis {
    name: "hta_queue_length",
    about: "Operations waiting on each GPU stream over time, and time with a full queue",
    tables: &["hta_queue_length_summary", "hta_full_queue", "hta_queue_length"],
    window: DefaultWindow::WholeAs("HTA"),
    commands: &[TableCommand::Timeline],
    display: Display::Except(&["hta_queue_length"]),
    run: |trace, scope: &Scope| {
        let rows = HtaRows::load(trace, scope);
        let (series, limited) = series_limited(&rows);
        vec![note_limited(summary(&rows, &series), limited), full_queue(&rows, &series, FULL_QUEUE), table(&series)]
    },
};

/// Queue length from which launch calls were observed to block.
const FULL_QUEUE: i64 = 1024;

/// A change of the number of queued operations of a GPU stream, with its time and event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Time in microseconds since the first event.
    pub ts: f64,
    /// The call or operation.
    pub event: EventId,
    /// Operations waiting after the change.
    pub length: i64,
}

/// Queue length over time of each GPU stream, by stream number.
pub fn series(rows: &HtaRows) -> BTreeMap<i64, Vec<Point>> {
    series_limited(rows).0
}

/// Queue length over time of each GPU stream. Also returns the number of launch calls that are paired with only one of
/// several operations.
fn series_limited(rows: &HtaRows) -> (BTreeMap<i64, Vec<Point>>, usize) {
    let calls: Vec<_> =
        rows.rows.iter().filter(|r| r.linked > 0 && LAUNCHES.contains(&rows.trace.strings.get(r.name))).collect();
    let launched: FxHashSet<i64> = calls.iter().map(|r| r.correlation).collect();
    let mut operations: FxHashMap<i64, Vec<i64>> = FxHashMap::default();
    let mut changes: BTreeMap<i64, Vec<(f64, EventId, i64)>> = BTreeMap::new();
    let started: Vec<_> = rows.gpu().filter(|r| launched.contains(&r.correlation)).collect();
    for row in &started {
        operations.entry(row.correlation).or_default().push(row.stream);
    }
    let mut pairs = CallPairs::default();
    for call in &calls {
        let of_call = operations.get(&call.correlation).map_or(&[][..], |o| pairs.next(call.correlation, o));
        for &stream in of_call {
            changes.entry(stream).or_default().push((call.ts, call.event, 1));
        }
    }
    for row in &started {
        changes.entry(row.stream).or_default().push((row.ts, row.event, -1));
    }
    let accumulate = |mut changes: Vec<(f64, EventId, i64)>| {
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut length = 0;
        let add = |(ts, event, change)| {
            length += change;
            Point { ts, event, length }
        };
        changes.into_iter().map(add).collect()
    };
    let series = changes.into_iter().map(|(stream, changes)| (stream, accumulate(changes))).collect();
    (series, pairs.limited)
}

/// Table `hta_queue_length_summary`: statistics of the queue length of each GPU stream.
pub fn summary(rows: &HtaRows, series: &BTreeMap<i64, Vec<Point>>) -> Table {
    let stats: Vec<_> =
        series.values().map(|p| describe(&p.iter().map(|p| p.length as f64).collect::<Vec<_>>())).collect();
    let over_time = series.values().map(|points| {
        let weighted = |w: &[Point]| (w[1].ts - w[0].ts) * w[0].length as f64;
        let span = points.last()?.ts - points.first()?.ts;
        (span > 0.0).then(|| points.windows(2).map(weighted).sum::<f64>() / span)
    });
    let title = "Statistics of the number of operations that wait on each GPU stream";
    let mut table = Table::new("hta_queue_length_summary", title).i64("stream", Unit::None, series.keys().copied());
    table.columns.extend(columns(&stats, Unit::None));
    let mean = Values::F64(over_time.collect());
    table.columns.push(Column { name: "mean_over_time".to_owned(), unit: Unit::None, values: mean });
    if series.is_empty() && !rows.rows.is_empty() {
        table = table.note("No GPU operation is linked to a launch call.");
    }
    table
}

/// Table `hta_queue_length`: queue length over time of all GPU streams.
pub fn table(series: &BTreeMap<i64, Vec<Point>>) -> Table {
    let points = || series.iter().flat_map(|(stream, points)| points.iter().map(move |p| (*stream, p)));
    Table::new("hta_queue_length", "Number of operations that wait on each GPU stream, over time")
        .i64("stream", Unit::None, points().map(|p| p.0))
        .f64("ts_us", Unit::Us, points().map(|p| p.1.ts))
        .i64("queue_length", Unit::None, points().map(|p| p.1.length))
}

/// Table `hta_full_queue`: time with at least `limit` queued operations, per GPU stream. Streams without such time are
/// excluded.
pub fn full_queue(rows: &HtaRows, series: &BTreeMap<i64, Vec<Point>>, limit: i64) -> Table {
    let mut lines = Vec::new();
    for (stream, points) in series {
        if points.iter().any(|p| p.length >= limit) {
            let full: f64 = points.windows(2).filter(|w| w[0].length >= limit).map(|w| w[1].ts - w[0].ts).sum();
            lines.push((*stream, full));
        }
    }
    let starts = || rows.rows.iter().map(|r| r.ts);
    let span = starts().fold(f64::NEG_INFINITY, f64::max) - starts().fold(f64::INFINITY, f64::min);
    Table::new("hta_full_queue", "Time with a full launch queue")
        .i64("stream", Unit::None, lines.iter().map(|l| l.0))
        .f64("duration_at_max_queue_length_us", Unit::Us, lines.iter().map(|l| l.1))
        .f64(
            "relative_duration_at_max_queue_length",
            Unit::None,
            lines.iter().map(|l| (span > 0.0).then(|| l.1 / span)),
        )
}
