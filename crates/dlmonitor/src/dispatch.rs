//! Dispatch of events from the hooks to the observer. Code in this module must not unwind into C++ or take the GIL.

use crate::thread::{self, OpenOperator, Thread};
use crate::torch;
use crate::{Compilation, Operator, clock, cost, python};
use std::ffi::CStr;
use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Interface of a profiler that receives events of the observed program. Its methods run on the threads of the observed
/// program, between the program's own instructions. Methods must not block, run operators or take the GIL, and should
/// return within a few hundred nanoseconds. A panic ends all observation.
pub trait Observer: Send + Sync {
    /// An operator begins. The last entry of [`Thread::open`] is its entry on the shadow stack; the entries before
    /// are operators that run already.
    fn operator_begins(&self, operator: &Operator, thread: &mut Thread);
    /// An operator has ended, and its entry was removed from the shadow stack.
    fn operator_ends(&self, ended: &OpenOperator, thread: &mut Thread);
    /// Free the observer's data of an operator or a compilation that ends while observation is off
    /// ([`crate::finalize`]).
    fn operator_dropped(&self, _ended: &OpenOperator) {}
    /// `torch.compile` begins a compilation or one of its phases. The last entry of [`Thread::open`] is its entry on
    /// the shadow stack. The caller holds Python's lock.
    fn compilation_begins(&self, _compilation: &Compilation<'_>, _thread: &mut Thread) {}
    /// A compilation or one of its phases has ended, and its entry was removed from the shadow stack.
    fn compilation_ends(&self, _ended: &OpenOperator, _thread: &mut Thread) {}
    /// Memory for a tensor was allocated.
    fn allocated(&self, _address: usize, _bytes: u64, _thread: &mut Thread) {}
    /// Memory of a tensor is about to be freed.
    fn freed(&self, _address: usize, _thread: &mut Thread) {}
    /// An allocation for a tensor failed. The operator fails unless it requests less.
    fn allocation_failed(&self, _bytes: u64, _thread: &mut Thread) {}
    /// A thread ends, and its state is freed.
    fn thread_ends(&self, _thread: &mut Thread) {}
    /// This process is a forked child of an observed process. Only the calling thread exists in it, and locks that
    /// other threads held stay locked forever. Its shadow stack is empty, and its client state was dropped.
    fn forked(&self) {}
}

/// The name that PyTorch's profiler uses for a collection, too.
pub(crate) const COLLECTION: &CStr = c"Python GC";

static OBSERVER: OnceLock<Box<dyn Observer>> = OnceLock::new();
static ACTIVE: AtomicBool = AtomicBool::new(false);
static INTERPRETER: OnceLock<python::Interpreter> = OnceLock::new();
/// Number of compilations and phases so far.
static COMPILATIONS: AtomicUsize = AtomicUsize::new(0);

/// Interpreter whose frames are read at operators; `None` if Python frames are off.
#[must_use]
#[inline]
pub fn interpreter() -> Option<&'static python::Interpreter> {
    INTERPRETER.get()
}

/// Set the interpreter whose Python frames are read from now on; no effect if one is set.
pub(crate) fn set_interpreter(interpreter: python::Interpreter) {
    let _ = INTERPRETER.set(interpreter);
}

/// Set the observer of this process. Returns `false` if there is one already.
pub(crate) fn set_observer(observer: Box<dyn Observer>) -> bool {
    OBSERVER.set(observer).is_ok()
}

/// Start or stop the reports of events to the observer.
pub(crate) fn activate(active: bool) {
    ACTIVE.store(active, Ordering::Release);
}

/// True while events of PyTorch are reported to the observer.
pub(crate) fn is_active() -> bool {
    ACTIVE.load(Ordering::Acquire)
}

/// Observer that receives events; `None` while reports are off.
#[inline]
fn observer() -> Option<&'static dyn Observer> {
    if ACTIVE.load(Ordering::Relaxed) { OBSERVER.get().map(AsRef::as_ref) } else { None }
}

/// Run a callback. A panic of the observer ends all observation, not the program.
#[inline]
fn catch_panics(callback: impl FnOnce()) {
    if std::panic::catch_unwind(AssertUnwindSafe(callback)).is_err() {
        activate(false);
    }
}

/// Push an operator that begins on the thread's shadow stack, and report it to the observer.
pub(crate) fn operator_begins(operator: Operator) {
    if let Some(observer) = observer() {
        catch_panics(|| begin(observer, operator));
    }
}

