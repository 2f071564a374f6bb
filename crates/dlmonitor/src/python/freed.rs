//! Counter of freed code objects: as long as none was freed, the address of one stands for it.
//!
//! CPython calls `tp_dealloc` of the type of code objects for each that goes. That entry is replaced by a function that counts
//! and calls the one that was there. `PyCode_AddWatcher` (3.12 and later) would do the same, but not for 3.10 and 3.11.

use crate::symbols;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

type Dealloc = unsafe extern "C" fn(*mut c_void);

/// `tp_name` and `tp_dealloc` of types in builds with the GIL, the same from 3.10 to 3.14. Other builds have longer heads of
/// objects: what lies at the first offset is no name of theirs.
const NAME: usize = 24;
const DEALLOC: usize = 48;
/// A value of [`FREED`]: nobody counts.
const UNWATCHED: u64 = u64::MAX;

/// Code objects that were freed since the counting began.
static FREED: AtomicU64 = AtomicU64::new(UNWATCHED);
/// The interpreter's own function.
static ORIGINAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static START: Once = Once::new();

/// A moment in the life of code objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed(u64);

impl Freed {
    /// This moment.
    ///
    /// A code object that takes the place of another one is run by a thread that held the GIL after the other was freed: the
    /// order of plain loads is enough.
    #[inline]
    pub(crate) fn now() -> Self {
        Self(FREED.load(Ordering::Relaxed))
    }

    /// Whether it is known that none was freed between these moments.
    #[inline]
    pub(crate) fn is(self, other: Self) -> bool {
        self.0 == other.0 && self.0 != UNWATCHED
    }
}

/// Counts from now on, if this interpreter has its types where they are expected.
pub(crate) fn watch(version: (u8, u8)) {
    if !((3, 10)..=(3, 14)).contains(&version) || cfg!(not(target_pointer_width = "64")) {
        return;
    }
    START.call_once(|| {
        let Some(code_type) = symbols::global(c"PyCode_Type") else { return };
        // SAFETY: a type object is longer than this and lives as long as the process. In builds without the GIL, whose
        // objects have a longer head, the word is `ob_type`: a type, whose first bytes are not the text below.
        let name = unsafe { code_type.as_ptr().cast::<u8>().add(NAME).cast::<*const c_char>().read() };
        if !is_address(name.cast()) {
            return;
        }
        // SAFETY: it is an address in the same library or program as the type, where constant texts are.
        if unsafe { CStr::from_ptr(name) } != c"code" {
            return;
        }
        // SAFETY: as above; the interpreter never writes it after its start, and reads it as a whole word.
        let entry = unsafe { AtomicPtr::<c_void>::from_ptr(code_type.as_ptr().cast::<u8>().add(DEALLOC).cast()) };
        let original = entry.load(Ordering::Acquire);
        if original.is_null() || !is_address(original) {
            return;
        }
        if !stay_loaded() {
            return;
        }
        ORIGINAL.store(original, Ordering::Release);
        entry.store(dealloc as Dealloc as *mut c_void, Ordering::SeqCst);
        // What is freed from here on is counted.
        FREED.store(0, Ordering::SeqCst);
    });
}

/// Has this library stay in the process whoever closes it: the interpreter calls [`dealloc`] from now on.
fn stay_loaded() -> bool {
    // SAFETY: `info` is valid for writes; the address is one of this library or program.
    let name = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(dealloc as Dealloc as *const c_void, &raw mut info) == 0 {
            return false;
        }
        info.dli_fname
    };
    // SAFETY: the loader's own name of it, which is loaded: no code of it runs. A program itself has no such name, and stays.
    unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    true
}

/// Whether it lies in a library or program that is loaded.
fn is_address(address: *const c_void) -> bool {
    // SAFETY: `info` is valid for writes; the address is only looked up.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(address, &raw mut info) != 0
    }
}

/// In the place of `tp_dealloc` of code objects.
unsafe extern "C" fn dealloc(code: *mut c_void) {
    if FREED.load(Ordering::Relaxed) != UNWATCHED {
        FREED.fetch_add(1, Ordering::Relaxed);
    }
    let original = ORIGINAL.load(Ordering::Relaxed);
    // SAFETY: it was read from the entry that this function stands in, is not null, and has this type; the caller's promise
    // is passed on.
    unsafe { std::mem::transmute::<*mut c_void, Dealloc>(original)(code) }
}
