//! From the hooks to the observer. Nothing here may unwind into C++ or take the GIL.

use crate::thread::{self, OpenOperator, Thread};
use crate::torch;
use crate::{Compilation, Operator, clock, cost, python};
use std::ffi::CStr;
use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A profiler. Its methods run on the threads of the watched program, between the program's own instructions: they must
/// not block, run operators or take the GIL, and should take no longer than a few hundred nanoseconds. A panic turns all
/// observing off.
pub trait Observer: Send + Sync {
    /// An operator begins; the last of [`Thread::open`] is its entry on the shadow stack, before it stand those that run
    /// already.
    fn operator_begins(&self, operator: &Operator, thread: &mut Thread);
    /// An operator ends; its entry was taken off the shadow stack.
    fn operator_ends(&self, ended: &OpenOperator, thread: &mut Thread);
    /// An operator or a compilation ends while nothing is reported ([`crate::finalize`]): what its entry holds can go.
    fn operator_dropped(&self, _ended: &OpenOperator) {}
    /// `torch.compile` begins to compile, or comes to a phase of that; the last of [`Thread::open`] is its entry on the
    /// shadow stack. The caller holds Python's lock.
    fn compilation_begins(&self, _compilation: &Compilation<'_>, _thread: &mut Thread) {}
    /// A compilation ends, or a phase of one; its entry was taken off the shadow stack.
    fn compilation_ends(&self, _ended: &OpenOperator, _thread: &mut Thread) {}
    /// Memory for a tensor was allocated.
    fn allocated(&self, _address: usize, _bytes: u64, _thread: &mut Thread) {}
    /// Memory of a tensor is about to be freed.
    fn freed(&self, _address: usize, _thread: &mut Thread) {}
    /// Memory for a tensor could not be had: the operator fails, unless it asks for less.
    fn allocation_failed(&self, _bytes: u64, _thread: &mut Thread) {}
    /// A thread ends; its state goes.
    fn thread_ends(&self, _thread: &mut Thread) {}
    /// This process was forked from one that is observed; only the calling thread exists in it, and locks that other
    /// threads held are held for ever. Its shadow stack is empty and its client state is gone.
    fn forked(&self) {}
}

/// What PyTorch's profiler calls a collection, too.
pub(crate) const COLLECTION: &CStr = c"Python GC";

static OBSERVER: OnceLock<Box<dyn Observer>> = OnceLock::new();
static ACTIVE: AtomicBool = AtomicBool::new(false);
static INTERPRETER: OnceLock<python::Interpreter> = OnceLock::new();
/// Compilations and phases up to now.
static COMPILATIONS: AtomicUsize = AtomicUsize::new(0);

/// The interpreter whose frames operators carry, if Python frames are on.
#[must_use]
#[inline]
pub fn interpreter() -> Option<&'static python::Interpreter> {
    INTERPRETER.get()
}

/// Reads Python frames from now on.
pub(crate) fn set_interpreter(interpreter: python::Interpreter) {
    let _ = INTERPRETER.set(interpreter);
}

/// Reports to `observer` from now on. There is one per process.
pub(crate) fn set_observer(observer: Box<dyn Observer>) -> bool {
    OBSERVER.set(observer).is_ok()
}

pub(crate) fn activate(active: bool) {
    ACTIVE.store(active, Ordering::Release);
}

/// Whether callbacks are reported.
pub(crate) fn is_active() -> bool {
    ACTIVE.load(Ordering::Acquire)
}

#[inline]
fn observer() -> Option<&'static dyn Observer> {
    if ACTIVE.load(Ordering::Relaxed) { OBSERVER.get().map(AsRef::as_ref) } else { None }
}

/// Runs a callback; a panic of the observer ends all observing, not the program.
#[inline]
fn guarded(callback: impl FnOnce()) {
    if std::panic::catch_unwind(AssertUnwindSafe(callback)).is_err() {
        activate(false);
    }
}

pub(crate) fn operator_begins(operator: Operator) {
    if let Some(observer) = observer() {
        guarded(|| begin(observer, operator));
    }
}

