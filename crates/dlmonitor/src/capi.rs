//! The C interface (`include/dlmonitor.h`), for tools in other languages than Rust.

use crate::capi_names::{self, Names, name_of};
use crate::capi_path::{Output, PathCache};
use crate::capi_start::{self, session};
use crate::dispatch::Observer;
use crate::path::Sources;
use crate::thread::{OpenOperator, Thread};
use crate::torch::{Compilation, Operator, Scope};
use crate::{capi_callbacks, capi_inputs};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::{NonNull, null};

/// Event as the C interface passes it to callbacks (`dlmonitor_event`).
#[derive(Debug)]
#[repr(C)]
pub struct Event {
    kind: c_int,
    name: *const c_char,
    handle: u64,
    sequence_number: i64,
    forward_thread: u64,
    is_backward: c_int,
    address: u64,
    bytes: u64,
}

/// Frame of a call path in the C interface (`dlmonitor_frame`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Frame {
    pub(crate) kind: c_int,
    pub(crate) name: *const c_char,
    pub(crate) file: *const c_char,
    pub(crate) line: u32,
    pub(crate) address: u64,
    pub(crate) offset: u64,
}

/// Status that functions of the C interface return (`dlmonitor_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// Another profiler uses `DLMonitor` in this process.
    InUse = 1,
    /// Not supported by this version.
    Unsupported = 2,
    /// No space for another callback.
    Full = 3,
    /// The framework is not loaded or not supported.
    Unavailable = 4,
    /// No such callback is registered.
    NotFound = 5,
    /// Success, but the callback may still run on another thread.
    Running = 6,
}

/// Type of the callbacks that a tool registers through the C interface (`dlmonitor_callback`).
pub type Callback = unsafe extern "C" fn(*const Event, *mut c_void);

/// `dlmonitor_kind`.
const OPERATOR_BEGIN: c_int = 0;
const OPERATOR_END: c_int = 1;
const ALLOCATE: c_int = 2;
const FREE: c_int = 3;
const COMPILATION_BEGIN: c_int = 4;
const COMPILATION_END: c_int = 5;
const PHASE_BEGIN: c_int = 6;
const PHASE_END: c_int = 7;
/// `dlmonitor_frame_kind`.
pub(crate) const PYTHON_FRAME: c_int = 0;
pub(crate) const OPERATOR_FRAME: c_int = 1;
pub(crate) const NATIVE_FRAME: c_int = 2;
pub(crate) const COMPILATION_FRAME: c_int = 3;
/// `DLMONITOR_API_VERSION`.
const VERSION: c_uint = 3;

pub(crate) const NO_FRAME: Frame =
    Frame { kind: 0, name: c"".as_ptr(), file: c"".as_ptr(), line: 0, address: 0, offset: 0 };

const EMPTY_EVENT: Event = Event {
    kind: 0,
    name: c"".as_ptr(),
    handle: 0,
    sequence_number: -1,
    forward_thread: 0,
    is_backward: 0,
    address: 0,
    bytes: 0,
};

thread_local! {
    /// The thread whose callback runs now, for `dlmonitor_callpath_get`.
    static CURRENT: Cell<*const Thread> = const { Cell::new(null()) };
}

/// The C interface's data of one thread: its caches of names and of the call path. [`Thread::client`] points to it.
#[derive(Debug, Default)]
struct State {
    names: Names,
    path: PathCache,
}

/// Observer of the process that forwards events to the callbacks of the C interface.
pub(crate) struct EventForwarder;

/// The C interface's data of a thread, created at the first call.
fn state(thread: &mut Thread) -> NonNull<State> {
    let client = thread.client.get_or_insert_with(|| {
        // SAFETY: the address of a box is not null.
        unsafe { NonNull::new_unchecked(Box::into_raw(Box::<State>::default())) }.cast()
    });
    client.cast()
}

/// Call all registered callbacks with an event of `thread`, whose call path they can read by `dlmonitor_callpath_get`.
fn call_callbacks(thread: &mut Thread, event: &Event) {
    let state = state(thread);
    CURRENT.set(thread);
    capi_callbacks::deliver(event);
    CURRENT.set(null());
    // SAFETY: a box that only this thread uses, and `dlmonitor_callpath_get` has returned.
    unsafe { &mut *state.as_ptr() }.path.callback_returned();
}

impl Observer for EventForwarder {
    fn operator_begins(&self, operator: &Operator, thread: &mut Thread) {
        let state = state(thread);
        let Some(opened) = thread.open.last_mut() else { return };
        let is_span = matches!(operator.scope(), Scope::User | Scope::Unknown);
        // SAFETY: a box that only this thread uses.
        let name = unsafe { &mut *state.as_ptr() }.names.set_name(opened, operator.name(), is_span);
        opened.client[2] = session();
        let event = Event {
            kind: OPERATOR_BEGIN,
            name,
            handle: operator.handle() as u64,
            sequence_number: operator.sequence_number().map_or(-1, u64::cast_signed),
            forward_thread: operator.forward_thread().unwrap_or(0),
            is_backward: c_int::from(operator.scope() == Scope::Backward),
            ..EMPTY_EVENT
        };
        capi_inputs::while_begins(operator, || call_callbacks(thread, &event));
    }

