//! The C interface (`include/dlmonitor.h`), for tools that are not written in Rust.

use crate::dispatch::Observer;
use crate::path::{PathFrame, Sources, call_path};
use crate::thread::{OpenOperator, Thread};
use crate::torch::{Compilation, Operator, Scope};
use std::collections::HashSet;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

/// `dlmonitor_event`.
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

/// `dlmonitor_frame`.
#[derive(Debug)]
#[repr(C)]
pub struct Frame {
    kind: c_int,
    name: *const c_char,
    file: *const c_char,
    line: u32,
    address: u64,
    offset: u64,
}

/// `dlmonitor_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// Another profiler uses `DLMonitor` in this process.
    InUse = 1,
    /// This version cannot do that.
    Unsupported = 2,
    /// No room for another callback.
    Full = 3,
    /// The framework is not loaded, or not known.
    Unavailable = 4,
}

/// `dlmonitor_callback`.
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
const PYTHON_FRAME: c_int = 0;
const OPERATOR_FRAME: c_int = 1;
const NATIVE_FRAME: c_int = 2;
const COMPILATION_FRAME: c_int = 3;
/// `DLMONITOR_API_VERSION`.
const VERSION: c_uint = 2;
/// Callbacks that may be registered.
const MOST: usize = 8;

/// A callback and what it wants to be called with.
#[derive(Clone, Copy, Debug)]
struct Registered(Callback, *mut c_void);

// SAFETY: the pointer is only handed back to the callback, which the tool says may run on any thread.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

static CALLBACKS: [OnceLock<Registered>; MOST] = [const { OnceLock::new() }; MOST];
/// Serialises registering; callbacks are read without it.
static REGISTERING: Mutex<()> = Mutex::new(());
static STARTED: OnceLock<bool> = OnceLock::new();

struct Forward;

fn call(event: &Event) {
    for registered in CALLBACKS.iter().map_while(OnceLock::get) {
        // SAFETY: the tool registered this function with this argument for this purpose.
        unsafe { registered.0(event, registered.1) };
    }
}

const NOTHING: Event = Event {
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
    static CURRENT: std::cell::Cell<*const Thread> = const { std::cell::Cell::new(std::ptr::null()) };
}

/// Calls the callbacks while paths of `thread` may be asked for.
fn call_on(thread: &Thread, event: &Event) {
    CURRENT.set(thread);
    call(event);
    CURRENT.set(std::ptr::null());
}

impl Observer for Forward {
    fn operator_begins(&self, operator: &Operator, thread: &mut Thread) {
        let name = interned(operator.name().text());
        if let Some(opened) = thread.open.last_mut() {
            opened.client[0] = name.as_ptr() as u64;
        }
        let event = Event {
            kind: OPERATOR_BEGIN,
            name: name.as_ptr(),
            handle: operator.handle() as u64,
            sequence_number: operator.sequence_number().map_or(-1, u64::cast_signed),
            forward_thread: operator.forward_thread().unwrap_or(0),
            is_backward: c_int::from(operator.scope() == Scope::Backward),
            ..NOTHING
        };
        call_on(thread, &event);
    }

    fn operator_ends(&self, ended: &OpenOperator, thread: &mut Thread) {
        call_on(thread, &Event { kind: OPERATOR_END, handle: ended.handle as u64, ..NOTHING });
    }

    fn compilation_begins(&self, compilation: &Compilation<'_>, thread: &mut Thread) {
        let (name, is_phase) = (interned(compilation.name).as_ptr(), compilation.is_phase);
        if let Some(opened) = thread.open.last_mut() {
            opened.client = [name as u64, u64::from(is_phase), 0, 0];
        }
        let kind = if is_phase { PHASE_BEGIN } else { COMPILATION_BEGIN };
        call_on(thread, &Event { kind, name, handle: compilation.handle as u64, ..NOTHING });
    }

    fn compilation_ends(&self, ended: &OpenOperator, thread: &mut Thread) {
        let kind = if ended.client[1] == 1 { PHASE_END } else { COMPILATION_END };
        call_on(thread, &Event { kind, name: name_of(ended), handle: ended.handle as u64, ..NOTHING });
    }

    fn allocated(&self, address: usize, bytes: u64, thread: &mut Thread) {
        call_on(thread, &Event { kind: ALLOCATE, address: address as u64, bytes, ..NOTHING });
    }

