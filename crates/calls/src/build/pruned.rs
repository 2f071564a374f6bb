//! Bottom-up views without small callers: each value moves up its call path one caller at a time, and stops at rows
//! below a minimum share of the metric.
//!
//! Inverted, a tree with a million nodes of depth sixty has sixty million nodes, most of them too small to be visible.
//! Here all values move up one caller at a time, together; values of rows below the threshold stay there. Sums of all
//! created rows are exact.

use super::Builder;
use stackline_model::CallStats;

/// Metric value that still has to be added to the rows of its callers, with its call path.
#[derive(Debug)]
pub(super) struct PendingValue {
    row: usize,
    /// Labels, its own first.
    path: Box<[u32]>,
    own: bool,
    stats: CallStats,
    /// Number of calls of the measured frame.
    calls: u64,
}

impl PendingValue {
    /// Create a pending value at the row of its group or the root; `path` starts with the value's own frame.
    pub(super) fn new(row: usize, path: &[usize], own: bool, (stats, calls): (&CallStats, u64)) -> Self {
        Self { row, path: path.iter().map(|&label| label as u32).collect(), own, stats: *stats, calls }
    }
}

impl Builder {
    /// Collect values of views towards callers as pending, so that [`Self::add_pending`] follows only large rows.
    pub(in super::super) fn prune(&mut self) {
        self.pending_values = Some(Vec::new());
    }

    /// Add all pending values to the rows of their callers, level by level, while rows have at least the share `least`
    /// of the total.
    pub(in super::super) fn add_pending(&mut self, least: f64) {
        let mut pending_values = self.pending_values.take().unwrap_or_default();
        let least = self.nodes[0].inclusive.sum as f64 * least;
        let mut depth = 0;
        while !pending_values.is_empty() {
            pending_values.retain(|value| depth < value.path.len());
            for value in &mut pending_values {
                value.row = self.child(value.row, value.path[depth] as usize);
                self.count(value.row, &value.stats, false, true);
                self.nodes[value.row].calls += if value.own { value.calls } else { 0 };
                if depth == 0 && value.own {
                    self.nodes[value.row].exclusive.merge(&value.stats);
                }
            }
            pending_values.retain(|value| self.nodes[value.row].inclusive.sum as f64 >= least);
            depth += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::build::{Builder, Counts};
    use crate::{CallView, ViewDirection, ViewOptions, view, view_pruned};
    use proptest::prelude::*;
    use stackline_model::{
        CallMetric, CallProcess, CallStats, CallThread, CallingContextTree, CallingContextTreeBuilder, Frame,
    };
    use std::collections::BTreeMap;

    fn tree(hits: &[(String, u64)]) -> CallingContextTree {
        let mut builder = CallingContextTreeBuilder::new();
        let process = builder.process(CallProcess::default());
        let name = builder.text("main");
        let thread = builder.thread(CallThread { process, tid: 1, torch_id: 0, name });
        for (path, value) in hits {
            let node = path.chars().fold(CallingContextTree::ROOT, |node, letter| {
                let name = builder.text(&letter.to_string());
                let frame = builder.frame(Frame::operator(name));
                builder.child(node, frame)
            });
            builder.add(node, thread, CallMetric::OperatorTime, &CallStats::from_value(*value));
        }
        builder.finish()
    }

    /// Rows by the path between them and the root.
    fn by_path(view: &CallView) -> BTreeMap<String, (CallStats, CallStats)> {
        let mut paths: Vec<String> = Vec::new();
        for (row, node) in view.nodes.iter().enumerate() {
            let above = if row == 0 { String::new() } else { paths[node.parent].clone() };
            paths.push(above + &view.label(row).name);
        }
        paths.into_iter().zip(view.nodes.iter().map(|node| (node.inclusive, node.exclusive))).collect()
    }

    proptest! {
        #[test]
        fn pruned_view_equals_full_view_where_followed(
            hits in prop::collection::vec(("[a-d]{1,8}", 1_u64..1000), 1..40),
            least in prop_oneof![Just(0.0), 0.0..0.5],
            shape in prop::sample::select(vec![ViewDirection::BottomUp, ViewDirection::TopDown, ViewDirection::Flat]),
        ) {
            let tree = tree(&hits);
            let options = ViewOptions { shape, ..ViewOptions::new(CallMetric::OperatorTime) };
            let whole = by_path(&view(&tree, &options));
            let pruned = by_path(&view_pruned(&tree, &options, least, &[]));
            let total = whole[""].0.sum as f64;
            let is_followed = |path: &str| shape != ViewDirection::BottomUp || path.is_empty() || whole[path].0.sum as f64 >= total * least;
            for (path, values) in &whole {
                let expected = (0..path.len()).all(|end| is_followed(&path[..end])).then_some(values);
                prop_assert_eq!(pruned.get(path), expected, "{} of {:?}", path, hits);
            }
            prop_assert!(pruned.len() <= whole.len());
        }

        /// Both methods build the same view.
        #[test]
        fn linear_view_equals_view_by_paths(
            hits in prop::collection::vec(("[a-d]{0,8}", 0_u64..1000), 0..40),
            least in prop_oneof![Just(0.0), 0.0..0.5],
            shape in prop::sample::select(vec![ViewDirection::BottomUp, ViewDirection::TopDown, ViewDirection::Flat]),
            focus in prop::option::of(prop::sample::select(vec!["^a", "^[bc]"])),
            hide in prop::option::of(prop::sample::select(vec!["^[ab]", "^d"])),
        ) {
            let tree = tree(&hits);
            let pattern = |text: Option<&str>| text.map(|text| regex_lite::Regex::new(text).unwrap());
            let (focus, hide) = (pattern(focus), pattern(hide));
            let options = ViewOptions { shape, focus, hide, ..ViewOptions::new(CallMetric::OperatorTime) };
            let mut builder = Builder::new();
            builder.prune();
            builder.add(&tree, &options, &Counts::new(&tree, &[]), false);
            builder.add_pending(least);
            let expected = builder.finish(&tree, &options, false);
            let made = view_pruned(&tree, &options, least, &[]);
            let rows = |view: &CallView| {
                let row = |(row, node): (usize, &crate::ViewNode)| {
                    (view.label(row).clone(), node.parent, node.depth, node.inclusive, node.exclusive, node.calls)
                };
                view.nodes.iter().enumerate().map(row).collect::<Vec<_>>()
            };
            prop_assert_eq!((made.total, rows(&made)), (expected.total, rows(&expected)));
        }
    }
}
