//! Calling context tree of a recorded run: all processes and threads in one tree.
//!
//! The node of a frame is a child of its caller's node. Metrics are stored per node and thread (exclusive); inclusive
//! values are summed when they are read.

mod build;
mod check;
mod metric;
mod process;
mod query;
#[cfg(test)]
mod tests;

pub use build::CallingContextTreeBuilder;
pub use metric::{CallMetric, CallStats, MAX_SUM_OF_SQUARES};
pub use process::{
    CallOverhead, CallProcess, CallRole, CallSource, CallStepEnds, CallThread, OverheadFraction, thread_words,
};
pub use query::CallChildren;

use crate::{CallNodeId, CallThreadId, FrameId, FrameTable, ReadReport, StringTable};

/// Calling context tree, created by a [`CallingContextTreeBuilder`] or by the store; immutable afterwards.
#[derive(Clone, Debug, Default)]
pub struct CallingContextTree {
    /// All texts.
    pub strings: StringTable,
    /// Frames, each once.
    pub frames: FrameTable,
    /// The tree.
    pub nodes: CallNodes,
    /// Metrics of the nodes.
    pub metrics: CallMetrics,
    /// Recorded threads.
    pub threads: Vec<CallThread>,
    /// Recorded processes, in the order of their starts.
    pub processes: Vec<CallProcess>,
    /// Diagnostics of reading: skipped and lost records.
    pub report: ReadReport,
}

/// Nodes as columns; parents come before their children, and row 0 is the root, which has neither parent nor frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallNodes {
    /// Parent node (caller).
    pub parent: Vec<CallNodeId>,
    /// The frame.
    pub frame: Vec<FrameId>,
}

impl CallNodes {
    /// Number of nodes, the root included.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// True if there is not even a root.
    pub fn is_empty(&self) -> bool {
        self.parent.is_empty()
    }

    /// Handles of all nodes, callers first.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = CallNodeId> + use<> {
        (0..self.len()).map(CallNodeId::new)
    }
}

/// Exclusive metrics as columns, one row per node, thread and metric, ascending in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallMetrics {
    /// Node.
    pub node: Vec<CallNodeId>,
    /// Thread.
    pub thread: Vec<CallThreadId>,
    /// Metric.
    pub metric: Vec<CallMetric>,
    /// Statistics of the values.
    pub stats: Vec<CallStats>,
}

impl CallMetrics {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.node.len()
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.node.is_empty()
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = (CallNodeId, CallThreadId, CallMetric, &CallStats)> {
        let keys = self.node.iter().zip(&self.thread).zip(&self.metric);
        keys.zip(&self.stats).map(|(((&node, &thread), &metric), stats)| (node, thread, metric, stats))
    }
}
