//! Accesses of calls to objects: direction, extent and evidence.

use crate::MemoryObjectId;

/// Direction of a memory access: read, write, both or unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AccessMode {
    /// Read only.
    Read,
    /// Written only.
    Write,
    /// Read and written.
    Both,
    /// Access, or possible access, of unknown direction.
    Unknown,
}

impl AccessMode {
    /// All modes, in their order.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Both, Self::Unknown];

    /// True if the access may read the memory object.
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// True if the access may write the memory object.
    pub fn writes(self) -> bool {
        self != Self::Read
    }

    /// Stable name of an access mode: read, write, both or unknown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Both => "both",
            Self::Unknown => "unknown",
        }
    }
}

/// Evidence for a memory access, from recorded to merely possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AccessEvidence {
    /// Every access on the device was recorded, or parameters of the call state it exactly (copies, sets).
    Instrumented,
    /// By inputs and outputs of the operator.
    OperatorLevel,
    /// An argument points into the object; its use is unknown.
    MayAccess,
    /// Unknown call during the lifetime of the object.
    Opaque,
}

impl AccessEvidence {
    /// All kinds of evidence, best first.
    pub const ALL: [Self; 4] = [Self::Instrumented, Self::OperatorLevel, Self::MayAccess, Self::Opaque];

    /// Stable name of the evidence for a memory access.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instrumented => "instrumented",
            Self::OperatorLevel => "operator-level",
            Self::MayAccess => "may-access",
            Self::Opaque => "opaque",
        }
    }
}

/// Extent of a memory access: the whole object, byte ranges, or unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AccessExtent {
    /// Unknown.
    Unknown,
    /// Every byte.
    Whole,
    /// The ranges in [`MemoryAccesses::ranges_of`].
    Ranges,
}

impl AccessExtent {
    /// All extents, in their order.
    pub const ALL: [Self; 3] = [Self::Unknown, Self::Whole, Self::Ranges];

    /// Stable name of the extent of a memory access.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Whole => "whole",
            Self::Ranges => "ranges",
        }
    }
}

/// Byte range of an object, relative to its first byte, with the number of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRange {
    /// First byte.
    pub begin: u64,
    /// The byte after the last one.
    pub end: u64,
    /// Number of accesses by the call to each of these bytes; 1 if the number is unknown.
    pub times: u32,
}

/// Access of a call to a memory object: direction, evidence and extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// Row in [`MemoryAccesses`].
    pub row: usize,
    /// Object.
    pub object: MemoryObjectId,
    /// Direction.
    pub mode: AccessMode,
    /// Evidence.
    pub evidence: AccessEvidence,
    /// Extent.
    pub extent: AccessExtent,
}

/// Accesses to memory objects as columns, in the order of the calls: five bytes each, and more if ranges are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryAccesses {
    /// Object.
    pub object: Vec<MemoryObjectId>,
    /// Mode (bits 0 and 1), evidence (2 and 3) and extent (4 and 5).
    pub what: Vec<u8>,
    /// Rows with ranges, ascending; a row is repeated for each range.
    pub range_row: Vec<u32>,
    /// Range of the row at the same position; ranges of a row ascend and do not overlap.
    pub range: Vec<ByteRange>,
}

impl MemoryAccesses {
    /// Add an access of the last call, whole or of unknown extent ([`AccessExtent::Ranges`] counts as unknown here).
    pub fn push(&mut self, object: MemoryObjectId, mode: AccessMode, evidence: AccessEvidence, extent: AccessExtent) {
        let extent = if extent == AccessExtent::Ranges { AccessExtent::Unknown } else { extent };
        self.push_row(object, mode, evidence, extent);
    }

    /// Add an access of the last call to byte ranges of an object. `ranges` must ascend, must not be empty, and must
    /// not overlap; without any, nothing is added.
    pub fn push_ranges(
        &mut self,
        object: MemoryObjectId,
        mode: AccessMode,
        evidence: AccessEvidence,
        ranges: &[ByteRange],
    ) {
        if ranges.is_empty() {
            return;
        }
        let row = u32::try_from(self.len()).unwrap_or(u32::MAX);
        self.push_row(object, mode, evidence, AccessExtent::Ranges);
        for range in ranges {
            self.range_row.push(row);
            self.range.push(*range);
        }
    }

    /// Add an access; the caller adds its ranges, if any.
    pub fn push_row(
        &mut self,
        object: MemoryObjectId,
        mode: AccessMode,
        evidence: AccessEvidence,
        extent: AccessExtent,
    ) {
        self.object.push(object);
        self.what.push(mode as u8 | (evidence as u8) << 2 | (extent as u8) << 4);
    }

    /// Number of accesses of calls to memory objects.
    pub fn len(&self) -> usize {
        self.object.len()
    }

    /// True if there are no accesses to memory objects.
    pub fn is_empty(&self) -> bool {
        self.object.is_empty()
    }

    /// Access to a memory object at `row` of the table.
    pub fn get(&self, row: usize) -> MemoryAccess {
        let what = self.what[row];
        MemoryAccess {
            row,
            object: self.object[row],
            mode: AccessMode::ALL[usize::from(what & 3)],
            evidence: AccessEvidence::ALL[usize::from(what >> 2 & 3)],
            extent: AccessExtent::ALL[usize::from(what >> 4 & 3).min(2)],
        }
    }

    /// Byte ranges of the access at `row`, if known.
    pub fn ranges_of(&self, row: usize) -> &[ByteRange] {
        let row = u32::try_from(row).unwrap_or(u32::MAX);
        let first = self.range_row.partition_point(|known| *known < row);
        let count = self.range_row[first..].iter().take_while(|known| **known == row).count();
        &self.range[first..first + count]
    }

    /// Check that columns are equally long, objects exist, and byte ranges are ascending and disjoint.
    pub(super) fn check(&self, objects: usize) -> Result<(), String> {
        if self.what.len() != self.len() || self.range_row.len() != self.range.len() {
            return Err("the columns of the table of memory accesses differ in length".to_owned());
        }
        if self.object.iter().any(|object| object.index() >= objects) {
            return Err("a memory access refers to a memory object that does not exist".to_owned());
        }
        let in_order =
            self.range_row.is_sorted() && self.range_row.last().is_none_or(|row| (*row as usize) < self.len());
        let disjoint = self.range.iter().all(|range| range.begin < range.end)
            && (1..self.range.len()).all(|at| {
                self.range_row[at - 1] != self.range_row[at] || self.range[at - 1].end <= self.range[at].begin
            });
        if in_order && disjoint {
            Ok(())
        } else {
            Err("the byte ranges of memory accesses are empty, unsorted or overlapping, or belong to no access"
                .to_owned())
        }
    }
}
