//! Python functions that predict the effect of edits on run time.

use crate::critical_path::{critical_path_error, position};
use crate::exact::window;
use crate::run::NativeRun;
use crate::table::NativeTable;
use crate::worker::quiet;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stackline_critical_path::CriticalPathError;
use stackline_critical_path::exact::what_if::{
    self as exact_what_if, Edit, NewPath, Prediction, SweepOptions, sweep_table, tables,
};
use stackline_engine::Progress;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Predicted effect of edits. Immutable.
#[pyclass(frozen, name = "Prediction", module = "stackline._native")]
pub(crate) struct NativePrediction(Prediction);

/// Predict the effect of edits, given as text, on a window of one trace. Ranges include both ends.
#[pyfunction]
#[pyo3(signature = (run, rank, annotation, instance, steps, whole, edits))]
#[expect(clippy::too_many_arguments, reason = "Python callers name the arguments; a struct would only copy them")]
pub(crate) fn what_if(
    py: Python<'_>,
    run: &Bound<'_, NativeRun>,
    rank: Option<i64>,
    annotation: String,
    instance: Option<(usize, usize)>,
    steps: Option<(i64, i64)>,
    whole: bool,
    edits: Vec<String>,
) -> PyResult<NativePrediction> {
    let run = run.get();
    let at = position(py, run, rank)?;
    let set = Arc::clone(&run.set);
    let choice = window(&set.traces[at], annotation, instance, steps, whole);
    let found = quiet(py, &Progress::new(), move || -> Result<_, CriticalPathError> {
        let edits = edits.iter().map(|e| Edit::parse_all(e)).collect::<Result<Vec<_>, _>>()?.concat();
        exact_what_if::predict(&set.traces[at], &choice, &edits)
    })?;
    found.map(NativePrediction).map_err(|e| critical_path_error(py, &e))
}

/// Predict likely edits separately and rank them by estimated gain.
#[pyfunction]
#[pyo3(signature = (run, rank, annotation, instance, steps, whole, candidates, threads))]
#[expect(clippy::too_many_arguments, reason = "Python callers name the arguments; a struct would only copy them")]
pub(crate) fn sweep(
    py: Python<'_>,
    run: &Bound<'_, NativeRun>,
    rank: Option<i64>,
    annotation: String,
    instance: Option<(usize, usize)>,
    steps: Option<(i64, i64)>,
    whole: bool,
    candidates: usize,
    threads: usize,
) -> PyResult<NativeTable> {
    let run = run.get();
    let at = position(py, run, rank)?;
    let set = Arc::clone(&run.set);
    let choice = window(&set.traces[at], annotation, instance, steps, whole);
    let watch = Progress::new();
    let stop = watch.clone();
    let found = quiet(py, &watch, move || {
        let options = SweepOptions { candidates, threads };
        exact_what_if::sweep(&set.traces[at], &choice, &options, &|| stop.is_cancelled()).map(|s| sweep_table(&s))
    })?;
    NativeTable::from_model(&found.map_err(|e| critical_path_error(py, &e))?)
}

#[pymethods]
impl NativePrediction {
    /// Dictionary that describes the prediction: times before and after, gain with bounds, causes of the time, edits
    /// and notes.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (found, dict) = (&self.0, PyDict::new(py));
        dict.set_item("window", (found.window.start, found.window.end))?;
        dict.set_item("before_ns", found.before_ns())?;
        dict.set_item("after_ns", found.after_ns)?;
        dict.set_item("gain_ns", found.gain.likely_ns)?;
        dict.set_item("gain_bounds_ns", (found.gain.low_ns, found.gain.high_ns))?;
        dict.set_item("bound_by_ns_before", by_category(&found.before))?;
        dict.set_item("bound_by_ns", by_category(&found.after))?;
        dict.set_item("next_bound", found.after.bound_by().map(|c| c.name()))?;
        dict.set_item("edits", found.edits.clone())?;
        dict.set_item("notes", found.notes.clone())?;
        Ok(dict)
    }

    /// Tables of the prediction in display order.
    fn tables(&self) -> PyResult<Vec<NativeTable>> {
        tables(&self.0).iter().map(NativeTable::from_model).collect()
    }
}

/// Time in ns on a critical path by cause; causes without time are omitted.
fn by_category(path: &NewPath) -> BTreeMap<&'static str, i64> {
    path.by_category.iter().filter(|(_, ns)| *ns > 0).map(|(c, ns)| (c.name(), *ns)).collect()
}
