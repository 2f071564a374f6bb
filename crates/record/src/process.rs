//! State of the recorder that all threads of a process share.

use crate::event_queue::{Call, CallName, EventReceiver, MemoryAccess, TimedSample};
use crate::folding::SpanFrame;
use crate::forward_links::ForwardThreads;
use crate::frames::Frames;
use crate::memory::LiveAllocations;
use crate::modules::Modules;
use crate::tensors::Tensors;
use crate::tree::{NodeId, SharedTree, TreeOwner};
use dlmonitor::{Interpreter, PythonLine, Scope};
use rustc_hash::FxHashMap;
use stackline_recording::{FrameKey, Thread};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Default limit of nodes in the tree of a thread.
pub(crate) const DEFAULT_LIMIT: u32 = 1 << 20;

/// Largest number of distinct frames; further ones share one frame.
const MAX_FRAMES: usize = 1 << 20;

/// Number of ended threads that wait for the writer before it is woken, in `trace` mode.
const WRITER_WAKE_ENDED: usize = 64;

/// Largest number of ended threads that wait for the writer while the disk is full.
const MAX_ENDED: usize = 1024;

/// Largest number of stored thread names.
const MAX_THREAD_NAMES: usize = 1 << 12;

/// Python's name of the main thread, for programs that never import `threading`.
const MAIN_THREAD: &str = "MainThread";

/// Suffix of the name of a tree that earlier threads used, too.
const REUSED_SUFFIX: &str = " and threads before it";

/// Call tree of a thread, as the process registers it for the stream writer.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(crate) thread: Thread,
    pub(crate) tree: Arc<SharedTree>,
    pub(crate) overflows: Arc<AtomicU64>,
    /// Receiver of its calls, in `trace` mode.
    pub(crate) inbox: Option<EventReceiver<Call>>,
    /// Receiver of events of tensor memory, in `trace` mode with memory.
    pub(crate) touches: Option<EventReceiver<MemoryAccess>>,
    /// Receiver of exact names of its calls, in `trace` mode.
    pub(crate) names: Option<EventReceiver<CallName>>,
}

impl Registered {
    /// Entry of a thread's call tree for the list of trees, without receivers of single events.
    pub(crate) fn new(thread: Thread, owner: &TreeOwner) -> Self {
        let (tree, overflows) = (Arc::clone(&owner.shared), Arc::clone(&owner.overflows));
        Self { thread, tree, overflows, inbox: None, touches: None, names: None }
    }
}

/// Registered trees by their ids, which are never reused. In `trace` mode, ended and written trees are removed.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    by_id: BTreeMap<u32, Registered>,
    next: u32,
}

impl Trees {
    /// Id of the tree that is added next.
    pub(crate) fn next_id(&self) -> u32 {
        self.next
    }

    /// Add a tree, whose id must be [`Self::next_id`].
    pub(crate) fn add(&mut self, registered: Registered) {
        self.next += 1;
        self.by_id.insert(registered.tree.id, registered);
    }

    /// Set the thread that continues a tree of ended threads.
    pub(crate) fn continue_tree(&mut self, id: u32, tid: u32, name: &str) {
        if let Some(registered) = self.by_id.get_mut(&id) {
            let name = format!("{name}{REUSED_SUFFIX}");
            registered.thread = Thread { id, tid, torch_id: 0, name };
        }
    }
}

/// Data of ended threads, in `trace` mode.
#[derive(Debug, Default)]
struct EndedThreads {
    /// Trees that receive no more data.
    trees: Vec<u32>,
    /// Lost calls of removed trees.
    lost_calls: u64,
    lost_touches: u64,
    lost_names: u64,
    overflows: u64,
    /// Number of trees that were removed before they could be written.
    dropped: u64,
}

/// Data that a process keeps in addition to times by call path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExtraData {
    /// Individual calls.
    pub(crate) trace: bool,
    /// Allocations.
    pub(crate) memory: bool,
    /// Shapes of operators' inputs, by which operators are distinguished.
    pub(crate) shapes: bool,
    /// Python frames.
    pub(crate) python: bool,
    /// Native frames.
    pub(crate) native: bool,
}

