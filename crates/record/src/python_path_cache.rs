//! Cache of the last recorded Python call path, so that the next one only pays for its differences.
//!
//! Two paths in a row mostly share all but their newest frames. The next path is walked from its newest frame to the
//! first one that lies where one of the last path did; from there on both are compared, frame by frame, down to the
//! outermost. All of them: a frame that looks unchanged may have returned and been entered anew, by a caller that has
//! moved on. What is saved is everything else: look-ups, and nodes.

use crate::process::Process;
use crate::tree::{Key, NodeId, Owner, ROOT};
use dlmonitor::{Beyond, Interpreter, PythonFrame, SeenFrame};

/// Frames deeper than this are left out at the outer end.
const MAX_DEPTH: usize = 1024;
/// New frames above the last path; with more of them it is walked as if there had been none.
const MAX_NEW: usize = 32;
/// Places for addresses of frames; power of two.
const PLACES: usize = 256;

/// Where a path ends on the outer side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outer<'a> {
    /// With the first frame of the thread.
    Root,
    /// With this frame.
    With(&'a PythonFrame),
    /// Before this frame.
    Before(&'a PythonFrame),
}

/// Context that turns paths into nodes.
pub(crate) struct PathContext<'a> {
    pub(crate) tree: &'a mut Owner,
    pub(crate) process: &'a Process,
    pub(crate) interpreter: &'a Interpreter,
}

/// Cache of the last path below some node, outermost frame first.
#[derive(Debug)]
pub(crate) struct PathCache {
    base: NodeId,
    /// [`crate::modules::Modules::version`] when the nodes were made.
    modules: u64,
    seen: Vec<SeenFrame>,
    /// The node of each.
    nodes: Vec<NodeId>,
    /// Which one has its frame at an address, if any; only a hint.
    places: Box<[u16; PLACES]>,
    /// Scratch: frames above the last path, newest first.
    new: Vec<PythonFrame>,
    /// Scratch: frames that changed, with their index, innermost first.
    changed: Vec<(usize, PythonFrame)>,
}

#[inline]
fn is_frame(frame: &PythonFrame, other: &PythonFrame) -> bool {
    frame.address == other.address && frame.code == other.code
}

impl Outer<'_> {
    /// Whether a path ends with this frame.
    #[inline]
    fn is(self, frame: &PythonFrame) -> bool {
        matches!(self, Self::With(last) if is_frame(last, frame))
    }

    /// Whether a path ends before this frame, which called its last one.
    #[inline]
    fn is_beyond(self, caller: Option<&PythonFrame>) -> bool {
        match (self, caller) {
            (Self::Root, None) => true,
            (Self::Before(beyond), Some(caller)) => is_frame(beyond, caller),
            _ => false,
        }
    }

    /// Whether a path ends with `outermost`, beyond which is `beyond`.
    #[inline]
    fn is_met(self, outermost: &PythonFrame, beyond: &Beyond) -> bool {
        match (self, beyond) {
            (Self::Root, Beyond::Root) => true,
            (Self::With(last), _) => is_frame(last, outermost),
            (Self::Before(last), Beyond::Frame(caller)) => is_frame(last, caller),
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
            places: Box::new([0; PLACES]),
            new: Vec::with_capacity(MAX_NEW),
            changed: Vec::with_capacity(MAX_NEW),
        }
    }
}

impl PathCache {
    /// Forgets the last path: its nodes are another tree's.
    pub(crate) fn clear(&mut self) {
        self.truncate(0);
    }

    fn truncate(&mut self, length: usize) {
        self.seen.truncate(length);
        self.nodes.truncate(length);
    }

