//! What the passes share: the nodes (section 2.3) and the growing list of edges.

use super::HtaOptions;
use super::names::{BLOCKING, DATA_LOAD, LOCK, Names};
use super::sort::by_time;
use crate::critical_path::graph::{Edge, EdgeKind, NO_EVENT, NodeTable};
use crate::critical_path::{Warning, WarningCode};
use crate::hta_view::HtaView;
use stackline_model::{EventKind, StrId, Trace};

/// "No node": see [`Builder::start_node`].
pub(super) const NO_NODE: u32 = u32::MAX;

/// Nodes and edges under construction. Events are rows of the view here; `finish` turns them into rows of the path's
/// own event table.
pub(super) struct Builder<'a> {
    pub(super) trace: &'a Trace,
    pub(super) view: &'a HtaView,
    pub(super) names: Names<'a>,
    pub(super) options: &'a HtaOptions,
    /// Rows that take part, ascending.
    pub(super) kept: &'a [u32],
    /// Nodes in order of their numbers.
    pub(super) nodes: NodeTable,
    /// Per row of the view, [`NO_NODE`] if it has none.
    pub(super) start_node: Vec<u32>,
    pub(super) end_node: Vec<u32>,
    /// Edges in order of insertion.
    pub(super) edges: Vec<Edge>,
    pub(super) warnings: Vec<Warning>,
}

impl<'a> Builder<'a> {
    /// Makes the nodes.
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
            // By text as in HTA; by kind for what other generations and vendors call the same.
            categories.contains(&trace.events.category[event])
                || matches!(trace.events.kind[event], EventKind::Operator | EventKind::Runtime | EventKind::Driver)
                || (view.stream[row] != -1 && view.is_correlated(row))
                || names.flags(trace.events.name[event]) & DATA_LOAD != 0
        };
        let with_nodes: Vec<u32> = kept.iter().copied().filter(|&row| has_nodes(row as usize, &mut names)).collect();
        // Twice the position for the start, one more for the end: equal times go by event, start first.
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

    /// The name bits of a row.
    pub(super) fn bits(&mut self, row: usize) -> u16 {
        self.names.flags(self.trace.events.name[self.view.event[row].index()])
    }

    /// Whether the row of a node is a call that takes the runtime's lock.
    pub(super) fn is_lock(&mut self, node: u32) -> bool {
        self.bits(self.nodes.event[node as usize] as usize) & LOCK != 0
    }

    /// Whether a row is a blocking call.
    pub(super) fn is_blocking(&mut self, row: usize) -> bool {
        self.bits(row) & BLOCKING != 0
    }

    /// Adds an edge that weighs as long as it takes, charged to an event.
    pub(super) fn timed_edge(&mut self, from: u32, to: u32, kind: EdgeKind, attributed: u32) {
        let elapsed = self.nodes.time_ns[to as usize].saturating_sub(self.nodes.time_ns[from as usize]);
        self.edges.push(Edge { from, to, weight_us: elapsed as f64 / 1000.0, attributed, kind });
    }

    /// Adds an edge that weighs nothing.
    pub(super) fn free_edge(&mut self, from: u32, to: u32, kind: EdgeKind) {
        self.edges.push(Edge { from, to, weight_us: 0.0, attributed: NO_EVENT, kind });
    }

    /// Notes something that HTA would warn of or fail on.
    pub(super) fn warn(&mut self, code: WarningCode, count: usize) {
        Warning::add(&mut self.warnings, code, count as u64);
    }
}
