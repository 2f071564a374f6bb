//! Spare unwinder caches for threads whose stacks are too small to build one.
//!
//! `framehop` builds a cache on the stack and then moves it to the heap. A program chose the stack sizes of its
//! threads for its own code, so a thread with a small stack takes a cache that another thread built. It never waits
//! for a cache: its caller may hold the GIL or locks, and a new thread may need the dynamic linker's lock, whose
//! holder may wait for these.

use super::stack::Registers;
use super::stack_bounds;
use framehop::{CacheNative, MustNotAllocateDuringUnwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

pub(super) type Cache = CacheNative<MustNotAllocateDuringUnwind>;

/// Check that caches are `Send`: [`SPARES`] passes them between threads, and `AtomicPtr` would accept any type.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Cache>();
};

/// Stack space for building a cache. Building used 60 % of it on x86-64 in 2026, and a signal handler of the program
/// may interrupt it.
const BUILD_STACK: usize = 256 << 10;
/// Number of spare caches: threads with small stacks that may begin between two calls of [`refill`].
const COUNT: usize = 4;

/// Spare caches of this process. They are not guarded by a lock, so that they remain usable in a forked child.
static SPARES: Spares = Spares::new();

/// Unwinder caches that no thread uses; null for empty slots.
struct Spares([AtomicPtr<Cache>; COUNT]);

impl Spares {
    /// Create only empty slots.
    const fn new() -> Self {
        Self([const { AtomicPtr::new(null_mut()) }; COUNT])
    }

    /// True if another cache can be stored.
    fn has_empty_slot(&self) -> bool {
        self.0.iter().any(|place| place.load(Ordering::Relaxed).is_null())
    }

    /// Take a cache out of a slot; `None` if all are empty.
    fn take(&self) -> Option<Box<Cache>> {
        let is_there = |place: &&AtomicPtr<Cache>| !place.load(Ordering::Relaxed).is_null();
        let taken = self.0.iter().filter(is_there).map(|place| place.swap(null_mut(), Ordering::AcqRel));
        // SAFETY: `put` leaked the box, and the exchange gives it to one thread only. Any thread may have it: caches are `Send`.
        taken.filter(|cache| !cache.is_null()).map(|cache| unsafe { Box::from_raw(cache) }).next()
    }

    /// Store a cache in an empty slot; `false` if there is none, and the cache is freed.
    fn put(&self, cache: Box<Cache>) -> bool {
        let cache = Box::into_raw(cache);
        let takes = |place: &AtomicPtr<Cache>| {
            place.compare_exchange(null_mut(), cache, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let kept = self.0.iter().any(takes);
        if !kept {
            // SAFETY: leaked above, and no other thread has taken it.
            drop(unsafe { Box::from_raw(cache) });
        }
        kept
    }
}

/// Unwinder cache for the calling thread: a new one if its stack has enough space, otherwise a spare one, if any.
pub(super) fn own_or_spare() -> Option<Box<Cache>> {
    if has_room() { Some(build()) } else { take() }
}

/// Take a spare unwinder cache, if one is left.
pub(super) fn take() -> Option<Box<Cache>> {
    SPARES.take()
}

/// Store an unwinder cache that its thread no longer needs as a spare one, or free it.
pub(super) fn give_back(cache: Box<Cache>) {
    SPARES.put(cache);
}

/// Build the missing spare caches if the calling thread has enough stack space.
pub(super) fn refill() {
    if SPARES.has_empty_slot() && has_room() {
        while SPARES.has_empty_slot() && SPARES.put(build()) {}
    }
}

/// True if the calling thread has enough stack space left to build a cache; `false` if its stack is unknown.
fn has_room() -> bool {
    is_enough(Registers::here().sp, stack_bounds())
}

/// True if the space below `here` in a stack with these bounds is enough to build a cache. False without bounds, and if
/// `here` is outside of them, as in a fiber.
fn is_enough(here: usize, bounds: Option<(usize, usize)>) -> bool {
    bounds.is_some_and(|(begin, end)| (begin..end).contains(&here) && here - begin > BUILD_STACK)
}

/// Build an empty unwinder cache. The stack frame of this function contains the whole cache.
#[inline(never)]
fn build() -> Box<Cache> {
    Box::default()
}

#[cfg(test)]
mod tests {
    use super::{BUILD_STACK, build, is_enough};

    /// The available stack space is checked before building: with less, the build would overrun the guard page.
    #[test]
    fn caches_are_built_within_the_requested_stack() {
        let thread = std::thread::Builder::new().stack_size(BUILD_STACK);
        thread.spawn(|| drop(build())).unwrap().join().unwrap();
    }

    #[test]
    fn room_is_measured_on_the_stack_of_the_thread() {
        let (begin, end) = (1 << 30, (1 << 30) + (1 << 20));
        let cases = [
            (end - 8, true),
            (begin + BUILD_STACK + 1, true),
            (begin + BUILD_STACK, false),
            (begin - 8, false),
            // A stack of a fiber above the thread's own stack.
            (end + (1 << 20), false),
        ];
        for (here, expected) in cases {
            assert_eq!(is_enough(here, Some((begin, end))), expected, "{here:x}");
        }
        assert!(!is_enough(end - 8, None));
    }
}
