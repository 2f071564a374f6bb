//! Replacements for `os.execv` and `os.execve`, which all of `os.exec*` call: the recording is written before another
//! program replaces this one, and continues if the call fails.

use super::{API, METH_KEYWORDS, METH_VARARGS, Method, WithKeywords, none};
use crate::session::Session;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

type Function = unsafe extern "C" fn(*mut c_void, *mut c_void) -> *mut c_void;

/// The interpreter's own `execv` and `execve`, null until [`store_originals`] was called.
static ORIGINALS: [AtomicPtr<c_void>; 2] = [const { AtomicPtr::new(null_mut()) }; 2];

// The signature and text of the interpreter's own function.
pub(super) const EXECV: Method = method(
    c"execv",
    execv,
    c"execv($module, path, argv, /)\n--\n\nExecute an executable path with arguments, replacing current process.\n\n  path\n    Path of executable file.\n  argv\n    Tuple or list of strings.",
);
pub(super) const EXECVE: Method = method(
    c"execve",
    execve,
    c"execve($module, /, path, argv, env)\n--\n\nExecute an executable path with arguments, replacing current process.\n\n  path\n    Path of executable file.\n  argv\n    Tuple or list of strings.\n  env\n    Dictionary of strings mapping to strings.",
);

/// Entry of the method table for a function with positional and keyword arguments.
const fn method(name: &'static CStr, function: WithKeywords, doc: &'static CStr) -> Method {
    Method {
        name: name.as_ptr(),
        // SAFETY: with METH_KEYWORDS, the interpreter passes three arguments.
        function: Some(unsafe { std::mem::transmute::<WithKeywords, Function>(function) }),
        flags: METH_VARARGS | METH_KEYWORDS,
        doc: doc.as_ptr(),
    }
}

/// Store the interpreter's own `execv` and `execve`, which are the arguments.
pub(super) unsafe extern "C" fn store_originals(_module: *mut c_void, arguments: *mut c_void) -> *mut c_void {
    let [mut execv, mut execve] = [null_mut::<c_void>(); 2];
    let Some(api) = API.get() else { return null_mut() };
    // SAFETY: the format requires two objects. The caller holds the GIL and the tuple.
    if unsafe { (api.parse)(arguments, c"OO".as_ptr(), &raw mut execv, &raw mut execve) } == 0 {
        // Python's error is set.
        return null_mut();
    }
    for (original, function) in ORIGINALS.iter().zip([execv, execve]) {
        // The first time they are the interpreter's own. Later they may be our replacements, wrapped by other code.
        if original.compare_exchange(null_mut(), function, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // SAFETY: an object that the tuple keeps alive; the reference is kept forever. The caller holds the GIL.
            unsafe { (api.increment)(function) };
        }
    }
    none()
}

/// Replacement for `os.execv`.
unsafe extern "C" fn execv(_module: *mut c_void, arguments: *mut c_void, keywords: *mut c_void) -> *mut c_void {
    // SAFETY: by contract of the interpreter.
    unsafe { write_and_exec(&ORIGINALS[0], arguments, keywords) }
}

/// Replacement for `os.execve`.
unsafe extern "C" fn execve(_module: *mut c_void, arguments: *mut c_void, keywords: *mut c_void) -> *mut c_void {
    // SAFETY: by contract of the interpreter.
    unsafe { write_and_exec(&ORIGINALS[1], arguments, keywords) }
}

/// Write the recording and call the interpreter's own `exec` function, which returns only with an error; then continue
/// the recording.
///
/// # Safety
/// The caller holds the GIL, the tuple and the dictionary, which may be null.
unsafe fn write_and_exec(original: &AtomicPtr<c_void>, arguments: *mut c_void, keywords: *mut c_void) -> *mut c_void {
    let original = original.load(Ordering::Acquire);
    let Some(api) = API.get().filter(|_| !original.is_null()) else { return none() };
    // A panic was reported on stderr; the program continues as requested.
    let held = std::panic::catch_unwind(|| Session::hold().filter(|session| session.prepare_exec())).unwrap_or(None);
    // SAFETY: `store_originals` keeps a reference to the function; the rest by contract.
    let result = unsafe { (api.call)(original, arguments, keywords) };
    let _ = std::panic::catch_unwind(|| held.iter().for_each(|session| session.exec_failed()));
    result
}
