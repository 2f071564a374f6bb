//! Findings for Python.

use crate::critical_path::{failed, position};
use crate::errors::analysis_error;
use crate::run::NativeRun;
use crate::table::NativeTable;
use crate::worker::quiet;
use pyo3::prelude::*;
use stackline_analyze::Scope;
use stackline_analyze::findings::{Options, Settings, find, findings_table};
use stackline_engine::Watch;
use std::sync::Arc;

/// What to change in the program of one trace. Steps include both ends.
#[pyfunction]
#[pyo3(signature = (run, rank, steps, settings, least_percent, threads))]
pub(crate) fn findings(
    py: Python<'_>,
    run: &Bound<'_, NativeRun>,
    rank: Option<i64>,
    steps: Option<(i64, i64)>,
    settings: Vec<String>,
    least_percent: f64,
    threads: usize,
) -> PyResult<NativeTable> {
    let run = run.get();
    let at = position(py, run, rank)?;
    let mut chosen = Settings::default();
    for setting in &settings {
        chosen.set(setting).map_err(|error| analysis_error(py, &error.to_string()))?;
    }
    let options = Options { scope: Scope { steps }, settings: chosen, least_percent, threads };
    let set = Arc::clone(&run.set);
    let found = quiet(py, &Watch::new(), move || find(&set.traces[at], &options))?;
    NativeTable::from_model(&findings_table(&found.map_err(|e| failed(py, &e))?))
}
