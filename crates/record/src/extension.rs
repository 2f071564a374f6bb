//! The Python extension module `_stackline_record`, by the plain C API: no header, no version, one file for all.
//!
//! Its functions take no arguments or one, and never raise.

use crate::options::Options;
use crate::session::Session;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::ptr::null_mut;

/// `PyMethodDef` of the stable ABI.
#[repr(C)]
struct Method {
    name: *const c_char,
    function: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> *mut c_void>,
    flags: c_int,
    doc: *const c_char,
}

/// `PyModuleDef` of the stable ABI: two words of object head, three of module head, then what is set here.
#[repr(C)]
struct Definition {
    head: [usize; 5],
    name: *const c_char,
    doc: *const c_char,
    size: isize,
    methods: *mut Method,
    slots: [*mut c_void; 4],
}

/// What Python keeps pointers to for the rest of the process.
struct Static<T>(std::cell::UnsafeCell<T>);

// SAFETY: only the interpreter touches the contents, under its own lock.
unsafe impl<T> Sync for Static<T> {}

const METH_VARARGS: c_int = 1;
const METH_NOARGS: c_int = 4;
const METH_O: c_int = 8;

const fn method(
    name: &'static CStr,
    function: unsafe extern "C" fn(*mut c_void, *mut c_void) -> *mut c_void,
) -> Method {
    Method { name: name.as_ptr(), function: Some(function), flags: METH_NOARGS, doc: c"".as_ptr() }
}

static METHODS: Static<[Method; 9]> = Static(std::cell::UnsafeCell::new([
    method(c"start", start),
    method(c"start_without_python", start_without_python),
    method(c"torch_imported", torch_imported),
    method(c"stop", stop),
    method(c"frames", frames),
    Method { flags: METH_O, ..method(c"watch_calls", watch_calls) },
    Method { flags: METH_VARARGS, ..method(c"put_module", put_module) },
    Method { flags: METH_VARARGS, ..method(c"forget_module", forget_module) },
    Method { name: std::ptr::null(), function: None, flags: 0, doc: std::ptr::null() },
]));

static DEFINITION: Static<Definition> = Static(std::cell::UnsafeCell::new(Definition {
    head: [1, 0, 0, 0, 0],
    name: c"_stackline_record".as_ptr(),
    doc: c"The recorder of Stackline.".as_ptr(),
    size: -1,
    methods: METHODS.0.get().cast(),
    slots: [null_mut(); 4],
}));

/// Called by the interpreter when it imports the module.
///
/// # Safety
/// Only an interpreter that holds its lock may call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PyInit__stackline_record() -> *mut c_void {
    // SAFETY: the name is null-terminated.
    let create = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"PyModule_Create2".as_ptr()) };
    if create.is_null() {
        return null_mut();
    }
    // SAFETY: the signature of `PyObject *PyModule_Create2(PyModuleDef *, int)`.
    let create =
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void>(create) };
    const PYTHON_ABI_VERSION: c_int = 3;
    // SAFETY: the definition has the layout of the stable ABI and lives for ever; the caller holds the GIL.
    unsafe { create(DEFINITION.0.get().cast(), PYTHON_ABI_VERSION) }
}

/// `None`, with a reference of its own.
fn none() -> *mut c_void {
    // SAFETY: the names are null-terminated; `_Py_NoneStruct` and `Py_IncRef` exist in every interpreter, whose lock
    // the caller holds.
    unsafe {
        let none = libc::dlsym(libc::RTLD_DEFAULT, c"_Py_NoneStruct".as_ptr());
        let increment = libc::dlsym(libc::RTLD_DEFAULT, c"Py_IncRef".as_ptr());
        if !increment.is_null() {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(increment)(none);
        }
        none
    }
}

/// Runs `action` without letting a panic out; what fails is said in one line.
#[expect(clippy::print_stderr, reason = "the one line that a recorder may say")]
fn guarded(action: impl FnOnce() -> Result<(), String>) -> *mut c_void {
    match std::panic::catch_unwind(AssertUnwindSafe(action)) {
        Ok(Ok(())) => {}
        Ok(Err(reason)) => eprintln!("stackline: not recording this process: {reason}"),
        Err(_) => eprintln!("stackline: not recording this process: the recorder failed"),
    }
    none()
}

unsafe extern "C" fn start(_module: *mut c_void, _arguments: *mut c_void) -> *mut c_void {
    guarded(|| Options::from_environment().map_or(Ok(()), Session::begin))
}