/// Push an operator on the shadow stack with the newest Python frame, report it to `observer`, and time a part of the
/// callbacks.
#[inline]
fn begin(observer: &dyn Observer, operator: Operator) {
    if let (false, Some(functions)) = (torch::has_known_fields(), torch::functions()) {
        torch::inspect_operator(functions, &operator);
    }
    thread::with(|thread| {
        thread.countdown = if thread.countdown == 0 { cost::TIMED_EVERY } else { thread.countdown } - 1;
        let since = (thread.countdown == 0).then(clock::ticks);
        let python = interpreter().and_then(python::Interpreter::newest);
        thread.open.push(OpenOperator { handle: operator.handle(), python, client: [0; 4] });
        thread.begins = true;
        observer.operator_begins(&operator, thread);
        thread.begins = false;
        if let Some(since) = since
            && thread.open.last().is_some_and(has_observer_data)
        {
            cost::BEGIN.add(since);
        }
    });
}

/// True if the observer stored data for an operator. The others were ignored and cost next to nothing.
fn has_observer_data(operator: &OpenOperator) -> bool {
    operator.client != [0; 4]
}

/// Remove an operator that ended from the thread's shadow stack, and report it to the observer.
pub(crate) fn operator_ends(handle: usize) {
    end(handle, |observer, ended, thread| observer.operator_ends(ended, thread));
}

/// Remove the entry with this handle from the thread's shadow stack, and pass it to `report_end`; while reports are
/// off, let the observer free its data.
#[inline]
fn end(handle: usize, report_end: impl FnOnce(&dyn Observer, &OpenOperator, &mut Thread)) {
    // An operator that began before `activate(false)` is removed from the shadow stack in any case.
    catch_panics(|| {
        thread::with(|thread| {
            // Ends are timed halfway between timed begins.
            let since = (thread.countdown == cost::TIMED_EVERY / 2).then(clock::ticks);
            let mut ended = OpenOperator::default();
            if thread.close(handle, &mut ended) {
                match observer() {
                    Some(observer) => report_end(observer, &ended, thread),
                    None => drop_entry(&ended),
                }
            }
            if let Some(since) = since
                && has_observer_data(&ended)
            {
                cost::END.add(since);
            }
        });
    });
}

/// Let the observer free its data of an operator that ends while reports are off.
#[cold]
fn drop_entry(ended: &OpenOperator) {
    if let Some(observer) = OBSERVER.get() {
        observer.operator_dropped(ended);
    }
}

/// Report that a compilation or one of its phases begins. The newest `passing` Python frames belong to the compiler's
/// entry and return while it runs. Returns its handle, 0 without an observer.
pub(crate) fn compilation_begins(name: &CStr, is_phase: bool, passing: u32) -> usize {
    let Some(observer) = observer() else { return 0 };
    let handle = COMPILATIONS.fetch_add(1, Ordering::Relaxed) << 1 | 1;
    catch_panics(|| {
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

/// Remove a compilation or phase that ended from the thread's shadow stack, and report it to the observer.
pub(crate) fn compilation_ends(handle: usize) {
    end(handle, |observer, ended, thread| observer.compilation_ends(ended, thread));
}

/// Report that Python begins a garbage collection on the calling thread, which is shown as a span. Returns the handle
/// for [`collection_ends`], 0 without an observer or if the thread has not run an operator yet: the many collections
/// during imports are not reported. The caller holds Python's lock.
pub fn collection_begins() -> usize {
    let mut is_at_work = false;
    catch_panics(|| {
        thread::with(|thread| is_at_work = thread.client.is_some());
    });
    if is_at_work { compilation_begins(COLLECTION, true, 0) } else { 0 }
}

/// Report that a garbage collection ends. A handle of 0 is ignored.
pub fn collection_ends(handle: usize) {
    if handle != 0 {
        compilation_ends(handle);
    }
}

/// Report an allocation for a tensor to the observer.
pub(crate) fn allocated(address: usize, bytes: u64) {
    if let Some(observer) = observer() {
        catch_panics(|| {
            thread::with(|thread| observer.allocated(address, bytes, thread));
        });
    }
}

/// Report to the observer that memory of a tensor is about to be freed.
pub(crate) fn freed(address: usize) {
    if let Some(observer) = observer() {
        catch_panics(|| {
            thread::with(|thread| observer.freed(address, thread));
        });
    }
}

/// Report a failed allocation for a tensor to the observer.
#[cold]
pub(crate) fn allocation_failed(bytes: u64) {
    if let Some(observer) = observer() {
        catch_panics(|| {
            thread::with(|thread| observer.allocation_failed(bytes, thread));
        });
    }
}

/// Notify the observer in a forked child, also while reports are off.
pub(crate) fn forked() {
    if let Some(observer) = OBSERVER.get() {
        catch_panics(|| observer.forked());
    }
}

/// Notify the observer that a thread ends, and free the thread's state.
pub(crate) fn thread_ends(mut thread: Thread) {
    if let Some(observer) = OBSERVER.get() {
        catch_panics(|| observer.thread_ends(&mut thread));
    }
}
