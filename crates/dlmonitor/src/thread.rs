//! Per-thread state: the shadow stack of operators in progress, and the observer's state.

use crate::path::Walker;
use crate::python::PythonFrame;
use crate::quiet::Present;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;

/// Operator or compilation that is in progress on a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOperator {
    /// Number that distinguishes the call from others ([`crate::Operator::handle`]): an address on the C stack below
    /// which its callees run.
    pub handle: usize,
    /// The newest Python frame when it began, if Python frames are on.
    pub python: Option<PythonFrame>,
    /// Data of the observer, available at the end of the operator.
    pub client: [u64; 4],
}

impl OpenOperator {
    /// True if this is a compilation or one of its phases ([`crate::Compilation`]), not an operator. Handles of
    /// operators are addresses and therefore even.
    #[must_use]
    pub fn is_compilation(&self) -> bool {
        self.handle % 2 == 1
    }
}

/// State of a thread that has run at least one operator. The fields that each operator needs come first and share a
/// cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Thread {
    /// Open operators, outermost first.
    pub open: Vec<OpenOperator>,
    /// State of the observer for this thread, initially null. The observer frees it in
    /// [`crate::Observer::thread_ends`].
    pub client: Option<NonNull<c_void>>,
    /// Flag by which other threads see that it runs a callback.
    present: Present,
    /// Number of operators until a callback is timed.
    pub(crate) countdown: u32,
    /// True while the last operator of `open` begins: it has not run any code yet.
    pub(crate) begins: bool,
    /// Number of operators whose begin or end was seen only on another thread.
    pub other_thread_operators: u64,
    /// Stack walker of the thread, created at the first request.
    pub(crate) walker: RefCell<Option<Box<Walker>>>,
}

thread_local! {
    /// Without destructor: a pthread key calls it instead, which also works for threads that Rust did not create.
    static THREAD: Cell<*mut Thread> = const { Cell::new(null_mut()) };
}

static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();

/// Run `action` with the calling thread's state, which is created on demand. `None` without memory for it, or for a
/// nested call on the same thread (a callback that runs an operator).
#[inline]
pub(crate) fn with<R>(action: impl FnOnce(&mut Thread) -> R) -> Option<R> {
    let mut thread = THREAD.get();
    if thread.is_null() {
        thread = create();
    }
    if thread.is_null() || thread == in_use_marker() {
        return None;
    }
    THREAD.set(in_use_marker());
    // SAFETY: `create` leaked a box that only this thread sees, and `in_use_marker` prevents a second reference on this
    // thread.
    let thread_state = unsafe { &mut *thread };
    let presence = thread_state.present.0;
    presence.enter();
    let result = action(thread_state);
    presence.leave();
    THREAD.set(thread);
    Some(result)
}

/// Value of [`THREAD`] while the thread's state is in use.
const fn in_use_marker() -> *mut Thread {
    NonNull::<Thread>::dangling().as_ptr()
}

/// Create the state of the calling thread, which is freed at the end of the thread.
#[cold]
fn create() -> *mut Thread {
    let key = *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is valid for writes, and `thread_destructor` has the signature of a destructor.
        unsafe { libc::pthread_key_create(&raw mut key, Some(thread_destructor)) };
        key
    });
    let state = Thread { open: Vec::with_capacity(64), present: Present::take(), ..Thread::default() };
    let thread = Box::into_raw(Box::new(state));
    THREAD.set(thread);
    // SAFETY: the key exists. If the value cannot be stored, the state leaks at the end of the thread, without other
    // effects.
    unsafe { libc::pthread_setspecific(key, thread.cast()) };
    thread
}

/// Reset the calling thread's state in a forked child: operators of the parent do not end there. The client's state
/// belongs to the parent. That state leaks, because threads that do not exist may hold its locks.
pub(crate) fn forked() {
    with(|thread| {
        let present = std::mem::take(&mut thread.present);
        *thread = Thread { open: Vec::with_capacity(64), present, ..Thread::default() };
    });
}

/// Run `action` with all signals blocked, so that a thread that it creates never receives a signal of the program.
pub fn without_signals<R>(action: impl FnOnce() -> R) -> R {
    // SAFETY: both sets are initialized by the calls before they are read.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = action();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
        result
    }
}

/// Destructor that pthread calls at the end of a thread: notify the observer, and free the thread's state.
unsafe extern "C" fn thread_destructor(thread: *mut c_void) {
    THREAD.set(null_mut());
    // SAFETY: `create` leaked this box, and pthread calls the destructor once, on the thread that it belongs to.
    let thread = unsafe { Box::from_raw(thread.cast::<Thread>()) };
    crate::dispatch::thread_ends(*thread);
}

impl Thread {
    /// Remove the operator with this handle from the shadow stack and store it in `ended`; `false` if there is none.
    /// Operators may end out of order: asynchronous ones outlive their callers.
    #[inline]
    pub(crate) fn close(&mut self, handle: usize, ended: &mut OpenOperator) -> bool {
        if let Some((last, outer)) = self.open.split_last()
            && last.handle == handle
        {
            *ended = *last;
            let outer = outer.len();
            self.open.truncate(outer);
            return true;
        }
        self.close_unordered(handle, ended)
    }

    /// Remove an operator that is not the innermost one into `ended`; count it and return `false` if there is none.
    #[cold]
    fn close_unordered(&mut self, handle: usize, ended: &mut OpenOperator) -> bool {
        match self.open.iter().rposition(|open| open.handle == handle) {
            Some(at) => {
                *ended = self.open.remove(at);
                true
            }
            None => {
                self.other_thread_operators += 1;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OpenOperator, Thread, with};

    #[test]
    fn operators_may_end_out_of_order() {
        let mut thread = Thread::default();
        for handle in [10, 20, 30] {
            thread.open.push(OpenOperator { handle, ..OpenOperator::default() });
        }
        let mut close = |handle| {
            let mut ended = OpenOperator::default();
            thread.close(handle, &mut ended).then_some(ended.handle)
        };
        assert_eq!([20, 99, 30].map(&mut close), [Some(20), None, Some(30)]);
        assert_eq!((thread.open.len(), thread.other_thread_operators), (1, 1));
    }

    #[test]
    fn a_thread_in_use_is_not_entered_again() {
        assert_eq!(with(|_| with(|_| ())), Some(None));
        assert_eq!(with(|_| ()), Some(()));
    }
}
