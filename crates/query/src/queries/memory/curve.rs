//! Query of a device's allocated and reserved bytes over the calls: minimum, maximum and last value of each bucket.

use crate::prefetch::Stage;
use crate::queries::counters::{Point, add_points};
use crate::queries::tiles::window;
use crate::{Answer, Arguments, Column, OpenRun, QueryError};
use serde::Serialize;
use stackline_memory::curve::Curve;
use stackline_memory::tables::reserved_curve;

/// Names of the curves, by number.
const CURVES: [&str; 2] = ["allocated", "reserved"];

/// Memory curves of a device over the calls; the values are in the columns.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct CurveDocument {
    device: u32,
    /// Names of the curves that the column `curve` numbers.
    curves: Vec<&'static str>,
    /// The highest value of each curve.
    most: Vec<f64>,
    has_reserved: bool,
}

/// Names of the columns, a row for each bucket in which a curve changes.
pub(crate) const COLUMNS: &[&str] = &["curve", "start", "low", "high", "last"];

/// Answer the query for a device's allocated and reserved bytes over the calls.
pub(crate) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let memory = super::memory(opened, arguments)?;
    let device = super::device(memory, arguments)?;
    let allocated = memory.curves.iter().find(|curve| curve.device == device).map(values).unwrap_or_default();
    let reserved: Vec<_> =
        reserved_curve(&memory.trace, device).into_iter().map(|(at, bytes)| (i64::from(at), bytes as f64)).collect();
    let series = [&allocated[..], &reserved[..]];
    let most = |values: &[(i64, f64)]| values.iter().map(|&(_, bytes)| bytes).fold(0.0, f64::max);
    let document = CurveDocument {
        device: device.0,
        curves: CURVES.into(),
        most: series.map(most).into(),
        has_reserved: !reserved.is_empty(),
    };
    Answer::with_columns(&document, columns(&series, arguments)?)
}

/// Points of a memory curve: position in the order of calls, and bytes.
pub(super) fn values(curve: &Curve) -> Vec<(i64, f64)> {
    curve.points.iter().map(|&(at, bytes)| (i64::from(at), bytes as f64)).collect()
}

/// Answer columns of several curves in the window that the query arguments select, merged by bucket.
pub(super) fn columns(
    series: &[&[(i64, f64)]],
    arguments: &Arguments,
) -> Result<Vec<(&'static str, Column)>, QueryError> {
    let (level, window) = window(arguments, 0)?;
    let mut points: Vec<Point> = Vec::new();
    for (at, values) in series.iter().enumerate() {
        add_points(&mut points, at, values, window, |position| position >> level);
    }
    let numbers = |value_of: fn(&Point) -> f64| Column::F64(points.iter().map(value_of).collect());
    Ok(vec![
        ("curve", Column::U32(points.iter().map(|point| point.counter as u32).collect())),
        ("start", numbers(|point| point.start as f64)),
        ("low", numbers(|point| point.low)),
        ("high", numbers(|point| point.high)),
        ("last", numbers(|point| point.last)),
    ])
}

/// Prefetched arguments of the query for a device's memory curves, by part of the page.
pub(crate) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    let Stage::MemoryOf(device) = stage else { return Vec::new() };
    super::whole_of_device(opened, device).into_iter().collect()
}
