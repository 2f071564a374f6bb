//! Symbol lookup in other libraries of this process at run time, so that no library is linked.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

/// Look up the address of a symbol in the libraries that are visible to the whole process; `None` if none exports it.
pub(crate) fn global(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: `name` is null-terminated; RTLD_DEFAULT asks the libraries that are loaded already.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// Handle of a library that is already loaded, and that this module neither loads nor unloads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library(NonNull<c_void>);

impl Library {
    /// Find the library with this path or soname; `None` if it is not loaded.
    pub(crate) fn loaded(path: &CStr) -> Option<Self> {
        // SAFETY: `path` is null-terminated; RTLD_NOLOAD runs no code of the library.
        NonNull::new(unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) }).map(Self)
    }

    /// Look up the address of a symbol in this library and its dependencies; `None` if they do not export it.
    pub(crate) fn symbol(self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is never closed, and `name` is null-terminated.
        NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })
    }
}
