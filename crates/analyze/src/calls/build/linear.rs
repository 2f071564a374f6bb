//! Views without a path for each value: a tree of a million nodes sixty deep has sixty million steps on its paths, and a
//! million nodes. What lies below a row is summed up once all rows are there.
//!
//! Only for what adds up and stands where it was called; other views go by paths.

use super::count::{calls_alone, values};
use super::{Builder, Counts, Labels, Value};
use crate::calls::{Shape, ViewOptions};
use stackline_model::{CallNodeId, CallStats, CallTree};

/// A row that is not there yet.
const NO_ROW: usize = usize::MAX;

/// A tree as a view looks at it.
struct Seen<'t> {
    tree: &'t CallTree,
    labels: Labels,
    /// By node: whether its values are shown.
    focused: Vec<bool>,
}

impl Seen<'_> {
    fn parent(&self, node: CallNodeId) -> CallNodeId {
        self.tree.nodes.parent[node.index()]
    }

    /// Whether a frame of its own is shown at a node.
    fn is_shown(&self, node: CallNodeId) -> bool {
        node != CallTree::ROOT && !self.labels.hidden[self.tree.nodes.frame[node.index()].index()]
    }

    fn label(&self, node: CallNodeId) -> usize {
        self.labels.of_frame[self.tree.nodes.frame[node.index()].index()]
    }

    /// The nearest node with a frame that is shown, at or above a node; the root if there is none.
    fn nearest(&self, mut node: CallNodeId) -> CallNodeId {
        while node != CallTree::ROOT && !self.is_shown(node) {
            node = self.parent(node);
        }
        node
    }
}

/// Whether a view can be made without paths.
fn is_plain(options: &ViewOptions) -> bool {
    let is_simple = options.metric.adds_up() && options.by.is_none() && !options.collapse;
    is_simple && matches!(options.shape, Shape::TopDown | Shape::BottomUp | Shape::Flat)
}

impl Builder {
    /// Adds a tree at once, if the view allows that; towards callers, only those of rows with at least this part of the whole are
    /// followed.
    pub(in super::super) fn add_plain(
        &mut self,
        tree: &CallTree,
        options: &ViewOptions,
        counts: &Counts<'_>,
        least: f64,
    ) -> bool {
        if !is_plain(options) || tree.nodes.is_empty() {
            return false;
        }
        let labels = self.labels(tree, options);
        let mut focused = vec![options.focus.is_none(); tree.nodes.len()];
        for node in 1..focused.len() {
            let frame = tree.nodes.frame[node].index();
            focused[node] = focused[tree.nodes.parent[node].index()] || labels.focused[frame];
        }
        let seen = Seen { tree, labels, focused };
        let mut shown = Vec::new();
        for value in values(tree, options, counts) {
            self.totals[0].merge(&value.stats);
            if seen.focused[value.node.index()] {
                shown.push(value);
            }
        }
        let alone = calls_alone(tree, options, counts);
        match options.shape {
            Shape::BottomUp => self.add_upwards(&seen, shown, least),
            Shape::Flat => self.add_flat(&seen, &shown, alone),
            _ => self.add_downwards(&seen, &shown, alone),
        }
        true
    }

    fn add_downwards(&mut self, seen: &Seen<'_>, values: &[Value], alone: impl Iterator<Item = Value>) {
        let mut rows = vec![NO_ROW; seen.tree.nodes.len()];
        rows[0] = 0;
        for value in values {
            let row = self.row_of(seen, &mut rows, value.node);
            self.nodes[row].inclusive.merge(&value.stats);
            if seen.is_shown(value.node) {
                self.nodes[row].exclusive.merge(&value.stats);
                self.nodes[row].calls += value.calls;
            }
        }
        for value in alone.filter(|value| seen.is_shown(value.node) && rows[value.node.index()] != NO_ROW) {
            self.nodes[rows[value.node.index()]].calls += value.calls;
        }
        // Rows stand behind those that they are called from.
        for row in (1..self.nodes.len()).rev() {
            let below = self.nodes[row].inclusive;
            let parent = self.nodes[row].parent;
            self.nodes[parent].inclusive.merge(&below);
        }
    }

    /// The row of a node, made with those above it if it is not there.
    fn row_of(&mut self, seen: &Seen<'_>, rows: &mut [usize], node: CallNodeId) -> usize {
        let mut missing = Vec::new();
        let mut at = node;
        while rows[at.index()] == NO_ROW {
            missing.push(at);
            at = seen.parent(at);
        }
        let mut row = rows[at.index()];
        for at in missing.into_iter().rev() {
            if seen.is_shown(at) {
                row = self.child(row, seen.label(at));
            }
            rows[at.index()] = row;
        }
        row
    }

    /// All values go up one caller at a time, together; those of a row that holds too little stay there.
    fn add_upwards(&mut self, seen: &Seen<'_>, mut values: Vec<Value>, least: f64) {
        for value in &mut values {
            self.nodes[0].inclusive.merge(&value.stats);
            // What was hit is not shown: its calls are not those of its callers.
            value.calls = if seen.is_shown(value.node) { value.calls } else { 0 };
        }
        let least = self.nodes[0].inclusive.sum as f64 * least;
        let own: Vec<bool> = values.iter().map(|value| seen.is_shown(value.node)).collect();
        let start = |(value, own): (Value, bool)| (0, seen.nearest(value.node), own, value);
        let mut waiting: Vec<(usize, CallNodeId, bool, Value)> = values.into_iter().zip(own).map(start).collect();
        let mut is_first = true;
        loop {
            waiting.retain(|&(_, at, ..)| at != CallTree::ROOT);
            if waiting.is_empty() {
                return;
            }
            for (row, at, own, value) in &mut waiting {
                *row = self.child(*row, seen.label(*at));
                let node = &mut self.nodes[*row];
                node.inclusive.merge(&value.stats);
                node.calls += value.calls;
                if is_first && *own {
                    node.exclusive.merge(&value.stats);
                }
                *at = seen.nearest(seen.parent(*at));
            }
            waiting.retain(|&(row, ..)| self.nodes[row].inclusive.sum as f64 >= least);
            is_first = false;
        }
    }

    /// A label holds what lies below it once, however often it calls itself.
    fn add_flat(&mut self, seen: &Seen<'_>, values: &[Value], alone: impl Iterator<Item = Value>) {
        let tree = seen.tree;
        let mut below = vec![CallStats::default(); tree.nodes.len()];
        for value in values {
            below[value.node.index()].merge(&value.stats);
            if seen.is_shown(value.node) {
                let row = self.child(0, seen.label(value.node));
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
        // How many of a label are open on the way down; a node is on the list once to be entered, and once to be left.
        let mut open = vec![0_u32; self.labels.len()];
        let mut pending = vec![(CallTree::ROOT, true)];
        while let Some((node, enters)) = pending.pop() {
            let label = seen.is_shown(node).then(|| seen.label(node));
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
            pending.extend(children.of(node).iter().filter(|child| below[child.index()].count > 0).map(|&c| (c, true)));
        }
        for value in alone.filter(|value| seen.is_shown(value.node)) {
            if let Some(&row) = self.children.get(&(0, seen.label(value.node))) {
                self.nodes[row].calls += value.calls;
            }
        }
    }
}