    fn freed(&self, address: usize, thread: &mut Thread) {
        call_on(thread, &Event { kind: FREE, address: address as u64, ..NOTHING });
    }
}

/// The name that was kept when it began; empty if it began before there was anybody to keep it.
fn name_of(open: &OpenOperator) -> *const c_char {
    let name = open.client[0] as *const c_char;
    if name.is_null() { c"".as_ptr() } else { name }
}

/// The text, kept for the life of the process.
fn interned(text: &CStr) -> &'static CStr {
    static TEXTS: Mutex<Option<HashSet<&'static CStr>>> = Mutex::new(None);
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let texts = texts.get_or_insert_default();
    if let Some(&known) = texts.get(text) {
        return known;
    }
    let kept: &'static CStr = Box::leak(text.to_owned().into_boxed_c_str());
    texts.insert(kept);
    kept
}

/// `dlmonitor_init`.
#[unsafe(no_mangle)]
pub extern "C" fn dlmonitor_init() -> Status {
    if !*STARTED.get_or_init(|| crate::init(Box::new(Forward))) {
        return Status::InUse;
    }
    if crate::interpreter().is_none() {
        let _ = crate::start_python();
    }
    if crate::start_torch().state.is_err() {
        return Status::Unavailable;
    }
    let _ = crate::start_memory();
    let _ = crate::start_native();
    crate::start_compilations();
    Status::Ok
}

/// `dlmonitor_api_version`.
#[unsafe(no_mangle)]
pub extern "C" fn dlmonitor_api_version() -> c_uint {
    VERSION
}

/// `dlmonitor_callback_register`.
///
/// # Safety
/// `callback` must be callable with `user` from any thread, for the life of the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlmonitor_callback_register(
    domain: c_int,
    callback: Option<Callback>,
    user: *mut c_void,
) -> Status {
    let (0, Some(callback)) = (domain, callback) else { return Status::Unsupported };
    let _serial = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    let free = CALLBACKS.iter().find(|place| place.get().is_none());
    match free.map(|place| place.set(Registered(callback, user))) {
        Some(Ok(())) => Status::Ok,
        _ => Status::Full,
    }
}

/// `dlmonitor_callpath_get`.
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
    // SAFETY: set by `call_on` for as long as the thread's state is borrowed, null otherwise.
    let Some(thread) = (unsafe { CURRENT.get().as_ref() }) else { return Status::Unavailable };
    if frames.is_null() || length.is_null() {
        return Status::Unsupported;
    }
    let path =
        call_path(thread, Sources { python: sources & 1 != 0, operators: sources & 2 != 0, native: sources & 4 != 0 });
    for (at, frame) in path.iter().take(capacity).enumerate() {
        // SAFETY: `at` is below `capacity`.
        unsafe { frames.add(at).write(c_frame(thread, frame)) };
    }
    // SAFETY: not null, and valid by contract.
    unsafe { length.write(path.len()) };
    Status::Ok
}

fn c_frame(thread: &Thread, frame: &PathFrame) -> Frame {
    let none = Frame { kind: 0, name: c"".as_ptr(), file: c"".as_ptr(), line: 0, address: 0, offset: 0 };
    match frame {
        PathFrame::Python(line) => {
            let (name, file) = (c_text(&line.function), c_text(&line.file));
            Frame { kind: PYTHON_FRAME, name, file, line: line.line, ..none }
        }
        PathFrame::Operator(index) => {
            let open = thread.open.get(*index);
            let is_compilation = open.is_some_and(OpenOperator::is_compilation);
            let kind = if is_compilation { COMPILATION_FRAME } else { OPERATOR_FRAME };
            Frame { kind, name: open.map_or(none.name, name_of), ..none }
        }
        PathFrame::Native(native) => {
            let address = native.address as u64;
            let (file, offset) = native.module.as_ref().map_or((none.file, 0), |module| {
                (c_text(&module.path.to_string_lossy()), address - module.range.start as u64)
            });
            Frame { kind: NATIVE_FRAME, file, address, offset, ..none }
        }
    }
}

fn c_text(text: &str) -> *const c_char {
    CString::new(text).map_or(c"".as_ptr(), |text| interned(&text).as_ptr())
}

/// `dlmonitor_finalize`.
#[unsafe(no_mangle)]
pub extern "C" fn dlmonitor_finalize() {
    crate::finalize();
}
