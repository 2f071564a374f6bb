//! An operator call, as torch passes it to a callback.

use super::{fields, functions};
use std::ffi::{CStr, c_char};
use std::marker::PhantomData;

/// Kind of an operator call, such as forward function, backward node or user annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Scope {
    /// An operator.
    Function = 0,
    /// A node of autograd's backward graph.
    Backward = 1,
    /// A span that a user or a library named (`record_function`).
    User = 7,
    /// Unknown, because the layout of this torch is unknown.
    Unknown = 255,
}

/// Operator call in progress, read from PyTorch's `at::RecordFunction` while a callback runs.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    function: *const u8,
    /// Offsets of its fields, as far as they were known at its begin.
    fields: fields::Fields,
}

/// Name of an operator call in progress.
#[derive(Clone, Copy, Debug)]
pub struct OperatorName<'a> {
    text: *const c_char,
    call: PhantomData<&'a Operator>,
}

impl Operator {
    /// Wrap the address of a live `at::RecordFunction`.
    #[inline]
    pub(crate) fn new(function: *const u8) -> Self {
        Self { function, fields: fields::current() }
    }

    /// Number that distinguishes this call from other calls in progress: the address of its `at::RecordFunction`.
    #[must_use]
    #[inline]
    pub fn handle(&self) -> usize {
        self.function as usize
    }

    /// Name of the operator call. Names of spans live only as long as the call.
    #[must_use]
    #[inline]
    pub fn name(&self) -> OperatorName<'_> {
        let text = functions().map_or(std::ptr::null(), |functions| {
            // SAFETY: torch passed this `RecordFunction`, and it is alive while the callback runs.
            unsafe { (functions.name)(self.function) }
        });
        OperatorName { text: if text.is_null() { c"".as_ptr() } else { text }, call: PhantomData }
    }

    /// Kind of the operator call: function, backward, user annotation or unknown.
    #[must_use]
    #[inline]
    pub fn scope(&self) -> Scope {
        self.fields.scope_offset().map_or(Scope::Unknown, |offset| match self.byte(offset) {
            0 => Scope::Function,
            1 => Scope::Backward,
            7 => Scope::User,
            _ => Scope::Unknown,
        })
    }

    /// Autograd's sequence number, which a forward operator and its backward node share; `None` without one, or if its
    /// offset is unknown.
    #[must_use]
    #[inline]
    pub fn sequence_number(&self) -> Option<u64> {
        let number = self.word(self.fields.sequence_number_offset()?);
        (number.cast_signed() >= 0).then_some(number)
    }

    /// Torch's id of the thread that ran the forward operator of this backward node; `None` for other operators, or if
    /// its offset is unknown.
    #[must_use]
    #[inline]
    pub fn forward_thread(&self) -> Option<u64> {
        Some(self.word(self.fields.forward_thread_offset()?)).filter(|&thread| thread != 0)
    }

    /// Read 8 bytes at a byte offset of the `at::RecordFunction`.
    #[inline]
    pub(super) fn word(&self, offset: usize) -> u64 {
        // SAFETY: offsets are below `fields::SIZE`, which is within the object in every version since 2.1.
        unsafe { self.function.add(offset).cast::<u64>().read_unaligned() }
    }

    /// Read the byte at an offset of the `at::RecordFunction`.
    #[inline]
    pub(super) fn byte(&self, offset: usize) -> u8 {
        // SAFETY: as in `word`.
        unsafe { self.function.add(offset).read() }
    }
}

impl<'a> OperatorName<'a> {
    /// Text of the name, whose length is determined by this call.
    #[must_use]
    #[inline]
    pub fn text(self) -> &'a CStr {
        // SAFETY: a null-terminated text that lives as long as the call.
        unsafe { CStr::from_ptr(self.text) }
    }

    /// True if this name equals the text before the first null byte of `name`. Without null byte, true if it begins
    /// with `name`. This is cheaper than comparing texts, because their lengths are not needed.
    #[must_use]
    #[inline]
    pub fn is(self, name: &[u8]) -> bool {
        // SAFETY: a null-terminated text that lives as long as the call. Nothing after its null byte is read, and
        // nothing after the end of `name`.
        unsafe { libc::strncmp(self.text, name.as_ptr().cast(), name.len()) == 0 }
    }

    /// Address of the name's text. Another call may have another name at the same address.
    #[must_use]
    #[inline]
    pub fn address(self) -> usize {
        self.text as usize
    }
}
