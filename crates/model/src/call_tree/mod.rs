//! The merged calling context tree of a recorded run: all processes and threads in one tree.
//!
//! A node is a frame below its caller's node. Metrics lie at the node that was hit (exclusive), per thread; inclusive values
//! are merged up when they are read.

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

/// A calling context tree. Made by a [`CallingContextTreeBuilder`] or by the store; not changed afterwards.
#[derive(Clone, Debug, Default)]
pub struct CallingContextTree {
    /// All texts.
    pub strings: StringTable,
    /// Frames, each once.
    pub frames: FrameTable,
    /// The tree.
    pub nodes: CallNodes,
    /// What was measured where.
    pub metrics: CallMetrics,
    /// Threads that recorded something.
    pub threads: Vec<CallThread>,
    /// Processes that were watched, in the order in which they began.
    pub processes: Vec<CallProcess>,
    /// What reading had to skip or lost.
    pub report: ReadReport,
}

/// Nodes as columns; parents stand before their children, and row 0 is the root, which has neither parent nor frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallNodes {
    /// The caller.
    pub parent: Vec<CallNodeId>,
    /// The frame.
    pub frame: Vec<FrameId>,
}

impl CallNodes {
    /// Number of nodes, the root included.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// Whether there is not even a root.
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
    /// The node that was hit.
    pub node: Vec<CallNodeId>,
    /// The thread that it was hit on.
    pub thread: Vec<CallThreadId>,
    /// What was measured.
    pub metric: Vec<CallMetric>,
    /// The values.
    pub stats: Vec<CallStats>,
}

impl CallMetrics {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.node.len()
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.node.is_empty()
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = (CallNodeId, CallThreadId, CallMetric, &CallStats)> {
        let keys = self.node.iter().zip(&self.thread).zip(&self.metric);
        keys.zip(&self.stats).map(|(((&node, &thread), &metric), stats)| (node, thread, metric, stats))
    }
}
