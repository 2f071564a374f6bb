//! The graph of a critical path: points in time of events, and edges that say what waited for what.

use serde::{Deserialize, Serialize};

/// What an edge means. Names and weights follow HTA's rule set (section 2.4 of the specification).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
pub enum EdgeKind {
    /// Time inside an operator, a call or a kernel.
    OperatorKernel = 0,
    /// Program order between top-level operators, and the order in which calls got the runtime's lock. Weighs nothing.
    Dependency = 1,
    /// From the start of a launching call to the start of its kernel.
    KernelLaunchDelay = 2,
    /// From the end of a kernel to the start of the next one of its stream.
    KernelKernelDelay = 3,
    /// Synchronisation of the host with the GPU or between streams. Weighs nothing.
    SyncDependency = 4,
}

impl EdgeKind {
    /// Every kind, in the order of the discriminants.
    pub const ALL: [Self; 5] = [
        Self::OperatorKernel,
        Self::Dependency,
        Self::KernelLaunchDelay,
        Self::KernelKernelDelay,
        Self::SyncDependency,
    ];

    /// HTA's name of the kind, such as `OPERATOR_KERNEL`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OperatorKernel => "OPERATOR_KERNEL",
            Self::Dependency => "DEPENDENCY",
            Self::KernelLaunchDelay => "KERNEL_LAUNCH_DELAY",
            Self::KernelKernelDelay => "KERNEL_KERNEL_DELAY",
            Self::SyncDependency => "SYNC_DEPENDENCY",
        }
    }

    /// HTA's text for the kind in an overlay, such as `critical_path_operator`.
    pub fn overlay_text(self) -> &'static str {
        match self {
            Self::OperatorKernel => "critical_path_operator",
            Self::Dependency => "critical_path_dependency",
            Self::KernelLaunchDelay => "critical_path_kernel_launch_delay",
            Self::KernelKernelDelay => "critical_path_kernel_kernel_delay",
            Self::SyncDependency => "critical_path_sync_dependency",
        }
    }
}

/// "Attributed to no event": see [`Edge::attributed`].
pub const NO_EVENT: u32 = u32::MAX;

/// An edge between two nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// Node where it starts.
    pub from: u32,
    /// Node where it ends.
    pub to: u32,
    /// Weight in µs as the rules give it; negative where rounding made an event end before its start.
    pub weight_us: f64,
    /// The event that its time is charged to: a row of the path's events, [`NO_EVENT`] for none.
    pub attributed: u32,
    /// What it means.
    pub kind: EdgeKind,
}

impl Edge {
    /// The weight that the search for the longest path uses: weights of -1 µs and below count as 0.
    pub fn search_weight_us(&self) -> f64 {
        if self.weight_us <= -1.0 { 0.0 } else { self.weight_us }
    }
}

/// Start and end points of events, sorted by (time, event, start before end). A node's number is its position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeTable {
    /// The event: a row of the path's events.
    pub event: Vec<u32>,
    /// Time in ns, rounded as the rules say.
    pub time_ns: Vec<i64>,
    /// Whether it is the event's start.
    pub is_start: Vec<bool>,
}

impl NodeTable {
    /// Number of nodes, those without edges included.
    pub fn len(&self) -> usize {
        self.event.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.event.is_empty()
    }
}

/// Nodes and edges. Edges are in the order in which the rules add them, which decides ties.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// The nodes.
    pub nodes: NodeTable,
    /// The edges, at most one per ordered pair of nodes.
    pub edges: Vec<Edge>,
}

/// Edges by the node where they start, each node's in the order of insertion.
pub(super) struct Outgoing {
    offset: Vec<u32>,
    edge: Vec<u32>,
}

impl Outgoing {
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

    /// The edges that start at a node.
    pub(super) fn edges_of(&self, node: usize) -> &[u32] {
        &self.edge[self.offset[node] as usize..self.offset[node + 1] as usize]
    }
}

impl Graph {
    /// A graph of edges as the rules added them: where a pair of nodes got several edges, the last one's kind, weight
    /// and attribution stand in the first one's place.
    pub(super) fn from_insertions(nodes: NodeTable, mut edges: Vec<Edge>) -> Self {
        let outgoing = Outgoing::new(nodes.len(), &edges);
        // Per target node: the source it was last seen from, and by which edge.
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

    /// Number of nodes that have an edge.
    pub fn connected_nodes(&self) -> usize {
        let mut touched = vec![false; self.nodes.len()];
        for edge in &self.edges {
            touched[edge.from as usize] = true;
            touched[edge.to as usize] = true;
        }
        touched.into_iter().filter(|&t| t).count()
    }

    /// Leaves out the edges against the order of the nodes among those that a topological order does not reach, which
    /// breaks every cycle. Returns how many.
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

/// Removes the edges at these positions.
fn remove(edges: &mut Vec<Edge>, mut positions: Vec<u32>) {
    if positions.is_empty() {
        return;
    }
    positions.sort_unstable();
    let mut next = positions.into_iter().peekable();
    let mut position = 0;
    edges.retain(|_| {
        let goes = next.next_if_eq(&position).is_some();
        position += 1;
        !goes
    });
}
