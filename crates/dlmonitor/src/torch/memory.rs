//! Reports of allocations and frees by PyTorch's CPU allocator.
//!
//! Every allocation of `PyTorch`'s CPU allocator, including failed ones, calls functions of `libc10` that report to a
//! profiler, through the import table of that library. These calls are redirected to functions of this module, which
//! call the originals.

use crate::plt_hook::{self, Import};
use crate::symbols::Library;
use std::ffi::{CStr, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

type New = unsafe extern "C" fn(*mut c_void, *mut c_void, usize);
type Delete = unsafe extern "C" fn(*mut c_void, *mut c_void);
/// The function that reports failures is C++ code and may throw.
type Failed = unsafe extern "C-unwind" fn(*mut c_void, usize);

const NEW: &CStr = c"_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm";
const DELETE: &CStr = c"_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv";
const FAILED: &CStr = c"_ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm";
const LIBRARY: &str = "libc10.so";

static ORIGINALS: OnceLock<(New, Delete)> = OnceLock::new();
static FAILED_ORIGINAL: OnceLock<Failed> = OnceLock::new();
/// The redirected imports.
static IMPORTS: Mutex<Option<Vec<Import>>> = Mutex::new(None);

/// Start to report allocations and frees of CPU tensors, by redirecting calls in `libc10`; no effect if started.
///
/// # Errors
/// A sentence with the reason why allocations cannot be reported.
pub(crate) fn start() -> Result<(), String> {
    let mut imports = IMPORTS.lock().unwrap_or_else(PoisonError::into_inner);
    if imports.is_some() {
        return Ok(());
    }
    let library = Library::loaded(c"libc10.so").ok_or("PyTorch is not loaded")?;
    let symbol = |name: &CStr| {
        library.symbol(name).ok_or("libc10 of this PyTorch version has no function that reports allocations")
    };
    let (new, delete) = (symbol(NEW)?, symbol(DELETE)?);
    ORIGINALS.get_or_init(|| {
        // SAFETY: the signatures of `ProfiledCPUMemoryReporter::New(void*, size_t)` and `::Delete(void*)`, with `this`
        // as first argument.
        unsafe {
            (
                std::mem::transmute::<*mut c_void, New>(new.as_ptr()),
                std::mem::transmute::<*mut c_void, Delete>(delete.as_ptr()),
            )
        }
    });
    let new = plt_hook::redirect(LIBRARY, NEW, on_new as *const c_void)?;
    match plt_hook::redirect(LIBRARY, DELETE, on_delete as *const c_void) {
        Ok(delete) => {
            let failed = library.symbol(FAILED).and_then(|original| {
                // SAFETY: the signature of `ProfiledCPUMemoryReporter::OutOfMemory(size_t)`, with `this` as first argument.
                FAILED_ORIGINAL
                    .get_or_init(|| unsafe { std::mem::transmute::<*mut c_void, Failed>(original.as_ptr()) });
                // Versions without reports of failures still report allocations and frees.
                plt_hook::redirect(LIBRARY, FAILED, on_failed as *const c_void).ok()
            });
            *imports = Some([new, delete].into_iter().chain(failed).collect());
            Ok(())
        }
        Err(reason) => {
            new.restore();
            Err(reason)
        }
    }
}

/// Stop to report allocations and frees of CPU tensors, and restore the original functions.
pub(crate) fn stop() {
    let imports = IMPORTS.lock().unwrap_or_else(PoisonError::into_inner).take();
    for import in imports.iter().flatten() {
        import.restore();
    }
}

/// Replacement for `ProfiledCPUMemoryReporter::OutOfMemory`: report a failed allocation, and call the original. The
/// allocator throws right after this.
unsafe extern "C-unwind" fn on_failed(reporter: *mut c_void, bytes: usize) {
    crate::dispatch::allocation_failed(bytes as u64);
    if let Some(original) = FAILED_ORIGINAL.get() {
        // SAFETY: the caller's own arguments.
        unsafe { original(reporter, bytes) };
    }
}

/// Replacement for `ProfiledCPUMemoryReporter::New`: call the original, and report an allocation that is not empty.
unsafe extern "C" fn on_new(reporter: *mut c_void, address: *mut c_void, bytes: usize) {
    if let Some((new, _)) = ORIGINALS.get() {
        // SAFETY: the caller's own arguments.
        unsafe { new(reporter, address, bytes) };
    }
    if bytes != 0 {
        crate::dispatch::allocated(address as usize, bytes as u64);
    }
}

/// Replacement for `ProfiledCPUMemoryReporter::Delete`: report a free, and call the original.
unsafe extern "C" fn on_delete(reporter: *mut c_void, address: *mut c_void) {
    crate::dispatch::freed(address as usize);
    if let Some((_, delete)) = ORIGINALS.get() {
        // SAFETY: the caller's own arguments.
        unsafe { delete(reporter, address) };
    }
}
