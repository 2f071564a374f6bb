//! Cache of the last recorded Python call path, so that the cost of the next path depends only on its differences.
//!
//! Two consecutive paths usually differ only in their newest frames. The next path is walked from its newest frame to
//! the first frame at an address of the last path. From there both paths are compared, frame by frame, down to the
//! outermost. All frames are compared, because an unchanged frame can be a new call, made by a caller that has moved
//! on. The cache saves lookups and node creation.

use crate::process::Process;
use crate::tree::{Key, NodeId, ROOT, TreeOwner};
use dlmonitor::{Interpreter, OuterCaller, PythonFrame, SeenFrame};

/// Frames beyond this depth are left out at the outer end.
const MAX_DEPTH: usize = 1024;
/// Largest number of new frames above the last path. With more, the path is walked without the last one.
const MAX_NEW: usize = 32;
/// Slots for addresses of frames; a power of two.
const CACHE_SLOTS: usize = 256;

/// Outer end of a Python call path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outer<'a> {
    /// The first frame of the thread, included.
    Root,
    /// The given frame, included.
    With(&'a PythonFrame),
    /// The given frame, excluded.
    Before(&'a PythonFrame),
}

/// Tree, process and interpreter with which paths are converted to nodes.
pub(crate) struct PathContext<'a> {
    pub(crate) tree: &'a mut TreeOwner,
    pub(crate) process: &'a Process,
    pub(crate) interpreter: &'a Interpreter,
}

/// Cache of the last Python path below a node, and of its nodes, outermost frame first.
#[derive(Debug)]
pub(crate) struct PathCache {
    base: NodeId,
    /// [`crate::modules::Modules::version`] when the nodes were created.
    modules: u64,
    seen: Vec<SeenFrame>,
    /// Node of each frame.
    nodes: Vec<NodeId>,
    /// Index of the frame at an address, which is only a hint.
    places: Box<[u16; CACHE_SLOTS]>,
    /// Scratch: frames above the last path, newest first.
    new: Vec<PythonFrame>,
    /// Scratch: frames that changed, with their index, innermost first.
    changed: Vec<(usize, PythonFrame)>,
}

/// True if both are at the same address and run the same code object.
#[inline]
fn is_frame(frame: &PythonFrame, other: &PythonFrame) -> bool {
    frame.address == other.address && frame.code == other.code
}

impl Outer<'_> {
    /// True if a path, from inside outwards, ends with `frame` as its last included frame.
    #[inline]
    fn is_last(self, frame: &PythonFrame) -> bool {
        matches!(self, Self::With(last) if is_frame(last, frame))
    }

    /// True if a path, from inside outwards, ends before `caller`; `None` is the caller of a thread's first frame.
    #[inline]
    fn is_beyond(self, caller: Option<&PythonFrame>) -> bool {
        match (self, caller) {
            (Self::Root, None) => true,
            (Self::Before(beyond), Some(caller)) => is_frame(beyond, caller),
            _ => false,
        }
    }

    /// True if a path, from inside outwards, ends with `outermost`, whose caller is `beyond`.
    #[inline]
    fn is_end_of(self, outermost: &PythonFrame, beyond: &OuterCaller) -> bool {
        match (self, beyond) {
            (Self::Root, OuterCaller::Root) => true,
            (Self::With(last), _) => is_frame(last, outermost),
            (Self::Before(last), OuterCaller::Frame(caller)) => is_frame(last, caller),
            _ => false,
        }
    }
}

impl Default for PathCache {
    fn default() -> Self {
        Self {
            base: ROOT,
            modules: 0,
            seen: Vec::new(),
            nodes: Vec::new(),
            places: Box::new([0; CACHE_SLOTS]),
            new: Vec::with_capacity(MAX_NEW),
            changed: Vec::with_capacity(MAX_NEW),
        }
    }
}

impl PathCache {
    /// Clear the last path, because its nodes belong to another tree.
    pub(crate) fn clear(&mut self) {
        self.truncate(0);
    }

    /// Keep only the outermost `length` frames of the last path.
    fn truncate(&mut self, length: usize) {
        self.seen.truncate(length);
        self.nodes.truncate(length);
    }

    /// Find or create the node of the Python path below `base`, from `outer` to `newest`; `None` if `outer` is not
    /// among the callers.
    #[inline]
    pub(crate) fn node(
        &mut self,
        context: &mut PathContext<'_>,
        base: NodeId,
        newest: &PythonFrame,
        outer: Outer<'_>,
    ) -> Option<NodeId> {
        if outer.is_beyond(Some(newest)) {
            return Some(base);
        }
        let modules = context.process.modules.version();
        if self.base != base || self.modules != modules {
            self.clear();
            (self.base, self.modules) = (base, modules);
        }
        match self.compare(context.interpreter, newest, outer) {
            Some(top) if self.changed.is_empty() && self.new.is_empty() => self.nodes.get(top).copied(),
            Some(top) => Some(self.advance(context, top)),
            None => self.rebuild(context, newest, outer),
        }
    }

