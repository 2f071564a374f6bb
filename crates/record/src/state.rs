//! Per-thread state of the recorder: the tree, its caches, and the senders of single events.

use crate::client_words::SPAN;
use crate::event_queue::{Call, CallName, EventSender, MAX_CALL_NAME, MemoryAccess};
use crate::folded_names::FoldedNames;
use crate::folding::FOLDED;
use crate::forward_links::{ForwardLinks, ForwardThreads};
use crate::names::Names;
use crate::native_frames::NativeFrames;
use crate::paths::Paths;
use crate::process::{ExtraData, Process};
use crate::samples::OpenOperators;
use crate::shapes;
use crate::tree::{Key, NodeId, TreeOwner};
use dlmonitor::{Compilation, OpenOperator, Operator, OperatorName, PythonFrame, Scope, clock};
use rustc_hash::FxHashMap;
use stackline_recording::Metric;
use std::ffi::CStr;

/// The recorder's state of one thread: its tree, caches, and event senders.
#[derive(Debug)]
pub(crate) struct State {
    /// Number of its recording ([`Process::number`]).
    pub(crate) process: usize,
    pub(crate) tree: TreeOwner,
    names: Names,
    folded: FoldedNames,
    /// Sender of the exact names of calls with shared frames, in `trace` mode.
    call_names: Option<EventSender<CallName>>,
    /// Number of posted names.
    posted_names: u32,
    /// Number of the name of the span that began last, 0 if its frame has the exact name.
    pub(crate) last_name: u32,
    paths: Paths,
    /// Slots of metrics other than times.
    slots: FxHashMap<(u32, Metric), u32>,
    /// Sender of individual calls, in `trace` mode.
    pub(crate) outbox: Option<EventSender<Call>>,
    /// Sender of events of tensor memory, in `trace` mode with memory.
    pub(crate) touches: Option<EventSender<MemoryAccess>>,
    /// Forward operators of other threads.
    forward: ForwardLinks,
    /// Torch's id of this thread, once known.
    pub(crate) torch_id: u64,
    /// Open operators of this thread, for samples.
    pub(crate) published: &'static OpenOperators,
    /// Present if native frames are on.
    natives: Option<NativeFrames>,
    /// True if operators are distinguished by the shapes of their inputs.
    shapes: bool,
    /// True if times of individual calls or memory events are kept.
    keeps_times: bool,
}

/// Senders of a thread's single events (calls and memory events) to the stream writer.
#[derive(Debug, Default)]
pub(crate) struct Outboxes {
    pub(crate) calls: Option<EventSender<Call>>,
    pub(crate) touches: Option<EventSender<MemoryAccess>>,
    pub(crate) names: Option<EventSender<CallName>>,
}

impl State {
    /// Create the state of the calling thread for the recording with the number `process`.
    pub(crate) fn new(process: usize, tree: TreeOwner, outboxes: Outboxes, extra_data: ExtraData) -> Self {
        Self {
            natives: (extra_data.native && dlmonitor::native::generation() > 0).then(NativeFrames::new),
            process,
            published: OpenOperators::register(tree.shared.id),
            keeps_times: outboxes.calls.is_some() || outboxes.touches.is_some(),
            tree,
            names: Names::default(),
            folded: FoldedNames::default(),
            call_names: outboxes.names,
            posted_names: 0,
            last_name: 0,
            paths: Paths::new(),
            slots: FxHashMap::default(),
            outbox: outboxes.calls,
            touches: outboxes.touches,
            forward: ForwardLinks::default(),
            torch_id: 0,
            shapes: extra_data.shapes,
        }
    }

