//! Limits on the cost of reading debug information.
//!
//! Parts of debug information refer to each other by offsets, so that a small file can cause a million reads of one
//! list, and functions can be nested deeper than any stack. The DWARF reader checks neither. So each read byte is
//! counted against a budget for whole sections, and the growth of the stack is checked: beyond either limit all reads
//! fail, as at the end of a section.

use gimli::{EndianSlice, LittleEndian, Reader, ReaderOffsetId};
use std::borrow::Cow;
use std::cell::Cell;

/// Budget of bytes that may still be read from debug sections, and limit of the stack's depth.
#[derive(Debug)]
pub(crate) struct Meter {
    left: Cell<u64>,
    /// Lowest address that the stack may reach; stacks grow downwards on all supported systems.
    lowest: usize,
}

impl Meter {
    /// Create a budget of `bytes` to read, and a limit of `stack` more bytes of stack than now.
    pub(crate) fn new(bytes: u64, stack: usize) -> Self {
        Self { left: Cell::new(bytes), lowest: stack_address().saturating_sub(stack) }
    }

    /// Increase the budget by this many bytes.
    pub(crate) fn add(&self, bytes: u64) {
        self.left.set(self.left.get().saturating_add(bytes));
    }

    /// Subtract read bytes from the budget; this and all later reads fail if it is exhausted or the stack is too deep.
    fn charge(&self, bytes: usize, at: ReaderOffsetId) -> gimli::Result<()> {
        let left = self.left.get().checked_sub(bytes as u64).filter(|_| stack_address() >= self.lowest);
        // After a failure all later reads fail, of any size.
        self.left.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(gimli::Error::UnexpectedEof(at))
    }
}

/// Address in the current stack frame, to measure the stack's depth.
#[inline(never)]
fn stack_address() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// Reader of a debug section whose reads are charged to a [`Meter`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metered<'a> {
    bytes: EndianSlice<'a, LittleEndian>,
    meter: &'a Meter,
}

impl<'a> Metered<'a> {
    /// Create a reader of a debug section's bytes, whose reads are charged to `meter`.
    pub(crate) fn new(bytes: &'a [u8], meter: &'a Meter) -> Self {
        Self { bytes: EndianSlice::new(bytes, LittleEndian), meter }
    }

    /// Charge a read of this section to the meter; fails beyond the limits.
    fn charge(&self, bytes: usize) -> gimli::Result<()> {
        self.meter.charge(bytes, self.bytes.offset_id())
    }
}

impl Reader for Metered<'_> {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn empty(&mut self) {
        self.bytes.empty();
    }

    fn truncate(&mut self, len: usize) -> gimli::Result<()> {
        self.bytes.truncate(len)
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.bytes.offset_from(base.bytes)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        self.bytes.offset_id()
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.bytes.lookup_offset_id(id)
    }

    fn find(&self, byte: u8) -> gimli::Result<usize> {
        let found = Reader::find(&self.bytes, byte);
        self.charge(found.as_ref().map_or(self.bytes.len(), |at| at + 1))?;
        found
    }

    fn skip(&mut self, len: usize) -> gimli::Result<()> {
        // Skipped bytes are free, but each skip costs 1.
        self.charge(1)?;
        self.bytes.skip(len)
    }

    fn split(&mut self, len: usize) -> gimli::Result<Self> {
        self.charge(1)?;
        Ok(Self { bytes: Reader::split(&mut self.bytes, len)?, ..*self })
    }

    fn to_slice(&self) -> gimli::Result<Cow<'_, [u8]>> {
        self.charge(self.bytes.len())?;
        self.bytes.to_slice()
    }

    fn to_string(&self) -> gimli::Result<Cow<'_, str>> {
        self.charge(self.bytes.len())?;
        Reader::to_string(&self.bytes)
    }

    fn to_string_lossy(&self) -> gimli::Result<Cow<'_, str>> {
        self.charge(self.bytes.len())?;
        Reader::to_string_lossy(&self.bytes)
    }

    fn read_slice(&mut self, buf: &mut [u8]) -> gimli::Result<()> {
        self.charge(buf.len())?;
        self.bytes.read_slice(buf)
    }
}
