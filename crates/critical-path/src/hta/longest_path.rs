//! Longest path of an acyclic graph (section 2.6), with HTA's tie-breaking.

use super::graph::{Edge, Outgoing};

/// Longest path through a graph, as nodes and edges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LongestPath {
    /// Nodes in path order.
    pub nodes: Vec<u32>,
    /// Edges in path order, one fewer than nodes.
    pub edges: Vec<u32>,
    /// Sum of the search weights in µs.
    pub weight_us: f64,
}

const NO_EDGE: u32 = u32::MAX;

/// Find the path with the largest weight by dynamic programming in topological order.
///
/// Ties: of several predecessors, the one whose edge was added first wins; of several ends, the first in topological
/// order. That order goes by generations. It starts with all nodes without predecessor, in the order of their first
/// edge. Each other node follows the visit of its last predecessor.
///
/// Returns the nodes that the topological order reaches as an error if the graph has a cycle.
pub(super) fn longest_path(nodes: usize, edges: &[Edge]) -> Result<LongestPath, Vec<u32>> {
    let outgoing = Outgoing::new(nodes, edges);
    let mut open = vec![0u32; nodes];
    for edge in edges {
        open[edge.to as usize] += 1;
    }
    let mut order = first_generation(&open, edges);
    let mut distance = vec![0f64; nodes];
    let mut via = vec![NO_EDGE; nodes];
    let (mut end, mut weight_us) = (order.first().copied().unwrap_or(0), 0.0);
    let mut visited_edges = 0;
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        let from = node as usize;
        if via[from] != NO_EDGE && distance[from] < 0.0 {
            (distance[from], via[from]) = (0.0, NO_EDGE);
        }
        if distance[from] > weight_us {
            (end, weight_us) = (node, distance[from]);
        }
        for &edge in outgoing.edges_of(from) {
            visited_edges += 1;
            let to = edges[edge as usize].to as usize;
            let candidate = distance[from] + edges[edge as usize].search_weight_us();
            let better =
                via[to] == NO_EDGE || candidate > distance[to] || (candidate == distance[to] && edge < via[to]);
            if better {
                (distance[to], via[to]) = (candidate, edge);
            }
            open[to] -= 1;
            if open[to] == 0 {
                order.push(to as u32);
            }
        }
    }
    if visited_edges < edges.len() { Err(order) } else { Ok(trace_back(end, weight_us, &via, edges)) }
}

/// Nodes with outgoing but no incoming edges, in the order of their first edge. `open` is the number of incoming edges
/// per node.
fn first_generation(open: &[u32], edges: &[Edge]) -> Vec<u32> {
    let mut listed = vec![false; open.len()];
    let mut order = Vec::with_capacity(open.len());
    for edge in edges {
        let node = edge.from as usize;
        if open[node] == 0 && !listed[node] {
            listed[node] = true;
            order.push(edge.from);
        }
    }
    order
}

/// Collect the nodes and edges of the longest path backward from its last node. `via` is the best edge into each node.
fn trace_back(end: u32, weight_us: f64, via: &[u32], edges: &[Edge]) -> LongestPath {
    let mut path = LongestPath { nodes: vec![end], edges: Vec::new(), weight_us };
    let mut node = end;
    while let Some(edge) = edges.get(via[node as usize] as usize) {
        path.edges.push(via[node as usize]);
        path.nodes.push(edge.from);
        node = edge.from;
    }
    path.nodes.reverse();
    path.edges.reverse();
    path
}
