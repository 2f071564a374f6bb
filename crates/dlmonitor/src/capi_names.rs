//! Names in the C interface: strings that live as long as the process, with bounded memory for names of spans.
//!
//! Names of operators, Python functions, files and libraries are limited by the program's code. A table with a size
//! limit keeps them for the life of the process. Names of spans and compilations contain numbers (`iteration 17`):
//! each is a copy that lives as long as its span.

use crate::thread::OpenOperator;
use crate::torch::OperatorName;
use rustc_hash::FxHashSet;
use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, TryLockError};

/// Limits of the table of kept strings: number of strings and bytes.
const MAX_STRINGS: usize = 1 << 16;
const MAX_BYTES: usize = 8 << 20;
/// Attempts to get the table's lock, which can stay locked forever in a forked child.
const ATTEMPTS: u32 = 200;
/// Cached operator names per thread, by their address; a power of two.
const CACHE_SLOTS: usize = 256;

/// Bits of `client[1]` of an open operator.
pub(crate) const PHASE: u64 = 1;
const COPIED: u64 = 2;

/// Interned strings, and their total size in bytes.
#[derive(Default)]
struct Table {
    strings: FxHashSet<&'static CStr>,
    bytes: usize,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// Intern a text: return its only copy, which lives as long as the process. `None` if the table of strings is full or
/// stays locked.
pub(crate) fn intern(text: &CStr) -> Option<&'static CStr> {
    let mut attempts = 0;
    let mut table = loop {
        match TABLE.try_lock() {
            Ok(table) => break table,
            Err(TryLockError::Poisoned(table)) => break table.into_inner(),
            Err(TryLockError::WouldBlock) if attempts == ATTEMPTS => return None,
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
        attempts += 1;
    };
    let table = table.get_or_insert_default();
    if let Some(&known) = table.strings.get(text) {
        return Some(known);
    }
    let bytes = text.count_bytes() + 1;
    if table.strings.len() == MAX_STRINGS || table.bytes + bytes > MAX_BYTES {
        return None;
    }
    let copy: &'static CStr = Box::leak(text.to_owned().into_boxed_c_str());
    table.strings.insert(copy);
    table.bytes += bytes;
    Some(copy)
}

/// Cache from the address of an operator name in PyTorch's memory to its interned copy, for one thread.
#[derive(Debug)]
pub(crate) struct Names(Box<[(usize, &'static CStr); CACHE_SLOTS]>);

impl Default for Names {
    fn default() -> Self {
        Self(Box::new([(0, c""); CACHE_SLOTS]))
    }
}

impl Names {
    /// Set and return the name of an operator that begins: an interned string, or for a span a copy that [`free`]
    /// frees.
    #[inline]
    pub(crate) fn set_name(
        &mut self,
        opened: &mut OpenOperator,
        name: OperatorName<'_>,
        is_span: bool,
    ) -> *const c_char {
        let known = if is_span { None } else { self.known(name) };
        match known {
            Some(known) => {
                opened.client[0] = known.as_ptr() as u64;
                known.as_ptr()
            }
            None => set_copied_name(opened, name.text(), 0),
        }
    }

    /// Interned copy of an operator name, from the cache or the table; `None` if the table is full or stays locked.
    #[inline]
    fn known(&mut self, name: OperatorName<'_>) -> Option<&'static CStr> {
        let place = &mut self.0[(name.address() >> 4) % CACHE_SLOTS];
        // Another name can be at the same address.
        if place.0 == name.address() && name.is(place.1.to_bytes_with_nul()) {
            return Some(place.1);
        }
        let known = intern(name.text())?;
        *place = (name.address(), known);
        Some(known)
    }
}

/// Set and return the name of a span or compilation that begins: a copy, which [`free`] frees.
pub(crate) fn set_copied_name(opened: &mut OpenOperator, name: &CStr, flags: u64) -> *const c_char {
    let copy = name.to_owned().into_raw();
    opened.client = [copy as u64, flags | COPIED, 0, 0];
    copy
}

/// Free the name of an ended span or compilation, if it is a copy.
pub(crate) fn free(ended: &OpenOperator) {
    if ended.client[1] & COPIED != 0 {
        // SAFETY: `set_copied_name` made it, and a span ends once.
        drop(unsafe { CString::from_raw(ended.client[0] as *mut c_char) });
    }
}

/// Name of an operator in progress as a C string; empty if the operator began before observation was on.
pub(crate) fn name_of(open: &OpenOperator) -> *const c_char {
    let name = open.client[0] as *const c_char;
    if name.is_null() { c"".as_ptr() } else { name }
}

#[cfg(test)]
mod tests {
    use super::{MAX_STRINGS, TABLE, free, intern, name_of, set_copied_name};
    use crate::thread::OpenOperator;
    use std::ffi::{CStr, CString};

    #[test]
    fn the_table_of_strings_is_bounded() {
        let mut refused = 0;
        for number in 0..MAX_STRINGS + 10 {
            refused += usize::from(intern(&CString::new(format!("name {number}")).unwrap()).is_none());
        }
        assert!(refused >= 10, "{refused}");
        let first = intern(c"name 0").expect("kept since the beginning");
        assert_eq!(intern(c"name 0").map(CStr::as_ptr), Some(first.as_ptr()), "the same string again");
        assert_eq!(TABLE.lock().unwrap().as_ref().unwrap().strings.len(), MAX_STRINGS);
    }

    #[test]
    fn a_copied_name_lives_as_long_as_its_span() {
        let mut open = OpenOperator::default();
        let name = set_copied_name(&mut open, c"iteration 17", 0);
        // SAFETY: not freed yet.
        assert_eq!(unsafe { CStr::from_ptr(name) }, c"iteration 17");
        assert_eq!(name_of(&open), name);
        free(&open);
        assert_eq!(name_of(&OpenOperator::default()), c"".as_ptr());
    }
}
