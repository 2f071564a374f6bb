//! Spans of a calling context tree that mark steps.

use stackline_model::names::STEP_PREFIX;
use stackline_model::vocabulary::{FRAMEWORKS, Framework};
use stackline_model::{CallNodeId, CallingContextTree, Frame};
use stackline_timeline::vocabulary::python::OPTIMIZER_STEP;

/// Kind of step mark: name of its spans, their nodes, and their number of calls.
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) nodes: Vec<CallNodeId>,
    pub(super) calls: u64,
}

/// Check if a node is a span that marks steps.
pub(super) fn is_mark(tree: &CallingContextTree, node: CallNodeId) -> bool {
    [STEP_PREFIX, OPTIMIZER_STEP].iter().any(|prefix| is_span(tree, node, prefix))
        || FRAMEWORKS.iter().any(|framework| is_mark_of(tree, node, framework))
}

/// Check if a node is a step span of a framework.
pub(super) fn is_mark_of(tree: &CallingContextTree, node: CallNodeId, framework: &Framework) -> bool {
    let name = tree.frame(node).and_then(|frame| span_name(tree, frame));
    name.is_some_and(|name| framework.step_role(name).is_some())
}

/// Check if a node is a span or operator whose name begins with a prefix.
pub(super) fn is_span(tree: &CallingContextTree, node: CallNodeId, prefix: &str) -> bool {
    tree.frame(node).is_some_and(|frame| is_span_frame(tree, frame, prefix))
}

/// Check if a frame is a span or operator whose name begins with a prefix.
pub(super) fn is_span_frame(tree: &CallingContextTree, frame: &Frame, prefix: &str) -> bool {
    span_name(tree, frame).is_some_and(|name| name.starts_with(prefix))
}

/// Name of a span or operator; `None` for other frames.
fn span_name<'t>(tree: &'t CallingContextTree, frame: &Frame) -> Option<&'t str> {
    match *frame {
        Frame::Span { name } | Frame::Operator { name, .. } => Some(tree.strings.get(name)),
        _ => None,
    }
}
