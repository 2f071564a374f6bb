//! Callbacks registered through the C interface: a table that is read without locks and changed while callbacks run.
//!
//! A thread increments a counter before it reads the table, and decrements it after its callbacks have returned. A
//! thread that removes a callback waits until it has seen each counter at zero. No reader of the old table remains
//! then.

use crate::capi::{Callback, Event, Status};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Largest number of registered callbacks.
const MAX_CALLBACKS: usize = 8;
/// Number of counters; threads are assigned to them in turn.
const SHARDS: usize = 64;
/// Time limit of the wait for running callbacks, which must not block.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// A registered callback and the argument that the tool passed with it.
#[derive(Clone, Copy, Debug)]
struct Registered(Callback, *mut c_void);

/// Number of threads that are in a callback, among the threads of this counter; on its own cache line.
#[repr(align(128))]
struct Shard(AtomicUsize);

static TABLE: [AtomicPtr<Registered>; MAX_CALLBACKS] = [const { AtomicPtr::new(null_mut()) }; MAX_CALLBACKS];
/// Serializes changes of the table.
static CHANGING: Mutex<()> = Mutex::new(());
static RUNNING: [Shard; SHARDS] = [const { Shard(AtomicUsize::new(0)) }; SHARDS];
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Number of the thread's counter, from 1; 0 if none is assigned yet.
    static SHARD: Cell<usize> = const { Cell::new(0) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Counter of the calling thread, assigned at the first call; several threads may share one.
fn shard() -> &'static Shard {
    let mut at = SHARD.get();
    if at == 0 {
        at = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS + 1;
        SHARD.set(at);
    }
    &RUNNING[(at - 1) % SHARDS]
}

/// True if a callback runs on the calling thread.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

/// Call every registered callback of the C interface with an event, on the calling thread.
pub(crate) fn deliver(event: &Event) {
    let shard = shard();
    // Increment before the table is read, in an order that all threads agree on: see `wait_for_callbacks`.
    shard.0.fetch_add(1, Ordering::SeqCst);
    INSIDE.set(true);
    for place in &TABLE {
        // SAFETY: null, or a box that is not freed before this thread decrements its counter.
        if let Some(registered) = unsafe { place.load(Ordering::SeqCst).as_ref() } {
            // SAFETY: the tool registered this function with this argument for this purpose.
            unsafe { registered.0(event, registered.1) };
        }
    }
    INSIDE.set(false);
    shard.0.fetch_sub(1, Ordering::SeqCst);
}

/// Add a callback with its argument to the table; [`Status::Full`] if the table has no free entry.
pub(crate) fn register(callback: Callback, user: *mut c_void) -> Status {
    let _serial = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(place) = TABLE.iter().find(|place| place.load(Ordering::SeqCst).is_null()) else { return Status::Full };
    place.store(Box::into_raw(Box::new(Registered(callback, user))), Ordering::SeqCst);
    Status::Ok
}

/// Remove the first callback with this function and this argument from the table; [`Status::NotFound`] if there is
/// none, [`Status::Running`] if calls still run.
pub(crate) fn unregister(callback: Callback, user: *mut c_void) -> Status {
    let is_it = |place: &&AtomicPtr<Registered>| {
        // SAFETY: null, or a box that is freed only under the lock.
        let registered = unsafe { place.load(Ordering::SeqCst).as_ref() };
        registered.is_some_and(|&Registered(known, with)| std::ptr::fn_addr_eq(known, callback) && with == user)
    };
    let taken = {
        let _serial = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        TABLE.iter().find(is_it).map(|place| place.swap(null_mut(), Ordering::SeqCst))
    };
    match taken {
        Some(taken) => free_removed(&[taken]),
        None => Status::NotFound,
    }
}

/// Remove all callbacks of the C interface; [`Status::Running`] if calls still run.
pub(crate) fn clear() -> Status {
    let taken = {
        let _serial = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        TABLE.each_ref().map(|place| place.swap(null_mut(), Ordering::SeqCst))
    };
    free_removed(&taken)
}

/// Free removed callbacks after running calls have returned; [`Status::Running`] if some still run at the time limit.
fn free_removed(taken: &[*mut Registered]) -> Status {
    if is_inside() || !wait_for_callbacks() {
        // Leak them: a few bytes, only if a callback unregisters itself or blocks.
        return Status::Running;
    }
    for &registered in taken.iter().filter(|registered| !registered.is_null()) {
        // SAFETY: `register` leaked the box, and no thread has its address any more.
        drop(unsafe { Box::from_raw(registered) });
    }
    Status::Ok
}

/// Wait until each thread that was in a callback has returned from it; `false` if the time limit was reached.
fn wait_for_callbacks() -> bool {
    let since = Instant::now();
    for shard in &RUNNING {
        while shard.0.load(Ordering::SeqCst) != 0 {
            if since.elapsed() > MAX_WAIT {
                return false;
            }
            std::thread::yield_now();
        }
    }
    true
}

/// Reset the counters of running callbacks in a forked child, in which other threads do not continue.
pub(crate) fn forked() {
    for shard in &RUNNING {
        shard.0.store(0, Ordering::SeqCst);
    }
    if is_inside() {
        shard().0.store(1, Ordering::SeqCst);
    }
}
