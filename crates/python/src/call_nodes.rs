//! Nodes of calling context trees for Python: handles into a tree that stays in Rust.

use crate::call_tree::amount;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PySlice};
use stackline_calls::{CallIndex, CallValue, Measure, Part};
use stackline_findings::place_of_call;
use stackline_model::{CallNodeId, CallingContextTree, EventId, FrameKind, TraceSet};
use stackline_timeline::source_location::{SourceLocation, source_location_of};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A tree, and the trace that it was made from, if any.
pub(crate) struct Held {
    pub(crate) index: CallIndex,
    /// Ascending.
    pub(crate) events: Vec<(CallNodeId, EventId)>,
    pub(crate) set: Arc<TraceSet>,
    /// Which of them.
    pub(crate) at: usize,
}

impl Held {
    fn events(&self, node: CallNodeId) -> &[(CallNodeId, EventId)] {
        let from = self.events.partition_point(|&(of, _)| of < node);
        let length = self.events[from..].partition_point(|&(of, _)| of == node);
        &self.events[from..from + length]
    }

    /// The place of a node in the program: its own or, of what runs backward, that of what it differentiates.
    fn place(&self, node: CallNodeId) -> SourceLocation {
        let callers = std::iter::successors(Some(node), |&node| self.index.parent(node));
        let of =
            |node| self.events(node).first().map(|&(_, event)| source_location_of(&self.set.traces[self.at], event));
        let mut places = callers.into_iter().filter_map(of);
        // Sums of calls are of no events.
        if self.set.traces.is_empty() {
            return place_of_call(&self.index.tree, node);
        }
        let own = places.next().unwrap_or_default();
        if own.file.is_some() {
            return own;
        }
        match places.find(|place| place.file.is_some()) {
            Some(around) => {
                let (module, operator) = (own.module.or(around.module), own.operator.or(around.operator));
                SourceLocation { module, operator, ..around }
            }
            None => own,
        }
    }
}

/// A number of a node. What is nothing can be divided by (`stackline._zero`): listings of rules ask for ratios.
pub(crate) fn number(py: Python<'_>, value: u64) -> PyResult<Py<PyAny>> {
    static ZERO: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if value > 0 {
        return Ok(value.into_pyobject(py)?.into_any().unbind());
    }
    let zero = ZERO.get_or_try_init(py, || Ok::<_, PyErr>(py.import("stackline._zero")?.getattr("ZERO")?.unbind()))?;
    Ok(zero.clone_ref(py))
}

/// Nodes and all below them, level by level, each once.
#[pyfunction]
pub(crate) fn bfs(nodes: &Bound<'_, PyAny>) -> PyResult<NativeCallNodes> {
    if let Ok(all) = nodes.cast::<NativeCallNodes>() {
        let all = all.get();
        let order = match &all.rows {
            // The root itself is no call.
            Rows::All => {
                let mut order = all.held.index.breadth_first(&[CallingContextTree::ROOT]);
                order.remove(0);
                order
            }
            Rows::Some(from) => all.held.index.breadth_first(from),
        };
        return Ok(NativeCallNodes { held: Arc::clone(&all.held), rows: Rows::Some(order) });
    }
    if let Ok(node) = nodes.cast::<NativeCallNode>() {
        return Ok(node.get().with(|index, at| index.breadth_first(&[at])));
    }
    let mut from: Vec<CallNodeId> = Vec::new();
    let mut held: Option<Arc<Held>> = None;
    for node in nodes.try_iter()? {
        let node = node?;
        let node = node.cast::<NativeCallNode>().map_err(|_| PyTypeError::new_err("bfs takes nodes of a call tree"))?;
        let held = held.get_or_insert_with(|| Arc::clone(&node.get().held));
        if !Arc::ptr_eq(held, &node.get().held) {
            return Err(PyTypeError::new_err("bfs takes nodes of one call tree, not of several"));
        }
        from.push(node.get().at);
    }
    let held = held.ok_or_else(|| PyTypeError::new_err("bfs needs a node to begin with"))?;
    let order = held.index.breadth_first(&from);
    Ok(NativeCallNodes { held, rows: Rows::Some(order) })
}

/// Nodes of a tree, in an order. Immutable.
#[pyclass(frozen, sequence, name = "CallNodes", module = "stackline")]
pub(crate) struct NativeCallNodes {
    pub(crate) held: Arc<Held>,
    pub(crate) rows: Rows,
}

/// Which nodes.
pub(crate) enum Rows {
    /// All but the root.
    All,
    Some(Vec<CallNodeId>),
}

