//! Nodes of calling context trees for Python: handles to nodes of a tree that remains in Rust.

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

/// Call tree with an index from nodes to events, and the traces from which it was built, if any.
pub(crate) struct IndexedCallTree {
    pub(crate) index: CallIndex,
    /// Sorted by node.
    pub(crate) events: Vec<(CallNodeId, EventId)>,
    pub(crate) set: Arc<TraceSet>,
    /// Position of the trace in `set`.
    pub(crate) at: usize,
}

impl IndexedCallTree {
    fn events(&self, node: CallNodeId) -> &[(CallNodeId, EventId)] {
        let from = self.events.partition_point(|&(child, _)| child < node);
        let length = self.events[from..].partition_point(|&(child, _)| child == node);
        &self.events[from..from + length]
    }

    /// Source location of a node's first event; if it has no file, of the nearest caller that has one. Trees without
    /// traces give the location of the node's frame.
    fn place(&self, node: CallNodeId) -> SourceLocation {
        let callers = std::iter::successors(Some(node), |&node| self.index.parent(node));
        let matching =
            |node| self.events(node).first().map(|&(_, event)| source_location_of(&self.set.traces[self.at], event));
        let mut places = callers.into_iter().filter_map(matching);
        // Trees without traces have no events.
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

/// Convert a metric value to a Python integer. Zero becomes `stackline._zero.ZERO`, by which Python rules can divide.
pub(crate) fn number(py: Python<'_>, value: u64) -> PyResult<Py<PyAny>> {
    static ZERO: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if value > 0 {
        return Ok(value.into_pyobject(py)?.into_any().unbind());
    }
    let zero = ZERO.get_or_try_init(py, || Ok::<_, PyErr>(py.import("stackline._zero")?.getattr("ZERO")?.unbind()))?;
    Ok(zero.clone_ref(py))
}

/// The given nodes of one call tree and all their descendants in breadth-first order, each once.
#[pyfunction]
pub(crate) fn bfs(nodes: &Bound<'_, PyAny>) -> PyResult<NativeCallNodes> {
    if let Ok(all) = nodes.cast::<NativeCallNodes>() {
        let all = all.get();
        let order = match &all.rows {
            // The root is not a call.
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
    let mut held: Option<Arc<IndexedCallTree>> = None;
    for node in nodes.try_iter()? {
        let node = node?;
        let node = node
            .cast::<NativeCallNode>()
            .map_err(|_| PyTypeError::new_err("bfs() accepts only nodes of a call tree (CallNode)"))?;
        let held = held.get_or_insert_with(|| Arc::clone(&node.get().held));
        if !Arc::ptr_eq(held, &node.get().held) {
            return Err(PyTypeError::new_err("all nodes passed to bfs() must be from the same call tree"));
        }
        from.push(node.get().at);
    }
    let held = held.ok_or_else(|| PyTypeError::new_err("bfs() needs at least one start node"))?;
    let order = held.index.breadth_first(&from);
    Ok(NativeCallNodes { held, rows: Rows::Some(order) })
}

/// A sequence of nodes of one tree. Immutable.
#[pyclass(frozen, sequence, name = "CallNodes", module = "stackline")]
pub(crate) struct NativeCallNodes {
    pub(crate) held: Arc<IndexedCallTree>,
    pub(crate) rows: Rows,
}

/// Selection of nodes of a call tree: all nodes, or a list.
pub(crate) enum Rows {
    /// All nodes except the root.
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
            let positions = (0..range.slicelength).map(|i| range.start + i as isize * range.step);
            let rows = positions.filter_map(|at| Some(self.row(usize::try_from(at).ok()?)?.at)).collect();
            let nodes = Self { held: Arc::clone(&self.held), rows: Rows::Some(rows) };
            return Ok(Bound::new(py, nodes)?.into_any());
        }
        let at: isize = at.extract()?;
        let at = if at < 0 { at + isize::try_from(length).unwrap_or(isize::MAX) } else { at };
        let node = usize::try_from(at).ok().and_then(|at| self.row(at));
        let node = node.ok_or_else(|| {
            PyIndexError::new_err(format!("the node index is out of range: there are {length} nodes"))
        })?;
        Ok(Bound::new(py, node)?.into_any())
    }

    fn __iter__(slf: Bound<'_, Self>) -> NativeCallNodeIterator {
        NativeCallNodeIterator { nodes: slf.unbind(), next: 0 }
    }

    fn __repr__(&self) -> String {
        format!("<CallNodes: {}>", self.__len__())
    }
}

/// Iterator over nodes.
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

/// A node of a call tree: a frame with its call path. Immutable. Handles of the same node are equal.
#[pyclass(frozen, eq, hash, name = "CallNode", module = "stackline")]
pub(crate) struct NativeCallNode {
    pub(crate) held: Arc<IndexedCallTree>,
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

    fn with(&self, related: impl FnOnce(&CallIndex, CallNodeId) -> Vec<CallNodeId>) -> NativeCallNodes {
        let rows = Rows::Some(related(&self.held.index, self.at));
        NativeCallNodes { held: Arc::clone(&self.held), rows }
    }

    fn metrics_of<'py>(&self, py: Python<'py>, part: Part) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in self.held.index.metrics(part, self.at) {
            dict.set_item(name, value.sum)?;
        }
        let CallValue { sum, count } = self.time_of(Measure::Time, part);
        for (name, value) in [("time", sum), ("count", count)] {
            // A profile can have a metric of this name.
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
    /// Name of the function, operator, kernel or span; empty for the root.
    #[getter]
    fn name(&self) -> &str {
        self.held.index.name(self.at)
    }

    /// Kind of the node's frame: ``python``, ``module``, ``operator``, ``backward``, ``span``, ``runtime``, ``kernel``;
    /// ``root``.
    #[getter]
    fn kind(&self) -> &'static str {
        self.held.index.kind(self.at).map_or("root", FrameKind::name)
    }

    /// File of the frame, otherwise of the nearest enclosing Python frame.
    #[getter]
    fn file(&self) -> Option<&str> {
        self.held.index.source(self.at).map(|(file, _)| file)
    }

    /// Line of the frame, otherwise of the nearest enclosing Python frame.
    #[getter]
    fn line(&self) -> Option<u32> {
        self.held.index.source(self.at).and_then(|(_, line)| line)
    }

    /// Training phase of the call-tree node, such as ``forward``, ``backward`` or ``update``.
    #[getter]
    fn phase(&self) -> &'static str {
        self.held.index.phase(self.at).name()
    }