    /// Current time. If individual calls or memory events are kept, `CLOCK_MONOTONIC` in ns (converted immediately,
    /// because the inputs of an operator are written long before the operator). Otherwise ticks, which are cheaper.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        if self.keeps_times { clock::now_ns().cast_unsigned() } else { clock::ticks() }
    }

    /// True if times of individual calls or memory events are kept; operators are then never paused.
    #[inline]
    pub(crate) fn keeps_times(&self) -> bool {
        self.keeps_times
    }

    /// Convert a difference of two values of [`Self::now`] to ns.
    #[inline]
    pub(crate) fn ns(&self, time: u64) -> u64 {
        if self.keeps_times { time } else { clock::ns(time) }
    }

    /// Prepare this state for reuse by another thread, after its own has ended: memory is bounded by the number of
    /// concurrent threads. Backward nodes still find the thread's forward operators.
    pub(crate) fn leave(&mut self) {
        self.forward.forget_threads();
        self.paths.clear();
        self.published.enter(0);
    }

    /// Forget the forward operators of the thread that has ended, because another one continues the tree.
    pub(crate) fn forget_forward(&mut self, threads: &ForwardThreads) {
        threads.forget(&self.tree.shared);
        self.tree.forget_forward();
        self.torch_id = 0;
    }

    /// Find or create the node of an operator or span that begins, below those in `open`, and mark spans in `opened`. A
    /// backward node is placed below its forward operator.
    #[inline]
    pub(crate) fn begin_operator(
        &mut self,
        process: &Process,
        operator: &Operator,
        scope: Scope,
        open: &[OpenOperator],
        opened: &mut OpenOperator,
    ) -> NodeId {
        let name = operator.name();
        self.names.prefetch(&name);
        let forward = if scope == Scope::Backward { self.forward_node(process, operator) } else { None };
        let mut newest = None;
        let parent = forward.unwrap_or_else(|| {
            if scope == Scope::User {
                newest = opened.python;
                opened.python = self.paths.with_statement_frame(newest);
                opened.client[0] = SPAN;
            }
            self.paths.node(&mut self.tree, process, open, opened.python.as_ref())
        });
        let frame = self.frame(process, scope, &name);
        let parent = self.native(process, (parent, frame), open, opened, newest);
        let node = self.child(process, parent, operator, scope, frame);
        if scope == Scope::Function
            && let Some(sequence) = operator.sequence_number()
        {
            self.remember_forward(process, sequence, node);
        }
        node
    }

    /// Frame of an operator or a span by its name, from the cache. Posts the exact name of a span with a shared frame.
    #[inline]
    fn frame(&mut self, process: &Process, scope: Scope, name: &OperatorName<'_>) -> u32 {
        let (tree, folded) = (&self.tree, &mut self.folded);
        let frame = self.names.frame(scope as u8, name, |name| match scope {
            Scope::User => folded.frame(process, tree.is_full(), name),
            _ => process.operator_frame(tree.is_full(), scope, name),
        });
        if scope == Scope::User {
            self.last_name = if frame & FOLDED == 0 { 0 } else { self.post_name(name.text()) };
        }
        frame & !FOLDED
    }

    /// Post the exact name of a call with a shared frame. Returns its number, 0 if it was not posted.
    #[cold]
    fn post_name(&mut self, name: &CStr) -> u32 {
        let Some(names) = &mut self.call_names else { return 0 };
        if name.to_bytes().len() > MAX_CALL_NAME {
            names.count_lost();
            return 0;
        }
        self.posted_names = self.posted_names.checked_add(1).unwrap_or(1);
        // The writer is woken by calls, which are at least as many.
        names.post(CallName { number: self.posted_names, name: name.to_string_lossy().into() });
        self.posted_names
    }

    /// Find or create the node of a compilation, phase or garbage collection that begins, below those in `open`, and
    /// mark it as a span in `opened`.
    #[cold]
    pub(crate) fn begin_compilation(
        &mut self,
        process: &Process,
        compilation: &Compilation<'_>,
        open: &[OpenOperator],
        opened: &mut OpenOperator,
    ) -> NodeId {
        let frame = process.operator_frame(self.tree.is_full(), Scope::User, compilation.name);
        opened.client[0] = SPAN;
        let parent = self.paths.node(&mut self.tree, process, open, opened.python.as_ref());
        self.tree.child(parent, Key::frame(frame), process.overflow, |_| frame)
    }

    /// Find or create the call-tree node of an operator below `parent`; `frame` is its frame without its inputs.
    #[inline]
    fn child(&mut self, process: &Process, parent: NodeId, operator: &Operator, scope: Scope, frame: u32) -> NodeId {
        if self.shapes
            && scope != Scope::User
            && let Some(key) = shapes::shape_key(operator, frame)
        {
            return self.tree.child(parent, key, process.overflow, |full| process.shaped_frame(full, operator, scope));
        }
        self.tree.child(parent, Key::frame(frame), process.overflow, |_| frame)
    }

    /// Find or create the node of the native frames between `parent` and an operator; `parent` if native frames are
    /// off. `newest` is the newest Python frame, if it differs from the one in `opened`.
    #[inline]
    fn native(
        &mut self,
        process: &Process,
        (parent, operator): (NodeId, u32),
        open: &[OpenOperator],
        opened: &OpenOperator,
        newest: Option<PythonFrame>,
    ) -> NodeId {
        match &mut self.natives {
            Some(natives) => {
                let newest = newest.or(opened.python);
                natives.node(&mut self.tree, process, (parent, operator), open, opened, newest)
            }
            None => parent,
        }
    }

    /// Assign this recorder state to another thread.
    pub(crate) fn enter(&mut self, tid: u32) {
        self.published.enter(tid);
        if let Some(natives) = &mut self.natives {
            natives.enter();
        }
    }

    /// Call-tree node at which the thread runs now: that of the innermost open operator, or of the Python frames that
    /// it called.
    pub(crate) fn current_node(&mut self, process: &Process, open: &[OpenOperator]) -> NodeId {
        let newest = process.interpreter().and_then(dlmonitor::Interpreter::newest);
        self.paths.node(&mut self.tree, process, open, newest.as_ref())
    }

    /// Add a value of a metric other than operator times at a node.
    pub(crate) fn add(&mut self, node: NodeId, metric: Metric, value: u64) {
        let slot = *self.slots.entry((node.0, metric)).or_insert_with(|| self.tree.make_slot(node, metric));
        self.tree.add_value(slot, value);
    }

    /// Store the node of a forward operator by its sequence number, and register the thread the first time.
    fn remember_forward(&mut self, process: &Process, sequence: u64, node: NodeId) {
        if self.torch_id == 0 {
            self.torch_id = dlmonitor::torch_thread_id();
            process.register_forward_thread(self.torch_id, &self.tree.shared);
        }
        self.tree.remember_forward(sequence, node);
    }

    /// Node in this tree of a backward node's forward operator, copied if another thread ran it; `None` if unknown.
    fn forward_node(&mut self, process: &Process, operator: &Operator) -> Option<NodeId> {
        let (thread, sequence) = (operator.forward_thread()?, operator.sequence_number()?);
        if thread != self.torch_id {
            let threads = &process.forward_threads;
            return self.forward.node(threads, (thread, sequence), &mut self.tree, process.overflow);
        }
        let node = self.tree.forward(sequence);
        if node.is_none() {
            process.forward_threads.count_missing(self.tree.is_overwritten(sequence));
        }
        node
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.published.release_entry();
    }
}
