//! Call paths, operators and modules of a memory trace, from the call-tree nodes of a recorded thread.

use super::super::calls::{Calls, ThreadCalls};
use super::super::files::Files;
use stackline_model::{Frame, FrameKind, MemoryStackId, MemoryTrace, StrId};
use stackline_recording::{FrameKey, OPTIMIZER_STEP};

/// Prefix of span names of the autograd engine around backward nodes.
const ENGINE: &str = "autograd::engine::";

/// Context of a node: its call path, operator and module.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeContext {
    pub(super) stack: MemoryStackId,
    /// Name of the innermost operator, and path of the innermost module.
    pub(super) operator: StrId,
    pub(super) module: StrId,
    /// True within a backward node, and true within an optimizer step.
    pub(super) in_backward: bool,
    pub(super) in_optimizer: bool,
}

/// Compute the context of each call-tree node of a thread: call path, operator, module and phase.
pub(super) fn node_contexts(
    (calls, files): (&Calls, &Files),
    thread: &ThreadCalls,
    trace: &mut MemoryTrace,
) -> Vec<NodeContext> {
    let root = NodeContext {
        stack: MemoryStackId::NONE,
        operator: StrId::NONE,
        module: StrId::NONE,
        in_backward: false,
        in_optimizer: false,
    };
    let mut places: Vec<NodeContext> = Vec::with_capacity(thread.nodes.len());
    for (node, &(parent, frame)) in thread.nodes.iter().enumerate() {
        // Parents come first.
        let outer = if node == 0 { root } else { places.get(parent as usize).copied().unwrap_or(root) };
        let key = calls.frames.get(frame as usize).filter(|_| node > 0);
        places.push(key.map_or(outer, |key| inside((calls, files), trace, outer, key)));
    }
    places
}

/// Context of a node with the frame `key`, inside of a node with the context `outer`.
fn inside(
    (calls, files): (&Calls, &Files),
    trace: &mut MemoryTrace,
    outer: NodeContext,
    key: &FrameKey,
) -> NodeContext {
    let mut place = outer;
    let mut enter = |trace: &mut MemoryTrace, kind: FrameKind, function: &str, (file, line): (&str, u32)| {
        let file = if file.is_empty() { StrId::NONE } else { trace.strings.intern(file) };
        let function = trace.strings.intern(function);
        place.stack = trace.stacks.intern(outer.stack, Frame::with_line(kind, function, file, line));
        function
    };
    let nowhere = ("", 0);
    match *key {
        FrameKey::Python { function, file, line, .. } => {
            enter(trace, FrameKind::Python, calls.text(function), (files.marked_name(calls.text(file)), line));
        }
        FrameKey::Operator { name } | FrameKey::ShapedOperator { name, .. } => {
            let name = calls.text(name);
            place.operator = enter(trace, FrameKind::Operator, name, nowhere);
            place.in_backward |= name.starts_with(ENGINE);
        }
        FrameKey::Backward { name } | FrameKey::ShapedBackward { name, .. } => {
            enter(trace, FrameKind::Backward, calls.text(name), nowhere);
            place.in_backward = true;
        }
        FrameKey::Span { name } => {
            let name = calls.text(name);
            enter(trace, FrameKind::Span, name, nowhere);
            place.in_backward |= name.starts_with(ENGINE);
            place.in_optimizer |= name.starts_with(OPTIMIZER_STEP);
        }
        FrameKey::Module { path, .. } => place.module = trace.strings.intern(calls.text(path)),
        _ => {}
    }
    place
}
