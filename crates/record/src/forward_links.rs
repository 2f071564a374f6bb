//! Links of backward nodes to forward operators of other threads.
//!
//! A thread that runs backward nodes remembers which tree has the forward operators of another thread. When that
//! thread has ended, a new thread may continue its tree. Therefore each tree has torch's id of its thread, which is
//! compared at each use. Torch never reuses an id.

use crate::tree::{Key, NodeId, ROOT, SharedTree, TreeOwner};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Largest number of forgotten threads that are known one by one.
const MAX_FORGOTTEN: usize = 1 << 12;

/// Largest number of other threads that a thread remembers.
const MAX_REMEMBERED: usize = 1 << 12;

/// Threads whose forward operators backward nodes may refer to, and the number of lost links.
#[derive(Debug, Default)]
pub(crate) struct ForwardThreads {
    threads: Mutex<Threads>,
    /// Number of changes of `threads`: until the next one, a thread without forward operators stays one.
    changes: AtomicU64,
    lost_links: AtomicU64,
}

/// Threads by torch's id.
#[derive(Debug, Default)]
struct Threads {
    /// Trees of threads whose forward operators are known, those of ended threads included.
    trees: FxHashMap<u64, Arc<SharedTree>>,
    /// Ended threads whose forward operators were forgotten.
    forgotten: BTreeSet<u64>,
    /// Threads up to this id count as forgotten unless they have a tree: torch's ids grow.
    forgotten_to: u64,
}

