//! Call paths as a prefix tree, callers before callees: a call path is one number.

use crate::{MemoryFrameId, MemoryStackId, StrId};
use rustc_hash::FxHashMap;

/// A line of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryFrame {
    /// The function.
    pub function: StrId,
    /// Its file.
    pub file: StrId,
    /// The line, 0 if not known.
    pub line: u32,
}

/// Frames and call paths, each stored once.
#[derive(Clone, Debug, Default)]
pub struct MemoryStacks {
    /// All frames.
    pub frames: Vec<MemoryFrame>,
    /// The calling node of each node; none for outermost frames.
    pub parent: Vec<MemoryStackId>,
    /// The frame of each node.
    pub frame: Vec<MemoryFrameId>,
    frame_ids: FxHashMap<MemoryFrame, MemoryFrameId>,
    node_ids: FxHashMap<(MemoryStackId, MemoryFrameId), MemoryStackId>,
}

impl MemoryStacks {
    /// Frames and call paths as they stood in another's columns, whose handles stay what they were.
    pub fn from_columns(frames: Vec<MemoryFrame>, parent: Vec<MemoryStackId>, frame: Vec<MemoryFrameId>) -> Self {
        let (mut frame_ids, mut node_ids) = (FxHashMap::default(), FxHashMap::default());
        for (row, known) in frames.iter().enumerate() {
            frame_ids.entry(*known).or_insert(MemoryFrameId::new(row));
        }
        for (row, node) in parent.iter().copied().zip(frame.iter().copied()).enumerate() {
            node_ids.entry(node).or_insert(MemoryStackId::new(row));
        }
        Self { frames, parent, frame, frame_ids, node_ids }
    }

    /// The handle of a frame, which is added if it is new.
    pub fn intern_frame(&mut self, frame: MemoryFrame) -> MemoryFrameId {
        *self.frame_ids.entry(frame).or_insert_with(|| {
            self.frames.push(frame);
            MemoryFrameId::new(self.frames.len() - 1)
        })
    }

    /// The call path that goes one frame further than `parent` (none: begins with the frame).
    pub fn intern(&mut self, parent: MemoryStackId, frame: MemoryFrameId) -> MemoryStackId {
        *self.node_ids.entry((parent, frame)).or_insert_with(|| {
            self.parent.push(parent);
            self.frame.push(frame);
            MemoryStackId::new(self.frame.len() - 1)
        })
    }

    /// The call path of these frames, outermost first; none if there are none.
    pub fn intern_path(&mut self, frames: impl IntoIterator<Item = MemoryFrame>) -> MemoryStackId {
        frames.into_iter().fold(MemoryStackId::NONE, |parent, frame| {
            let frame = self.intern_frame(frame);
            self.intern(parent, frame)
        })
    }

    /// The frames of a call path, innermost first.
    pub fn frames_of(&self, stack: MemoryStackId) -> impl Iterator<Item = MemoryFrame> + '_ {
        std::iter::successors(stack.some(), |node| self.parent.get(node.index()).and_then(|parent| parent.some()))
            .filter_map(|node| self.frames.get(self.frame.get(node.index())?.index()).copied())
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let parents_first =
            self.parent.iter().enumerate().all(|(node, parent)| parent.is_none() || parent.index() < node);
        let known = self.frame.iter().all(|frame| frame.index() < self.frames.len());
        if self.parent.len() == self.frame.len() && parents_first && known {
            Ok(())
        } else {
            Err("call paths are out of order".to_owned())
        }
    }
}
