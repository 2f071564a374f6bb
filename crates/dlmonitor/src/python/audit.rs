//! Audit hook (PEP 578) that reports the import of `torch`, for interpreters that have not started yet.
//!
//! CPython documents that such a hook can be added before the interpreter starts and cannot be removed. It is
//! therefore added only if no interpreter runs yet.

use super::embedded::function;
use crate::symbols;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

type Hook = unsafe extern "C" fn(*const c_char, *mut c_void, *mut c_void) -> c_int;

/// Functions of Python's C API that the audit hook calls, and the action that it runs.
#[derive(Clone, Copy)]
struct Api {
    size: unsafe extern "C" fn(*mut c_void) -> isize,
    item: unsafe extern "C" fn(*mut c_void, isize) -> *mut c_void,
    text: unsafe extern "C" fn(*mut c_void, *mut isize) -> *const c_char,
    clear_error: unsafe extern "C" fn(),
    action: fn(),
}

static API: OnceLock<Api> = OnceLock::new();

/// True if Python is loaded in the process, but its interpreter has not started yet.
pub(crate) fn is_needed() -> bool {
    // SAFETY: the signature of `int Py_IsInitialized(void)`, which may be called at any time.
    symbols::global(c"Py_IsInitialized").is_some_and(|function| unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(function.as_ptr())() == 0
    })
}

/// Install an audit hook that calls `action` before each import of `torch`, with Python's lock held. Installed once per
/// process, and only while no interpreter runs.
pub(crate) fn install(action: fn()) {
    // SAFETY: the signatures of the functions with these names, all of the stable ABI.
    let api = || unsafe {
        Some(Api {
            size: function(c"PyTuple_Size")?,
            item: function(c"PyTuple_GetItem")?,
            text: function(c"PyUnicode_AsUTF8AndSize")?,
            clear_error: function(c"PyErr_Clear")?,
            action,
        })
    };
    // SAFETY: `int PySys_AddAuditHook(Py_AuditHookFunction, void *)`.
    let add: Option<unsafe extern "C" fn(Hook, *mut c_void) -> c_int> = unsafe { function(c"PySys_AddAuditHook") };
    let (Some(add), Some(api)) = (add, api()) else { return };
    if API.set(api).is_ok() {
        // SAFETY: the hook lives as long as the process, and no interpreter runs.
        unsafe { add(hook, std::ptr::null_mut()) };
    }
}

/// Audit hook: run the action before an import of `torch`. Always returns 0, so that no exception is raised.
unsafe extern "C" fn hook(event: *const c_char, arguments: *mut c_void, _: *mut c_void) -> c_int {
    // SAFETY: a null-terminated name of an event.
    if unsafe { CStr::from_ptr(event) } == c"import"
        && let Some(api) = API.get()
    {
        // SAFETY: the interpreter passes a tuple and holds its lock. Programs that call `sys.audit` can put any
        // objects into the tuple.
        let is_torch = unsafe { first_text(api, arguments) } == Some(c"torch");
        if is_torch {
            let _ = std::panic::catch_unwind(api.action);
        }
    }
    0
}

/// First item of a tuple as text; `None` if the tuple is empty or the item is not a text.
///
/// # Safety
/// The calling thread holds Python's lock, and the tuple outlives the result.
unsafe fn first_text<'a>(api: &Api, tuple: *mut c_void) -> Option<&'a CStr> {
    // SAFETY: by contract; both references are borrowed, and errors are cleared.
    unsafe {
        if tuple.is_null() || (api.size)(tuple) < 1 {
            (api.clear_error)();
            return None;
        }
        let text = (api.text)((api.item)(tuple, 0), std::ptr::null_mut());
        if text.is_null() {
            (api.clear_error)();
            return None;
        }
        Some(CStr::from_ptr(text))
    }
}
