//! Callbacks of the C interface: a table that is read without locks, and changed while callbacks run.
//!
//! A thread counts itself in before it reads the table and out after its callbacks returned. Who takes a callback out of
//! the table waits until each counter was seen at zero: no thread that read the old table is left then.

use crate::capi::{Callback, Event, Status};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Callbacks that may be registered.
const MOST: usize = 8;
/// Counters; threads share them in turn.
const SHARDS: usize = 64;
/// How long to wait for callbacks that run, which must not block.
const PATIENCE: Duration = Duration::from_secs(1);

/// A callback and the argument that it is called with.
#[derive(Clone, Copy, Debug)]
struct Registered(Callback, *mut c_void);

/// Threads that are in a callback now. On a cache line of its own.
#[repr(align(128))]
struct Shard(AtomicUsize);

static TABLE: [AtomicPtr<Registered>; MOST] = [const { AtomicPtr::new(null_mut()) }; MOST];
/// Serializes changes of the table.
static CHANGING: Mutex<()> = Mutex::new(());
static RUNNING: [Shard; SHARDS] = [const { Shard(AtomicUsize::new(0)) }; SHARDS];
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Number of the thread's counter, from 1; 0 if it has none yet.
    static SHARD: Cell<usize> = const { Cell::new(0) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn shard() -> &'static Shard {
    let mut at = SHARD.get();
    if at == 0 {
        at = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS + 1;
        SHARD.set(at);
    }
    &RUNNING[(at - 1) % SHARDS]
}

/// Whether a callback runs on the calling thread.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

/// Call all callbacks.
pub(crate) fn deliver(event: &Event) {
    let shard = shard();
    // Before the table is read, in the order that all threads agree on: see `wait`.
    shard.0.fetch_add(1, Ordering::SeqCst);
    INSIDE.set(true);
    for place in &TABLE {
        // SAFETY: null, or a box that is not freed before this thread counts itself out.
        if let Some(registered) = unsafe { place.load(Ordering::SeqCst).as_ref() } {
            // SAFETY: the tool registered this function with this argument for this purpose.
            unsafe { registered.0(event, registered.1) };
        }
    }
    INSIDE.set(false);
    shard.0.fetch_sub(1, Ordering::SeqCst);
}

pub(crate) fn register(callback: Callback, user: *mut c_void) -> Status {
    let _serial = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(place) = TABLE.iter().find(|place| place.load(Ordering::SeqCst).is_null()) else { return Status::Full };
    place.store(Box::into_raw(Box::new(Registered(callback, user))), Ordering::SeqCst);
    Status::Ok
}

/// Take the first callback with this argument out of the table.
pub(crate) fn unregister(callback: Callback, user: *mut c_void) -> Status {
    let is_it = |place: &&AtomicPtr<Registered>| {
        // SAFETY: null, or a box that only who holds the lock frees.
        let registered = unsafe { place.load(Ordering::SeqCst).as_ref() };
        registered.is_some_and(|&Registered(known, with)| std::ptr::fn_addr_eq(known, callback) && with == user)
    };
    let taken = {
        let _serial = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        TABLE.iter().find(is_it).map(|place| place.swap(null_mut(), Ordering::SeqCst))
    };
    match taken {
        Some(taken) => release(&[taken]),
        None => Status::NotFound,
    }
}

/// Take all callbacks out of the table.
pub(crate) fn clear() -> Status {
    let taken = {
        let _serial = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        TABLE.each_ref().map(|place| place.swap(null_mut(), Ordering::SeqCst))
    };
    release(&taken)
}

/// Free what was taken out of the table, once no callback runs that was called before.
fn release(taken: &[*mut Registered]) -> Status {
    if is_inside() || !wait() {
        // They leak: a few bytes, only where a callback unregisters or blocks.
        return Status::Running;
    }
    for &registered in taken.iter().filter(|registered| !registered.is_null()) {
        // SAFETY: `register` leaked the box, and no thread has its address any more.
        drop(unsafe { Box::from_raw(registered) });
    }
    Status::Ok
}

/// Wait until each thread that was in a callback has returned from it; `false` if one has not for too long.
fn wait() -> bool {
    let since = Instant::now();
    for shard in &RUNNING {
        while shard.0.load(Ordering::SeqCst) != 0 {
            if since.elapsed() > PATIENCE {
                return false;
            }
            std::thread::yield_now();
        }
    }
    true
}

/// In a forked child, where other threads do not return.
pub(crate) fn forked() {
    for shard in &RUNNING {
        shard.0.store(0, Ordering::SeqCst);
    }
    if is_inside() {
        shard().0.store(1, Ordering::SeqCst);
    }
}