impl NativeCallNodes {
    fn row(&self, at: usize) -> Option<NativeCallNode> {
        let id = match &self.rows {
            Rows::All => Some(CallNodeId::new(at + 1)).filter(|id| id.index() < self.held.index.len()),
            Rows::Some(rows) => rows.get(at).copied(),
        };
        id.map(|at| NativeCallNode { held: Arc::clone(&self.held), at })
    }
}

#[pymethods]
impl NativeCallNodes {
    fn __len__(&self) -> usize {
        match &self.rows {
            Rows::All => self.held.index.len().saturating_sub(1),
            Rows::Some(rows) => rows.len(),
        }
    }

    fn __getitem__<'py>(&self, py: Python<'py>, at: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let length = self.__len__();
        if let Ok(slice) = at.cast::<PySlice>() {
            let range = slice.indices(isize::try_from(length).unwrap_or(isize::MAX))?;
            let wanted = (0..range.slicelength).map(|i| range.start + i as isize * range.step);
            let rows = wanted.filter_map(|at| Some(self.row(usize::try_from(at).ok()?)?.at)).collect();
            let nodes = Self { held: Arc::clone(&self.held), rows: Rows::Some(rows) };
            return Ok(Bound::new(py, nodes)?.into_any());
        }
        let at: isize = at.extract()?;
        let at = if at < 0 { at + isize::try_from(length).unwrap_or(isize::MAX) } else { at };
        let node = usize::try_from(at).ok().and_then(|at| self.row(at));
        let node = node.ok_or_else(|| PyIndexError::new_err(format!("there are {length} nodes")))?;
        Ok(Bound::new(py, node)?.into_any())
    }

    fn __iter__(slf: Bound<'_, Self>) -> NativeCallNodeIterator {
        NativeCallNodeIterator { nodes: slf.unbind(), next: 0 }
    }

    fn __repr__(&self) -> String {
        format!("<CallNodes: {}>", self.__len__())
    }
}

/// Goes through nodes.
#[pyclass(name = "CallNodeIterator", module = "stackline")]
pub(crate) struct NativeCallNodeIterator {
    nodes: Py<NativeCallNodes>,
    next: usize,
}

#[pymethods]
impl NativeCallNodeIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self) -> Option<NativeCallNode> {
        let node = self.nodes.get().row(self.next)?;
        self.next += 1;
        Some(node)
    }
}

/// A frame below its callers. Immutable, and equal to other handles of the same node.
#[pyclass(frozen, eq, hash, name = "CallNode", module = "stackline")]
pub(crate) struct NativeCallNode {
    pub(crate) held: Arc<Held>,
    pub(crate) at: CallNodeId,
}

impl PartialEq for NativeCallNode {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at && Arc::ptr_eq(&self.held, &other.held)
    }
}

impl Hash for NativeCallNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at.index().hash(state);
    }
}

impl NativeCallNode {
    fn time_of(&self, measure: Measure, part: Part) -> CallValue {
        self.held.index.value(measure, part, self.at)
    }

    fn with(&self, of: impl FnOnce(&CallIndex, CallNodeId) -> Vec<CallNodeId>) -> NativeCallNodes {
        let rows = Rows::Some(of(&self.held.index, self.at));
        NativeCallNodes { held: Arc::clone(&self.held), rows }
    }

    fn metrics_of<'py>(&self, py: Python<'py>, part: Part) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in self.held.index.metrics(part, self.at) {
            dict.set_item(name, value.sum)?;
        }
        let CallValue { sum, count } = self.time_of(Measure::Time, part);
        for (name, value) in [("time", sum), ("count", count)] {
            // Profiles may count what is called so.
            if !dict.contains(name)? {
                dict.set_item(name, value)?;
            }
        }
        dict.set_item("gpu_time", self.time_of(Measure::Gpu, part).sum)?;
        dict.set_item("cpu_time", self.time_of(Measure::Cpu, part).sum)?;
        Ok(dict)
    }

    fn part(&self, part: Part) -> NativeCallPart {
        NativeCallPart { node: Self { held: Arc::clone(&self.held), at: self.at }, part }
    }
}

#[pymethods]
impl NativeCallNode {
    /// Function, operator, kernel, span; empty for the root.
    #[getter]
    fn name(&self) -> &str {
        self.held.index.name(self.at)
    }

