//! Points and shares of a critical path, as parts of the reports for JSON output.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Point of the critical path in the report: the start or end of an event. Fields are in alphabetical order, as in the
/// JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathPoint<'a> {
    /// `start` or `end`.
    pub at: Cow<'a, str>,
    /// Position of the event in the source's event list: HTA's event index.
    pub event: u32,
    /// Name of the event.
    pub name: Cow<'a, str>,
    /// Time in ns since the start of the window.
    pub time_ns: i64,
    /// Track of the event.
    pub track: Cow<'a, str>,
}

/// Share of a cause or name in the time of the path, in the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportShare {
    /// Name of the events.
    pub name: String,
    /// Summed weight in µs.
    pub weight_us: f64,
    /// Percent of the total weight of the path.
    pub percent: f64,
    /// Number of edges.
    pub edges: usize,
}
