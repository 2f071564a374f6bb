//! Critical paths by method `ctda` for Python.

use crate::critical_path::{critical_path_error, position};
use crate::run::NativeRun;
use crate::table::NativeTable;
use crate::worker::quiet;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stackline_critical_path::ctda;
use stackline_critical_path::ctda::{CtdaOptions, CtdaPath, PhaseRules};
use stackline_critical_path::{Edit, Instances};
use stackline_engine::Progress;
use std::path::PathBuf;
use std::sync::Arc;

/// A dependency graph and its critical path. Immutable.
#[pyclass(frozen, name = "CtdaPath", module = "stackline._native")]
pub(crate) struct NativeCtdaPath {
    path: Arc<CtdaPath>,
}

/// Compute the critical path of one trace of a run. `instance` and `steps` are ranges with both ends included.
#[pyfunction]
#[pyo3(signature = (run, rank, annotation, instance, steps, phase_rules))]
pub(crate) fn ctda_path(
    py: Python<'_>,
    run: &Bound<'_, NativeRun>,
    rank: Option<i64>,
    annotation: String,
    instance: Option<(usize, usize)>,
    steps: Option<(i64, i64)>,
    phase_rules: Option<PathBuf>,
) -> PyResult<NativeCtdaPath> {
    let run = run.get();
    let at = position(py, run, rank)?;
    let read = |file: PathBuf| {
        let text = std::fs::read_to_string(&file);
        let text = text.map_err(|e| PyOSError::new_err(format!("{}: cannot read: {e}", file.display())))?;
        PhaseRules::extended_by(&text).map_err(|e| critical_path_error(py, &e.into()))
    };
    let instance = instance.map(|(a, b)| if a == b { Instances::One(a) } else { Instances::Range(a, b) });
    let options = CtdaOptions { annotation, instance, steps, phase_rules: phase_rules.map(read).transpose()? };
    let set = Arc::clone(&run.set);
    let found = quiet(py, &Progress::new(), move || ctda::analyze(&set.traces[at], &options))?;
    found.map(|path| NativeCtdaPath { path: Arc::new(path) }).map_err(|e| critical_path_error(py, &e))
}

#[pymethods]
impl NativeCtdaPath {
    /// Dictionary that describes the critical path: window, length, causes and phases of its time, numbers of edges and
    /// nodes, warnings.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (report, dict) = (self.path.report(), PyDict::new(py));
        dict.set_item("method", &report.method)?;
        dict.set_item("rule_set", &report.rule_set)?;
        dict.set_item("window_ns", report.window_ns)?;
        dict.set_item("window", (report.window_start_ns, report.window_end_ns))?;
        dict.set_item("weight_us", report.weight_us)?;
        dict.set_item("cpcr", report.cpcr)?;
        dict.set_item("bound_by", report.bound_by)?;
        dict.set_item("bound_by_us", report.bound_by_us)?;
        dict.set_item("phases_us", report.phases_us)?;
        dict.set_item("edges", report.edges)?;
        dict.set_item("path_edges", report.path_edges)?;
        dict.set_item("graph_nodes", report.graph_nodes)?;
        dict.set_item("path_nodes", report.path_nodes)?;
        dict.set_item("path_events", report.path_events)?;
        let warnings: Vec<_> = report.warnings.iter().map(|w| format!("{} {}", w.count, w.code.message())).collect();
        dict.set_item("warnings", warnings)?;
        Ok(dict)
    }

    /// Tables of the critical path in display order.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<NativeTable>> {
        let path = Arc::clone(&self.path);
        let tables = quiet(py, &Progress::new(), move || path.report().tables())?;
        tables.iter().map(NativeTable::from_model).collect()
    }

    /// Critical path predicted by changing edge weights of the dependency graph; each edit is text such as `gpu=x0.5`.
    fn what_if(&self, py: Python<'_>, edits: Vec<String>) -> PyResult<Self> {
        let edits: Result<Vec<_>, _> = edits.iter().map(|e| Edit::parse(e)).collect();
        let edits = edits.map_err(|e| critical_path_error(py, &e))?;
        let path = Arc::clone(&self.path);
        Ok(Self { path: Arc::new(quiet(py, &Progress::new(), move || path.apply(&edits))?) })
    }
}
