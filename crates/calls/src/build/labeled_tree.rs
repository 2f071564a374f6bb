//! A calling context tree as a view shows it: with labels and filters.

use super::Labels;
use stackline_model::{CallNodeId, CallingContextTree};

/// A calling context tree with the labels and filters of a view.
pub(super) struct LabeledTree<'t> {
    pub(super) tree: &'t CallingContextTree,
    pub(super) labels: Labels,
    /// By node: true if its values are shown.
    pub(super) focused: Vec<bool>,
    /// True if siblings never share a label and no frame is hidden, so that each node has its own row.
    pub(super) is_row_each: bool,
}

impl LabeledTree<'_> {
    /// Parent of a node in the calling context tree.
    pub(super) fn parent(&self, node: CallNodeId) -> CallNodeId {
        self.tree.nodes.parent[node.index()]
    }

    /// True if a node's own frame is shown; false for hidden frames and the root.
    pub(super) fn is_shown(&self, node: CallNodeId) -> bool {
        node != CallingContextTree::ROOT && !self.labels.hidden[self.tree.nodes.frame[node.index()].index()]
    }

    /// Index of the row label of a node's frame.
    pub(super) fn label(&self, node: CallNodeId) -> usize {
        self.labels.of_frame[self.tree.nodes.frame[node.index()].index()]
    }
}
