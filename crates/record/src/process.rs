//! What all threads of a process share.

use crate::event_queue::{Call, CallName, EventReceiver, MemoryAccess, TimedSample, mailbox};
use crate::folding::Verdict;
use crate::frames::Frames;
use crate::memory::Live;
use crate::modules::Modules;
use crate::state::{Outboxes, State};
use crate::tensors::Tensors;
use crate::tree::{NodeId, Owner, Shared};
use dlmonitor::Interpreter;
use rustc_hash::FxHashMap;
use stackline_recording::{FrameKey, Thread};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames that are told apart at most: beyond, they all are one.
const MAX_FRAMES: usize = 1 << 20;

/// Threads that ended and wait for the writer before it is woken, in `trace` mode.
const MANY_ENDED: usize = 64;

/// Threads that ended and wait for the writer at most, while the disk is full.
const MOST_ENDED: usize = 1024;

/// So many threads that ended keep their trees. Beyond, the next threads go on with them: memory is bounded by how many run at
/// once, not by how many there were.
const KEPT_TREES: usize = 64;

/// Threads whose names are kept at most.
const MAX_THREAD_NAMES: usize = 1 << 12;

/// Python's name of the first thread; a program that never imports `threading` does not tell it.
const MAIN_THREAD: &str = "MainThread";

/// Suffix of the name of a tree that was other threads' before.
const AND_BEFORE: &str = " and threads before it";

/// A tree and the thread that fills it.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(crate) thread: Thread,
    pub(crate) tree: Arc<Shared>,
    pub(crate) overflows: Arc<AtomicU64>,
    /// Where its calls arrive, in `trace` mode.
    pub(crate) inbox: Option<EventReceiver<Call>>,
    /// Where arrives what happens to tensors' memory, in `trace` mode with memory.
    pub(crate) touches: Option<EventReceiver<MemoryAccess>>,
    /// Where exact names of its calls arrive, in `trace` mode.
    pub(crate) names: Option<EventReceiver<CallName>>,
}

impl Registered {
    /// A tree to which nothing is posted.
    fn new(thread: Thread, owner: &Owner) -> Self {
        let (tree, overflows) = (Arc::clone(&owner.shared), Arc::clone(&owner.overflows));
        Self { thread, tree, overflows, inbox: None, touches: None, names: None }
    }
}

/// Trees by their numbers, which are never used again. Those that ended and were written, in `trace` mode, are gone.
#[derive(Debug, Default)]
struct Trees {
    by_id: BTreeMap<u32, Registered>,
    next: u32,
}

impl Trees {
    fn add(&mut self, registered: Registered) {
        self.next += 1;
        self.by_id.insert(registered.tree.id, registered);
    }
}

/// What threads left that ended, in `trace` mode.
#[derive(Debug, Default)]
struct Ended {
    /// Trees to which nothing new comes.
    trees: Vec<u32>,
    /// What those that are gone had lost.
    lost_calls: u64,
    lost_touches: u64,
    lost_names: u64,
    overflows: u64,
    /// Trees that went before they could be written.
    dropped: u64,
}

/// What a process keeps besides times by call path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    /// Single calls.
    pub(crate) trace: bool,
    /// Allocations.
    pub(crate) memory: bool,
    /// Shapes of operators' inputs, which tell operators apart.
    pub(crate) shapes: bool,
    /// Python frames.
    pub(crate) python: bool,
    /// Native frames.
    pub(crate) native: bool,
}

/// The recorder's state of one process. A forked child makes its own.
#[derive(Debug)]
pub(crate) struct Process {
    /// See [`Self::number`].
    number: usize,
    frames: Mutex<Frames>,
    trees: Mutex<Trees>,
    /// Trees whose threads ended, for the next threads.
    #[expect(clippy::vec_box, reason = "the boxes go to threads as pointers")]
    free: Mutex<Vec<Box<State>>>,
    ended: Mutex<Ended>,
    by_torch_id: Mutex<FxHashMap<u64, Arc<Shared>>>,
    pub(crate) modules: Modules,
    pub(crate) live: Live,
    pub(crate) tensors: Tensors,
    /// The frame of what finds no place.
    pub(crate) overflow: u32,
    /// Nodes that a tree may have.
    limit: u32,
    kept: Kept,
    /// Single samples that wait for the writer, in `trace` mode.
    samples: Mutex<Vec<TimedSample>>,
    /// The tree of the main thread's samples, and where its newest one is.
    sampled: Mutex<Option<(u32, u32)>>,
    /// Names that Python gave threads, by their numbers.
    thread_names: Mutex<FxHashMap<u32, String>>,
    inputs_left_out: AtomicU64,
    native_left_out: AtomicU64,
    /// Backward nodes whose forward operator was overwritten by later ones.
    forward_links_lost: AtomicU64,
}

