//! Counter of freed code objects: while the counter is unchanged, a code object's address identifies the object.
//!
//! CPython calls `tp_dealloc` of the code type for each freed code object. This entry is replaced by a function that
//! increments the counter and calls the original. `PyCode_AddWatcher` (3.12 and later) has the same effect, but does
//! not exist in 3.10 and 3.11.

use crate::symbols;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

type Dealloc = unsafe extern "C" fn(*mut c_void);

/// Offsets of `tp_name` and `tp_dealloc` in types of builds with the GIL, equal from 3.10 to 3.14. Builds without the
/// GIL have longer object headers, in which the word at the first offset is not a name.
const NAME: usize = 24;
const DEALLOC: usize = 48;
/// Value of [`FREED`] without a counter.
const UNWATCHED: u64 = u64::MAX;

/// Number of code objects that were freed since counting began.
static FREED: AtomicU64 = AtomicU64::new(UNWATCHED);
/// The interpreter's original function.
static ORIGINAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static START: Once = Once::new();

/// Value of the counter of freed code objects at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreedCount(u64);

impl FreedCount {
    /// Read the current value of the counter of freed code objects.
    ///
    /// A code object at the address of a freed one is run by a thread that took the GIL after the free. The order of
    /// plain loads is therefore sufficient.
    #[inline]
    pub(crate) fn current() -> Self {
        Self(FREED.load(Ordering::Relaxed))
    }

    /// True if no code object was freed between two values; `false` if they are not counted.
    #[inline]
    pub(crate) fn is_unchanged_until(self, other: Self) -> bool {
        self.0 == other.0 && self.0 != UNWATCHED
    }
}

/// Install the counter of freed code objects, once, if the interpreter of this version has its types at the expected
/// offsets.
pub(crate) fn watch(version: (u8, u8)) {
    if !((3, 10)..=(3, 14)).contains(&version) || cfg!(not(target_pointer_width = "64")) {
        return;
    }
    START.call_once(|| {
        let Some(code_type) = symbols::global(c"PyCode_Type") else { return };
        // SAFETY: a type object is longer than this and lives as long as the process. In builds without the GIL, whose
        // objects have a longer head, the word is `ob_type`: a type, whose first bytes are not the text below.
        let name = unsafe { code_type.as_ptr().cast::<u8>().add(NAME).cast::<*const c_char>().read() };
        if !is_in_loaded_module(name.cast()) {
            return;
        }
        // SAFETY: an address in the library or program that contains the type, in which constant texts are stored.
        if unsafe { CStr::from_ptr(name) } != c"code" {
            return;
        }
        // SAFETY: as above; the interpreter does not write it after its start, and reads it as a whole word.
        let entry = unsafe { AtomicPtr::<c_void>::from_ptr(code_type.as_ptr().cast::<u8>().add(DEALLOC).cast()) };
        let original = entry.load(Ordering::Acquire);
        if original.is_null() || !is_in_loaded_module(original) {
            return;
        }
        if !stay_loaded() {
            return;
        }
        ORIGINAL.store(original, Ordering::Release);
        entry.store(dealloc as Dealloc as *mut c_void, Ordering::SeqCst);
        // Count from here on.
        FREED.store(0, Ordering::SeqCst);
    });
}

/// Pin this library in memory, because the interpreter calls [`dealloc`] from now on; `false` if the library is not
/// found.
fn stay_loaded() -> bool {
    // SAFETY: `info` is valid for writes; the address is one of this library or program.
    let name = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(dealloc as Dealloc as *const c_void, &raw mut info) == 0 {
            return false;
        }
        info.dli_fname
    };
    // SAFETY: the name is the loader's own, and the library is loaded, so none of its code runs. A program itself has
    // no such name and is never unloaded.
    unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    true
}

/// True if the address is in a loaded library or program.
fn is_in_loaded_module(address: *const c_void) -> bool {
    // SAFETY: `info` is valid for writes; the address is only looked up.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(address, &raw mut info) != 0
    }
}

/// Replacement for `tp_dealloc` of code objects, which counts the freed object and calls the original.
unsafe extern "C" fn dealloc(code: *mut c_void) {
    if FREED.load(Ordering::Relaxed) != UNWATCHED {
        FREED.fetch_add(1, Ordering::Relaxed);
    }
    let original = ORIGINAL.load(Ordering::Relaxed);
    // SAFETY: it was read from the entry that this function replaces, is not null, and has this type. The contract of
    // the caller is passed on.
    unsafe { std::mem::transmute::<*mut c_void, Dealloc>(original)(code) }
}
