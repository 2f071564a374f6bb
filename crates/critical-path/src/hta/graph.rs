//! Dependency graph of method `hta`: nodes are starts and ends of events, edges are dependencies.

use crate::EdgeKind;

/// Value of [`Edge::attributed`] for edges without event.
pub const NO_EVENT: u32 = u32::MAX;

/// Edge between two nodes of the graph, with its weight and the event it is attributed to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// Source node.
    pub from: u32,
    /// Target node.
    pub to: u32,
    /// Weight in µs; negative if rounding made an event end before its start.
    pub weight_us: f64,
    /// Event that the edge's time counts for: a row of the path's events, or [`NO_EVENT`].
    pub attributed: u32,
    /// Kind of the edge.
    pub kind: EdgeKind,
}

impl Edge {
    /// Weight of the edge in the search for the longest path: weights of -1 µs and below count as 0.
    pub fn search_weight_us(&self) -> f64 {
        if self.weight_us <= -1.0 { 0.0 } else { self.weight_us }
    }
}

/// Nodes of the graph: starts and ends of events, sorted by (time, event, start before end). The position of a node is
/// its number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeTable {
    /// Event: a row of the path's events.
    pub event: Vec<u32>,
    /// Time in ns, rounded by the rules.
    pub time_ns: Vec<i64>,
    /// True for the start of the event.
    pub is_start: Vec<bool>,
}

impl NodeTable {
    /// Number of nodes, including nodes without edges.
    pub fn len(&self) -> usize {
        self.event.len()
    }

    /// True if the table of dependency graph nodes is empty.
    pub fn is_empty(&self) -> bool {
        self.event.is_empty()
    }
}

/// Nodes and edges of the graph. The order of the edges is that of insertion by the rules, which decides ties.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// The nodes.
    pub nodes: NodeTable,
    /// The edges, at most one per ordered pair of nodes.
    pub edges: Vec<Edge>,
}

/// Index of the edges that leave each node: their positions in the list of edges, in the order of insertion.
pub(super) struct Outgoing {
    offset: Vec<u32>,
    edge: Vec<u32>,
}

impl Outgoing {
    /// Index the edges of a graph with `nodes` nodes by source node.
    pub(super) fn new(nodes: usize, edges: &[Edge]) -> Self {
        let mut offset = vec![0u32; nodes + 1];
        for edge in edges {
            offset[edge.from as usize + 1] += 1;
        }
        for i in 0..nodes {
            offset[i + 1] += offset[i];
        }
        let mut next = offset.clone();
        let mut order = vec![0u32; edges.len()];
        for (i, edge) in edges.iter().enumerate() {
            let slot = &mut next[edge.from as usize];
            order[*slot as usize] = i as u32;
            *slot += 1;
        }
        Self { offset, edge: order }
    }

    /// Positions, in the list of edges, of the edges that leave a node.
    pub(super) fn edges_of(&self, node: usize) -> &[u32] {
        &self.edge[self.offset[node] as usize..self.offset[node + 1] as usize]
    }
}

impl Graph {
    /// Build a graph from edges in the order of insertion. For repeated edges between a pair of nodes, the first
    /// position keeps the last edge's kind, weight and attribution.
    pub(super) fn from_insertions(nodes: NodeTable, mut edges: Vec<Edge>) -> Self {
        let outgoing = Outgoing::new(nodes.len(), &edges);
        // Source and edge of the last visit, per target node.
        let mut seen: Vec<(u32, u32)> = vec![(u32::MAX, 0); nodes.len()];
        let mut replaced = Vec::new();
        for from in 0..nodes.len() as u32 {
            for &edge in outgoing.edges_of(from as usize) {
                let target = &mut seen[edges[edge as usize].to as usize];
                if target.0 == from {
                    edges[target.1 as usize] = edges[edge as usize];
                    replaced.push(edge);
                } else {
                    *target = (from, edge);
                }
            }
        }
        remove(&mut edges, replaced);
        Self { nodes, edges }
    }

    /// Number of nodes with at least one edge.
    pub fn connected_nodes(&self) -> usize {
        let mut touched = vec![false; self.nodes.len()];
        for edge in &self.edges {
            touched[edge.from as usize] = true;
            touched[edge.to as usize] = true;
        }
        touched.into_iter().filter(|&t| t).count()
    }

    /// Break all cycles and return the number of removed edges. Of the edges between nodes that a topological order
    /// does not reach, those against the order of the nodes are removed.
    pub(super) fn break_cycles(&mut self, reached: &[u32]) -> usize {
        let mut is_reached = vec![false; self.nodes.len()];
        for &node in reached {
            is_reached[node as usize] = true;
        }
        let before = self.edges.len();
        self.edges.retain(|e| is_reached[e.from as usize] || is_reached[e.to as usize] || e.from < e.to);
        before - self.edges.len()
    }
}

/// Remove the dependency edges at these positions.
fn remove(edges: &mut Vec<Edge>, mut positions: Vec<u32>) {
    if positions.is_empty() {
        return;
    }
    positions.sort_unstable();
    let mut next = positions.into_iter().peekable();
    let mut position = 0;
    edges.retain(|_| {
        let is_removed = next.next_if_eq(&position).is_some();
        position += 1;
        !is_removed
    });
}
