//! State of the recorder that all threads of a process share.

use crate::event_queue::{Call, CallName, EventReceiver, MemoryAccess, TimedSample, channel};
use crate::folding::SpanFrame;
use crate::forward_links::ForwardThreads;
use crate::frames::Frames;
use crate::memory::LiveAllocations;
use crate::modules::Modules;
use crate::state::{Outboxes, State};
use crate::tensors::Tensors;
use crate::tree::{NodeId, SharedTree, TreeOwner};
use dlmonitor::Interpreter;
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

/// Number of ended threads that keep their trees. Beyond it, new threads continue the trees of ended ones, so that
/// memory is bounded by the number of concurrent threads.
const MAX_UNWRITTEN_TREES: usize = 64;

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
    fn new(thread: Thread, owner: &TreeOwner) -> Self {
        let (tree, overflows) = (Arc::clone(&owner.shared), Arc::clone(&owner.overflows));
        Self { thread, tree, overflows, inbox: None, touches: None, names: None }
    }
}

/// Registered trees by their ids, which are never reused. In `trace` mode, ended and written trees are removed.
#[derive(Debug, Default)]
struct Trees {
    by_id: BTreeMap<u32, Registered>,
    next: u32,
}

impl Trees {
    /// Add a tree, whose id must be `next`.
    fn add(&mut self, registered: Registered) {
        self.next += 1;
        self.by_id.insert(registered.tree.id, registered);
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
    /// Trees of ended threads, for reuse by new threads.
    #[expect(clippy::vec_box, reason = "threads receive the boxes as pointers")]
    free: Mutex<Vec<Box<State>>>,
    ended: Mutex<EndedThreads>,
    pub(crate) forward_threads: ForwardThreads,
    pub(crate) modules: Modules,
    pub(crate) live: LiveAllocations,
    pub(crate) tensors: Tensors,
    /// Frame for calls that don't fit into a tree.
    pub(crate) overflow: u32,
    /// Largest number of nodes of a tree.
    limit: u32,
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
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
            free: Mutex::default(),
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

    /// State for the calling thread: a new one with a registered tree or, after many threads have ended, a reused one.
    pub(crate) fn enter_thread(&self) -> Box<State> {
        let tid = current_tid();
        let name = self.python_name(tid).unwrap_or_else(current_name);
        let mut trees = lock(&self.trees);
        let mut free = lock(&self.free);
        // The main thread is never merged with others, because users search for it.
        if free.len() >= MAX_UNWRITTEN_TREES
            && tid != std::process::id()
            && let Some(mut state) = free.pop()
        {
            drop(free);
            if let Some(registered) = trees.by_id.get_mut(&state.tree.shared.id) {
                let name = format!("{name}{REUSED_SUFFIX}");
                registered.thread = Thread { id: state.tree.shared.id, tid, torch_id: 0, name };
            }
            drop(trees);
            state.forget_forward(&self.forward_threads);
            state.enter(tid);
            return state;
        }
        drop(free);
        let id = trees.next;
        let (outbox, inbox) = self.extra_data.trace.then(channel).unzip();
        let (touch, touches) = self.records_memory_events().then(channel).unzip();
        let (call_name, names) = self.extra_data.trace.then(channel).unzip();
        let owner = TreeOwner::new(id, self.limit);
        let outboxes = Outboxes { calls: outbox, touches: touch, names: call_name };
        let state = Box::new(State::new(self.number, owner, outboxes, self.extra_data));
        let registered = Registered::new(Thread { id, tid, torch_id: 0, name }, &state.tree);
        trees.add(Registered { inbox, touches, names, ..registered });
        state.published.enter(tid);
        state
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

    /// End or reuse the tree of a thread that ends; `true` if the writer should be woken.
    pub(crate) fn leave_thread(&self, mut state: Box<State>) -> bool {
        if state.process != self.number {
            // The state belongs to an ended recording.
            return false;
        }
        // The tree of a single call identifies its thread.
        if self.extra_data.trace {
            self.forward_threads.forget(&state.tree.shared);
            return self.end_tree(state.tree.shared.id);
        }
        state.leave();
        lock(&self.free).push(state);
        false
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

/// System id of the calling thread.
fn current_tid() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// System name of the calling thread.
fn current_name() -> String {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes, the last of them null.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{ExtraData, Process};

    #[test]
    fn written_ended_threads_leave_no_data() {
        let process = Process::new(100, ExtraData { trace: true, ..ExtraData::default() });
        for id in 0..3 {
            let state = process.enter_thread();
            assert_eq!(state.tree.shared.id, id, "numbers are never used again");
            process.leave_thread(state);
            assert_eq!(process.trees().len(), 1);
            process.remove_trees(&process.take_ended_trees());
            assert!(process.trees().is_empty());
        }
        assert_eq!(process.add_tree(7, "samples".into()).shared.id, 3);
    }
}
