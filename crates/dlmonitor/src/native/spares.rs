//! Unwinder caches, made beforehand for threads whose stacks are too small to make one.
//!
//! `framehop` builds a cache on the stack and then moves it to the heap. A program chose the size of its threads' stacks for its own code,
//! so a thread with a small stack takes a cache that another thread made. It never waits for one: its caller may hold the GIL or locks, and
//! a thread that starts meanwhile may need the dynamic linker's lock, whose holder may wait for these.

use super::stack::Registers;
use super::stack_bounds;
use framehop::{CacheNative, MustNotAllocateDuringUnwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

pub(super) type Cache = CacheNative<MustNotAllocateDuringUnwind>;

/// Caches go from one thread to another by [`SPARES`], whose `AtomicPtr` would take what must stay on its thread, too.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Cache>();
};

/// Stack that building a cache may take: 60 % of it on x86-64 in 2026, and the program's signal handlers may interrupt it.
const BUILD_STACK: usize = 256 << 10;
/// Spare caches: threads with small stacks that may begin between two calls of [`refill`].
const COUNT: usize = 4;

/// The spare caches of this process. No lock guards them: they stay usable in a forked child.
static SPARES: Spares = Spares::new();

/// Caches that no thread has; null where there is none.
struct Spares([AtomicPtr<Cache>; COUNT]);

impl Spares {
    const fn new() -> Self {
        Self([const { AtomicPtr::new(null_mut()) }; COUNT])
    }

    fn lacks_one(&self) -> bool {
        self.0.iter().any(|place| place.load(Ordering::Relaxed).is_null())
    }

    fn take(&self) -> Option<Box<Cache>> {
        let is_there = |place: &&AtomicPtr<Cache>| !place.load(Ordering::Relaxed).is_null();
        let taken = self.0.iter().filter(is_there).map(|place| place.swap(null_mut(), Ordering::AcqRel));
        // SAFETY: `put` leaked the box, and the exchange gives it to one thread only. Any thread may have it: caches are `Send`.
        taken.filter(|cache| !cache.is_null()).map(|cache| unsafe { Box::from_raw(cache) }).next()
    }

    /// Keeps a cache; `false` if there are enough.
    fn put(&self, cache: Box<Cache>) -> bool {
        let cache = Box::into_raw(cache);
        let takes = |place: &AtomicPtr<Cache>| {
            place.compare_exchange(null_mut(), cache, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let kept = self.0.iter().any(takes);
        if !kept {
            // SAFETY: leaked above, and nobody else got it.
            drop(unsafe { Box::from_raw(cache) });
        }
        kept
    }
}

/// A cache for the calling thread: a new one if its stack has room to build it, else a spare one, if there is any.
pub(super) fn obtain() -> Option<Box<Cache>> {
    if has_room() { Some(build()) } else { take() }
}

/// A spare cache, if there is any.
pub(super) fn take() -> Option<Box<Cache>> {
    SPARES.take()
}

/// Returns a cache that its thread does not need any more.
pub(super) fn give_back(cache: Box<Cache>) {
    SPARES.put(cache);
}

/// Builds the spare caches that are missing, if the calling thread has room for that.
pub(super) fn refill() {
    if SPARES.lacks_one() && has_room() {
        while SPARES.lacks_one() && SPARES.put(build()) {}
    }
}

/// Whether the calling thread has enough stack left. One whose stack is not known has not.
fn has_room() -> bool {
    is_enough(Registers::here().sp, stack_bounds())
}

/// Whether what lies below `here` of a stack with these bounds is enough. Code that runs elsewhere, as fibers do, is on a stack that
/// nobody knows.
fn is_enough(here: usize, bounds: Option<(usize, usize)>) -> bool {
    bounds.is_some_and(|(begin, end)| (begin..end).contains(&here) && here - begin > BUILD_STACK)
}

/// Its stack frame is as large as what it builds.
#[inline(never)]
fn build() -> Box<Cache> {
    Box::default()
}

#[cfg(test)]
mod tests {
    use super::{BUILD_STACK, build, is_enough};

    /// What a thread has is checked against this before it builds: with less it would run into its guard page.
    #[test]
    fn a_cache_is_built_in_the_room_that_is_asked_for() {
        let thread = std::thread::Builder::new().stack_size(BUILD_STACK);
        thread.spawn(|| drop(build())).unwrap().join().unwrap();
    }

    #[test]
    fn there_is_room_on_the_stack_of_the_thread_alone() {
        let (begin, end) = (1 << 30, (1 << 30) + (1 << 20));
        let cases = [
            (end - 8, true),
            (begin + BUILD_STACK + 1, true),
            (begin + BUILD_STACK, false),
            (begin - 8, false),
            // A fiber's stack above the thread's own.
            (end + (1 << 20), false),
        ];
        for (here, expected) in cases {
            assert_eq!(is_enough(here, Some((begin, end))), expected, "{here:x}");
        }
        assert!(!is_enough(end - 8, None));
    }
}