impl ForwardThreads {
    /// Lock and return the threads.
    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Add the tree of a thread, by which its forward operators are found from now on.
    pub(crate) fn register(&self, thread: u64, tree: &Arc<SharedTree>) {
        let mut threads = self.threads();
        tree.set_forward_thread(thread);
        threads.trees.insert(thread, Arc::clone(tree));
        threads.forgotten.remove(&thread);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Forget the forward operators of a tree, whose thread has ended.
    pub(crate) fn forget(&self, tree: &SharedTree) {
        let mut threads = self.threads();
        let thread = tree.set_forward_thread(0);
        // A thread that runs operators while it ends has a second tree.
        if threads.trees.get(&thread).is_none_or(|known| known.id != tree.id) {
            return;
        }
        threads.trees.remove(&thread);
        threads.forgotten.insert(thread);
        if threads.forgotten.len() > MAX_FORGOTTEN
            && let Some(oldest) = threads.forgotten.pop_first()
        {
            threads.forgotten_to = threads.forgotten_to.max(oldest);
        }
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Look up a thread by torch's id.
    fn find(&self, thread: u64) -> OtherThread {
        let threads = self.threads();
        match threads.trees.get(&thread) {
            Some(tree) => OtherThread::Known(Arc::clone(tree)),
            None => OtherThread::Unknown {
                forgotten: thread <= threads.forgotten_to || threads.forgotten.contains(&thread),
                changes: self.changes.load(Ordering::Acquire),
            },
        }
    }

    /// Count a backward node without forward operator, if that one was recorded but is no longer known (`is_lost`).
    #[cold]
    pub(crate) fn count_missing(&self, is_lost: bool) {
        self.lost_links.fetch_add(u64::from(is_lost), Ordering::Relaxed);
    }

    /// Number of backward nodes whose forward operator is no longer known: later ones overwrote it, or its thread
    /// ended.
    pub(crate) fn lost_links(&self) -> u64 {
        self.lost_links.load(Ordering::Relaxed)
    }
}

/// Tree with the forward operators of another thread, as a thread remembers it.
#[derive(Debug)]
enum OtherThread {
    /// This tree has them, unless its thread has changed since.
    Known(Arc<SharedTree>),
    /// No tree has them. That is true until `changes` grows; `forgotten` if a tree had them before.
    Unknown { forgotten: bool, changes: u64 },
}

impl OtherThread {
    /// True if this is still right for the thread with this torch id.
    #[inline]
    fn is_current(&self, thread: u64, threads: &ForwardThreads) -> bool {
        match self {
            Self::Known(tree) => tree.has_forward_of(thread),
            Self::Unknown { changes, .. } => threads.changes.load(Ordering::Acquire) == *changes,
        }
    }
}

/// Forward operators of other threads, as one thread knows them, and their copies in its tree.
#[derive(Debug, Default)]
pub(crate) struct ForwardLinks {
    /// Other threads by torch's id.
    threads: FxHashMap<u64, OtherThread>,
    /// Nodes of other trees that were copied into the thread's tree.
    copied: FxHashMap<(u32, NodeId), NodeId>,
}

impl ForwardLinks {
    /// Drop all references to other trees.
    pub(crate) fn forget_threads(&mut self) {
        self.threads.clear();
    }

    /// Node in `tree` of a forward operator, by torch's id of its thread and its sequence number; copied the first
    /// time. `None` if unknown; it is counted if it was known before.
    pub(crate) fn node(
        &mut self,
        threads: &ForwardThreads,
        (thread, sequence): (u64, u64),
        tree: &mut TreeOwner,
        overflow: u32,
    ) -> Option<NodeId> {
        let known = match self.threads.get(&thread).filter(|known| known.is_current(thread, threads)) {
            Some(known) => known,
            None => {
                self.remember(threads, thread);
                self.threads.get(&thread)?
            }
        };
        let shared = match known {
            OtherThread::Known(shared) => shared,
            OtherThread::Unknown { forgotten, .. } => {
                threads.count_missing(*forgotten);
                return None;
            }
        };
        let Some(node) = shared.forward(thread, sequence) else {
            threads.count_missing(shared.is_overwritten(sequence) || !shared.has_forward_of(thread));
            return None;
        };
        if let Some(&copy) = self.copied.get(&(shared.id, node)) {
            return Some(copy);
        }
        let id = shared.id;
        let path = shared.path(node);
        let copy = path.into_iter().fold(ROOT, |node, frame| tree.child(node, Key::frame(frame), overflow, |_| frame));
        self.copied.insert((id, node), copy);
        Some(copy)
    }

    /// Look up a thread by torch's id and remember the result. Results that are no longer right are dropped.
    #[cold]
    fn remember(&mut self, threads: &ForwardThreads, thread: u64) {
        self.threads.retain(|&thread, known| known.is_current(thread, threads));
        if self.threads.len() >= MAX_REMEMBERED {
            self.threads.clear();
        }
        self.threads.insert(thread, threads.find(thread));
        let trees = self.threads.values().filter_map(|known| match known {
            OtherThread::Known(tree) => Some(tree.id),
            OtherThread::Unknown { .. } => None,
        });
        let trees: FxHashSet<u32> = trees.collect();
        self.copied.retain(|(tree, _), _| trees.contains(tree));
    }
}

#[cfg(test)]
mod tests {
    use super::{ForwardLinks, ForwardThreads, MAX_FORGOTTEN};
    use crate::tree::{Key, NodeId, ROOT, TreeOwner};

    /// Add an operator with this frame to a tree, as the one with the sequence number 5.
    fn run(tree: &mut TreeOwner, frame: u32) {
        let node = tree.child(ROOT, Key::frame(frame), 0, |_| frame);
        tree.remember_forward(5, node);
    }

    #[test]
    fn links_never_lead_to_the_next_thread_of_a_tree() {
        let (threads, mut links) = (ForwardThreads::default(), ForwardLinks::default());
        let (mut forward, mut backward) = (TreeOwner::new(0, 100), TreeOwner::new(1, 100));
        let mut frames = |thread, backward: &mut TreeOwner| {
            let node: Option<NodeId> = links.node(&threads, (thread, 5), backward, 0);
            node.map(|node| backward.shared.path(node))
        };
        threads.register(21, &forward.shared);
        run(&mut forward, 7);
        assert_eq!(frames(21, &mut backward), Some(vec![7]));
        // The thread has ended, and thread 22 continues the tree.
        threads.forget(&forward.shared);
        forward.forget_forward();
        assert_eq!((frames(21, &mut backward), threads.lost_links()), (None, 1));
        threads.register(22, &forward.shared);
        run(&mut forward, 8);
        assert_eq!((frames(21, &mut backward), threads.lost_links()), (None, 2));
        assert_eq!(frames(22, &mut backward), Some(vec![8]));
        assert_eq!((frames(23, &mut backward), threads.lost_links()), (None, 2), "it ran no operator that is recorded");
        // The thread runs an operator later.
        let mut later = TreeOwner::new(2, 100);
        threads.register(23, &later.shared);
        run(&mut later, 9);
        assert_eq!(frames(23, &mut backward), Some(vec![9]));
    }

    #[test]
    fn missing_threads_are_looked_up_once() {
        let (threads, mut links) = (ForwardThreads::default(), ForwardLinks::default());
        let (forward, mut backward) = (TreeOwner::new(0, 100), TreeOwner::new(1, 100));
        threads.register(21, &forward.shared);
        threads.forget(&forward.shared);
        assert_eq!(links.node(&threads, (21, 5), &mut backward, 0), None);
        // With the lock held, a second look-up would wait for ever.
        let _held = threads.threads();
        assert_eq!(links.node(&threads, (21, 5), &mut backward, 0), None);
        assert_eq!(threads.lost_links(), 2);
    }

    #[test]
    fn forgotten_threads_take_bounded_memory() {
        let (threads, mut links) = (ForwardThreads::default(), ForwardLinks::default());
        let (forward, mut backward) = (TreeOwner::new(0, 100), TreeOwner::new(1, 100));
        let ids = 1..2 * MAX_FORGOTTEN as u64;
        for thread in ids.clone() {
            threads.register(thread, &forward.shared);
            threads.forget(&forward.shared);
        }
        assert_eq!(threads.threads().forgotten.len(), MAX_FORGOTTEN);
        for thread in ids.clone() {
            assert_eq!(links.node(&threads, (thread, 5), &mut backward, 0), None);
        }
        assert_eq!(threads.lost_links(), ids.count() as u64);
    }

    #[test]
    fn a_second_tree_of_a_thread_outlives_the_first() {
        let (threads, mut links) = (ForwardThreads::default(), ForwardLinks::default());
        let (first, mut second, mut backward) =
            (TreeOwner::new(0, 100), TreeOwner::new(1, 100), TreeOwner::new(2, 100));
        threads.register(21, &first.shared);
        threads.register(21, &second.shared);
        run(&mut second, 7);
        threads.forget(&first.shared);
        assert!(links.node(&threads, (21, 5), &mut backward, 0).is_some());
        assert_eq!(threads.lost_links(), 0);
    }
}
