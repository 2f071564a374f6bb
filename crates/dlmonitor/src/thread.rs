//! What is known of each thread: the operators that run on it (the shadow stack), and room for one client's state.

use crate::path::Walker;
use crate::python::PythonFrame;
use crate::quiet::Present;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;

/// An operator, or a compilation, that began on this thread and did not end yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOperator {
    /// What tells the call from others ([`crate::Operator::handle`]): an address on the C stack below which its callees
    /// run.
    pub handle: usize,
    /// The newest Python frame when it began, if Python frames are on.
    pub python: Option<PythonFrame>,
    /// Room for the observer: whatever it wants to find again when the operator ends.
    pub client: [u64; 4],
}

impl OpenOperator {
    /// Whether it is a compilation or a phase of one ([`crate::Compilation`]). Its handle is no address: those are even.
    #[must_use]
    pub fn is_compilation(&self) -> bool {
        self.handle % 2 == 1
    }
}

/// A thread that ran at least one operator. What each operator needs lies in one line of the processor's cache: the first fields.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Thread {
    /// Open operators, outermost first.
    pub open: Vec<OpenOperator>,
    /// The observer's own state for this thread, null at first. The observer frees it in
    /// [`crate::Observer::thread_ends`].
    pub client: Option<NonNull<c_void>>,
    /// Where others see that it runs a callback.
    present: Present,
    /// Operators until a callback is timed.
    pub(crate) turn: u32,
    /// Whether the last of `open` begins at this moment: nothing ran in it yet.
    pub(crate) begins: bool,
    /// Operators whose begin or end was seen on another thread only.
    pub strays: u64,
    /// What walks the thread's stack, once it was asked to.
    pub(crate) walker: RefCell<Option<Box<Walker>>>,
}

thread_local! {
    /// No destructor: it runs through a key of pthread instead, which also works for threads that Rust did not make.
    static THREAD: Cell<*mut Thread> = const { Cell::new(null_mut()) };
}

static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();

/// Runs `action` with the calling thread's state, made at need. `None` if there is no memory for it, or if `action` is
/// entered again on the same thread (a callback that runs an operator).
#[inline]
pub(crate) fn with<R>(action: impl FnOnce(&mut Thread) -> R) -> Option<R> {
    let mut thread = THREAD.get();
    if thread.is_null() {
        thread = create();
    }
    if thread.is_null() || thread == busy() {
        return None;
    }
    THREAD.set(busy());
    // SAFETY: `create` leaked a box that only this thread sees, and `busy` kept anyone else on this thread from a
    // second reference to it.
    let thread_state = unsafe { &mut *thread };
    let presence = thread_state.present.0;
    presence.enter();
    let result = action(thread_state);
    presence.leave();
    THREAD.set(thread);
    Some(result)
}

/// Marks a state that is in use.
const fn busy() -> *mut Thread {
    NonNull::<Thread>::dangling().as_ptr()
}

#[cold]
fn create() -> *mut Thread {
    let key = *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is valid for writes, and `ended` has the signature of a destructor.
        unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) };
        key
    });
    let state = Thread { open: Vec::with_capacity(64), present: Present::take(), ..Thread::default() };
    let thread = Box::into_raw(Box::new(state));
    THREAD.set(thread);
    // SAFETY: the key exists. If the value cannot be kept the state leaks when the thread ends, which harms nothing.
    unsafe { libc::pthread_setspecific(key, thread.cast()) };
    thread
}

/// In a forked child: the operators that ran in the parent do not end here, and the client's state is the parent's. It
/// leaks: its locks may be held by threads that do not exist.
pub(crate) fn forked() {
    with(|thread| {
        let present = std::mem::take(&mut thread.present);
        *thread = Thread { open: Vec::with_capacity(64), present, ..Thread::default() };
    });
}

/// Runs `action` with all signals blocked, so that a thread that it makes never takes one from the program.
pub fn without_signals<R>(action: impl FnOnce() -> R) -> R {
    // SAFETY: both sets are initialised by the calls before they are read.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = action();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
        result
    }
}

unsafe extern "C" fn ended(thread: *mut c_void) {
    THREAD.set(null_mut());
    // SAFETY: `create` leaked this box, and pthread calls the destructor once, on the thread that it belongs to.
    let thread = unsafe { Box::from_raw(thread.cast::<Thread>()) };
    crate::dispatch::thread_ends(*thread);
}

impl Thread {
    /// Takes the open operator with this handle away, if it is there. Operators may end out of order: asynchronous ones
    /// outlive their callers.
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
        self.close_early(handle, ended)
    }

    #[cold]
    fn close_early(&mut self, handle: usize, ended: &mut OpenOperator) -> bool {
        match self.open.iter().rposition(|open| open.handle == handle) {
            Some(at) => {
                *ended = self.open.remove(at);
                true
            }
            None => {
                self.strays += 1;
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
        assert_eq!((thread.open.len(), thread.strays), (1, 1));
    }

    #[test]
    fn a_thread_in_use_is_not_entered_again() {
        assert_eq!(with(|_| with(|_| ())), Some(None));
        assert_eq!(with(|_| ()), Some(()));
    }
}
