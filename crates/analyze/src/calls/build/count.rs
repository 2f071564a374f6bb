//! Values of a tree one by one, each with how often its frame was called.

use super::{Builder, PathOfValue};
use crate::calls::phases::Phases;
use crate::calls::{Grouping, ViewDirection, ViewOptions};
use stackline_model::{CallMetric, CallNodeId, CallStats, CallThreadId, CallingContextTree, Frame};
use std::sync::OnceLock;

/// How calls are counted in a tree: each value of one metric is one call.
#[derive(Debug)]
pub(in super::super) struct Counts<'a> {
    /// The metric of threads.
    host: CallMetric,
    /// Calls that count at another line of their function.
    continued: &'a [(CallNodeId, CallThreadId, u64)],
    /// Phases of nodes, once they are asked for.
    phases: OnceLock<Phases>,
}

impl<'a> Counts<'a> {
    /// Those of a tree; `continued` is what [`crate::calls::UncountedCalls`] says of it.
    pub(in super::super) fn new(tree: &CallingContextTree, continued: &'a [(CallNodeId, CallThreadId, u64)]) -> Self {
        let has_spans = tree.metrics.metric.contains(&CallMetric::HostTime);
        Self {
            host: if has_spans { CallMetric::HostTime } else { CallMetric::OperatorTime },
            continued,
            phases: OnceLock::new(),
        }
    }

    /// The group that a value at a node, from a thread, belongs to.
    pub(super) fn group(
        &self,
        by: Grouping,
        tree: &CallingContextTree,
        node: CallNodeId,
        thread: CallThreadId,
    ) -> String {
        by.name(tree, node, thread, || self.phases.get_or_init(|| Phases::new(tree)))
    }

    /// The metric whose values are calls of a node's frame.
    fn metric(&self, tree: &CallingContextTree, node: CallNodeId) -> CallMetric {
        match tree.frame(node) {
            Some(Frame::Kernel { .. }) => CallMetric::GpuTime,
            _ => self.host,
        }
    }

    /// How many of the calls at a node do not count, since those of all lines count together.
    fn twice(&self, node: CallNodeId, thread: CallThreadId, by_line: bool) -> u64 {
        if by_line {
            return 0;
        }
        let found = self.continued.binary_search_by_key(&(node, thread), |&(node, thread, _)| (node, thread));
        found.map_or(0, |at| self.continued[at].2)
    }
}

/// What was measured at a node on a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub(super) node: CallNodeId,
    pub(super) thread: CallThreadId,
    pub(super) stats: CallStats,
    /// How often its frame was called; 0 if that was not counted.
    pub(super) calls: u64,
}

/// All values that belong to a view, by node; those of calls that have none of its metric stand there with nothing.
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
        // Rows stand by node, thread and metric.
        while metrics.node.get(next) == Some(&node) && metrics.thread.get(next) == Some(&thread) {
            let (metric, stats) = (metrics.metric[next], &metrics.stats[next]);
            if metric == options.metric {
                value.stats = *stats;
            }
            // A collection has no other time of its own.
            if metric == counting || metric == CallMetric::GcTime {
                value.calls = stats.count.saturating_sub(counts.twice(node, thread, options.by_line));
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

/// The values of a view's metric.
pub(super) fn values<'t>(
    tree: &'t CallingContextTree,
    options: &'t ViewOptions,
    counts: &'t Counts<'_>,
) -> impl Iterator<Item = Value> + 't {
    all(tree, options, counts).filter(|value| value.stats.count > 0)
}

/// Calls of what has no value of the view's metric itself: an operator whose kernels have all GPU time.
pub(super) fn calls_alone<'t>(
    tree: &'t CallingContextTree,
    options: &'t ViewOptions,
    counts: &'t Counts<'_>,
) -> impl Iterator<Item = Value> + 't {
    all(tree, options, counts).filter(|value| value.stats.count == 0 && value.calls > 0)
}

impl Builder {
    /// Counts calls of frames that have a row without a value of their own.
    pub(super) fn add_calls(
        &mut self,
        tree: &CallingContextTree,
        options: &ViewOptions,
        counts: &Counts<'_>,
        place: impl Fn(CallNodeId) -> Option<PathOfValue>,
    ) {
        let is_down = matches!(options.shape, ViewDirection::TopDown | ViewDirection::Callees | ViewDirection::Flat);
        // Groups are no frames; towards callers, only what has a value has rows.
        if options.by.is_some() || !is_down {
            return;
        }
        for value in calls_alone(tree, options, counts) {
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
