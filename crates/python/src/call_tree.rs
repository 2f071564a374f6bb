//! Calling context trees for Python.

use crate::call_nodes::{Held, NativeCallNode, NativeCallNodes, Rows, number};
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

/// The calls of one trace of a run, or those of a recording or a profile without traces. Steps include both ends.
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
            let reason = format!("{} holds sums of calls: it has neither ranks nor steps to choose from", run.name());
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
        Held { index: CallIndex::new(tree, steps), events, set, at }
    })?;
    Ok(NativeCallTree(Arc::new(held)))
}

/// Who called what, and what that took: see the package's documentation. Immutable.
#[pyclass(frozen, name = "CallTree", module = "stackline")]
pub(crate) struct NativeCallTree(Arc<Held>);

impl NativeCallTree {
    fn nodes_of(&self, rows: Vec<CallNodeId>) -> NativeCallNodes {
        NativeCallNodes { held: Arc::clone(&self.0), rows: Rows::Some(rows) }
    }
}

#[pymethods]
impl NativeCallTree {
    /// The node that holds all others: its times are those of the whole tree.
    #[getter]
    fn root(&self) -> NativeCallNode {
        NativeCallNode { held: Arc::clone(&self.0), at: CallingContextTree::ROOT }
    }

    /// All nodes but the root, callers first.
    #[getter]
    fn nodes(&self) -> NativeCallNodes {
        NativeCallNodes { held: Arc::clone(&self.0), rows: Rows::All }
    }

    /// Operations of GPUs: kernels, copies and fills, by the call path that launched them.
    #[getter]
    fn kernels(&self) -> NativeCallNodes {
        self.nodes_of(self.0.index.of_kind(FrameKind::Kernel))
    }

    /// Operators that no other operator called.
    #[getter]
    fn operators(&self) -> NativeCallNodes {
        self.nodes_of(self.0.index.operators())
    }

    /// Steps that the tree is about; 0 if the trace has none.
    #[getter]
    fn steps(&self) -> usize {
        self.0.index.steps
    }

    /// What ``time`` of a node is: ``"gpu_time"`` where there are GPU operations, else ``"cpu_time"``; of a profile without
    /// either, such as ``"real_time"`` or the name of what it counts.
    #[getter]
    fn metric(&self) -> &str {
        self.0.index.time_metric().0
    }

    /// Whether anything runs backward or updates parameters; else it is inference.
    #[getter]
    fn is_training(&self) -> bool {
        self.0.index.is_training()
    }

    /// Nodes whose call path fits a pattern, such as ``**/train_step/**/aten::conv*``.
    fn search(&self, py: Python<'_>, pattern: &str) -> PyResult<NativeCallNodes> {
        self.0.index.search(pattern).map(|rows| self.nodes_of(rows)).map_err(|reason| analysis_error(py, &reason))
    }

    /// Nodes that are called so many times or more for each call of their caller.
    #[pyo3(signature = (at_least=10))]
    fn loops(&self, at_least: u64) -> NativeCallNodes {
        self.nodes_of(self.0.index.loops(at_least.max(1)))
    }

    /// Operators by name, most time first: each with all that it called, wherever no other operator called it.
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

    /// Time by phase of training, most first: ``forward``, ``loss``, ``backward``, ``update``, ``data_load`` ...
    fn phases<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (_, unit) = self.0.index.time_metric();
        let phases = self.0.index.by_phase().into_iter();
        let totals = phases.map(|(phase, values)| {
            let phases = vec![(phase.to_owned(), values[0].sum)];
            (phase.to_owned(), NativeCallTotals { values, calls: 0, phases, unit })
        });
        by_time(py, totals.collect())
    }

    /// Number of nodes, without the root.
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

/// A sum of a tree's times (or of what it counts) for people.
pub(crate) fn amount(unit: Unit, sum: u64) -> String {
    match unit {
        Unit::Ns => format!("{:.3} ms", sum as f64 / 1e6),
        Unit::None => sum.to_string(),
        unit => format!("{sum} {}", unit.suffix()),
    }
}

fn by_time<'py>(py: Python<'py>, mut totals: Vec<(String, NativeCallTotals)>) -> PyResult<Bound<'py, PyDict>> {
    totals.sort_by(|(a, x), (b, y)| (y.values[0].sum, a).cmp(&(x.values[0].sum, b)));
    let dict = PyDict::new(py);
    for (name, total) in totals {
        dict.set_item(name, Py::new(py, total)?)?;
    }
    Ok(dict)
}

/// What many nodes took together. Immutable.
#[pyclass(frozen, name = "CallTotals", module = "stackline")]
pub(crate) struct NativeCallTotals {
    values: [CallValue; 3],
    calls: u64,
    phases: Vec<(String, u64)>,
    /// Of its time.
    unit: Unit,
}

#[pymethods]
impl NativeCallTotals {
    /// GPU time where there are GPU operations, else CPU time, in ns; of a profile what ``CallingContextTree.metric`` says.
    #[getter]
    fn time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.values[0].sum)
    }

    /// Time of GPUs in ns.
    #[getter]
    fn gpu_time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.values[1].sum)
    }

    /// Time of threads in ns, waits included.
    #[getter]
    fn cpu_time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.values[2].sum)
    }

    /// How many GPU operations (or spans) ``time`` is the sum of.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.values[0].count)
    }

    /// Calls of the operator; 0 of phases.
    #[getter]
    fn calls(&self) -> u64 {
        self.calls
    }

    /// ``time`` by phase of training, in ns.
    #[getter]
    fn phases<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (phase, ns) in &self.phases {
            dict.set_item(phase, ns)?;
        }
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        // Of phases nobody counts calls.
        let calls = if self.calls > 0 { format!(", {} calls", self.calls) } else { String::new() };
        format!("<CallTotals {}{calls}>", amount(self.unit, self.values[0].sum))
    }
}
