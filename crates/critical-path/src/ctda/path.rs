//! Backward search for the critical path from the end of the window (Algorithm 1 of the paper).

use super::graph::{CtdaEdge, CtdaEdgeKind, CtdaGraph};

/// Node of the critical path, with the part of its time that is on the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CtdaStep {
    /// Node number.
    pub node: u32,
    /// Start of the part that counts, in ns since the trace's base, after the wait for the previous node.
    pub from_ns: i64,
    /// End of the part that counts, in ns since the trace's base: the node's effective end for the next node.
    pub to_ns: i64,
    /// Kind of the edge from the previous node; `None` for the first.
    pub via: Option<CtdaEdgeKind>,
}

/// Find the critical path, in time order, from the last node backward. Also returns true if the search met a node twice
/// because recorded times contradict each other.
pub(super) fn search(graph: &CtdaGraph) -> (Vec<CtdaStep>, bool) {
    let mut steps = Vec::new();
    let Some(last) = last_node(graph) else { return (steps, false) };
    let mut seen = vec![false; graph.nodes.len()];
    let mut current = last;
    let mut until = graph.nodes[last as usize].end_ns;
    loop {
        seen[current as usize] = true;
        let node = &graph.nodes[current as usize];
        let edge = binding_edge(graph, current);
        // A node that waited counts from the end of the wait.
        let waited = edge.filter(|e| e.kind == CtdaEdgeKind::Sync && !node.is_gpu).map_or(node.start_ns, |e| e.at_ns);
        let from_ns = node.start_ns.max(waited).min(until);
        steps.push(CtdaStep { node: current, from_ns, to_ns: until, via: edge.map(|e| e.kind) });
        let Some(edge) = edge else { break };
        if seen[edge.from as usize] {
            steps.reverse();
            return (steps, true);
        }
        until = edge.at_ns.min(from_ns);
        current = edge.from;
    }
    steps.reverse();
    (steps, false)
}

/// Graph node with the latest end. At equal ends, host nodes come before GPU nodes, then the lowest node number wins.
fn last_node(graph: &CtdaGraph) -> Option<u32> {
    let key = |n: &u32| (graph.nodes[*n as usize].end_ns, !graph.nodes[*n as usize].is_gpu, std::cmp::Reverse(*n));
    (0..graph.nodes.len() as u32).max_by_key(key)
}

/// Binding edge into a node: the one with the latest effective end; `None` if the path begins at the node.
///
/// Host nodes prefer synchronization edges from work that was unfinished at the call.
fn binding_edge(graph: &CtdaGraph, node: u32) -> Option<&CtdaEdge> {
    let edges = graph.edges_into(node);
    let row = &graph.nodes[node as usize];
    // Ties: thread or stream order wins over launches, launches over waits, then the earlier node.
    let latest = |edges: &mut dyn Iterator<Item = &CtdaEdge>| -> Option<usize> {
        let key = |e: &&CtdaEdge| (e.at_ns, std::cmp::Reverse((e.kind, e.from)));
        let best = edges.max_by_key(key)?;
        graph.edges.binary_search_by_key(&(best.to, best.from, best.kind), |e| (e.to, e.from, e.kind)).ok()
    };
    let found = if row.is_gpu {
        latest(&mut edges.iter())
    } else {
        // A synchronization decides if work was unfinished at the time of the call.
        let called = row.sync_ns.unwrap_or(i64::MAX);
        let waits = latest(&mut edges.iter().filter(|e| e.kind == CtdaEdgeKind::Sync && e.at_ns > called));
        waits.or_else(|| latest(&mut edges.iter().filter(|e| e.kind != CtdaEdgeKind::Sync)))
    };
    found.and_then(|at| graph.edges.get(at))
}
