//! Python classes for calling context trees and their totals.

use crate::call_nodes::{IndexedCallTree, NativeCallNode, NativeCallNodes, Rows, number};
use crate::critical_path::position;
use crate::errors::analysis_error;
use crate::run::NativeRun;
use crate::worker::quiet;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stackline_calls::{CallIndex, CallValue, Measure, Part, TraceCallTree, trace_calls};
use stackline_engine::Progress;
use stackline_model::{CallNodeId, CallingContextTree, FrameKind, Unit};
use stackline_timeline::Scope;
use std::sync::Arc;

/// Call tree of one trace of a run, or of a recording or profile without traces. `steps` includes both ends.
#[pyfunction]
#[pyo3(signature = (run, rank, steps, whole))]
pub(crate) fn call_tree(
    py: Python<'_>,
    run: &Bound<'_, NativeRun>,
    rank: Option<i64>,
    steps: Option<(i64, i64)>,
    whole: bool,
) -> PyResult<NativeCallTree> {
    let run = run.get();
    if let Some(held) = &run.calls {
        if rank.is_some() || steps.is_some() {
            let reason = format!(
                "{} contains only totals per call path, so neither ranks nor steps can be selected",
                run.name()
            );
            return Err(analysis_error(py, &reason));
        }
        return Ok(NativeCallTree(Arc::clone(held)));
    }
    let at = position(py, run, rank)?;
    let scope = Scope { steps, whole, ..Scope::default() };
    let trace = &run.set.traces[at];
    let checked = stackline_engine::check_steps(std::slice::from_ref(trace), &scope)
        .and_then(|()| stackline_engine::check_cycles(trace, &scope));
    checked.map_err(|e| crate::errors::engine_error(py, &e, std::path::Path::new("")))?;
    let set = Arc::clone(&run.set);
    let held = quiet(py, &Progress::new(), move || {
        let TraceCallTree { tree, events, steps, .. } = trace_calls(&set.traces[at], &scope).with_imports_folded();
        IndexedCallTree { index: CallIndex::new(tree, steps), events, set, at }
    })?;
    Ok(NativeCallTree(Arc::new(held)))
}

/// Calling context tree: frames, spans, operators and GPU operations with their metrics (see the package's
/// documentation). Immutable.
#[pyclass(frozen, name = "CallTree", module = "stackline")]
pub(crate) struct NativeCallTree(Arc<IndexedCallTree>);

impl NativeCallTree {
    /// Selection of nodes of this tree for Python, in the given order.
    fn nodes_of(&self, rows: Vec<CallNodeId>) -> NativeCallNodes {
        NativeCallNodes { held: Arc::clone(&self.0), rows: Rows::Some(rows) }
    }
}

#[pymethods]
impl NativeCallTree {
    /// Root of the tree, whose metrics are those of the whole tree.
    #[getter]
    fn root(&self) -> NativeCallNode {
        NativeCallNode { held: Arc::clone(&self.0), at: CallingContextTree::ROOT }
    }

    /// All nodes except the root, callers first.
    #[getter]
    fn nodes(&self) -> NativeCallNodes {
        NativeCallNodes { held: Arc::clone(&self.0), rows: Rows::All }
    }

    /// GPU operations (kernels, copies and fills) by call path.
    #[getter]
    fn kernels(&self) -> NativeCallNodes {
        self.nodes_of(self.0.index.nodes_of_kind(FrameKind::Kernel))
    }

    /// Top-level operators: those without an operator among their callers.
    #[getter]
    fn operators(&self) -> NativeCallNodes {
        self.nodes_of(self.0.index.operators())
    }

    /// Number of steps over which metrics are summed; 0 if the trace has none.
    #[getter]
    fn steps(&self) -> usize {
        self.0.index.steps
    }

    /// Metric of ``time``: ``"gpu_time"`` if there are GPU operations, otherwise ``"cpu_time"``. For a profile
    /// without either, its own metric, such as ``"real_time"``.
    #[getter]
    fn metric(&self) -> &str {
        self.0.index.time_metric().0
    }

    /// True if the tree has backward work or updates of parameters; false for inference.
    #[getter]
    fn is_training(&self) -> bool {
        self.0.index.is_training()
    }

