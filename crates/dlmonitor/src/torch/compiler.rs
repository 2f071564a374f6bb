//! Compilations of `torch.compile` and the names of its CPU kernels.
//!
//! PyTorch reports both only in Python: `compiler.py` hooks into its compiler. Compiled regions are ordinary
//! operators, and so are kernels once their names are enabled.

use crate::SourceState;
use crate::python::embedded::{Embedded, Method, arguments, number};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A compilation by `torch.compile` that begins, one of its phases, or a garbage collection of Python.
#[derive(Clone, Copy, Debug)]
pub struct Compilation<'a> {
    /// Number that distinguishes it from other compilations and operators in progress, see
    /// [`crate::OpenOperator::is_compilation`].
    pub handle: usize,
    /// Display name: `Compile 0/0: function (file:line)` with Dynamo's id, or `Recompile` if that function was
    /// compiled before. For a phase, the name that PyTorch gave it.
    pub name: &'a CStr,
    /// True for a phase of the enclosing compilation.
    pub is_phase: bool,
}

impl Compilation<'_> {
    /// True if this is a garbage collection of Python ([`crate::collection_begins`]) instead of a compilation.
    #[must_use]
    pub fn is_collection(&self) -> bool {
        self.name == crate::dispatch::COLLECTION
    }
}

const SOURCE: &CStr = match CStr::from_bytes_with_nul(concat!(include_str!("compiler.py"), "\0").as_bytes()) {
    Ok(source) => source,
    Err(_) => panic!("the source contains a null"),
};
static PYTHON: Embedded = Embedded::new(c"<stackline>", SOURCE, &METHODS);
static METHODS: [Method; 4] = [
    Method::new(c"_begin", begin),
    Method::new(c"_end", end),
    Method::new(c"_report_state", report_state),
    Method::new(c"_imported", imported),
];
/// Action after the import of PyTorch.
static ON_IMPORT: OnceLock<fn()> = OnceLock::new();

/// Names of the sources, by their numbers in Python.
const NAMES: [&str; 2] = ["compilations", "kernels"];
/// States of the sources. They are replaced as a whole and then leaked, which happens once.
static STATES: [AtomicPtr<SourceState>; NAMES.len()] = [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];

/// Store the state of a source (0: compilations, 1: kernels), with a description or the reason of a failure.
fn set_state(source: usize, state: Result<String, String>) {
    if let (Some(&name), Some(place)) = (NAMES.get(source), STATES.get(source)) {
        place.store(Box::into_raw(Box::new(SourceState { name, state })), Ordering::Release);
    }
}

/// States of the sources for compilations and for their kernels; empty until the program imports PyTorch's compiler.
pub(crate) fn states() -> impl Iterator<Item = &'static SourceState> {
    // SAFETY: null, or a leaked box.
    STATES.iter().filter_map(|state| unsafe { state.load(Ordering::Acquire).as_ref() })
}

/// Hook into `torch.compile` to report its compilations, now or at its import; a failure is stored for [`states`].
pub(crate) fn start_compilations() {
    if let Err(reason) = PYTHON.call(c"compilations") {
        set_state(0, Err(reason));
    }
}

/// Enable names for CPU kernels that `torch.compile` generates later; a failure is stored for [`states`].
pub(crate) fn start_kernels() {
    if let Err(reason) = PYTHON.call(c"kernels") {
        set_state(1, Err(reason));
    }
}

/// Call `action` at the import of PyTorch's extension module, or immediately if it is imported. Without a running
/// interpreter, nothing is called. Waits for Python's lock, and `action` runs with it.
pub(crate) fn upon_import(action: fn()) {
    ON_IMPORT.get_or_init(|| action);
    let _ = PYTHON.call(c"torch");
}

/// Python function `_imported()`: PyTorch was imported, so run the pending action.
unsafe extern "C" fn imported(_: *mut c_void, _: *mut c_void) -> *mut c_void {
    if let Some(action) = ON_IMPORT.get() {
        // A panic must not unwind into the interpreter.
        let _ = std::panic::catch_unwind(action);
    }
    number(0)
}

/// Remove the hooks if the calling thread holds Python's lock. Otherwise they remain without effect.
pub(crate) fn stop() {
    PYTHON.call_if_locked(c"stop");
}

/// Python function `_begin(name, is_phase, passing frames)`: report the begin of a compilation or phase, and return its
/// handle.
unsafe extern "C" fn begin(_: *mut c_void, tuple: *mut c_void) -> *mut c_void {
    let (mut name, mut is_phase, mut passing) = (null::<c_char>(), 0 as c_int, 0 as c_uint);
    arguments!(tuple, c"spI", &raw mut name, &raw mut is_phase, &raw mut passing);
    // SAFETY: a null-terminated text that the tuple keeps alive.
    let name = unsafe { CStr::from_ptr(name) };
    number(crate::dispatch::compilation_begins(name, is_phase != 0, passing) as u64)
}

/// Python function `_end(handle)`: report the end of a compilation or phase.
unsafe extern "C" fn end(_: *mut c_void, tuple: *mut c_void) -> *mut c_void {
    let mut handle = 0_u64;
    arguments!(tuple, c"K", &raw mut handle);
    if handle != 0 {
        crate::dispatch::compilation_ends(handle as usize);
    }
    number(0)
}

/// Python function `_report_state(source, on, detail)`: store if a source of reports works, or the reason why not.
unsafe extern "C" fn report_state(_: *mut c_void, tuple: *mut c_void) -> *mut c_void {
    let (mut source, mut on, mut detail) = (0 as c_uint, 0 as c_int, null::<c_char>());
    arguments!(tuple, c"Ips", &raw mut source, &raw mut on, &raw mut detail);
    // SAFETY: a null-terminated text that the tuple keeps alive.
    let detail = unsafe { CStr::from_ptr(detail) }.to_string_lossy().into_owned();
    set_state(source as usize, if on != 0 { Ok(detail) } else { Err(detail) });
    number(0)
}