/// The recorder's state of one process. A forked child creates a new one.
#[derive(Debug)]
pub(crate) struct Process {
    /// See [`Self::number`].
    number: usize,
    frames: Mutex<Frames>,
    trees: Mutex<Trees>,
    ended: Mutex<EndedThreads>,
    pub(crate) forward_threads: ForwardThreads,
    pub(crate) modules: Modules,
    pub(crate) live: LiveAllocations,
    pub(crate) tensors: Tensors,
    /// Frame for calls that don't fit into a tree.
    pub(crate) overflow: u32,
    /// Largest number of nodes of a tree.
    pub(crate) limit: u32,
    extra_data: ExtraData,
    /// Single samples that wait for the writer, in `trace` mode.
    samples: Mutex<Vec<TimedSample>>,
    /// Tree of the main thread's samples, and node and time (ticks) of the newest one.
    sampled: Mutex<Option<(u32, u32, u64)>>,
    /// Python's thread names by thread number.
    thread_names: Mutex<FxHashMap<u32, String>>,
    unread_inputs: AtomicU64,
    without_native_frames: AtomicU64,
}

/// Lock a mutex whose holders never panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// A process without threads, whose trees can grow to `limit` nodes each.
    pub(crate) fn new(limit: u32, extra_data: ExtraData) -> Self {
        /// Number of the recording that began last.
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let mut frames = Frames::default();
        let overflow = frames.frame(FrameKey::Overflow);
        Self {
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            frames: Mutex::new(frames),
            trees: Mutex::default(),
            ended: Mutex::default(),
            forward_threads: ForwardThreads::default(),
            modules: Modules::default(),
            live: LiveAllocations::default(),
            tensors: Tensors::default(),
            overflow,
            limit,
            extra_data,
            samples: Mutex::default(),
            sampled: Mutex::default(),
            thread_names: Mutex::default(),
            unread_inputs: AtomicU64::new(0),
            without_native_frames: AtomicU64::new(0),
        }
    }

    /// Id of a frame, made from texts that are interned with it. If the caller has no space for a new frame (`full`),
    /// neither the frame nor its texts are interned, and the overflow frame is returned.
    pub(crate) fn intern(&self, full: bool, key: impl FnOnce(&mut Frames) -> FrameKey) -> u32 {
        let mut frames = lock(&self.frames);
        if full || frames.len() >= MAX_FRAMES {
            return frames.known(key).unwrap_or(self.overflow);
        }
        let key = key(&mut frames);
        frames.frame(key)
    }

    /// Intern the frame of an operator, backward node or span with this name.
    #[cold]
    pub(crate) fn operator_frame(&self, full: bool, scope: Scope, name: &CStr) -> u32 {
        self.intern(full, |frames| {
            let name = frames.text(&name.to_string_lossy());
            match scope {
                Scope::Backward => FrameKey::Backward { name },
                Scope::User => FrameKey::Span { name },
                Scope::Function | Scope::Unknown => FrameKey::Operator { name },
            }
        })
    }

    /// Intern the call-path frame of a Python line.
    #[cold]
    pub(crate) fn python_frame(&self, full: bool, line: &PythonLine) -> u32 {
        self.intern(full, |frames| FrameKey::Python {
            function: frames.text(&line.function),
            file: frames.text(&line.file),
            line: line.line,
            first_line: line.first_line,
        })
    }

    /// Frame of a call of an `nn.Module`, interned by the module's path and class.
    pub(crate) fn module_frame(
        &self,
        full: bool,
        (module, class): (usize, usize),
        name: impl FnOnce() -> String,
    ) -> u32 {
        let frame = self.modules.frame(module, class, |path| {
            let class = name();
            let key = |frames: &mut Frames| FrameKey::Module { path: frames.text(path), class: frames.text(&class) };
            // Another tree may have space for it.
            Some(self.intern(full, key)).filter(|&frame| frame != self.overflow)
        });
        frame.unwrap_or(self.overflow)
    }

    /// Frame of a span: its own, or the one that names of its template share (`None`: its name has no number). A full
    /// tree gets no new frame.
    pub(crate) fn span_frame(&self, full: bool, name: &CStr, template: Option<&[u8]>) -> (u32, SpanFrame) {
        let name = name.to_string_lossy();
        let mut frames = lock(&self.frames);
        if full || frames.len() >= MAX_FRAMES {
            return frames.known_span(&name, template).unwrap_or((self.overflow, SpanFrame::Own));
        }
        frames.span(&name, template)
    }

    /// Store a span name as an example of the names that share `frame`.
    pub(crate) fn keep_example(&self, frame: u32, name: &str) {
        lock(&self.frames).keep_example(frame, name);
    }

    /// Lock and return the interner of the process's texts and frames.
    pub(crate) fn frames(&self) -> MutexGuard<'_, Frames> {
        lock(&self.frames)
    }

    /// All registered call trees, those of ended threads included until they are removed, in the order of their ids.
    pub(crate) fn trees(&self) -> Vec<Registered> {
        lock(&self.trees).by_id.values().cloned().collect()
    }

    /// Lock the registered call trees, to add one or to assign one to another thread.
    pub(crate) fn lock_trees(&self) -> MutexGuard<'_, Trees> {
        lock(&self.trees)
    }

    /// Register a call tree for a thread that another thread fills, such as the tree of its samples.
    pub(crate) fn add_tree(&self, tid: u32, name: String) -> TreeOwner {
        let mut trees = lock(&self.trees);
        let owner = TreeOwner::new(trees.next, self.limit);
        let thread = Thread { id: owner.shared.id, tid, torch_id: 0, name };
        trees.add(Registered::new(thread, &owner));
        owner
    }

    /// Set the thread and the name of a tree that [`Self::add_tree`] added.
    pub(crate) fn rename(&self, tree: u32, tid: u32, name: &str) {
        if let Some(registered) = lock(&self.trees).by_id.get_mut(&tree) {
            registered.thread = Thread { id: tree, tid, torch_id: 0, name: name.into() };
        }
    }

    /// Store the Python name of a thread, and set it in the trees of that thread.
    pub(crate) fn name_thread(&self, tid: u32, name: &str) {
        {
            let mut names = lock(&self.thread_names);
            if names.len() >= MAX_THREAD_NAMES && !names.contains_key(&tid) {
                // Most of these threads have ended.
                names.clear();
            }
            names.insert(tid, name.to_owned());
        }
        for registered in lock(&self.trees).by_id.values_mut().filter(|registered| registered.thread.tid == tid) {
            let suffix = if registered.thread.name.ends_with(REUSED_SUFFIX) { REUSED_SUFFIX } else { "" };
            registered.thread.name = format!("{name}{suffix}");
        }
    }

    /// Python's name of a thread, if any.
    pub(crate) fn python_name(&self, tid: u32) -> Option<String> {
        let known = lock(&self.thread_names).get(&tid).cloned();
        known.or_else(|| (tid == std::process::id()).then(|| MAIN_THREAD.to_owned()))
    }

    /// Number that distinguishes this recording, and the states of its threads, from others in the process: from 1,
    /// never reused.
    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Mark a tree as ended, in `trace` mode; `true` if so many wait for the writer that it should be woken.
    pub(crate) fn end_tree(&self, tree: u32) -> bool {
        let mut ended = lock(&self.ended);
        ended.trees.push(tree);
        ended.trees.len() >= WRITER_WAKE_ENDED
    }

    /// Take the ids of trees that have ended since the last call. After the next samples were taken and everything was
    /// written, [`Self::remove_trees`] can remove them.
    pub(crate) fn take_ended_trees(&self) -> Vec<u32> {
        std::mem::take(&mut lock(&self.ended).trees)
    }

    /// Remove ended and written trees, but keep their counts of lost data.
    pub(crate) fn remove_trees(&self, leaving: &[u32]) {
        let (mut trees, mut ended) = (lock(&self.trees), lock(&self.ended));
        for &tree in leaving {
            let Some(registered) = trees.by_id.remove(&tree) else { continue };
            ended.overflows += registered.overflows.load(Ordering::Relaxed);
            // The remaining events are never taken.
            ended.lost_calls += registered.inbox.map_or(0, |inbox| inbox.lost() + inbox.take().len() as u64);
            ended.lost_names += registered.names.map_or(0, |inbox| inbox.lost());
            ended.lost_touches += registered.touches.map_or(0, |inbox| inbox.lost() + inbox.take().len() as u64);
        }
    }

    /// Put back ended trees that could not be written, for a later try. Returns the trees beyond the limit, which are
    /// removed and counted as dropped.
    pub(crate) fn keep_ended_trees(&self, mut leaving: Vec<u32>) -> Vec<u32> {
        let dropped = leaving.split_off(leaving.len().min(MAX_ENDED));
        self.remove_trees(&dropped);
        let mut ended = lock(&self.ended);
        ended.dropped += dropped.len() as u64;
        leaving.append(&mut ended.trees);
        ended.trees = leaving;
        dropped
    }

    /// Number of trees that were removed before they could be written.
    pub(crate) fn dropped_trees(&self) -> u64 {
        lock(&self.ended).dropped
    }

    /// Register a thread by torch's id, with which backward nodes refer to it.
    pub(crate) fn register_forward_thread(&self, torch_id: u64, tree: &Arc<SharedTree>) {
        self.forward_threads.register(torch_id, tree);
        if let Some(registered) = lock(&self.trees).by_id.get_mut(&tree.id) {
            registered.thread.torch_id = torch_id;
        }
    }

    /// True if individual calls are recorded (`trace` mode).
    pub(crate) fn records_calls(&self) -> bool {
        self.extra_data.trace
    }

    /// Python interpreter, if Python frames are recorded. An earlier recording of this process may have recorded them
    /// when this one does not.
    #[inline]
    pub(crate) fn interpreter(&self) -> Option<&'static Interpreter> {
        dlmonitor::interpreter().filter(|_| self.extra_data.python)
    }

    /// Kinds of data that are recorded in addition to times by call path: calls, memory, shapes, frames.
    pub(crate) fn extra_data(&self) -> ExtraData {
        self.extra_data
    }

    /// True if single events of tensor memory are recorded.
    pub(crate) fn records_memory_events(&self) -> bool {
        self.extra_data.trace && self.extra_data.memory
    }

    /// Store a single sample for the writer, in `trace` mode.
    pub(crate) fn post_sample(&self, sample: TimedSample) {
        if self.extra_data.trace {
            lock(&self.samples).push(sample);
        }
    }

    /// Take all samples that were stored for the stream writer.
    pub(crate) fn take_samples(&self) -> Vec<TimedSample> {
        std::mem::take(&mut lock(&self.samples))
    }

    /// Store tree, node and time (ticks) of the main thread's newest sample.
    pub(crate) fn set_newest_main_sample(&self, sampled: Option<(u32, NodeId, u64)>) {
        *lock(&self.sampled) = sampled.map(|(tree, node, at)| (tree, node.0, at));
    }

    /// Tree of the main thread's samples, and node and time (ticks) of the newest one.
    pub(crate) fn newest_main_sample(&self) -> Option<(u32, u32, u64)> {
        *lock(&self.sampled)
    }

    /// Number of single calls (`trace` mode) that were lost on their way to the writer, in all threads.
    pub(crate) fn lost_calls(&self) -> u64 {
        let alive: u64 =
            lock(&self.trees).by_id.values().filter_map(|known| known.inbox.as_ref()).map(EventReceiver::lost).sum();
        alive + lock(&self.ended).lost_calls
    }

    /// Number of events of tensor memory that were lost on their way to the writer.
    pub(crate) fn lost_touches(&self) -> u64 {
        let alive: u64 =
            lock(&self.trees).by_id.values().filter_map(|known| known.touches.as_ref()).map(EventReceiver::lost).sum();
        alive + lock(&self.ended).lost_touches
    }

    /// Number of exact names of calls that were lost on their way to the writer.
    pub(crate) fn lost_names(&self) -> u64 {
        let alive: u64 =
            lock(&self.trees).by_id.values().filter_map(|known| known.names.as_ref()).map(EventReceiver::lost).sum();
        alive + lock(&self.ended).lost_names
    }

    /// Count tensors among the inputs of operators that exceeded the limit and were not read.
    #[cold]
    pub(crate) fn count_unread_inputs(&self, count: u64) {
        self.unread_inputs.fetch_add(count, Ordering::Relaxed);
    }

    /// Number of tensors among the inputs of operators that exceeded the limit and were not read.
    pub(crate) fn unread_inputs(&self) -> u64 {
        self.unread_inputs.load(Ordering::Relaxed)
    }

    /// Count an operator that began with too little stack space left to read native frames.
    #[cold]
    pub(crate) fn count_without_native_frames(&self) {
        self.without_native_frames.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of operators without native frames, because too little stack space was left to read them.
    pub(crate) fn without_native_frames(&self) -> u64 {
        self.without_native_frames.load(Ordering::Relaxed)
    }

    /// Number of calls that did not fit into a full tree, in all threads.
    pub(crate) fn overflows(&self) -> u64 {
        let count = |registered: &Registered| registered.overflows.load(Ordering::Relaxed);
        let alive: u64 = lock(&self.trees).by_id.values().map(count).sum();
        alive + lock(&self.ended).overflows
    }
}
