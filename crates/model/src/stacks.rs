//! Prefix tree of the call paths that events of a trace have.

use crate::{EventId, Frame, FrameId, FrameTable, StackId, StrId, StringTable};

/// Call paths as a prefix tree of frames, parents before children. The handle of a call path is its innermost node.
///
/// The name of a node is the source's name of its frame, in the strings of the trace: names of function events are the
/// same, so that both can be compared. The frame is parsed from the name, with separate texts, because the strings of
/// the trace are names of events.
#[derive(Clone, Debug, Default)]
pub struct StackTable {
    /// Texts of `frames`.
    pub strings: StringTable,
    /// The frames, each once.
    pub frames: FrameTable,
    /// The calling frame's node.
    pub parent: Vec<StackId>,
    /// The frame.
    pub frame: Vec<FrameId>,
    /// Name of the frame.
    pub name: Vec<StrId>,
    /// Category (module, library) of the frame.
    pub category: Vec<StrId>,
    /// Events that carry a stack, ascending.
    pub event: Vec<EventId>,
    /// The stack of the event at the same position.
    pub stack: Vec<StackId>,
}

impl StackTable {
    /// Add a frame below `parent` to the prefix tree; `texts` are the strings of the trace.
    pub fn push(&mut self, parent: StackId, (name, category): (StrId, StrId), texts: &StringTable) -> StackId {
        let frame = Frame::named(texts.get(name), texts.get(category), &mut self.strings);
        self.parent.push(parent);
        self.frame.push(self.frames.intern(frame));
        self.name.push(name);
        self.category.push(category);
        StackId::new(self.parent.len() - 1)
    }

    /// Number of nodes in the prefix tree of call paths.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// True if the prefix tree of call paths has no nodes.
    pub fn is_empty(&self) -> bool {
        self.parent.is_empty()
    }

    /// Call path (stack) of an event; `None` if it was not recorded.
    pub fn of_event(&self, event: EventId) -> Option<StackId> {
        self.event.binary_search(&event).ok().and_then(|row| self.stack[row].some())
    }

    /// Nodes of a call path, innermost first.
    pub fn path(&self, stack: Option<StackId>) -> impl Iterator<Item = StackId> + '_ {
        std::iter::successors(stack, |node| self.parent[node.index()].some())
    }

    /// Names of the frames of a stack, innermost first.
    pub fn names(&self, stack: Option<StackId>) -> impl Iterator<Item = StrId> + '_ {
        self.path(stack).map(|node| self.name[node.index()])
    }

    /// Frames of a stack, innermost first; their texts are in [`Self::strings`].
    pub fn frames_of(&self, stack: Option<StackId>) -> impl Iterator<Item = &Frame> + '_ {
        self.path(stack).map(|node| &self.frames[self.frame[node.index()].index()])
    }

    /// Check that columns are equally long, that parents come before their children, and that stacks have nodes.
    ///
    /// # Errors
    /// A sentence with the violated rule.
    pub fn check(&self) -> Result<(), String> {
        let nodes = self.len();
        let lengths = [self.frame.len(), self.name.len(), self.category.len()];
        if lengths.iter().any(|&length| length != nodes) || self.stack.len() != self.event.len() {
            return Err("the columns of the table of stacks differ in length".to_owned());
        }
        if let Some(row) = (0..nodes).find(|&i| self.parent[i].is_some() && self.parent[i].index() >= i) {
            return Err(format!("row {row} of the table of frames comes before its parent"));
        }
        if let Some(row) = self.frame.iter().position(|frame| frame.index() >= self.frames.len()) {
            return Err(format!("row {row} of column frames.frame refers to an entry that does not exist"));
        }
        match self.stack.iter().position(|stack| stack.index() >= nodes) {
            Some(row) => Err(format!("row {row} of column event_stacks.stack refers to an entry that does not exist")),
            None => Ok(()),
        }
    }
}

/// Frames are created from names and categories in one order, so equal columns have equal texts.
impl PartialEq for StackTable {
    fn eq(&self, other: &Self) -> bool {
        self.frames == other.frames
            && (&self.parent, &self.frame) == (&other.parent, &other.frame)
            && (&self.name, &self.category) == (&other.name, &other.category)
            && (&self.event, &self.stack) == (&other.event, &other.stack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_one_frame_share_it() {
        let (mut texts, mut stacks) = (StringTable::new(), StackTable::default());
        let [main, step, python] = ["train.py(9): main", "train.py(3): step", "Python"].map(|text| texts.intern(text));
        let outer = stacks.push(StackId::NONE, (main, python), &texts);
        let inner = stacks.push(outer, (step, python), &texts);
        let again = stacks.push(inner, (main, python), &texts);
        stacks.event.push(EventId(4));
        stacks.stack.push(again);
        assert_eq!((stacks.len(), stacks.frames.len(), texts.len()), (3, 2, 3));
        assert_eq!((stacks.of_event(EventId(4)), stacks.of_event(EventId(5))), (Some(again), None));
        assert!(stacks.names(Some(again)).eq([main, step, main]));
        let lines: Vec<_> =
            stacks.frames_of(Some(inner)).map(|frame| (frame.name(&stacks.strings), frame.line())).collect();
        assert_eq!(lines, [("step".to_owned(), Some(3)), ("main".to_owned(), Some(9))]);
        stacks.check().unwrap();
        stacks.parent[0] = again;
        assert!(stacks.check().is_err());
    }
}