    /// Nodes whose call path matches a pattern, such as ``**/train_step/**/aten::conv*``.
    fn search(&self, py: Python<'_>, pattern: &str) -> PyResult<NativeCallNodes> {
        self.0.index.search(pattern).map(|rows| self.nodes_of(rows)).map_err(|reason| analysis_error(py, &reason))
    }

    /// Nodes with at least ``at_least`` times as many calls as their caller, as in loops.
    #[pyo3(signature = (at_least=10))]
    fn loops(&self, at_least: u64) -> NativeCallNodes {
        self.nodes_of(self.0.index.loops(at_least.max(1)))
    }

    /// Dictionary of the inclusive metrics of top-level operators, summed by name, longest time first.
    fn by_operator<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (_, unit) = self.0.index.time_metric();
        let totals = self.0.index.by_operator().into_iter().map(|(name, total)| {
            let phases = total.phases.into_iter().map(|(phase, ns)| (phase.to_owned(), ns)).collect();
            (
                name.to_owned(),
                NativeCallTotals { values: [total.time, total.gpu, total.cpu], calls: total.calls, phases, unit },
            )
        });
        by_time(py, totals.collect())
    }

    /// Self time by training phase as totals, longest first: ``forward``, ``loss``, ``backward``, ``update``,
    /// ``data_load`` ...
    fn phases<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (_, unit) = self.0.index.time_metric();
        let phases = self.0.index.by_phase().into_iter();
        let totals = phases.map(|(phase, values)| {
            let phases = vec![(phase.to_owned(), values[0].sum)];
            (phase.to_owned(), NativeCallTotals { values, calls: 0, phases, unit })
        });
        by_time(py, totals.collect())
    }

    /// Number of nodes except the root.
    fn __len__(&self) -> usize {
        self.0.index.len().saturating_sub(1)
    }

    fn __repr__(&self) -> String {
        let time = self.0.index.value(Measure::Time, Part::All, CallingContextTree::ROOT).sum;
        let (nodes, steps) = (self.__len__(), self.steps());
        format!(
            "<CallTree of {nodes} nodes, {steps} steps, {} of {}>",
            amount(self.0.index.time_metric().1, time),
            self.metric()
        )
    }
}

/// Format a sum of a metric's values with its unit; times are in ms.
pub(crate) fn amount(unit: Unit, sum: u64) -> String {
    match unit {
        Unit::Ns => format!("{:.3} ms", sum as f64 / 1e6),
        Unit::None => sum.to_string(),
        unit => format!("{sum} {}", unit.suffix()),
    }
}

/// Dictionary of totals by name for Python, longest time first; equal times by name.
fn by_time<'py>(py: Python<'py>, mut totals: Vec<(String, NativeCallTotals)>) -> PyResult<Bound<'py, PyDict>> {
    totals.sort_by(|(a, x), (b, y)| (y.values[0].sum, a).cmp(&(x.values[0].sum, b)));
    let dict = PyDict::new(py);
    for (name, total) in totals {
        dict.set_item(name, Py::new(py, total)?)?;
    }
    Ok(dict)
}

/// Metrics summed over several nodes. Immutable.
#[pyclass(frozen, name = "CallTotals", module = "stackline")]
pub(crate) struct NativeCallTotals {
    values: [CallValue; 3],
    calls: u64,
    phases: Vec<(String, u64)>,
    /// Unit of the time.
    unit: Unit,
}

#[pymethods]
impl NativeCallTotals {
    /// GPU time in ns if there are GPU operations, otherwise CPU time; for a profile the metric of
    /// ``CallingContextTree.metric``.
    #[getter]
    fn time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.values[0].sum)
    }

    /// Total GPU time of this operator or phase in ns.
    #[getter]
    fn gpu_time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.values[1].sum)
    }

    /// CPU time of threads in ns, waits included.
    #[getter]
    fn cpu_time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.values[2].sum)
    }

    /// Number of GPU operations (or spans) in ``time``.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.values[0].count)
    }

    /// Number of calls of the operator; 0 for phases.
    #[getter]
    fn calls(&self) -> u64 {
        self.calls
    }

    /// Metric ``time`` by phase of training, in ns.
    #[getter]
    fn phases<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (phase, ns) in &self.phases {
            dict.set_item(phase, ns)?;
        }
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        // Phases have no number of calls.
        let calls = if self.calls > 0 { format!(", {} calls", self.calls) } else { String::new() };
        format!("<CallTotals {}{calls}>", amount(self.unit, self.values[0].sum))
    }
}