    /// Inclusive GPU time in ns over all steps, or CPU time if the tree has no GPU time. For a profile without
    /// either, the metric that ``CallingContextTree.metric`` names.
    #[getter]
    fn time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.time_of(Measure::Time, Part::All).sum)
    }

    /// Inclusive GPU time of the node in ns.
    #[getter]
    fn gpu_time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.time_of(Measure::Gpu, Part::All).sum)
    }

    /// Inclusive CPU time of threads in ns, waits included.
    #[getter]
    fn cpu_time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.time_of(Measure::Cpu, Part::All).sum)
    }

    /// Number of GPU operations (or spans, if the tree has none) in ``time``.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.time_of(Measure::Time, Part::All).count)
    }

    /// Number of calls of the node.
    #[getter]
    fn calls(&self) -> u64 {
        self.held.index.calls(self.at)
    }

    /// Inclusive samples of stalled GPU instructions of the node.
    #[getter]
    fn stalls(&self) -> u64 {
        self.held.index.stalls(self.at)
    }

    /// Number of steps over which metrics are summed; 0 if the trace has none.
    #[getter]
    fn steps(&self) -> usize {
        self.held.index.steps
    }

    /// Forward part of the node: its metrics without backward work.
    #[getter]
    fn forward(&self) -> NativeCallPart {
        self.part(Part::Forward)
    }

    /// Backward part of the node: metrics of the backward work that differentiates it.
    #[getter]
    fn backward(&self) -> NativeCallPart {
        self.part(Part::Backward)
    }

    /// Caller of the node; ``None`` for the root.
    #[getter]
    fn parent(&self) -> Option<Self> {
        self.held.index.parent(self.at).map(|at| Self { held: Arc::clone(&self.held), at })
    }

    /// Callees of the call-tree node.
    #[getter]
    fn children(&self) -> NativeCallNodes {
        self.with(|index, at| index.children.of_node(at).to_vec())
    }

    /// Call path: the callers, outermost first, then the node.
    #[getter]
    fn path(&self) -> NativeCallNodes {
        self.with(|index, at| index.tree.path(at))
    }

    /// Dictionary of the node's inclusive metrics by name, always with ``time``, ``count``, ``gpu_time`` and
    /// ``cpu_time``.
    #[getter]
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.metrics_of(py, Part::All)
    }

    /// Dictionary of the node's exclusive metrics by name, always with ``time``, ``count``, ``gpu_time`` and
    /// ``cpu_time``.
    #[getter]
    fn exclusive<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.metrics_of(py, Part::Own)
    }

    /// Source location as in findings: file, line, function, module and operator of the innermost frame in user code.
    #[getter]
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn place(&self) -> (Option<String>, Option<u32>, Option<String>, Option<String>, Option<String>) {
        let SourceLocation { file, line, function, module, operator } = self.held.place(self.at);
        (file, line, function, module, operator)
    }

    /// Row numbers of the node's own events in ``Run.events``; empty for a tree without a trace.
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

/// Forward or backward part of a node. Immutable.
#[pyclass(frozen, name = "CallPart", module = "stackline")]
pub(crate) struct NativeCallPart {
    node: NativeCallNode,
    part: Part,
}

#[pymethods]
impl NativeCallPart {
    /// GPU time in ns, or CPU time if the tree has no GPU time.
    #[getter]
    fn time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.node.time_of(Measure::Time, self.part).sum)
    }

    /// GPU time of this part of the node in ns.
    #[getter]
    fn gpu_time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.node.time_of(Measure::Gpu, self.part).sum)
    }

    /// CPU time of threads in ns, waits included.
    #[getter]
    fn cpu_time(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.node.time_of(Measure::Cpu, self.part).sum)
    }

    /// Number of GPU operations (or spans) in ``time``.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        number(py, self.node.time_of(Measure::Time, self.part).count)
    }
}
