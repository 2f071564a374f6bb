//! What one thread needs to put an operator into its tree.

use crate::names::Names;
use crate::process::Process;
use crate::tree::{Key, NodeId, Owner, ROOT, Shared};
use dlmonitor::{OpenOperator, Operator, PythonFrame, Scope};
use rustc_hash::FxHashMap;
use stackline_recording::FrameKey;
use std::sync::Arc;

/// Python frames deeper than this are left out at the root's end.
const MAX_DEPTH: usize = 1024;

/// A frame of the path that was recorded last, with its node.
#[derive(Clone, Copy, Debug)]
struct Step {
    frame: PythonFrame,
    fingerprint: u64,
    node: NodeId,
}

/// A thread's recorder.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) tree: Owner,
    names: Names,
    /// The last path of Python frames below the root, outermost first: the next one mostly shares its beginning.
    path: Vec<Step>,
    /// Scratch: the frames of the path that is being walked, newest first.
    walk: Vec<PythonFrame>,
    /// Trees of forward threads, by torch's id of the thread.
    forward: FxHashMap<u64, Arc<Shared>>,
    /// Nodes of other trees that were copied into this one.
    copied: FxHashMap<(u32, NodeId), NodeId>,
    /// Torch's id of this thread, once it was told.
    pub(crate) torch_id: u64,
}

impl State {
    pub(crate) fn new(tree: Owner) -> Self {
        Self {
            tree,
            names: Names::default(),
            path: Vec::new(),
            walk: Vec::with_capacity(64),
            forward: FxHashMap::default(),
            copied: FxHashMap::default(),
            torch_id: 0,
        }
    }

    /// Lets another thread have this tree, after its own ended: memory is bounded by the threads that run at once.
    pub(crate) fn hand_over(&mut self) {
        self.tree.forget_forward();
        self.forward.clear();
        self.path.clear();
        self.torch_id = 0;
    }

    /// The node of an operator that begins now, below those in `open`.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        process: &Process,
        operator: &Operator,
        open: &[OpenOperator],
        python: Option<PythonFrame>,
    ) -> NodeId {
        let scope = operator.scope();
        let frame = self.names.frame(scope as u8, operator, |name| process.operator_frame(scope, name));
        if scope == Scope::Backward {
            if let Some(forward) = self.forward_node(process, operator) {
                return self.tree.child(forward, Key::frame(frame), process.overflow, || frame);
            }
        }
        let parent = self.python_node(process, open, python);
        let node = self.tree.child(parent, Key::frame(frame), process.overflow, || frame);
        if scope == Scope::Function {
            if let Some(sequence) = operator.sequence_number() {
                self.remember(process, sequence, node);
            }
        }
        node
    }

    fn remember(&mut self, process: &Process, sequence: u64, node: NodeId) {
        if self.torch_id == 0 {
            self.torch_id = dlmonitor::torch_thread_id();
            process.announce(self.torch_id, &self.tree.shared);
        }
        self.tree.remember_forward(sequence, node);
    }

    /// The node below which the Python frames that run now lead: they stand between the innermost open operator and
    /// the one that begins.
    #[inline]
    fn python_node(&mut self, process: &Process, open: &[OpenOperator], python: Option<PythonFrame>) -> NodeId {
        let enclosing = open.last();
        let below = enclosing.map_or(ROOT, |open| NodeId(open.client[0] as u32));
        let Some(newest) = python else { return below };
        let entered = enclosing.and_then(|open| open.python);
        if entered.is_some_and(|entered| entered.address == newest.address && entered.instruction == newest.instruction)
        {
            return below;
        }
        self.walk_until(newest, entered.map(|frame| frame.address));
        if enclosing.is_none() { self.path_from_root(process) } else { self.path_below(process, below) }
    }

    /// Gathers the frames from `newest` to the one at `until`, which is left out.
    fn walk_until(&mut self, newest: PythonFrame, until: Option<usize>) {
        self.walk.clear();
        let Some(interpreter) = dlmonitor::interpreter() else { return };
        let mut next = Some(newest);
        while let Some(frame) = next.filter(|frame| Some(frame.address) != until && self.walk.len() < MAX_DEPTH) {
            self.walk.push(frame);
            next = interpreter.caller(frame);
        }
    }

    fn path_from_root(&mut self, process: &Process) -> NodeId {
        let Some(interpreter) = dlmonitor::interpreter() else { return ROOT };
        let mut node = ROOT;
        let mut shared = 0;
        for &frame in self.walk.iter().rev() {
            let fingerprint = interpreter.fingerprint(frame);
            match self.path.get(shared) {
                Some(step) if step.frame == frame && step.fingerprint == fingerprint => node = step.node,
                _ => {
                    self.path.truncate(shared);
                    node = python_child(&mut self.tree, process, interpreter, node, frame, fingerprint);
                    self.path.push(Step { frame, fingerprint, node });
                }
            }
            shared += 1;
        }
        // A longer old path stays: the next operator may come from deeper frames again. It is compared frame by frame.
        node
    }

    fn path_below(&mut self, process: &Process, below: NodeId) -> NodeId {
        let Some(interpreter) = dlmonitor::interpreter() else { return below };
        let mut node = below;
        for &frame in self.walk.iter().rev() {
            let fingerprint = interpreter.fingerprint(frame);
            node = python_child(&mut self.tree, process, interpreter, node, frame, fingerprint);
        }
        node
    }

    /// The node, in this tree, of the forward operator that a backward node belongs to.
    fn forward_node(&mut self, process: &Process, operator: &Operator) -> Option<NodeId> {
        let (thread, sequence) = (operator.forward_thread()?, operator.sequence_number()?);
        if thread == self.torch_id {
            return self.tree.shared.forward(sequence);
        }
        if !self.forward.contains_key(&thread) {
            self.forward.insert(thread, process.thread_by_torch_id(thread)?);
        }
        let shared = self.forward.get(&thread)?;
        let node = shared.forward(sequence)?;
        if let Some(&copy) = self.copied.get(&(shared.id, node)) {
            return Some(copy);
        }
        let id = shared.id;
        let path = shared.path(node);
        let copy = path
            .into_iter()
            .fold(ROOT, |node, frame| self.tree.child(node, Key::frame(frame), process.overflow, || frame));
        self.copied.insert((id, node), copy);
        Some(copy)
    }
}

#[inline]
fn python_child(
    tree: &mut Owner,
    process: &Process,
    interpreter: &dlmonitor::Interpreter,
    parent: NodeId,
    frame: PythonFrame,
    fingerprint: u64,
) -> NodeId {
    // Never equal to a key by frame id: that has all bits set here.
    let key = Key(frame.instruction as u64, fingerprint & !(1 << 63));
    tree.child(parent, key, process.overflow, || process.python_frame(&interpreter.describe(frame)))
}

impl Process {
    /// The frame of an operator.
    #[cold]
    fn operator_frame(&self, scope: Scope, name: &std::ffi::CStr) -> u32 {
        self.intern(|frames| {
            let name = frames.text(&name.to_string_lossy());
            match scope {
                Scope::Backward => FrameKey::Backward { name },
                Scope::User => FrameKey::Span { name },
                Scope::Function | Scope::Unknown => FrameKey::Operator { name },
            }
        })
    }

    /// The frame of a line of Python.
    #[cold]
    fn python_frame(&self, line: &dlmonitor::PythonLine) -> u32 {
        self.intern(|frames| FrameKey::Python {
            function: frames.text(&line.function),
            file: frames.text(&line.file),
            line: line.line,
            first_line: line.first_line,
        })
    }
}
