//! The critical path: back from the end of the window, by Algorithm 1 of the paper.

use super::graph::{CtdaEdge, CtdaEdgeKind, CtdaGraph};

/// A node of the path, and which part of it counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CtdaStep {
    /// The node.
    pub node: u32,
    /// From when on it counts, in ns since the trace's base: not while it waited for the step before.
    pub from_ns: i64,
    /// Until when it counts, in ns since the trace's base: its effective end for the step after.
    pub to_ns: i64,
    /// The edge from the step before; `None` for the first.
    pub via: Option<CtdaEdgeKind>,
}

/// A path in order of time, and whether the search met a node again (times that contradict each other).
pub(super) fn search(graph: &CtdaGraph) -> (Vec<CtdaStep>, bool) {
    let mut steps = Vec::new();
    let Some(last) = last_node(graph) else { return (steps, false) };
    let mut seen = vec![false; graph.nodes.len()];
    let mut current = last;
    let mut until = graph.nodes[last as usize].end_ns;
    loop {
        seen[current as usize] = true;
        let node = &graph.nodes[current as usize];
        let edge = predecessor(graph, current);
        // A node that waited counts from the end of the wait on.
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

/// The node that ends last; one of the host wins a tie, then the first.
fn last_node(graph: &CtdaGraph) -> Option<u32> {
    let key = |n: &u32| (graph.nodes[*n as usize].end_ns, !graph.nodes[*n as usize].is_gpu, std::cmp::Reverse(*n));
    (0..graph.nodes.len() as u32).max_by_key(key)
}

/// The edge from what decided when a node could start.
fn predecessor(graph: &CtdaGraph, node: u32) -> Option<&CtdaEdge> {
    let edges = graph.edges_to(node);
    let row = &graph.nodes[node as usize];
    // Equal ends: order in thread or stream before launches before waits, then the earlier node.
    let latest = |edges: &mut dyn Iterator<Item = &CtdaEdge>| -> Option<usize> {
        let key = |e: &&CtdaEdge| (e.at_ns, std::cmp::Reverse((e.kind, e.from)));
        let best = edges.max_by_key(key)?;
        graph.edges.binary_search_by_key(&(best.to, best.from, best.kind), |e| (e.to, e.from, e.kind)).ok()
    };
    let found = if row.is_gpu {
        latest(&mut edges.iter())
    } else {
        // A synchronisation decides if there was something left to wait for when it was called.
        let called = row.sync_ns.unwrap_or(i64::MAX);
        let waits = latest(&mut edges.iter().filter(|e| e.kind == CtdaEdgeKind::Sync && e.at_ns > called));
        waits.or_else(|| latest(&mut edges.iter().filter(|e| e.kind != CtdaEdgeKind::Sync)))
    };
    found.and_then(|at| graph.edges.get(at))
}