/// A lock whose holders never panic half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// A process without threads, whose trees may grow to `limit` nodes each.
    pub(crate) fn new(limit: u32, kept: Kept) -> Self {
        /// That of the recording that began last.
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let mut frames = Frames::default();
        let overflow = frames.frame(FrameKey::Overflow);
        Self {
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            frames: Mutex::new(frames),
            trees: Mutex::default(),
            free: Mutex::default(),
            ended: Mutex::default(),
            by_torch_id: Mutex::default(),
            modules: Modules::default(),
            live: Live::default(),
            tensors: Tensors::default(),
            overflow,
            limit,
            kept,
            samples: Mutex::default(),
            sampled: Mutex::default(),
            thread_names: Mutex::default(),
            inputs_left_out: AtomicU64::new(0),
            native_left_out: AtomicU64::new(0),
            forward_links_lost: AtomicU64::new(0),
        }
    }

    /// The id of a frame, made from texts that are interned with it. If whoever asks has no place for a new frame, it is
    /// not interned, and neither are its texts: it counts as overflow.
    pub(crate) fn intern(&self, full: bool, key: impl FnOnce(&mut Frames) -> FrameKey) -> u32 {
        let mut frames = lock(&self.frames);
        if full || frames.len() >= MAX_FRAMES {
            return frames.known(key).unwrap_or(self.overflow);
        }
        let key = key(&mut frames);
        frames.frame(key)
    }

    /// The frame of a span, of its own or shared with others of its template (none: its name has no number). A tree that
    /// is full gets no new one.
    pub(crate) fn span_frame(&self, full: bool, name: &CStr, template: Option<&[u8]>) -> (u32, Verdict) {
        let name = name.to_string_lossy();
        let mut frames = lock(&self.frames);
        if full || frames.len() >= MAX_FRAMES {
            return frames.known_span(&name, template).unwrap_or((self.overflow, Verdict::Own));
        }
        frames.span(&name, template)
    }

    /// Keeps an example of the names that share a frame.
    pub(crate) fn keep_example(&self, frame: u32, name: &str) {
        lock(&self.frames).keep_example(frame, name);
    }

    /// All texts and frames, locked.
    pub(crate) fn frames(&self) -> MutexGuard<'_, Frames> {
        lock(&self.frames)
    }

    /// All trees up to now, by their numbers.
    pub(crate) fn trees(&self) -> Vec<Registered> {
        lock(&self.trees).by_id.values().cloned().collect()
    }

    /// A state for the calling thread: a new one, or, once many threads ended, that of one of them.
    pub(crate) fn enter_thread(&self) -> Box<State> {
        let tid = current_tid();
        let name = self.python_name(tid).unwrap_or_else(current_name);
        let mut trees = lock(&self.trees);
        let mut free = lock(&self.free);
        // The first thread is one that people look for.
        if free.len() >= KEPT_TREES
            && tid != std::process::id()
            && let Some(mut state) = free.pop()
        {
            drop(free);
            if let Some(registered) = trees.by_id.get_mut(&state.tree.shared.id) {
                let name = format!("{name}{AND_BEFORE}");
                registered.thread = Thread { id: state.tree.shared.id, tid, torch_id: 0, name };
            }
            state.enter(tid);
            return state;
        }
        drop(free);
        let id = trees.next;
        let (outbox, inbox) = self.kept.trace.then(mailbox).unzip();
        let (touch, touches) = self.touches().then(mailbox).unzip();
        let (call_name, names) = self.kept.trace.then(mailbox).unzip();
        let owner = Owner::new(id, self.limit);
        let outboxes = Outboxes { calls: outbox, touches: touch, names: call_name };
        let state = Box::new(State::new(self.number, owner, outboxes, self.kept));
        let registered = Registered::new(Thread { id, tid, torch_id: 0, name }, &state.tree);
        trees.add(Registered { inbox, touches, names, ..registered });
        state.published.enter(tid);
        state
    }

    /// A tree that no thread writes itself, for what is known of one.
    pub(crate) fn add_tree(&self, tid: u32, name: String) -> Owner {
        let mut trees = lock(&self.trees);
        let owner = Owner::new(trees.next, self.limit);
        let thread = Thread { id: owner.shared.id, tid, torch_id: 0, name };
        trees.add(Registered::new(thread, &owner));
        owner
    }

    /// Says which thread a tree of [`Self::add_tree`] is about now.
    pub(crate) fn rename(&self, tree: u32, tid: u32, name: &str) {
        if let Some(registered) = lock(&self.trees).by_id.get_mut(&tree) {
            registered.thread = Thread { id: tree, tid, torch_id: 0, name: name.into() };
        }
    }

    /// Keeps the name that Python gave a thread, and gives it to the trees of that thread.
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
            let suffix = if registered.thread.name.ends_with(AND_BEFORE) { AND_BEFORE } else { "" };
            registered.thread.name = format!("{name}{suffix}");
        }
    }

    /// The name that Python gave a thread, if it did.
    pub(crate) fn python_name(&self, tid: u32) -> Option<String> {
        let known = lock(&self.thread_names).get(&tid).cloned();
        known.or_else(|| (tid == std::process::id()).then(|| MAIN_THREAD.to_owned()))
    }

    /// What tells this recording, and the states of its threads, from others of the process: from 1, and not used again.
    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Takes the state of a thread that ends; `true` if the writer should come.
    pub(crate) fn leave_thread(&self, mut state: Box<State>) -> bool {
        if state.process != self.number {
            // Of a recording that ended.
            return false;
        }
        lock(&self.by_torch_id).remove(&state.torch_id);
        // Single calls say which thread they are of by their tree.
        if self.kept.trace {
            return self.end_tree(state.tree.shared.id);
        }
        state.hand_over();
        lock(&self.free).push(state);
        false
    }

    /// Nothing new comes to a tree, in `trace` mode; `true` if so many wait for the writer that it should come.
    pub(crate) fn end_tree(&self, tree: u32) -> bool {
        let mut ended = lock(&self.ended);
        ended.trees.push(tree);
        ended.trees.len() >= MANY_ENDED
    }

    /// Trees that ended since this was asked last. After the next samples were taken out and everything was written, they
    /// may go: [`Self::release`].
    pub(crate) fn leaving(&self) -> Vec<u32> {
        std::mem::take(&mut lock(&self.ended).trees)
    }

    /// Forgets trees that ended and were written, but for what they had lost.
    pub(crate) fn release(&self, leaving: &[u32]) {
        let (mut trees, mut ended) = (lock(&self.trees), lock(&self.ended));
        for &tree in leaving {
            let Some(registered) = trees.by_id.remove(&tree) else { continue };
            ended.overflows += registered.overflows.load(Ordering::Relaxed);
            // What was not taken never will be.
            ended.lost_calls += registered.inbox.map_or(0, |inbox| inbox.lost() + inbox.take().len() as u64);
            ended.lost_names += registered.names.map_or(0, |inbox| inbox.lost());
            ended.lost_touches += registered.touches.map_or(0, |inbox| inbox.lost() + inbox.take().len() as u64);
        }
    }

    /// Keeps trees that ended for the next time, as they could not be written. Returns those that are too many: they are
    /// gone, and counted.
    pub(crate) fn keep(&self, mut leaving: Vec<u32>) -> Vec<u32> {
        let dropped = leaving.split_off(leaving.len().min(MOST_ENDED));
        self.release(&dropped);
        let mut ended = lock(&self.ended);
        ended.dropped += dropped.len() as u64;
        leaving.append(&mut ended.trees);
        ended.trees = leaving;
        dropped
    }

    /// Trees that went before they could be written.
    pub(crate) fn dropped_trees(&self) -> u64 {
        lock(&self.ended).dropped
    }

    /// Makes a thread known by torch's id, under which backward nodes ask for it.
    pub(crate) fn announce(&self, torch_id: u64, tree: &Arc<Shared>) {
        lock(&self.by_torch_id).insert(torch_id, Arc::clone(tree));
        if let Some(registered) = lock(&self.trees).by_id.get_mut(&tree.id) {
            registered.thread.torch_id = torch_id;
        }
    }

    /// The tree of the thread with this id of torch.
    pub(crate) fn thread_by_torch_id(&self, torch_id: u64) -> Option<Arc<Shared>> {
        lock(&self.by_torch_id).get(&torch_id).cloned()
    }

    /// Whether single calls are recorded, too.
    pub(crate) fn traces(&self) -> bool {
        self.kept.trace
    }

    /// The interpreter, if Python frames are recorded: an earlier recording of this process may have had them, and this one not.
    #[inline]
    pub(crate) fn interpreter(&self) -> Option<&'static Interpreter> {
        dlmonitor::interpreter().filter(|_| self.kept.python)
    }

    /// What is kept besides times by call path.
    pub(crate) fn kept(&self) -> Kept {
        self.kept
    }

    /// Whether what happens to tensors' memory is recorded one by one.
    pub(crate) fn touches(&self) -> bool {
        self.kept.trace && self.kept.memory
    }

    /// Keeps a single sample for the writer, in `trace` mode.
    pub(crate) fn post(&self, sample: TimedSample) {
        if self.kept.trace {
            lock(&self.samples).push(sample);
        }
    }

    /// Takes all samples that were posted.
    pub(crate) fn samples(&self) -> Vec<TimedSample> {
        std::mem::take(&mut lock(&self.samples))
    }

    /// Keeps where the newest sample of the main thread is.
    pub(crate) fn set_sampled(&self, sampled: Option<(u32, NodeId)>) {
        *lock(&self.sampled) = sampled.map(|(tree, node)| (tree, node.0));
    }

    /// The tree of the main thread's samples, and where its newest one is.
    pub(crate) fn sampled(&self) -> Option<(u32, u32)> {
        *lock(&self.sampled)
    }

    /// How many calls found no room on their way to the writer.
    pub(crate) fn lost_calls(&self) -> u64 {
        let alive: u64 =
            lock(&self.trees).by_id.values().filter_map(|known| known.inbox.as_ref()).map(EventReceiver::lost).sum();
        alive + lock(&self.ended).lost_calls
    }

    /// How much of what happened to tensors' memory found no room on its way to the writer.
    pub(crate) fn lost_touches(&self) -> u64 {
        let alive: u64 =
            lock(&self.trees).by_id.values().filter_map(|known| known.touches.as_ref()).map(EventReceiver::lost).sum();
        alive + lock(&self.ended).lost_touches
    }

    /// How many exact names of calls found no room on their way to the writer.
    pub(crate) fn lost_names(&self) -> u64 {
        let alive: u64 =
            lock(&self.trees).by_id.values().filter_map(|known| known.names.as_ref()).map(EventReceiver::lost).sum();
        alive + lock(&self.ended).lost_names
    }

    /// Counts a backward node without forward operator, if that is because too many others came after that.
    #[cold]
    pub(crate) fn miss_forward(&self, is_overwritten: bool) {
        self.forward_links_lost.fetch_add(u64::from(is_overwritten), Ordering::Relaxed);
    }

    /// Backward nodes whose forward operator was overwritten by later ones.
    pub(crate) fn lost_forward_links(&self) -> u64 {
        self.forward_links_lost.load(Ordering::Relaxed)
    }

    /// So many more tensors that operators were called with were too many to look at.
    #[cold]
    pub(crate) fn leave_out_inputs(&self, count: u64) {
        self.inputs_left_out.fetch_add(count, Ordering::Relaxed);
    }

    /// How many tensors that operators were called with were too many to look at.
    pub(crate) fn inputs_left_out(&self) -> u64 {
        self.inputs_left_out.load(Ordering::Relaxed)
    }

    /// An operator began where the thread had too little stack left to read native frames.
    #[cold]
    pub(crate) fn leave_out_native_frames(&self) {
        self.native_left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// How many operators have no native frames for that.
    pub(crate) fn native_left_out(&self) -> u64 {
        self.native_left_out.load(Ordering::Relaxed)
    }

    /// How often something found no place in a tree.
    pub(crate) fn overflows(&self) -> u64 {
        let count = |registered: &Registered| registered.overflows.load(Ordering::Relaxed);
        let alive: u64 = lock(&self.trees).by_id.values().map(count).sum();
        alive + lock(&self.ended).overflows
    }
}

fn current_tid() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// Name of the calling thread, as the system knows it.
fn current_name() -> String {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes, the last of them null.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Kept, Process};

    #[test]
    fn threads_that_ended_and_were_written_leave_nothing() {
        let process = Process::new(100, Kept { trace: true, ..Kept::default() });
        for id in 0..3 {
            let state = process.enter_thread();
            assert_eq!(state.tree.shared.id, id, "numbers are never used again");
            process.leave_thread(state);
            assert_eq!(process.trees().len(), 1);
            process.release(&process.leaving());
            assert!(process.trees().is_empty());
        }
        assert_eq!(process.add_tree(7, "samples".into()).shared.id, 3);
    }
}