    /// The node of the path below `base` that ends with `newest`; `None` if `outer` is not met.
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
            None => self.anew(context, newest, outer),
        }
    }

    /// The frame of the last path at this address.
    #[inline]
    fn place(&self, frame: &PythonFrame) -> Option<usize> {
        let at = usize::from(self.places[(frame.address >> 4) % PLACES]);
        self.seen.get(at).is_some_and(|seen| seen.frame.address == frame.address).then_some(at)
    }

    /// Gathers what differs from the last path, and returns its innermost frame that lies where one of the new path
    /// does. `None` if the paths do not run in parallel from there on.
    #[inline]
    fn compare(&mut self, interpreter: &Interpreter, newest: &PythonFrame, outer: Outer<'_>) -> Option<usize> {
        self.new.clear();
        self.changed.clear();
        let mut frame = *newest;
        let top = loop {
            if let Some(at) = self.place(&frame) {
                break at;
            }
            if outer.is(&frame) || self.new.len() == MAX_NEW {
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
        outer.is_met(outermost, &beyond).then_some(top)
    }

    /// The node of the new path, once [`Self::compare`] found it to share the frames up to `top`.
    fn advance(&mut self, context: &mut PathContext<'_>, top: usize) -> NodeId {
        if let Some(&(outermost, _)) = self.changed.last() {
            self.truncate(top + 1);
            let mut parent = outermost.checked_sub(1).map_or(self.base, |at| self.nodes[at]);
            for at in outermost..=top {
                if let Some((_, frame)) = self.changed.pop_if(|changed| changed.0 == at) {
                    self.seen[at] = context.interpreter.see_again(frame, &self.seen[at]);
                }
                parent = context.child(parent, &self.seen[at]);
                self.nodes[at] = parent;
            }
        }
        if self.new.is_empty() {
            // A longer old path stays: the next operator may come from deeper frames again.
            return self.nodes[top];
        }
        self.truncate(top + 1);
        self.push_new(context, 0)
    }

    /// Adds the new frames, but for the outermost so many.
    fn push_new(&mut self, context: &mut PathContext<'_>, skip: usize) -> NodeId {
        let mut node = self.nodes.last().copied().unwrap_or(self.base);
        for &frame in self.new.iter().rev().skip(skip) {
            let seen = context.interpreter.see(frame);
            node = context.child(node, &seen);
            self.places[(frame.address >> 4) % PLACES] = self.seen.len() as u16;
            self.seen.push(seen);
            self.nodes.push(node);
        }
        node
    }

    /// Walks the whole path, and takes from the last one what they share at the outer end.
    #[cold]
    fn anew(&mut self, context: &mut PathContext<'_>, newest: &PythonFrame, outer: Outer<'_>) -> Option<NodeId> {
        self.new.clear();
        let mut next = Some(*newest);
        // A path from the root that is too deep begins somewhere in the middle.
        let mut met = matches!(outer, Outer::Root);
        while let Some(frame) = next.filter(|_| self.new.len() < MAX_DEPTH) {
            self.new.push(frame);
            next = context.interpreter.caller(frame);
            if outer.is(&frame) || outer.is_beyond(next.as_ref()) {
                met = true;
                break;
            }
        }
        if !met {
            return None;
        }
        let pairs = self.seen.iter().zip(self.new.iter().rev());
        let shared = pairs.take_while(|(seen, frame)| **seen == context.interpreter.see(**frame)).count();
        if shared == self.new.len() {
            return self.nodes.get(shared.checked_sub(1)?).copied();
        }
        self.truncate(shared);
        Some(self.push_new(context, shared))
    }
}

/// Keys of Python frames do not have this bit; keys by frame id have all.
const OTHER_KEY: u64 = 1 << 63;

impl PathContext<'_> {
    /// The node of a frame below `parent`: with that of the module that it calls, if it calls one.
    #[inline]
    fn child(&mut self, parent: NodeId, seen: &SeenFrame) -> NodeId {
        let (process, interpreter) = (self.process, self.interpreter);
        let parent = if seen.module == 0 { parent } else { self.module_child(parent, seen.module) };
        let key = Key(seen.frame.instruction as u64, seen.fingerprint & !OTHER_KEY);
        self.tree
            .child(parent, key, process.overflow, |full| process.python_frame(full, &interpreter.describe(seen.frame)))
    }

    fn module_child(&mut self, parent: NodeId, module: usize) -> NodeId {
        let class = self.interpreter.class_of(module);
        let name = || self.interpreter.class_name(class);
        let frame = self.process.module_frame(self.tree.is_full(), (module, class), name);
        self.tree.child(parent, Key::frame(frame), self.process.overflow, |_| frame)
    }
}
