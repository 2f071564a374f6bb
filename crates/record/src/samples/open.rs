//! Open operators of each thread in memory that its signal handler can read; the recorder writes them with plain
//! stores.

use crate::client_words::SPAN;
use dlmonitor::OpenOperator;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

/// Largest nesting depth for samples. Samples of deeper operators count for the operator at this depth.
const MAX_DEPTH: usize = 48;

/// All entries, linked by `next`; they are never freed or removed. The list needs no lock, so it is consistent in a
/// forked child.
static FIRST: AtomicPtr<OpenOperators> = AtomicPtr::new(std::ptr::null_mut());

/// One open operator, in fields that a signal handler can read.
#[derive(Debug, Default)]
struct Entry {
    /// Node with the bit of spans, as in [`OpenOperator::client`].
    node: AtomicU64,
    python: AtomicUsize,
    code: AtomicUsize,
    handle: AtomicUsize,
}

/// An operator in progress at a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterruptedOperator {
    /// Tree and node of the operator.
    pub(crate) tree: u32,
    pub(crate) node: u32,
    /// True for a span. It is below the frame that opened it, in which it also runs.
    pub(crate) span: bool,
    /// Address and code of the Python frame that called it.
    pub(crate) python: Option<(usize, usize)>,
    /// Address on the C stack below which it runs, if its handle is one.
    pub(crate) handle: usize,
}

/// Copy of one thread's open operators for its signal handler, outermost first.
#[derive(Debug)]
pub(crate) struct OpenOperators {
    /// The thread, 0 for none.
    tid: AtomicU32,
    tree: AtomicU32,
    /// True if the next tree may take it.
    free: AtomicBool,
    depth: AtomicU32,
    entries: [Entry; MAX_DEPTH],
    next: AtomicPtr<OpenOperators>,
}

impl OpenOperators {
    /// Take a free entry, or create one, for the open operators of a thread that records into `tree`.
    pub(crate) fn register(tree: u32) -> &'static Self {
        if let Some(open) = all().find(|open| open.free.swap(false, Ordering::AcqRel)) {
            // Handles are addresses, which recur: those of the previous thread are cleared.
            open.entries.iter().for_each(|entry| entry.handle.store(0, Ordering::Relaxed));
            open.tree.store(tree, Ordering::Release);
            return open;
        }
        let entries = std::array::from_fn(|_| Entry::default());
        let open = Self {
            tid: AtomicU32::new(0),
            tree: AtomicU32::new(tree),
            free: AtomicBool::new(false),
            depth: AtomicU32::new(0),
            entries,
            next: AtomicPtr::default(),
        };
        let open: &'static mut Self = Box::leak(Box::new(open));
        let address = std::ptr::from_mut(open);
        let _ = FIRST.fetch_update(Ordering::AcqRel, Ordering::Acquire, |first| {
            open.next.store(first, Ordering::Relaxed);
            Some(address)
        });
        open
    }

    /// Set the thread that uses this entry (0 for none), and clear the open operators.
    pub(crate) fn enter(&self, tid: u32) {
        self.depth.store(0, Ordering::Relaxed);
        self.tid.store(tid, Ordering::Release);
    }

    /// Release this entry for reuse, because its tree has no thread and gets none.
    pub(crate) fn release_entry(&self) {
        self.enter(0);
        self.free.store(true, Ordering::Release);
    }

    /// Store an operator that begins inside `outer` others, with its node; operators deeper than 48 are left out.
    #[inline]
    pub(crate) fn push(&self, outer: usize, node: u32, opened: &OpenOperator) {
        if let Some(entry) = self.entries.get(outer) {
            let python = opened.python.unwrap_or_default();
            entry.node.store(opened.client[0] & SPAN | u64::from(node), Ordering::Relaxed);
            entry.python.store(python.address, Ordering::Relaxed);
            entry.code.store(python.code, Ordering::Relaxed);
            entry.handle.store(opened.handle, Ordering::Relaxed);
            // A signal handler of the same thread reads it, so only the compiler could reorder the stores.
            compiler_fence(Ordering::Release);
            self.depth.store(outer as u32 + 1, Ordering::Relaxed);
        }
    }

    /// Remove an operator that has ended; `open` are still running.
    #[inline]
    pub(crate) fn set_running(&self, open: &[OpenOperator]) {
        if open.len() < MAX_DEPTH {
            self.depth.store(open.len() as u32, Ordering::Relaxed);
            let published = open.len().checked_sub(1).and_then(|last| self.entries.get(last));
            if let (Some(entry), Some(last)) = (published, open.last())
                && entry.handle.load(Ordering::Relaxed) != last.handle
            {
                self.rewrite(open);
            }
        }
    }

    /// Write all entries of open operators anew, because one ended before its callees.
    #[cold]
    fn rewrite(&self, open: &[OpenOperator]) {
        self.depth.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::Release);
        for (outer, opened) in open.iter().enumerate() {
            self.push(outer, opened.client[0] as u32, opened);
        }
    }

    /// Innermost open operator of the thread, for its own signal handler; `None` if it runs none, or the entry is of
    /// another thread.
    pub(crate) fn innermost(&self, tid: u32) -> Option<InterruptedOperator> {
        if tid == 0 || self.tid.load(Ordering::Acquire) != tid {
            return None;
        }
        let depth = self.depth.load(Ordering::Relaxed);
        compiler_fence(Ordering::Acquire);
        let entry = self.entries.get((depth as usize).checked_sub(1)?)?;
        // Node 0: it began while nothing was recorded.
        let (node, python) = (entry.node.load(Ordering::Relaxed), entry.python.load(Ordering::Relaxed));
        if node as u32 == 0 {
            return None;
        }
        Some(InterruptedOperator {
            tree: self.tree.load(Ordering::Relaxed),
            node: node as u32,
            span: node & SPAN != 0,
            python: (python != 0).then(|| (python, entry.code.load(Ordering::Relaxed))),
            handle: entry.handle.load(Ordering::Relaxed),
        })
    }

    /// Trees of the threads that are running an operator, and the node of the innermost one. Other threads continue
    /// meanwhile, so the result is from a moment ago.
    pub(crate) fn all_running() -> Vec<(u32, u32)> {
        all().filter_map(|open| open.innermost(open.tid.load(Ordering::Acquire))).map(|at| (at.tree, at.node)).collect()
    }

    /// Entry of the thread with this system id; `None` if it has run no operators.
    pub(crate) fn of_thread(tid: u32) -> Option<&'static Self> {
        all().find(|open| open.tid.load(Ordering::Acquire) == tid)
    }

    /// Detach all entries from their threads at the begin of sampling: in a forked child, the parent's threads do not
    /// exist.
    pub(crate) fn forget_all() {
        for open in all() {
            open.enter(0);
        }
    }
}