#[inline]
fn begin(observer: &dyn Observer, operator: Operator) {
    if let (false, Some(functions)) = (torch::settled(), torch::functions()) {
        torch::look(functions, &operator);
    }
    thread::with(|thread| {
        thread.turn = if thread.turn == 0 { cost::EVERY } else { thread.turn } - 1;
        let since = (thread.turn == 0).then(clock::ticks);
        let python = interpreter().and_then(python::Interpreter::newest);
        thread.open.push(OpenOperator { handle: operator.handle(), python, client: [0; 4] });
        thread.begins = true;
        observer.operator_begins(&operator, thread);
        thread.begins = false;
        if let Some(since) = since
            && thread.open.last().is_some_and(is_of_observer)
        {
            cost::BEGIN.add(since);
        }
    });
}

/// Whether the observer keeps something for an operator: one that it passes over costs next to nothing.
fn is_of_observer(operator: &OpenOperator) -> bool {
    operator.client != [0; 4]
}

pub(crate) fn operator_ends(handle: usize) {
    end(handle, |observer, ended, thread| observer.operator_ends(ended, thread));
}

#[inline]
fn end(handle: usize, tell: impl FnOnce(&dyn Observer, &OpenOperator, &mut Thread)) {
    // An operator that began before `activate(false)` ends on the shadow stack all the same.
    guarded(|| {
        thread::with(|thread| {
            // Halfway between begins that are timed.
            let since = (thread.turn == cost::EVERY / 2).then(clock::ticks);
            let mut ended = OpenOperator::default();
            if thread.close(handle, &mut ended) {
                match observer() {
                    Some(observer) => tell(observer, &ended, thread),
                    None => drop_entry(&ended),
                }
            }
            if let Some(since) = since
                && is_of_observer(&ended)
            {
                cost::END.add(since);
            }
        });
    });
}

#[cold]
fn drop_entry(ended: &OpenOperator) {
    if let Some(observer) = OBSERVER.get() {
        observer.operator_dropped(ended);
    }
}

/// A compilation begins, or a phase of one. The newest `passing` Python frames only lead to this: they return while it
/// goes on. Returns its handle, 0 if nobody observes.
pub(crate) fn compilation_begins(name: &CStr, is_phase: bool, passing: u32) -> usize {
    let Some(observer) = observer() else { return 0 };
    let handle = COMPILATIONS.fetch_add(1, Ordering::Relaxed) << 1 | 1;
    guarded(|| {
        thread::with(|thread| {
            let python = interpreter().and_then(|interpreter| {
                (0..passing).try_fold(interpreter.newest()?, |frame, _| interpreter.caller(frame))
            });
            thread.open.push(OpenOperator { handle, python, client: [0; 4] });
            thread.begins = true;
            observer.compilation_begins(&Compilation { handle, name, is_phase }, thread);
            thread.begins = false;
        });
    });
    handle
}

pub(crate) fn compilation_ends(handle: usize) {
    end(handle, |observer, ended, thread| observer.compilation_ends(ended, thread));
}

/// Python begins to collect garbage on the calling thread: a span like a phase of a compilation. Returns the handle for
/// [`collection_ends`], 0 if nobody observes or the thread ran no operator yet: collections while a program imports its
/// libraries are many, and nobody's concern. The caller holds Python's lock.
pub fn collection_begins() -> usize {
    let mut is_at_work = false;
    guarded(|| {
        thread::with(|thread| is_at_work = thread.client.is_some());
    });
    if is_at_work { compilation_begins(COLLECTION, true, 0) } else { 0 }
}

/// A collection ends; a handle of 0 is none.
pub fn collection_ends(handle: usize) {
    if handle != 0 {
        compilation_ends(handle);
    }
}

pub(crate) fn allocated(address: usize, bytes: u64) {
    if let Some(observer) = observer() {
        guarded(|| {
            thread::with(|thread| observer.allocated(address, bytes, thread));
        });
    }
}

pub(crate) fn freed(address: usize) {
    if let Some(observer) = observer() {
        guarded(|| {
            thread::with(|thread| observer.freed(address, thread));
        });
    }
}

#[cold]
pub(crate) fn allocation_failed(bytes: u64) {
    if let Some(observer) = observer() {
        guarded(|| {
            thread::with(|thread| observer.allocation_failed(bytes, thread));
        });
    }
}

pub(crate) fn forked() {
    if let Some(observer) = OBSERVER.get() {
        guarded(|| observer.forked());
    }
}

pub(crate) fn thread_ends(mut thread: Thread) {
    if let Some(observer) = OBSERVER.get() {
        guarded(|| observer.thread_ends(&mut thread));
    }
}
