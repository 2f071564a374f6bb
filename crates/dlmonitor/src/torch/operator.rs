//! One operator call, as torch shows it to a callback.

use super::{fields, functions};
use std::ffi::{CStr, c_char};

/// What kind of span torch reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Scope {
    /// An operator.
    Function = 0,
    /// A node of autograd's backward graph.
    Backward = 1,
    /// A span that a user or a library named (`record_function`).
    User = 7,
    /// Not known: the layout of this torch is not.
    Unknown = 255,
}

/// A call of an operator that begins now.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    function: *const u8,
}

impl Operator {
    pub(crate) fn new(function: *const u8) -> Self {
        Self { function }
    }

    /// What tells this call from others that run at the same time.
    #[must_use]
    #[inline]
    pub fn handle(&self) -> usize {
        self.function as usize
    }

    /// Its name. Names of spans live only as long as the call.
    #[must_use]
    #[inline]
    pub fn name(&self) -> &CStr {
        // SAFETY: a null-terminated text that lives as long as the call.
        unsafe { CStr::from_ptr(self.name_pointer()) }
    }

    /// Whether it has this name; cheaper than [`Self::name`].
    #[must_use]
    #[inline]
    pub fn is_named(&self, name: &CStr) -> bool {
        // SAFETY: both are null-terminated texts that live as long as the call.
        unsafe { libc::strcmp(self.name_pointer(), name.as_ptr()) == 0 }
    }

    /// Where its name stands; another call may have another name at the same address.
    #[must_use]
    #[inline]
    pub fn name_address(&self) -> usize {
        self.name_pointer() as usize
    }

    #[inline]
    fn name_pointer(&self) -> *const c_char {
        let name = functions().map_or(std::ptr::null(), |functions| {
            // SAFETY: torch gave us this `RecordFunction`, and it is alive while the callback runs.
            unsafe { (functions.name)(self.function) }
        });
        if name.is_null() { c"".as_ptr() } else { name }
    }

    /// Its kind.
    #[must_use]
    #[inline]
    pub fn scope(&self) -> Scope {
        fields::current().map_or(Scope::Unknown, |fields| match self.byte(fields.scope) {
            0 => Scope::Function,
            1 => Scope::Backward,
            7 => Scope::User,
            _ => Scope::Unknown,
        })
    }

    /// Autograd's sequence number, which a forward operator and its backward node share.
    #[must_use]
    #[inline]
    pub fn sequence_number(&self) -> Option<u64> {
        let number = self.word(fields::current()?.sequence_number?);
        (number.cast_signed() >= 0).then_some(number)
    }

    /// Torch's id of the thread that ran the forward operator of this backward node.
    #[must_use]
    #[inline]
    pub fn forward_thread(&self) -> Option<u64> {
        Some(self.word(fields::current()?.forward_thread?)).filter(|&thread| thread != 0)
    }

    #[inline]
    pub(super) fn word(&self, offset: usize) -> u64 {
        // SAFETY: offsets are below `fields::SIZE`, which is within the object in every version since 2.1.
        unsafe { self.function.add(offset).cast::<u64>().read_unaligned() }
    }

    #[inline]
    pub(super) fn byte(&self, offset: usize) -> u8 {
        // SAFETY: as in `word`.
        unsafe { self.function.add(offset).read() }
    }
}
