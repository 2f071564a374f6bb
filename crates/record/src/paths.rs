//! Python frames and modules between the operator that runs and the one that begins.

use crate::process::Process;
use crate::recorder::START;
use crate::tree::{Key, NodeId, Owner, ROOT};
use dlmonitor::{Interpreter, OpenOperator, PythonFrame};
use rustc_hash::FxHashMap;

/// Frames deeper than this are left out at the root's end.
const MAX_DEPTH: usize = 1024;

/// Calls between the `__enter__` of a context manager and the begin of its span, at most.
const ENTER_DEPTH: usize = 4;

/// Marks an open span among the open operators ([`OpenOperator::client`], first word): it outlives the frame that
/// opened it.
pub(crate) const SPAN: u64 = 1 << 32;

/// A frame of the path that was recorded last, with its node.
#[derive(Clone, Copy, Debug)]
struct Step {
    frame: PythonFrame,
    fingerprint: u64,
    /// The module whose call the frame is, 0 if it is none.
    module: usize,
    node: NodeId,
}

/// The paths of one thread.
#[derive(Debug)]
pub(crate) struct Paths {
    /// The last path below the root, outermost first: the next one mostly shares its beginning.
    last: Vec<Step>,
    /// Scratch: the frames of the path that is being walked, newest first.
    walk: Vec<PythonFrame>,
    /// Whether a code object is the `__enter__` of a context manager, by address and fingerprint.
    enters: FxHashMap<(usize, u64), bool>,
}

impl Paths {
    pub(crate) fn new() -> Self {
        Self { last: Vec::new(), walk: Vec::with_capacity(64), enters: FxHashMap::default() }
    }

    /// Forgets the last path: its nodes are another tree's.
    pub(crate) fn clear(&mut self) {
        self.last.clear();
    }

    /// The node below which an operator stands that begins when `newest` is the newest frame.
    #[inline]
    pub(crate) fn node(
        &mut self,
        tree: &mut Owner,
        process: &Process,
        open: &[OpenOperator],
        newest: Option<PythonFrame>,
    ) -> NodeId {
        // One that began before the window opened has no node.
        let enclosing = open.last().filter(|open| open.client[START] != 0);
        let below = enclosing.map_or(ROOT, |open| NodeId(open.client[0] as u32));
        let (Some(newest), Some(interpreter)) = (newest, dlmonitor::interpreter()) else { return below };
        let Some(enclosing) = enclosing else {
            self.walk_until(interpreter, newest, None);
            return self.down_from_root(tree, process, interpreter);
        };
        let Some(entered) = enclosing.python else {
            self.walk_until(interpreter, newest, None);
            return self.below(tree, process, interpreter, below);
        };
        let same_frame = entered.address == newest.address && entered.code == newest.code;
        if same_frame && entered.instruction == newest.instruction {
            return below;
        }
        let found = self.walk_until(interpreter, newest, Some(entered));
        if !found {
            // The frame that opened the span is gone, and nobody knows what it had in common with these.
            return self.down_from_root(tree, process, interpreter);
        }
        if enclosing.client[0] & SPAN == 0 {
            // The operator is still being called by this frame: it stands above the operator already.
            self.walk.pop();
        }
        self.below(tree, process, interpreter, below)
    }

    /// The frame that a span belongs to: the one with the `with` statement, not the `__enter__` that it calls nor what
    /// that calls.
    pub(crate) fn opener(&mut self, newest: Option<PythonFrame>) -> Option<PythonFrame> {
        let (newest, interpreter) = (newest?, dlmonitor::interpreter()?);
        let mut frame = newest;
        for _ in 0..ENTER_DEPTH {
            let caller = interpreter.caller(frame);
            if self.is_enter(interpreter, frame) {
                return caller;
            }
            let Some(caller) = caller else { break };
            frame = caller;
        }
        Some(newest)
    }

    fn is_enter(&mut self, interpreter: &Interpreter, frame: PythonFrame) -> bool {
        *self.enters.entry((frame.code, interpreter.fingerprint(frame))).or_insert_with(|| {
            let function = interpreter.describe(frame).function;
            function == "__enter__" || function.ends_with(".__enter__")
        })
    }

    /// Gathers the frames from `newest` to the root, or to `until`, and says whether that was met.
    fn walk_until(&mut self, interpreter: &Interpreter, newest: PythonFrame, until: Option<PythonFrame>) -> bool {
        self.walk.clear();
        let mut next = Some(newest);
        while let Some(frame) = next {
            if self.walk.len() == MAX_DEPTH {
                return false;
            }
            self.walk.push(frame);
            if until.is_some_and(|until| until.address == frame.address && until.code == frame.code) {
                return true;
            }
            next = interpreter.caller(frame);
        }
        false
    }

    fn down_from_root(&mut self, tree: &mut Owner, process: &Process, interpreter: &Interpreter) -> NodeId {
        let mut node = ROOT;
        for (depth, &frame) in self.walk.iter().rev().enumerate() {
            let fingerprint = interpreter.fingerprint(frame);
            let module = interpreter.called_module(frame);
            match self.last.get(depth) {
                Some(step) if step.frame == frame && step.fingerprint == fingerprint && step.module == module => {
                    node = step.node;
                }
                _ => {
                    self.last.truncate(depth);
                    let parent = module_child(tree, process, interpreter, node, module);
                    node = frame_child(tree, process, interpreter, parent, frame, fingerprint);
                    self.last.push(Step { frame, fingerprint, module, node });
                }
            }
        }
        // A longer old path stays: the next operator may come from deeper frames again. It is compared frame by frame.
        node
    }

    fn below(&mut self, tree: &mut Owner, process: &Process, interpreter: &Interpreter, below: NodeId) -> NodeId {
        self.walk.iter().rev().fold(below, |node, &frame| {
            let node = module_child(tree, process, interpreter, node, interpreter.called_module(frame));
            frame_child(tree, process, interpreter, node, frame, interpreter.fingerprint(frame))
        })
    }
}

/// Keys of modules have this bit, keys of Python frames do not, and keys by frame id have all bits.
const MODULE_KEY: u64 = 1 << 63;

#[inline]
fn frame_child(
    tree: &mut Owner,
    process: &Process,
    interpreter: &Interpreter,
    parent: NodeId,
    frame: PythonFrame,
    fingerprint: u64,
) -> NodeId {
    let key = Key(frame.instruction as u64, fingerprint & !MODULE_KEY);
    tree.child(parent, key, process.overflow, || process.python_frame(&interpreter.describe(frame)))
}

/// The node of a module that is called, below `parent`; `parent` itself if none is (0).
#[inline]
fn module_child(
    tree: &mut Owner,
    process: &Process,
    interpreter: &Interpreter,
    parent: NodeId,
    module: usize,
) -> NodeId {
    if module == 0 {
        return parent;
    }
    let class = interpreter.class_of(module);
    let key = Key(module as u64, MODULE_KEY | class as u64 >> 4);
    tree.child(parent, key, process.overflow, || process.module_frame(module, &interpreter.class_name(class)))
}
