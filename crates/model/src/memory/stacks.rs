//! Call paths as a prefix tree, callers before callees. A call path is one handle.

use crate::{Frame, FrameId, FrameTable, MemoryStackId};
use rustc_hash::FxHashMap;

/// Call paths of a memory trace as a prefix tree of frames, each stored once.
#[derive(Clone, Debug, Default)]
pub struct MemoryStacks {
    /// All frames.
    pub frames: FrameTable,
    /// The calling node of each node; none for outermost frames.
    pub parent: Vec<MemoryStackId>,
    /// The frame of each node.
    pub frame: Vec<FrameId>,
    node_ids: FxHashMap<(MemoryStackId, FrameId), MemoryStackId>,
}

impl MemoryStacks {
    /// Rebuild the call paths of a memory trace from columns; handles stay the same.
    pub fn from_columns(frames: FrameTable, parent: Vec<MemoryStackId>, frame: Vec<FrameId>) -> Self {
        let mut node_ids = FxHashMap::default();
        for (row, node) in parent.iter().copied().zip(frame.iter().copied()).enumerate() {
            node_ids.entry(node).or_insert(MemoryStackId::new(row));
        }
        Self { frames, parent, frame, node_ids }
    }

    /// Handle of the call path of `parent` and one more frame, added if it is new; without parent, of only the frame.
    pub fn intern(&mut self, parent: MemoryStackId, frame: Frame) -> MemoryStackId {
        let frame = self.frames.intern(frame);
        self.node(parent, frame)
    }

    /// Handle of the call path of `parent` and one more interned frame, added if it is new.
    pub fn node(&mut self, parent: MemoryStackId, frame: FrameId) -> MemoryStackId {
        *self.node_ids.entry((parent, frame)).or_insert_with(|| {
            self.parent.push(parent);
            self.frame.push(frame);
            MemoryStackId::new(self.frame.len() - 1)
        })
    }

    /// Call path of these frames, outermost first; none without frames.
    pub fn intern_path(&mut self, frames: impl IntoIterator<Item = Frame>) -> MemoryStackId {
        frames.into_iter().fold(MemoryStackId::NONE, |parent, frame| self.intern(parent, frame))
    }

    /// Frames of a call path, innermost first.
    pub fn frames_of(&self, stack: MemoryStackId) -> impl Iterator<Item = Frame> + '_ {
        std::iter::successors(stack.some(), |node| self.parent.get(node.index()).and_then(|parent| parent.some()))
            .filter_map(|node| self.frames.get(self.frame.get(node.index())?.index()).copied())
    }

    /// Check that columns are equally long, that parents come before their children, and that frames exist.
    pub(super) fn check(&self) -> Result<(), String> {
        let parents_first =
            self.parent.iter().enumerate().all(|(node, parent)| parent.is_none() || parent.index() < node);
        let known = self.frame.iter().all(|frame| frame.index() < self.frames.len());
        if self.parent.len() == self.frame.len() && parents_first && known {
            Ok(())
        } else {
            Err("the rows of the table of call paths are not sorted, or refer to entries that do not exist".to_owned())
        }
    }
}
