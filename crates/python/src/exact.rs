//! Critical paths by method `exact` for Python.

use crate::critical_path::{critical_path_error, position};
use crate::run::NativeRun;
use crate::table::NativeTable;
use crate::worker::quiet;
use arrow_array::RecordBatch;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stackline_critical_path::CriticalPathError;
use stackline_critical_path::exact::{
    Exact, ExactReport, SEGMENTS, SEGMENTS_TITLE, WindowChoice, segment_tables, spread, tables, without_empty_optional,
};
use stackline_engine::Progress;
use stackline_model::{Table, Trace};
use stackline_store::arrow::table_batch;
use stackline_timeline::Scope;
use stackline_timeline::steps::StepSelection;
use std::sync::Arc;

/// Rows per Arrow batch of path segments.
const BATCH_ROWS: usize = 1 << 16;

/// A critical path with its tables. Immutable.
#[pyclass(frozen, name = "ExactPath", module = "stackline._native")]
pub(crate) struct NativeExactPath {
    report: ExactReport,
    tables: Vec<Table>,
    segments: Vec<RecordBatch>,
}

/// Compute the critical path of one trace of a run. `instance` and `steps` are ranges with both ends included.
#[pyfunction]
#[pyo3(signature = (run, rank, annotation, instance, steps, whole))]
pub(crate) fn exact_path(
    py: Python<'_>,
    run: &Bound<'_, NativeRun>,
    rank: Option<i64>,
    annotation: String,
    instance: Option<(usize, usize)>,
    steps: Option<(i64, i64)>,
    whole: bool,
) -> PyResult<NativeExactPath> {
    let run = run.get();
    let at = position(py, run, rank)?;
    let set = Arc::clone(&run.set);
    let choice = window(&set.traces[at], annotation, instance, steps, whole);
    let found = quiet(py, &Progress::new(), move || -> Result<_, CriticalPathError> {
        let exact = Exact::new(&set.traces[at]);
        let path = exact.path(&choice)?;
        let report = exact.report(&path);
        let tables =
            without_empty_optional(tables(&report, &exact.false_hotspots(&path), &spread(&exact.step_paths())));
        // The text form of the segments is large: it exists only until it is copied into Arrow memory.
        let segments = exact.segment_reports(&path);
        let segments: Result<_, _> = segment_tables(&segments, BATCH_ROWS).map(|part| table_batch(&part)).collect();
        Ok((report, tables, segments))
    })?;
    let (report, tables, segments) = found.map_err(|e| critical_path_error(py, &e))?;
    let segments = segments.map_err(|e| PyRuntimeError::new_err(format!("internal error: {e}")))?;
    Ok(NativeExactPath { report, tables, segments })
}

/// Window of the trace for a critical path: the first or given instances of an annotation, or selected or inferred
/// steps, or the whole trace.
pub(crate) fn window(
    trace: &Trace,
    annotation: String,
    instance: Option<(usize, usize)>,
    steps: Option<(i64, i64)>,
    whole: bool,
) -> WindowChoice {
    if annotation.is_empty() || steps.is_some() || whole {
        return StepSelection::select_or_infer(trace, &Scope { steps, whole, ..Scope::default() }).choice;
    }
    WindowChoice::Annotation { text: annotation, instances: instance.unwrap_or((0, 0)) }
}

#[pymethods]
impl NativeExactPath {
    /// Dictionary that describes the critical path: window, length, causes of its time, inferred time, numbers of edges
    /// and nodes, warnings.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (report, dict) = (&self.report, PyDict::new(py));
        dict.set_item("method", report.method)?;
        dict.set_item("window_ns", report.window_ns)?;
        dict.set_item("window", (report.window_start_ns, report.window_end_ns))?;
        dict.set_item("path_ns", report.path_ns)?;
        dict.set_item("bound_by", report.bound_by.clone())?;
        dict.set_item("bound_by_ns", report.bound_by_ns.clone())?;
        dict.set_item("inferred_ns", report.inferred_ns)?;
        dict.set_item("inferred_by_rule_ns", report.inferred_by_rule_ns.clone())?;
        dict.set_item("edges", report.edges.clone())?;
        dict.set_item("graph_nodes", report.graph_nodes)?;
        dict.set_item("path_nodes", report.path_nodes)?;
        dict.set_item("path_events", report.path_events)?;
        let warnings: Vec<_> = report.warnings.iter().map(|w| format!("{} {}", w.count, w.message)).collect();
        dict.set_item("warnings", warnings)?;
        Ok(dict)
    }

    /// Tables of the critical path in display order, followed by a table of all its segments.
    fn tables(&self) -> PyResult<Vec<NativeTable>> {
        let mut all = self.tables.iter().map(NativeTable::from_model).collect::<PyResult<Vec<_>>>()?;
        if let Some(first) = self.segments.first() {
            all.push(NativeTable::from_batches(SEGMENTS, SEGMENTS_TITLE, (first.schema(), self.segments.clone())));
        }
        Ok(all)
    }
}
