//! JSON documents of a trace's critical path, with the times before and after the steps.

use serde::Serialize;
use serde_json::{Map, Value, json};
use stackline_critical_path::exact::large_calls::LargeCall;
use stackline_critical_path::exact::{ExactReport, ExactWarning, reasons_in_words};
use stackline_critical_path::hta;
use stackline_model::Trace;
use stackline_timeline::steps::StepSelection;
use std::collections::BTreeMap;

/// JSON document of one trace's critical path by both methods (exact and HTA's), and of the times before and after the
/// steps.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct CriticalPath<'a> {
    pub(crate) rank: i64,
    /// HTA's path, under keys that stay; the page has no use for it.
    #[serde(flatten)]
    #[cfg_attr(test, ts(skip))]
    pub(crate) hta: Map<String, Value>,
    pub(crate) exact: ExactSummary<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub(crate) start_up: Option<StartUpTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub(crate) after_steps: Option<AfterStepsTime>,
}

/// JSON document of the exact critical path, or the error if there is none.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(untagged)]
pub(crate) enum ExactSummary<'a> {
    Found(FoundPath<'a>),
    Failed { error: String },
}

/// JSON summary of a critical path: window, length and causes of its time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct FoundPath<'a> {
    /// Window of the path as text: `steps 3 to 9`, `the inferred steps`, `the whole trace`.
    window: String,
    window_ns: i64,
    /// Notes on excluded parts of the window and on inferred steps.
    window_notes: Vec<String>,
    path_ns: i64,
    path_events: usize,
    /// Percent of the window by cause; causes without time are left out.
    #[cfg_attr(test, ts(type = "Readonly<Record<string, number>>"))]
    bound_by: &'a BTreeMap<&'static str, f64>,
    /// The same in ns.
    #[cfg_attr(test, ts(type = "Readonly<Record<string, number>>"))]
    bound_by_ns: &'a BTreeMap<&'static str, i64>,
    /// Time in ns whose cause is inferred, not recorded.
    inferred_ns: i64,
    #[cfg_attr(test, ts(type = "Array<{ readonly code: string; readonly count: number }>"))]
    warnings: &'a [ExactWarning],
    large_calls: Vec<LargeCallShare<'a>>,
}

impl<'a> FoundPath<'a> {
    pub(crate) fn new(report: &'a ExactReport, looked: &'a StepSelection, calls: &'a [LargeCall]) -> Self {
        Self {
            window: looked.choice.in_words(),
            window_ns: report.window_ns,
            window_notes: looked.notes.iter().cloned().chain(reasons_in_words(report.unreliable())).collect(),
            path_ns: report.path_ns,
            path_events: report.path_events,
            bound_by: &report.bound_by,
            bound_by_ns: &report.bound_by_ns,
            inferred_ns: report.inferred_ns,
            warnings: &report.warnings,
            large_calls: calls.iter().map(LargeCallShare::new).collect(),
        }
    }
}

/// Large calls of one name: their number, and their share of the window and of the critical path, in percent.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct LargeCallShare<'a> {
    name: &'a str,
    count: usize,
    percent: f64,
    path_percent: f64,
}

impl<'a> LargeCallShare<'a> {
    fn new(call: &'a LargeCall) -> Self {
        let LargeCall { name, count, percent, path_percent } = call;
        Self { name, count: *count, percent: *percent, path_percent: *path_percent }
    }
}

/// Time before the first step, and the part of it in imports, in ns.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct StartUpTime {
    pub(crate) before_ns: i64,
    pub(crate) imports_ns: Option<i64>,
}

/// Time after the last step, in ns, and where most of it is spent.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct AfterStepsTime {
    pub(crate) after_ns: i64,
    pub(crate) mostly: Option<String>,
}

/// JSON keys of a trace's critical path by HTA's method, or the key `error`. With selected steps, only the key
/// `left_out`, since the path is not computed.
pub(crate) fn hta_json(trace: &Trace, with_steps: bool) -> Map<String, Value> {
    let json = if with_steps {
        json!({"left_out": "--steps"})
    } else {
        match hta::analyze(trace, &hta::HtaOptions::default()) {
            Ok(path) => {
                let report = path.summary();
                json!({
                    "method": report.method,
                    "window_ns": report.window_ns,
                    "weight_us": report.weight_us,
                    "path_nodes": report.path_nodes,
                    "path_events": report.path_events,
                    "bound_by": report.bound_by,
                    "warnings": report.warnings,
                })
            }
            Err(error) => json!({"error": error.to_string()}),
        }
    };
    if let Value::Object(keys) = json { keys } else { Map::new() }
}
