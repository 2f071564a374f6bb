//! Bounds of a prediction if records of GPU work are missing in the trace.
//!
//! A call that waited for missing work, or a later operation on its stream, appears in the trace as if it had taken
//! this time itself. For the lower bound, such a wait ends no sooner. For the upper bound of edits of GPU work, the
//! time was missing work and changes with the edit.

use super::super::Exact;
use super::super::graph::{Dependency, NodeKind};
use super::lags::{Lags, REMOVED_EDGE_SLACK, class_of};
use super::scaled::scaled;
use rustc_hash::FxHashMap;

/// Possible wait for missing work inside a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HiddenWait {
    /// Maximum wait in ns.
    wait: i64,
    /// Length of the node in ns.
    length: i64,
    /// True if the start was delayed, not the end.
    at_start: bool,
}

/// Graph nodes that may contain waits for GPU work that is missing in the trace.
#[derive(Default)]
pub(super) struct MissingWork(FxHashMap<u32, HiddenWait>);

impl MissingWork {
    /// Find the nodes that may contain a wait for missing GPU work. `longest` is the longest usual lag per class in ns.
    pub(super) fn new(exact: &Exact<'_>, longest: &Lags) -> Self {
        let mut found = FxHashMap::default();
        let (trace, graph) = (exact.trace, &exact.graph);
        let lane_of: FxHashMap<_, _> = exact.lanes.iter().enumerate().map(|(i, l)| (l.track, i)).collect();
        for &call in &exact.near_missing_records {
            let Some(&lane) = lane_of.get(&trace.events.track[call.index()]) else { continue };
            let (first, last) = exact.lane_nodes[lane];
            let returned = trace.events.end(call);
            let ends = &graph.end[first as usize..last as usize];
            let node = first + ends.partition_point(|&end| end < returned) as u32;
            if node < last {
                let (start, end) = (graph.start[node as usize], graph.end[node as usize]);
                let wait = (end - start.max(trace.events.start[call.index()])).max(0);
                found.insert(node, HiddenWait { wait, length: end - start, at_start: false });
            }
        }
        // Every graph may lack kernels. Without other missing records, these are ignored.
        let nodes = if exact.near_missing_records.is_empty() { 0 } else { graph.len() as u32 };
        for node in 0..nodes {
            let near_missing_records = |d: Dependency| matches!(d, Dependency::StreamNearMissing);
            let Some(release) = graph.binding_edge(node).filter(|_| graph.kind[node as usize] == NodeKind::Gpu) else {
                continue;
            };
            let lag = graph.start[node as usize] - graph.end[release.from as usize];
            let usual = longest[class_of(NodeKind::Gpu, release.dependency) as usize];
            if lag > usual
                && usual > -REMOVED_EDGE_SLACK
                && graph.edges_into(node).iter().any(|e| near_missing_records(e.dependency))
            {
                let length = graph.end[node as usize] - graph.start[node as usize];
                found.insert(node, HiddenWait { wait: lag, length, at_start: true });
            }
        }
        Self(found)
    }

    /// True if no node of the dependency graph may follow missing GPU work.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Shift in ns of a node's end if the missing GPU work before it does not end sooner, for the lower bound.
    ///
    /// `shift` includes the time added to the node.
    pub(super) fn at_worst(&self, node: u32, shift: i64, time: i64) -> i64 {
        match self.0.get(&node) {
            Some(hidden) if hidden.at_start => (shift - time).max(0) + time,
            Some(_) => shift.max(0),
            None => shift,
        }
    }

    /// Shift in ns of a node's end if the edit also removes the share `part` of missing GPU work, for the upper bound.
    pub(super) fn at_best(&self, node: u32, shift: i64, time: i64, part: f64) -> i64 {
        let Some(hidden) = self.0.get(&node) else { return shift };
        let most = if hidden.at_start { hidden.wait } else { hidden.wait.min(hidden.length + time).max(0) };
        shift - scaled(most, part).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_may_be_hidden_or_not() {
        let call = HiddenWait { wait: 80, length: 100, at_start: false };
        let operation = HiddenWait { wait: 50, length: 10, at_start: true };
        let missing_work = MissingWork(FxHashMap::from_iter([(1, call), (2, operation)]));
        assert_eq!(missing_work.at_worst(0, -7, 0), -7, "nothing hidden");
        assert_eq!(missing_work.at_worst(1, -90, -80), 0, "what it waited for ends when it did");
        assert_eq!(missing_work.at_worst(1, 30, 0), 30);
        assert_eq!(missing_work.at_worst(2, -25, -5), -5, "it starts when it did, and is shorter by itself");
        assert_eq!(missing_work.at_best(1, -10, 0, 0.5), -50);
        assert_eq!(missing_work.at_best(1, -90, -90, 1.0), -100, "no more than is left of it");
        assert_eq!(missing_work.at_best(2, 0, 0, 0.5), -25);
    }
}