    fn operator_ends(&self, ended: &OpenOperator, thread: &mut Thread) {
        if ended.client[2] == session() {
            let event = Event { kind: OPERATOR_END, handle: ended.handle as u64, ..EMPTY_EVENT };
            capi_inputs::while_ends(&Operator::new(ended.handle as *const u8), || call_callbacks(thread, &event));
        }
        capi_names::free(ended);
    }

    fn operator_dropped(&self, ended: &OpenOperator) {
        capi_names::free(ended);
    }

    fn compilation_begins(&self, compilation: &Compilation<'_>, thread: &mut Thread) {
        let Some(opened) = thread.open.last_mut() else { return };
        let (kind, flags) =
            if compilation.is_phase { (PHASE_BEGIN, capi_names::PHASE) } else { (COMPILATION_BEGIN, 0) };
        let name = capi_names::set_copied_name(opened, compilation.name, flags);
        opened.client[2] = session();
        call_callbacks(thread, &Event { kind, name, handle: compilation.handle as u64, ..EMPTY_EVENT });
    }

    fn compilation_ends(&self, ended: &OpenOperator, thread: &mut Thread) {
        if ended.client[2] == session() {
            let kind = if ended.client[1] & capi_names::PHASE == 0 { COMPILATION_END } else { PHASE_END };
            call_callbacks(thread, &Event { kind, name: name_of(ended), handle: ended.handle as u64, ..EMPTY_EVENT });
        }
        capi_names::free(ended);
    }

    fn allocated(&self, address: usize, bytes: u64, thread: &mut Thread) {
        call_callbacks(thread, &Event { kind: ALLOCATE, address: address as u64, bytes, ..EMPTY_EVENT });
    }

    fn freed(&self, address: usize, thread: &mut Thread) {
        call_callbacks(thread, &Event { kind: FREE, address: address as u64, ..EMPTY_EVENT });
    }

    fn thread_ends(&self, thread: &mut Thread) {
        thread.open.drain(..).for_each(|open| capi_names::free(&open));
        if let Some(client) = thread.client.take() {
            // SAFETY: `state` made this box, and the thread no longer uses it.
            drop(unsafe { Box::from_raw(client.cast::<State>().as_ptr()) });
        }
    }

    fn forked(&self) {
        capi_callbacks::forked();
    }
}

/// C function `dlmonitor_init`: start monitoring, now or when PyTorch is imported.
#[unsafe(no_mangle)]
pub extern "C" fn dlmonitor_init() -> Status {
    capi_start::start()
}

/// C function `dlmonitor_api_version`: version of the C interface.
#[unsafe(no_mangle)]
pub extern "C" fn dlmonitor_api_version() -> c_uint {
    VERSION
}

/// C function `dlmonitor_callback_register`: call `callback` for every event from now on.
///
/// # Safety
/// `callback` must be callable with `user` from any thread, until it is unregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlmonitor_callback_register(
    domain: c_int,
    callback: Option<Callback>,
    user: *mut c_void,
) -> Status {
    let (0, Some(callback)) = (domain, callback) else { return Status::Unsupported };
    capi_callbacks::register(callback, user)
}

/// C function `dlmonitor_callback_unregister`: remove a callback that was registered with this `user` argument, after
/// running calls returned.
#[unsafe(no_mangle)]
pub extern "C" fn dlmonitor_callback_unregister(
    domain: c_int,
    callback: Option<Callback>,
    user: *mut c_void,
) -> Status {
    let (0, Some(callback)) = (domain, callback) else { return Status::Unsupported };
    capi_callbacks::unregister(callback, user)
}

/// C function `dlmonitor_callpath_get`: write the calling thread's call path, outermost frame first, to `frames`, and
/// its whole length to `length`. Only within a callback.
///
/// # Safety
/// `frames` has room for `capacity` frames, and `length` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlmonitor_callpath_get(
    sources: c_uint,
    frames: *mut Frame,
    capacity: usize,
    length: *mut usize,
) -> Status {
    // SAFETY: set by `call_callbacks` for as long as the thread's state is borrowed, null otherwise.
    let Some(thread) = (unsafe { CURRENT.get().as_ref() }) else { return Status::Unavailable };
    if frames.is_null() || length.is_null() {
        return Status::Unsupported;
    }
    let Some(state) = thread.client else { return Status::Unavailable };
    let sources = Sources { python: sources & 1 != 0, operators: sources & 2 != 0, native: sources & 4 != 0 };
    let mut output = Output { frames, capacity, length: 0 };
    // Clear it: a signal handler that requests a path meanwhile gets none.
    CURRENT.set(null());
    // SAFETY: `call_callbacks` made this box, which only this thread uses.
    unsafe { &mut *state.cast::<State>().as_ptr() }.path.write(thread, sources, &mut output);
    CURRENT.set(thread);
    // SAFETY: not null, and valid by contract.
    unsafe { length.write(output.length) };
    Status::Ok
}

/// C function `dlmonitor_finalize`: stop monitoring and remove all callbacks.
#[unsafe(no_mangle)]
pub extern "C" fn dlmonitor_finalize() {
    capi_start::stop();
}
