//! Call paths of a snapshot. PyTorch creates each frame once, so lists of equal frames share items, and each list is
//! converted once.

use super::Reader;
use crate::memory::values::{ItemsId, NodeId, Value};
use rustc_hash::FxHashMap;
use stackline_model::native_names::{autograd_node, operator};
use stackline_model::{Frame, FrameId, FrameKind, MemoryStackId, StrId};

/// Caches: call paths by frame list, frames by dict, and allocating operators by call path.
#[derive(Default)]
pub(super) struct Frames {
    lists: FxHashMap<ItemsId, MemoryStackId>,
    frames: FxHashMap<NodeId, FrameId>,
    operators: FxHashMap<MemoryStackId, StrId>,
}

impl Reader<'_> {
    /// Call path of the `frames` of an event, segment or block (innermost frame first in the file).
    pub(super) fn stack(&mut self, dict: NodeId) -> MemoryStackId {
        let Some(list) = self.field(dict, self.keys.frames).and_then(|value| self.values.as_list(value)) else {
            return MemoryStackId::NONE;
        };
        let items = self.values.items_id(list);
        if let Some(stack) = self.frames.lists.get(&items) {
            return *stack;
        }
        let mut stack = MemoryStackId::NONE;
        for frame in self.values.items(list).iter().rev() {
            if let Some(frame) = self.frame(*frame) {
                stack = self.trace.stacks.node(stack, frame);
            }
        }
        self.frames.lists.insert(items, stack);
        stack
    }

    /// Frame of a dict in a frame list, converted once; `None` if the value is not a dict.
    fn frame(&mut self, frame: Value) -> Option<FrameId> {
        let dict = self.values.as_dict(frame)?;
        if let Some(frame) = self.frames.frames.get(&dict) {
            return Some(*frame);
        }
        let (function, file) = (self.text(dict, self.keys.name), self.text(dict, self.keys.filename));
        let line = self.number(dict, self.keys.line).and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
        let file = if self.trace.strings.get(file).is_empty() { StrId::NONE } else { file };
        let frame = Frame::of_line(function, file, line, &self.trace.strings);
        let frame = self.trace.stacks.frames.intern(frame);
        self.frames.frames.insert(dict, frame);
        Some(frame)
    }

    /// The operator that allocated, such as `aten::div`, if the call path has C++ frames: the outermost operator that
    /// contains no Python line and no autograd node.
    pub(super) fn operator(&mut self, stack: MemoryStackId) -> StrId {
        if stack.is_none() {
            return StrId::NONE;
        }
        if let Some(known) = self.frames.operators.get(&stack) {
            return *known;
        }
        let trace = &self.trace;
        let is_below = |frame: &Frame| {
            frame.kind() != FrameKind::Python && autograd_node(frame.function_text(&trace.strings)).is_none()
        };
        let names = trace.stacks.frames_of(stack).take_while(is_below);
        let outermost = names.filter_map(|frame| operator(frame.function_text(&trace.strings))).last();
        let name = outermost.map(|name| format!("aten::{name}"));
        let name = name.map_or(StrId::NONE, |name| self.trace.strings.intern(&name));
        self.frames.operators.insert(stack, name);
        name
    }
}