    /// ``python``, ``module``, ``operator``, ``backward``, ``span``, ``runtime``, ``kernel``; ``root``.
    #[getter]
    fn kind(&self) -> &'static str {
        self.held.index.kind(self.at).map_or("root", FrameKind::name)
    }

    /// File of its frame, or else of the nearest Python frame around it.
    #[getter]
    fn file(&self) -> Option<&str> {
        self.held.index.source(self.at).map(|(file, _)| file)
    }

    /// Line of its frame, or else of the nearest Python frame around it.
    #[getter]
    fn line(&self) -> Option<u32> {
        self.held.index.source(self.at).and_then(|(_, line)| line)
    }

    /// The phase of training that it belongs to.
    #[getter]
    fn phase(&self) -> &'static str {
        self.held.index.phase(self.at).name()
    }

    /// GPU time where the tree has any, else CPU time: of the node and all below it, in ns, over all steps. Of a profile
    /// without either what ``CallingContextTree.metric`` says.
    #[getter]
    fn time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.time_of(Measure::Time, Part::All).sum)
    }

    /// Time of GPU operations at and below it, in ns.
    #[getter]
    fn gpu_time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.time_of(Measure::Gpu, Part::All).sum)
    }

    /// Time of threads in it and in what it called, in ns, waits included.
    #[getter]
    fn cpu_time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.time_of(Measure::Cpu, Part::All).sum)
    }

    /// How many GPU operations (or spans, where there are none) ``time`` is the sum of.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.time_of(Measure::Time, Part::All).count)
    }

    /// How often it was called itself.
    #[getter]
    fn calls(&self) -> u64 {
        self.held.index.calls(self.at)
    }

    /// Samples of instructions that stalled, at and below it.
    #[getter]
    fn stalls(&self) -> u64 {
        self.held.index.stalls(self.at)
    }

    /// Steps that its times are sums over; 0 if the trace has none.
    #[getter]
    fn steps(&self) -> usize {
        self.held.index.steps
    }

    /// The node without what runs backward below it.
    #[getter]
    fn forward(&self) -> NativeCallPart {
        self.part(Part::Forward)
    }

    /// What runs backward below the node: all that differentiates what it did.
    #[getter]
    fn backward(&self) -> NativeCallPart {
        self.part(Part::Backward)
    }

    /// The caller; ``None`` for the root.
    #[getter]
    fn parent(&self) -> Option<Self> {
        self.held.index.parent(self.at).map(|at| Self { held: Arc::clone(&self.held), at })
    }

    /// What it called.
    #[getter]
    fn children(&self) -> NativeCallNodes {
        self.with(|index, at| index.children.of_node(at).to_vec())
    }

    /// The call path: its callers, outermost first, and the node itself.
    #[getter]
    fn path(&self) -> NativeCallNodes {
        self.with(|index, at| index.tree.path(at))
    }

    /// Sums by metric, of the node and all below it.
    #[getter]
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.metrics_of(py, Part::All)
    }

    /// Sums by metric, of the node itself.
    #[getter]
    fn exclusive<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.metrics_of(py, Part::Own)
    }

    /// File, line, function, module and operator, as findings name them: the innermost code of the user's own.
    #[getter]
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn place(&self) -> (Option<String>, Option<u32>, Option<String>, Option<String>, Option<String>) {
        let SourceLocation { file, line, function, module, operator } = self.held.place(self.at);
        (file, line, function, module, operator)
    }

    /// Rows of the events that became this node (``Run.events``).
    #[getter]
    fn events(&self) -> Vec<u32> {
        self.held.events(self.at).iter().map(|(_, event)| event.0).collect()
    }

    fn __repr__(&self) -> String {
        let place = self.held.index.source(self.at).map_or_else(String::new, |(file, line)| {
            line.map_or_else(|| format!(" at {file}"), |line| format!(" at {file}:{line}"))
        });
        let time = self.time_of(Measure::Time, Part::All).sum;
        format!("<{} {}{place}, {}>", self.kind(), self.name(), amount(self.held.index.time_metric().1, time))
    }
}

/// A part of a node: what ran forward or backward. Immutable.
#[pyclass(frozen, name = "CallPart", module = "stackline")]
pub(crate) struct NativeCallPart {
    node: NativeCallNode,
    part: Part,
}

#[pymethods]
impl NativeCallPart {
    /// GPU time where the tree has any, else CPU time, in ns.
    #[getter]
    fn time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.node.time_of(Measure::Time, self.part).sum)
    }

    /// Time of GPU operations in ns.
    #[getter]
    fn gpu_time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.node.time_of(Measure::Gpu, self.part).sum)
    }

    /// Time of threads in ns, waits included.
    #[getter]
    fn cpu_time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.node.time_of(Measure::Cpu, self.part).sum)
    }

    /// How many GPU operations (or spans) ``time`` is the sum of.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.node.time_of(Measure::Time, self.part).count)
    }
}