/// As [`start`], for an interpreter whose frames were found to be read wrongly.
unsafe extern "C" fn start_without_python(_module: *mut c_void, _arguments: *mut c_void) -> *mut c_void {
    guarded(|| {
        Options::from_environment().map_or(Ok(()), |options| Session::begin(Options { python: false, ..options }))
    })
}

unsafe extern "C" fn torch_imported(_module: *mut c_void, _arguments: *mut c_void) -> *mut c_void {
    guarded(|| {
        if let Some(session) = Session::current() {
            session.torch_imported();
        }
        Ok(())
    })
}

unsafe extern "C" fn stop(_module: *mut c_void, _arguments: *mut c_void) -> *mut c_void {
    guarded(|| {
        if let Some(session) = Session::current() {
            session.end();
        }
        Ok(())
    })
}

/// Calls of this code object are calls of a module.
unsafe extern "C" fn watch_calls(_module: *mut c_void, code: *mut c_void) -> *mut c_void {
    dlmonitor::Interpreter::watch_calls(code as usize);
    none()
}

/// The module whose `id` is the argument is gone.
unsafe extern "C" fn forget_module(_module: *mut c_void, arguments: *mut c_void) -> *mut c_void {
    type Parse = unsafe extern "C" fn(*mut c_void, *const c_char, ...) -> c_int;
    let mut address = 0_u64;
    // SAFETY: the name is null-terminated.
    let parse = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"PyArg_ParseTuple".as_ptr()) };
    if parse.is_null() {
        return none();
    }
    // SAFETY: the signature of `PyArg_ParseTuple`; the format asks for one unsigned 64-bit number. The caller holds the
    // GIL and the tuple.
    let parsed = unsafe {
        let parse = std::mem::transmute::<*mut c_void, Parse>(parse);
        parse(arguments, c"K".as_ptr(), &raw mut address)
    };
    if parsed == 0 {
        // Python's error is set.
        return null_mut();
    }
    guarded(|| {
        if let Some(session) = Session::current() {
            session.process.modules.forget(address as usize);
        }
        Ok(())
    })
}

/// A module (first argument) has a child (third) under a name (second).
unsafe extern "C" fn put_module(_module: *mut c_void, arguments: *mut c_void) -> *mut c_void {
    type Parse = unsafe extern "C" fn(*mut c_void, *const c_char, ...) -> c_int;
    let (mut parent, mut name, mut child) = (null_mut::<c_void>(), std::ptr::null::<c_char>(), null_mut::<c_void>());
    // SAFETY: the name is null-terminated.
    let parse = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"PyArg_ParseTuple".as_ptr()) };
    if parse.is_null() {
        return none();
    }
    // SAFETY: the signature of `PyArg_ParseTuple`; the format asks for two objects and a text in between. The caller
    // holds the GIL and the tuple, which keeps what it points to alive.
    let parsed = unsafe {
        let parse = std::mem::transmute::<*mut c_void, Parse>(parse);
        parse(arguments, c"OsO".as_ptr(), &raw mut parent, &raw mut name, &raw mut child)
    };
    if parsed == 0 {
        // Python's error is set.
        return null_mut();
    }
    guarded(|| {
        if let Some(session) = Session::current() {
            // SAFETY: a null-terminated text that the tuple keeps alive.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
            session.process.modules.put(parent as usize, &name, child as usize);
        }
        Ok(())
    })
}

/// The Python frames of the caller as the recorder sees them, one a line, newest first: function, file, line and first
/// line of the function, separated by tabs. For self-tests.
unsafe extern "C" fn frames(_module: *mut c_void, _arguments: *mut c_void) -> *mut c_void {
    let listing = std::panic::catch_unwind(|| {
        let Ok(interpreter) = dlmonitor::Interpreter::find() else { return String::new() };
        let mut listing = String::new();
        let mut next = interpreter.newest();
        while let Some(frame) = next {
            let line = interpreter.describe(frame);
            let _ = writeln!(listing, "{}\t{}\t{}\t{}", line.function, line.file, line.line, line.first_line);
            next = interpreter.caller(frame);
        }
        listing
    });
    // SAFETY: the name is null-terminated.
    let text = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"PyUnicode_FromString".as_ptr()) };
    let (Ok(Ok(listing)), false) = (listing.map(CString::new), text.is_null()) else { return none() };
    // SAFETY: the signature of `PyObject *PyUnicode_FromString(const char *)`; the caller holds the GIL.
    unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> *mut c_void>(text)(listing.as_ptr())
    }
}
