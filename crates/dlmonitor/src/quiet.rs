//! Lock-free epochs: proof that shared data have no more readers and can be freed. Readers are signal handlers, or
//! callbacks between the program's own instructions.
//!
//! A thread that replaces a shared pointer can free the old value once all readers that could have read the old
//! pointer have left. A [`Gate`] counts its readers, which costs two atomic additions and works everywhere, also in
//! signal handlers. Callbacks of operators run too often for that: each thread sets a flag with a plain store, and a
//! thread that wants to free asks the kernel to make all processors see the flags (`membarrier`), as user-space RCU
//! does.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, compiler_fence};

/// Number of counters of a gate: concurrent readers seldom share one.
const SHARDS: usize = 16;
/// Reads of a nonzero counter before its readers count as busy.
const MAX_READS: usize = 1000;

/// Counter of the readers of one shared pointer, to know when its old values can be freed.
#[derive(Debug)]
pub struct Gate([Shard; SHARDS]);

#[derive(Debug)]
#[repr(align(64))]
struct Shard(AtomicUsize);

/// Guard that marks a reader as active until it is dropped, on a thread or in its signal handler.
#[derive(Debug)]
pub struct Inside<'a>(&'a AtomicUsize);

impl Gate {
    /// Create an epoch gate that no reader has entered.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { Shard(AtomicUsize::new(0)) }; SHARDS])
    }

    /// Mark a reader as active: a pointer loaded from now on (`SeqCst`) stays valid until the guard is dropped.
    /// Signal-safe.
    #[inline]
    #[must_use]
    pub fn enter(&self) -> Inside<'_> {
        // Stacks of threads are far apart, and a signal handler has its own stack position.
        let here = 0_u8;
        let address = &raw const here as usize;
        let Shard(readers) = &self.0[(address >> 16 ^ address >> 22) % SHARDS];
        readers.fetch_add(1, Ordering::SeqCst);
        Inside(readers)
    }

    /// True if all readers that entered before this call have left, after a brief wait for them. Values that were
    /// replaced (`SeqCst`) before this call can then be freed.
    #[must_use]
    pub fn is_left(&self) -> bool {
        // Each counter separately: a reader that enters after its counter was zero finds the new pointer.
        self.0.iter().all(|Shard(readers)| {
            (0..MAX_READS).any(|_| {
                let is_left = readers.load(Ordering::SeqCst) == 0;
                if !is_left {
                    std::hint::spin_loop();
                }
                is_left
            })
        })
    }

    /// Set the counts of readers to 0 in a forked child, in which the readers do not exist.
    pub fn forked(&self) {
        for Shard(readers) in &self.0 {
            readers.store(0, Ordering::SeqCst);
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Flag of one thread, set while the thread is in a callback; other threads read it.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Presence {
    is_inside: AtomicBool,
    is_taken: AtomicBool,
    next: AtomicPtr<Presence>,
}

/// All flags, linked by `next`: as many as threads that ran callbacks at once. They are never freed, but reused. The
/// list needs no lock, so it is consistent in a forked child.
static FIRST: AtomicPtr<Presence> = AtomicPtr::new(std::ptr::null_mut());

/// Flags of all threads, free ones included.
fn all() -> impl Iterator<Item = &'static Presence> {
    // SAFETY: pointers in the list are null or came from leaked boxes.
    let at = |pointer: &AtomicPtr<Presence>| unsafe { pointer.load(Ordering::Acquire).as_ref() };
    std::iter::successors(at(&FIRST), move |presence| at(&presence.next))
}

impl Presence {
    /// Create a flag that is not set and not in the list.
    const fn new(is_taken: bool) -> Self {
        let next = AtomicPtr::new(std::ptr::null_mut());
        Self { is_inside: AtomicBool::new(false), is_taken: AtomicBool::new(is_taken), next }
    }

    /// Mark that this thread is inside a callback and may read shared data.
    #[inline]
    pub(crate) fn enter(&self) {
        self.is_inside.store(true, Ordering::Relaxed);
        // The other half of this fence is `membarrier`.
        compiler_fence(Ordering::SeqCst);
    }

    /// Mark that this thread has left the callback and no longer reads shared data.
    #[inline]
    pub(crate) fn leave(&self) {
        self.is_inside.store(false, Ordering::Release);
    }
}

/// A thread's ownership of its [`Presence`] flag, which another thread can take after this value is dropped.
#[derive(Debug)]
pub(crate) struct Present(pub(crate) &'static Presence);

/// Flag of a state that has no thread yet.
static NO_THREAD: Presence = Presence::new(true);

impl Default for Present {
    fn default() -> Self {
        Self(&NO_THREAD)
    }
}

impl Present {
    /// Take a free [`Presence`] flag for the calling thread, or create one.
    pub(crate) fn take() -> Self {
        if let Some(free) = all().find(|presence| !presence.is_taken.swap(true, Ordering::AcqRel)) {
            return Self(free);
        }
        let presence: &'static Presence = Box::leak(Box::new(Presence::new(true)));
        let address = std::ptr::from_ref(presence).cast_mut();
        let _ = FIRST.fetch_update(Ordering::AcqRel, Ordering::Acquire, |first| {
            presence.next.store(first, Ordering::Relaxed);
            Some(address)
        });
        Self(presence)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        if !std::ptr::eq(self.0, &raw const NO_THREAD) {
            self.0.is_taken.store(false, Ordering::Release);
        }
    }
}

/// True if all callbacks of the observer that were running at this call have ended. Values that only callbacks use and
/// that were replaced before can then be freed. Also `false` if the kernel refuses `membarrier`.
#[must_use]
pub fn callbacks_ended() -> bool {
    /// `MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED`, which has no effect from the second call on, and
    /// `..._PRIVATE_EXPEDITED`.
    const COMMANDS: [libc::c_int; 2] = [1 << 4, 1 << 3];
    // SAFETY: takes no pointer.
    let is_done = |command: libc::c_int| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } == 0;
    COMMANDS.into_iter().all(is_done) && all().all(|presence| !presence.is_inside.load(Ordering::Acquire))
}

/// Clear all [`Presence`] flags in a forked child before it runs callbacks, because callbacks of other threads do not
/// continue.
pub(crate) fn forked() {
    all().for_each(Presence::leave);
}

#[cfg(test)]
mod tests {
    use super::{Gate, Present, callbacks_ended};
    use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

    #[test]
    fn gates_are_left_when_all_readers_have_exited() {
        let gate = Gate::new();
        assert!(gate.is_left());
        let (first, second) = (gate.enter(), gate.enter());
        drop(first);
        assert!(!gate.is_left());
        drop(second);
        assert!(gate.is_left());
        std::mem::forget(gate.enter());
        gate.forked();
        assert!(gate.is_left());
    }

    #[test]
    fn data_with_readers_is_not_freed() {
        let (gate, stop) = (Gate::new(), AtomicBool::new(false));
        let current = AtomicPtr::new(Box::into_raw(Box::new([7_u64; 64])));
        let (mut old, mut freed) = (Vec::new(), 0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let inside = gate.enter();
                        // SAFETY: it is not freed while the gate has readers.
                        let values = unsafe { &*current.load(Ordering::SeqCst) };
                        assert!(values.iter().all(|value| *value == 7));
                        drop(inside);
                        std::thread::yield_now();
                    }
                });
            }
            for _ in 0..1000 {
                old.push(current.swap(Box::into_raw(Box::new([7_u64; 64])), Ordering::SeqCst));
                if gate.is_left() {
                    for pointer in old.drain(..) {
                        // SAFETY: there are no more readers; the box was leaked once.
                        let mut values = unsafe { Box::from_raw(pointer) };
                        values.fill(0);
                        freed += 1;
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(freed > 0 && gate.is_left());
        for pointer in old.into_iter().chain([current.into_inner()]) {
            // SAFETY: the threads have ended.
            drop(unsafe { Box::from_raw(pointer) });
        }
    }

    #[test]
    fn callbacks_are_seen_until_they_end() {
        let present = Present::take();
        present.0.enter();
        assert!(!callbacks_ended());
        present.0.leave();
        // Other tests run callbacks, too.
        while !callbacks_ended() {
            std::thread::yield_now();
        }
        let place = std::ptr::from_ref(present.0);
        drop(present);
        let again: Vec<Present> = (0..50).map(|_| Present::take()).collect();
        let distinct: std::collections::HashSet<_> =
            again.iter().map(|present| std::ptr::from_ref(present.0)).collect();
        assert!(distinct.len() == again.len() && distinct.contains(&place));
    }
}