    /// Index of the cached frame at the address of `frame`; `None` if the hint finds none.
    #[inline]
    fn index_at_address(&self, frame: &PythonFrame) -> Option<usize> {
        let at = usize::from(self.places[(frame.address >> 4) % CACHE_SLOTS]);
        self.seen.get(at).is_some_and(|seen| seen.frame.address == frame.address).then_some(at)
    }

    /// Compare the Python frames from `newest` outwards with the cached path. Collect new and changed frames, and
    /// return the index of the innermost cached frame whose address is unchanged. `None` if the paths do not match from
    /// there on.
    #[inline]
    fn compare(&mut self, interpreter: &Interpreter, newest: &PythonFrame, outer: Outer<'_>) -> Option<usize> {
        self.new.clear();
        self.changed.clear();
        let mut frame = *newest;
        let top = loop {
            if let Some(at) = self.index_at_address(&frame) {
                break at;
            }
            if outer.is_last(&frame) || self.new.len() == MAX_NEW {
                return None;
            }
            self.new.push(frame);
            frame = interpreter.caller(frame)?;
        };
        let beyond = interpreter.compare(frame, self.seen.get_mut(..=top)?, &mut self.changed)?;
        let outermost = match self.changed.last() {
            Some((0, changed)) => changed,
            _ => &self.seen.first()?.frame,
        };
        outer.is_end_of(outermost, &beyond).then_some(top)
    }

    /// Update the cached path with the new and changed frames that [`Self::compare`] found above and up to `top`, and
    /// return the node of the newest frame.
    fn advance(&mut self, context: &mut PathContext<'_>, top: usize) -> NodeId {
        if let Some(&(outermost, _)) = self.changed.last() {
            self.truncate(top + 1);
            let mut parent = outermost.checked_sub(1).map_or(self.base, |at| self.nodes[at]);
            for at in outermost..=top {
                if let Some((_, frame)) = self.changed.pop_if(|changed| changed.0 == at) {
                    self.seen[at] = context.interpreter.update_frame(frame, &self.seen[at]);
                }
                parent = context.child(parent, &self.seen[at]);
                self.nodes[at] = parent;
            }
        }
        if self.new.is_empty() {
            // A longer old path is kept, because the next operator may come from deeper frames again.
            return self.nodes[top];
        }
        self.truncate(top + 1);
        self.push_new(context, 0)
    }

    /// Append the frames in `self.new` to the cached path, except the `skip` outermost ones, and return the last node.
    fn push_new(&mut self, context: &mut PathContext<'_>, skip: usize) -> NodeId {
        let mut node = self.nodes.last().copied().unwrap_or(self.base);
        for &frame in self.new.iter().rev().skip(skip) {
            let seen = context.interpreter.copy_frame(frame);
            node = context.child(node, &seen);
            self.places[(frame.address >> 4) % CACHE_SLOTS] = self.seen.len() as u16;
            self.seen.push(seen);
            self.nodes.push(node);
        }
        node
    }

    /// Walk the whole path, replace the cached frames that differ, and return the last node; `None` if `outer` is not
    /// reached.
    #[cold]
    fn rebuild(&mut self, context: &mut PathContext<'_>, newest: &PythonFrame, outer: Outer<'_>) -> Option<NodeId> {
        self.new.clear();
        let mut next = Some(*newest);
        // A path from the root that is too deep begins in the middle.
        let mut met = matches!(outer, Outer::Root);
        while let Some(frame) = next.filter(|_| self.new.len() < MAX_DEPTH) {
            self.new.push(frame);
            next = context.interpreter.caller(frame);
            if outer.is_last(&frame) || outer.is_beyond(next.as_ref()) {
                met = true;
                break;
            }
        }
        if !met {
            return None;
        }
        let pairs = self.seen.iter().zip(self.new.iter().rev());
        let shared = pairs.take_while(|(seen, frame)| **seen == context.interpreter.copy_frame(**frame)).count();
        if shared == self.new.len() {
            return self.nodes.get(shared.checked_sub(1)?).copied();
        }
        self.truncate(shared);
        Some(self.push_new(context, shared))
    }
}

/// Bit of keys by frame id, which keys of Python frames do not have.
const OTHER_KEY: u64 = 1 << 63;

impl PathContext<'_> {
    /// Find or create the node of a frame below `parent`; for a call of a module, below the node of that module.
    #[inline]
    fn child(&mut self, parent: NodeId, seen: &SeenFrame) -> NodeId {
        let (process, interpreter) = (self.process, self.interpreter);
        let parent = if seen.module == 0 { parent } else { self.module_child(parent, seen.module) };
        let key = Key(seen.frame.instruction as u64, seen.fingerprint & !OTHER_KEY);
        self.tree
            .child(parent, key, process.overflow, |full| process.python_frame(full, &interpreter.describe(seen.frame)))
    }

    /// Find or create the child of `parent` for the `nn.Module` at an address.
    fn module_child(&mut self, parent: NodeId, module: usize) -> NodeId {
        let class = self.interpreter.class_of(module);
        let name = || self.interpreter.class_name(class);
        let frame = self.process.module_frame(self.tree.is_full(), (module, class), name);
        self.tree.child(parent, Key::frame(frame), self.process.overflow, |_| frame)
    }
}
