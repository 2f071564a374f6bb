//! Construction of views in linear time, without creating the call path of each value. A tree with a million nodes of
//! depth sixty has sixty million path steps, but only a million nodes. Inclusive values are summed when all rows exist.
//!
//! This works only for additive metrics without grouping or collapsing; other views use paths.

use super::count::{calls_without_value, values};
use super::labeled_tree::LabeledTree;
use super::upward::Thresholds;
use super::{Builder, Counts, Value};
use crate::{CallLabel, ViewDirection, ViewOptions};
use stackline_model::{CallNodeId, CallStats, CallingContextTree};

/// A row that does not exist yet.
const NO_ROW: usize = usize::MAX;

/// True if a view can be built without paths: additive metric, no grouping, no collapsed recursion, and no selected
/// frames.
pub(in super::super) fn needs_no_paths(options: &ViewOptions) -> bool {
    let is_simple = options.metric.adds_up() && options.by.is_none() && !options.collapse;
    is_simple && matches!(options.shape, ViewDirection::TopDown | ViewDirection::BottomUp | ViewDirection::Flat)
}

impl Builder {
    /// Add all values of a tree in linear time; `false`, without a change, if the view requires paths.
    ///
    /// Views towards callers can be limited to callers of the labels `below`. `least` returns thresholds from the
    /// total.
    pub(in super::super) fn add_without_paths(
        &mut self,
        tree: &CallingContextTree,
        options: &ViewOptions,
        counts: &Counts<'_>,
        below: &[CallLabel],
        least: impl Fn(u64) -> Thresholds,
    ) -> bool {
        if !needs_no_paths(options) || tree.nodes.is_empty() {
            return false;
        }
        let labels = self.labels(tree, options);
        let is_row_each = self.labels.len() == tree.frames.len() + 1 && !labels.hidden.contains(&true);
        let mut focused = vec![options.focus.is_none(); tree.nodes.len()];
        for node in 1..focused.len() {
            let frame = tree.nodes.frame[node].index();
            focused[node] = focused[tree.nodes.parent[node].index()] || labels.focused[frame];
        }
        let labeled = LabeledTree { tree, labels, focused, is_row_each };
        let mut shown = Vec::new();
        for value in values(tree, options, counts) {
            self.totals[0].merge(&value.stats);
            if labeled.focused[value.node.index()] {
                shown.push(value);
            }
        }
        let alone = calls_without_value(tree, options, counts);
        match options.shape {
            ViewDirection::BottomUp => self.add_upwards(&labeled, shown, below, least),
            ViewDirection::Flat => self.add_flat(&labeled, &shown, alone),
            _ => self.add_downwards(&labeled, &shown, alone),
        }
        true
    }

    /// Add values to a top-down view: at the rows of their nodes, and inclusive values from the leaves up. `alone` has
    /// calls without a value.
    fn add_downwards(&mut self, labeled: &LabeledTree<'_>, values: &[Value], alone: impl Iterator<Item = Value>) {
        let mut rows = vec![NO_ROW; labeled.tree.nodes.len()];
        rows[0] = 0;
        self.nodes.reserve(values.len());
        for value in values {
            let row = self.row_of(labeled, &mut rows, value.node);
            self.nodes[row].inclusive.merge(&value.stats);
            if labeled.is_shown(value.node) {
                self.nodes[row].exclusive.merge(&value.stats);
                self.nodes[row].calls += value.calls;
            }
        }
        for value in alone.filter(|value| labeled.is_shown(value.node) && rows[value.node.index()] != NO_ROW) {
            self.nodes[rows[value.node.index()]].calls += value.calls;
        }
        // Rows come after their callers' rows.
        for row in (1..self.nodes.len()).rev() {
            let below = self.nodes[row].inclusive;
            let parent = self.nodes[row].parent;
            self.nodes[parent].inclusive.merge(&below);
        }
    }

    /// Find or create the row of a tree node, including the missing rows of its callers.
    fn row_of(&mut self, labeled: &LabeledTree<'_>, rows: &mut [usize], node: CallNodeId) -> usize {
        let mut missing = Vec::new();
        let mut at = node;
        while rows[at.index()] == NO_ROW {
            missing.push(at);
            at = labeled.parent(at);
        }
        let mut row = rows[at.index()];
        for at in missing.into_iter().rev() {
            row = match labeled.is_shown(at) {
                true if labeled.is_row_each => self.push_row(row, labeled.label(at)),
                true => self.child(row, labeled.label(at)),
                false => row,
            };
            rows[at.index()] = row;
        }
        row
    }

    /// Add values to a flat view: inclusive values count once per label, even in recursion. `alone` has calls without a
    /// value.
    fn add_flat(&mut self, labeled: &LabeledTree<'_>, values: &[Value], alone: impl Iterator<Item = Value>) {
        let tree = labeled.tree;
        let mut below = vec![CallStats::default(); tree.nodes.len()];
        for value in values {
            below[value.node.index()].merge(&value.stats);
            if labeled.is_shown(value.node) {
                let row = self.child(0, labeled.label(value.node));
                self.nodes[row].exclusive.merge(&value.stats);
                self.nodes[row].calls += value.calls;
            }
        }
        for node in (1..below.len()).rev() {
            let stats = below[node];
            below[tree.nodes.parent[node].index()].merge(&stats);
        }
        self.nodes[0].inclusive.merge(&below[0]);
        let children = tree.children();
        // Number of open nodes per label on the way down. Each node is in the list twice, to be entered and to be left.
        let mut open = vec![0_u32; self.labels.len()];
        let mut pending = vec![(CallingContextTree::ROOT, true)];
        while let Some((node, enters)) = pending.pop() {
            let label = labeled.is_shown(node).then(|| labeled.label(node));
            if !enters {
                open[label.unwrap_or(0)] -= 1;
                continue;
            }
            let label = label.unwrap_or(0);
            if label > 0 && open[label] == 0 {
                let row = self.child(0, label);
                self.nodes[row].inclusive.merge(&below[node.index()]);
            }
            open[label] += 1;
            pending.push((node, false));
            pending.extend(
                children.of_node(node).iter().filter(|child| below[child.index()].count > 0).map(|&c| (c, true)),
            );
        }
        for value in alone.filter(|value| labeled.is_shown(value.node)) {
            if let Some(&row) = self.children.get(&(0, labeled.label(value.node))) {
                self.nodes[row].calls += value.calls;
            }
        }
    }
}
