//! Queries of a calling context tree: paths, exclusive and inclusive values, callers.

use super::{CallMetric, CallStats, CallingContextTree};
use crate::{CallNodeId, CallThreadId, Frame, FrameId};
use std::collections::BTreeMap;

/// Children of each node, in the order of their rows.
#[derive(Clone, Debug)]
pub struct CallChildren {
    /// End of each node's children: node `i` has those from `ends[i - 1]` (0 for the first) to `ends[i]`.
    ends: Vec<u32>,
    children: Vec<CallNodeId>,
}

impl CallChildren {
    /// Children of one call-tree node.
    pub fn of_node(&self, node: CallNodeId) -> &[CallNodeId] {
        let Some(&end) = self.ends.get(node.index()) else { return &[] };
        let start = node.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.children[start as usize..end as usize]
    }
}

impl CallingContextTree {
    /// Root of each tree.
    pub const ROOT: CallNodeId = CallNodeId(0);

    /// The frame of a node, `None` for the root.
    pub fn frame(&self, node: CallNodeId) -> Option<&Frame> {
        self.frames.get(self.nodes.frame.get(node.index())?.index())
    }

    /// Lists of children of all call-tree nodes.
    pub fn children(&self) -> CallChildren {
        let mut ends = vec![0_u32; self.nodes.len()];
        for parent in self.nodes.parent.iter().filter(|parent| parent.is_some()) {
            ends[parent.index()] += 1;
        }
        // Each entry first is the start of its node's children, and becomes their end as they are inserted.
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut children = vec![CallNodeId::NONE; start as usize];
        for node in self.nodes.ids().skip(1) {
            let end = &mut ends[self.nodes.parent[node.index()].index()];
            children[*end as usize] = node;
            *end += 1;
        }
        CallChildren { ends, children }
    }

    /// Nodes from the child of the root to `node`, outermost first.
    pub fn path(&self, node: CallNodeId) -> Vec<CallNodeId> {
        let mut path = Vec::new();
        let mut at = node;
        while at.is_some() && at != Self::ROOT {
            path.push(at);
            at = self.nodes.parent[at.index()];
        }
        path.reverse();
        path
    }

    /// Metrics that have values in the call tree: fixed ones first, then counters by name.
    pub fn measured(&self) -> Vec<CallMetric> {
        let mut metrics = self.metrics.metric.clone();
        metrics.sort_unstable();
        metrics.dedup();
        metrics
            .sort_by_key(|&metric| (matches!(metric, CallMetric::Counter(..)), metric.name(&self.strings).to_owned()));
        metrics.sort_by_key(|metric| {
            CallMetric::ALL.iter().position(|known| known == metric).unwrap_or(CallMetric::ALL.len())
        });
        metrics
    }

    /// Exclusive values of each node, summed over the threads for which `is_included` is true.
    pub fn exclusive(&self, metric: CallMetric, is_included: impl Fn(CallThreadId) -> bool) -> Vec<CallStats> {
        let mut values = vec![CallStats::default(); self.nodes.len()];
        for (node, thread, found, stats) in self.metrics.iter() {
            if found == metric && is_included(thread) {
                values[node.index()].merge(stats);
            }
        }
        values
    }

    /// Inclusive values of each node: its exclusive values and those of its descendants. For a metric that does not add
    /// up, a node has its own value, which already includes nested calls, or else the sum of its children.
    pub fn inclusive(&self, metric: CallMetric, exclusive: &[CallStats]) -> Vec<CallStats> {
        let mut values = exclusive.to_vec();
        for node in (1..values.len()).rev() {
            let parent = self.nodes.parent[node].index();
            if metric.adds_up() || exclusive[parent].count == 0 {
                let value = values[node];
                values[parent].merge(&value);
            }
        }
        values
    }

    /// Outermost nodes with a frame that `matches`: their inclusive values count nothing twice.
    pub fn outermost(&self, matches: impl Fn(FrameId) -> bool) -> Vec<CallNodeId> {
        let mut inside = vec![false; self.nodes.len()];
        let mut found = Vec::new();
        for node in self.nodes.ids().skip(1) {
            let row = node.index();
            let below = inside[self.nodes.parent[row].index()];
            let hit = matches(self.nodes.frame[row]);
            if hit && !below {
                found.push(node);
            }
            inside[row] = below || hit;
        }
        found
    }

    /// Frames that call the outermost matching frames, each with the merged `inclusive` values of these calls. The key
    /// is [`FrameId::NONE`] where a thread began with a match.
    pub fn callers(&self, matches: impl Fn(FrameId) -> bool, inclusive: &[CallStats]) -> BTreeMap<FrameId, CallStats> {
        let mut callers: BTreeMap<FrameId, CallStats> = BTreeMap::new();
        for node in self.outermost(matches) {
            let caller = self.nodes.frame[self.nodes.parent[node.index()].index()];
            callers.entry(caller).or_default().merge(&inclusive[node.index()]);
        }
        callers
    }
}
