//! Counters over time, tile by tile: for each bucket the least, the highest and the last value in it.

use super::tiles::window;
use crate::counter_tracks::Counter;
use crate::{Answer, Arguments, Column, OpenRun, QueryError};
use serde::Serialize;

/// Most points in an answer.
const MOST: usize = 100_000;

/// Lowest, highest and last value of a counter in one time bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) counter: usize,
    /// Time of the first value.
    pub(super) start: i64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) last: f64,
}

/// The counters of a trace; their values are in the columns.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct CounterDocument {
    counters: Vec<About>,
    /// Counters that are left out.
    more: usize,
    /// Values of the listed counters that are left out.
    left_out: usize,
}

/// Description of a counter: its name, if it counts bytes, and its range of values over the whole trace.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[cfg_attr(test, ts(rename = "Counter"))]
struct About {
    name: String,
    bytes: bool,
    least: f64,
    most: f64,
}

impl About {
    fn new(counter: &Counter) -> Self {
        let values = counter.values.iter().map(|&(_, value)| value);
        let most = values.clone().fold(f64::NEG_INFINITY, f64::max);
        let least = values.fold(f64::INFINITY, f64::min);
        Self { name: super::shortened(&counter.name), bytes: counter.is_bytes, least, most }
    }
}

/// Names of the columns, a row for each bucket that has values.
pub(super) const COLUMNS: &[&str] = &["counter", "start", "low", "high", "last"];

/// Answer the query for the counters of a trace in a time window, bucket by bucket.
pub(super) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let origin = opened.origin(rank)?;
    let (level, window) = window(arguments, origin)?;
    let counters = opened.counters(rank)?;
    let mut points = Vec::new();
    for (at, counter) in counters.list.iter().enumerate() {
        add_points(&mut points, at, &counter.values, window, |ns| ns.saturating_sub(origin) >> level);
    }
    let left_out = points.len().saturating_sub(MOST);
    points.truncate(MOST);
    let document =
        CounterDocument { counters: counters.list.iter().map(About::new).collect(), more: counters.left_out, left_out };
    let values = |value_of: fn(&Point) -> f64| Column::F64(points.iter().map(value_of).collect());
    let columns = vec![
        ("counter", Column::U32(points.iter().map(|point| point.counter as u32).collect())),
        ("start", Column::F64(points.iter().map(|point| point.start.saturating_sub(origin) as f64).collect())),
        ("low", values(|point| point.low)),
        ("high", values(|point| point.high)),
        ("last", values(|point| point.last)),
    ];
    Answer::with_columns(&document, columns)
}

/// Append a counter's values in a time window to `points`, merged by bucket. The last value before the window is
/// included, because a value holds until the next.
pub(super) fn add_points(
    points: &mut Vec<Point>,
    at: usize,
    values: &[(i64, f64)],
    (from, to): (i64, i64),
    bucket: impl Fn(i64) -> i64,
) {
    let place = |ns: i64| values.partition_point(|&(start, _)| start < ns);
    let (begin, end) = (place(from).saturating_sub(1), place(to));
    let mut open: Option<Point> = None;
    for &(start, value) in values.get(begin..end).unwrap_or_default() {
        match &mut open {
            Some(point) if bucket(point.start) == bucket(start) => {
                (point.low, point.high, point.last) = (point.low.min(value), point.high.max(value), value);
            }
            _ => points.extend(open.replace(Point { counter: at, start, low: value, high: value, last: value })),
        }
    }
    points.extend(open);
}
