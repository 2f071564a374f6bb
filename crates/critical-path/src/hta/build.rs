//! Construction of the graph of method `hta`: nodes (section 2.3), and the list of edges that all passes extend.

use super::HtaOptions;
use super::graph::{Edge, NO_EVENT, NodeTable};
use super::names::{BLOCKING, DATA_LOAD, LOCK, Names};
use super::sort::by_time;
use crate::{EdgeKind, Warning, WarningCode};
use stackline_model::{EventKind, StrId, Trace};
use stackline_timeline::hta_view::HtaView;

/// Number for "no node"; see [`Builder::start_node`].
pub(super) const NO_NODE: u32 = u32::MAX;

/// Builder of the graph of method `hta`, with events as rows of HTA's view. `finish` converts them to rows of the
/// path's event table.
pub(super) struct Builder<'a> {
    pub(super) trace: &'a Trace,
    pub(super) view: &'a HtaView,
    pub(super) names: Names<'a>,
    pub(super) options: &'a HtaOptions,
    /// Rows in the analysis, ascending.
    pub(super) kept: &'a [u32],
    /// Nodes in the order of their numbers.
    pub(super) nodes: NodeTable,
    /// Start node per row of the view; [`NO_NODE`] for rows without nodes.
    pub(super) start_node: Vec<u32>,
    pub(super) end_node: Vec<u32>,
    /// Edges in the order of insertion.
    pub(super) edges: Vec<Edge>,
    pub(super) warnings: Vec<Warning>,
}

impl<'a> Builder<'a> {
    /// Start the dependency graph of method `hta` with the nodes of the kept rows.
    pub(super) fn new(
        trace: &'a Trace,
        view: &'a HtaView,
        mut names: Names<'a>,
        kept: &'a [u32],
        options: &'a HtaOptions,
    ) -> Self {
        let categories =
            ["cpu_op", "cuda_runtime", "cuda_driver"].map(|c| trace.strings.find(c).unwrap_or(StrId::NONE));
        let has_nodes = |row: usize, names: &mut Names<'_>| {
            let event = view.event[row].index();
            // Matches categories by text, as HTA does, and by kind, for the names that other generations and vendors
            // use.
            categories.contains(&trace.events.category[event])
                || matches!(trace.events.kind[event], EventKind::Operator | EventKind::Runtime | EventKind::Driver)
                || (view.stream[row] != -1 && view.is_correlated(row))
                || names.flags(trace.events.name[event]) & DATA_LOAD != 0
        };
        let with_nodes: Vec<u32> = kept.iter().copied().filter(|&row| has_nodes(row as usize, &mut names)).collect();
        // Sort keys: twice the position for a start, plus 1 for an end. So ties go by event, with the start first.
        let points = with_nodes.iter().flat_map(|&row| [view.start[row as usize], view.end[row as usize]]);
        let order = by_time(points);
        let (mut start_node, mut end_node) = (vec![NO_NODE; view.len()], vec![NO_NODE; view.len()]);
        let mut nodes = NodeTable::default();
        for (number, &id) in order.iter().enumerate() {
            let row = with_nodes[id as usize / 2];
            let is_start = id % 2 == 0;
            let slot = if is_start { &mut start_node } else { &mut end_node };
            slot[row as usize] = number as u32;
            nodes.event.push(row);
            nodes.time_ns.push(if is_start { view.start[row as usize] } else { view.end[row as usize] });
            nodes.is_start.push(is_start);
        }
        let edges = Vec::with_capacity(nodes.len() + nodes.len() / 4);
        Self { trace, view, names, options, kept, nodes, start_node, end_node, edges, warnings: Vec::new() }
    }

    /// Name classification bits of the event in a row of HTA's view.
    pub(super) fn bits(&mut self, row: usize) -> u16 {
        self.names.flags(self.trace.events.name[self.view.event[row].index()])
    }

    /// True if the event of a node is a call that acquires the lock of the CUDA runtime.
    pub(super) fn is_lock(&mut self, node: u32) -> bool {
        self.bits(self.nodes.event[node as usize] as usize) & LOCK != 0
    }

    /// True if the event in a row is a call that blocks until the end of GPU work.
    pub(super) fn is_blocking(&mut self, row: usize) -> bool {
        self.bits(row) & BLOCKING != 0
    }

    /// Add an edge whose weight is its elapsed time, attributed to an event.
    pub(super) fn timed_edge(&mut self, from: u32, to: u32, kind: EdgeKind, attributed: u32) {
        let elapsed = self.nodes.time_ns[to as usize].saturating_sub(self.nodes.time_ns[from as usize]);
        self.edges.push(Edge { from, to, weight_us: elapsed as f64 / 1000.0, attributed, kind });
    }

    /// Add an edge of weight 0.
    pub(super) fn free_edge(&mut self, from: u32, to: u32, kind: EdgeKind) {
        self.edges.push(Edge { from, to, weight_us: 0.0, attributed: NO_EVENT, kind });
    }

    /// Add a warning for input on which HTA would warn or fail.
    pub(super) fn warn(&mut self, code: WarningCode, count: usize) {
        Warning::add(&mut self.warnings, code, count as u64);
    }
}
