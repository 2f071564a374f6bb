//! Values of the selected metric and numbers of calls by node and thread of a finished calling context tree, from which
//! the rows of a view are built.

use super::{Builder, PathOfValue};
use crate::phases::Phases;
use crate::{Grouping, ViewDirection, ViewOptions};
use stackline_model::{CallMetric, CallNodeId, CallStats, CallThreadId, CallingContextTree, Frame};
use std::sync::OnceLock;

/// Call counting rules of a tree: each value of one metric is one call.
#[derive(Debug)]
pub(in super::super) struct Counts<'a> {
    /// Metric of threads.
    host: CallMetric,
    /// Calls that count at another line of their function.
    uncounted_calls: &'a [(CallNodeId, CallThreadId, u64)],
    /// Phases of nodes, computed on first use.
    phases: OnceLock<Phases>,
}

impl<'a> Counts<'a> {
    /// Rules for a tree; `uncounted_calls` as in [`crate::UncountedCalls`].
    pub(in super::super) fn new(
        tree: &CallingContextTree,
        uncounted_calls: &'a [(CallNodeId, CallThreadId, u64)],
    ) -> Self {
        let has_spans = tree.metrics.metric.contains(&CallMetric::HostTime);
        Self {
            host: if has_spans { CallMetric::HostTime } else { CallMetric::OperatorTime },
            uncounted_calls,
            phases: OnceLock::new(),
        }
    }

    /// Name of the group, such as a thread or an operator, to which a value of a node belongs.
    pub(super) fn group(
        &self,
        by: Grouping,
        tree: &CallingContextTree,
        node: CallNodeId,
        thread: CallThreadId,
    ) -> String {
        by.name(tree, node, thread, || self.phases.get_or_init(|| Phases::new(tree)))
    }

    /// Metric that has one value per call of a node's frame: GPU time for kernels, else the metric of threads.
    fn metric(&self, tree: &CallingContextTree, node: CallNodeId) -> CallMetric {
        match tree.frame(node) {
            Some(Frame::Kernel { .. }) => CallMetric::GpuTime,
            _ => self.host,
        }
    }

    /// Number of calls of a node to subtract, because they already count at another line of the function. 0 in views by
    /// line.
    fn double_counted(&self, node: CallNodeId, thread: CallThreadId, by_line: bool) -> u64 {
        if by_line {
            return 0;
        }
        let found = self.uncounted_calls.binary_search_by_key(&(node, thread), |&(node, thread, _)| (node, thread));
        found.map_or(0, |at| self.uncounted_calls[at].2)
    }
}

/// Metric value of a node on a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub(super) node: CallNodeId,
    pub(super) thread: CallThreadId,
    pub(super) stats: CallStats,
    /// Number of calls of its frame; 0 if calls were not counted.
    pub(super) calls: u64,
}

/// Metric value and number of calls of each node and thread in a view, by node. Calls without a value of the metric
/// have empty statistics.
fn all<'t>(
    tree: &'t CallingContextTree,
    options: &'t ViewOptions,
    counts: &'t Counts<'_>,
) -> impl Iterator<Item = Value> + 't {
    let metrics = &tree.metrics;
    let mut next = 0;
    std::iter::from_fn(move || {
        let (&node, &thread) = metrics.node.get(next).zip(metrics.thread.get(next))?;
        let counting = counts.metric(tree, node);
        let mut value = Value { node, thread, stats: CallStats::default(), calls: 0 };
        // Rows are sorted by node, thread and metric.
        while metrics.node.get(next) == Some(&node) && metrics.thread.get(next) == Some(&thread) {
            let (metric, stats) = (metrics.metric[next], &metrics.stats[next]);
            if metric == options.metric {
                value.stats = *stats;
            }
            // A garbage collection has no other time of its own.
            if metric == counting || metric == CallMetric::GcTime {
                value.calls = stats.count.saturating_sub(counts.double_counted(node, thread, options.by_line));
            }
            next += 1;
        }
        Some(value)
    })
    .filter(move |value| {
        let is_in = |(by, name): &(Grouping, String)| counts.group(*by, tree, value.node, value.thread) == *name;
        options.only.iter().all(is_in)
    })
}

/// Values of the view's metric in a calling context tree, each with its node, thread and number of calls.
pub(super) fn values<'t>(
    tree: &'t CallingContextTree,
    options: &'t ViewOptions,
    counts: &'t Counts<'_>,
) -> impl Iterator<Item = Value> + 't {
    all(tree, options, counts).filter(|value| value.stats.count > 0)
}

/// Calls of nodes that have no value of the view's metric, such as an operator whose kernels have all GPU time.
pub(super) fn calls_without_value<'t>(
    tree: &'t CallingContextTree,
    options: &'t ViewOptions,
    counts: &'t Counts<'_>,
) -> impl Iterator<Item = Value> + 't {
    all(tree, options, counts).filter(|value| value.stats.count == 0 && value.calls > 0)
}

impl Builder {
    /// Add call counts to rows of frames that have no value of the metric themselves; only in ungrouped views that are
    /// top-down or flat. The function `place` returns the call path of a node.
    pub(super) fn add_calls(
        &mut self,
        tree: &CallingContextTree,
        options: &ViewOptions,
        counts: &Counts<'_>,
        place: impl Fn(CallNodeId) -> Option<PathOfValue>,
    ) {
        let is_down = matches!(options.shape, ViewDirection::TopDown | ViewDirection::Callees | ViewDirection::Flat);
        // Groups are no frames. Towards callers, only frames with a value have rows.
        if options.by.is_some() || !is_down {
            return;
        }
        for value in calls_without_value(tree, options, counts) {
            let Some(PathOfValue { path, own: true, .. }) = place(value.node) else { continue };
            let path =
                if options.shape == ViewDirection::Flat { &path[path.len().saturating_sub(1)..] } else { &path[..] };
            let row = path.iter().try_fold(0, |row, &label| self.children.get(&(row, label)).copied());
            if let Some(row) = row.filter(|&row| row > 0) {
                self.nodes[row].calls += value.calls;
            }
        }
    }
}