/// Entries of all threads, free ones included.
fn all() -> impl Iterator<Item = &'static OpenOperators> {
    // SAFETY: pointers in the list are null or came from leaked boxes.
    let at = |pointer: &AtomicPtr<OpenOperators>| unsafe { pointer.load(Ordering::Acquire).as_ref() };
    std::iter::successors(at(&FIRST), move |open| at(&open.next))
}

#[cfg(test)]
mod tests {
    use super::OpenOperators;
    use dlmonitor::{OpenOperator, PythonFrame};

    fn operator(handle: usize) -> OpenOperator {
        let python = Some(PythonFrame { address: handle * 2, ..PythonFrame::default() });
        OpenOperator { handle, python, client: [handle as u64 * 3, 0, 0, 0] }
    }

    #[test]
    fn innermost_operator_is_found() {
        let open = OpenOperators::register(7);
        open.enter(70_000_001);
        assert_eq!(open.innermost(70_000_001), None);
        let operators = [operator(10), operator(20), operator(30)];
        for (outer, opened) in operators.iter().enumerate() {
            open.push(outer, opened.client[0] as u32, opened);
        }
        let handle = || {
            OpenOperators::of_thread(70_000_001).and_then(|open| open.innermost(70_000_001)).map(|found| found.handle)
        };
        assert_eq!(handle(), Some(30));
        open.set_running(&operators[..2]);
        assert_eq!(handle(), Some(20));
        assert_eq!(
            open.innermost(70_000_001).map(|found| (found.tree, found.node, found.python)),
            Some((7, 60, Some((40, 0))))
        );
        open.push(2, 90, &operators[2]);
        open.set_running(&[operators[0], operators[2]]);
        assert_eq!(handle(), Some(30), "the middle one ended first");
        open.enter(0);
        assert_eq!(open.innermost(70_000_001), None);
    }

    #[test]
    fn released_entries_are_reused() {
        let open = OpenOperators::register(5);
        open.enter(70_000_003);
        open.release_entry();
        // Other tests take entries, too.
        let others: Vec<_> = (0..50).map(|_| OpenOperators::register(9)).collect();
        let distinct: std::collections::HashSet<_> = others.iter().map(|open| std::ptr::from_ref(*open)).collect();
        assert_eq!(distinct.len(), others.len());
        for other in &others {
            other.enter(70_000_004);
            other.push(0, 4, &operator(4));
            assert_eq!(other.innermost(70_000_004).map(|found| found.tree), Some(9));
            other.enter(0);
        }
        assert!(!open.free.load(std::sync::atomic::Ordering::Acquire), "taken by somebody");
    }

    #[test]
    fn operators_beyond_the_depth_count_for_the_deepest() {
        let open = OpenOperators::register(0);
        open.enter(70_000_002);
        let operators: Vec<_> = (1..=60).map(operator).collect();
        for (outer, opened) in operators.iter().enumerate() {
            open.push(outer, 1, opened);
        }
        assert_eq!(open.innermost(70_000_002).map(|found| found.handle), Some(48));
        open.set_running(&operators[..50]);
        assert_eq!(open.innermost(70_000_002).map(|found| found.handle), Some(48));
        open.set_running(&operators[..40]);
        assert_eq!(open.innermost(70_000_002).map(|found| found.handle), Some(40));
    }
}
