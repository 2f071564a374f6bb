//! What a caching allocator (PyTorch's) tells of itself.

use crate::{MemoryCallId, MemoryDeviceId, MemoryObjectId, MemoryStackId, MemoryStreamId, StrId};

/// What happened to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemorySegmentEventKind {
    /// Got from the device.
    Allocate,
    /// Given back to the device.
    Free,
    /// Part of an expandable segment got memory.
    Map,
    /// Part of an expandable segment gave memory back.
    Unmap,
}

impl MemorySegmentEventKind {
    /// All kinds, in their order.
    pub const ALL: [Self; 4] = [Self::Allocate, Self::Free, Self::Map, Self::Unmap];

    /// Stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Free => "free",
            Self::Map => "map",
            Self::Unmap => "unmap",
        }
    }

    /// Whether reserved memory grows.
    pub fn grows(self) -> bool {
        matches!(self, Self::Allocate | Self::Map)
    }
}

/// The allocator got memory from the device, or gave it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySegmentEvent {
    /// What happened.
    pub kind: MemorySegmentEventKind,
    /// The call before which it happened (may be the number of calls).
    pub before: MemoryCallId,
    /// When, ns.
    pub time_ns: i64,
    /// Where.
    pub device: MemoryDeviceId,
    /// The stream that the segment serves.
    pub stream: MemoryStreamId,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Call path.
    pub stack: MemoryStackId,
}

/// A segment: what the allocator got from the device in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySegment {
    /// Where.
    pub device: MemoryDeviceId,
    /// The stream that it serves.
    pub stream: MemoryStreamId,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether it is of the pool of small blocks.
    pub small: bool,
    /// Whether it can grow.
    pub expandable: bool,
    /// Private pool, none for the usual one.
    pub pool: StrId,
    /// Call path of its allocation.
    pub stack: MemoryStackId,
    /// Its blocks: rows of [`crate::MemoryTrace::blocks`].
    pub blocks: std::ops::Range<usize>,
}

/// What a block is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryBlockState {
    /// In use.
    Active,
    /// Freed by the program, but a stream may still use it.
    AwaitingFree,
    /// Free, and part of a segment that is otherwise in use or wholly free.
    Inactive,
}

impl MemoryBlockState {
    /// All states, in their order.
    pub const ALL: [Self; 3] = [Self::Active, Self::AwaitingFree, Self::Inactive];

    /// Stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::AwaitingFree => "awaiting free",
            Self::Inactive => "inactive",
        }
    }
}

/// A block: a part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBlock {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Bytes that were asked for; 0 if not known.
    pub requested: u64,
    /// What it is doing.
    pub state: MemoryBlockState,
    /// The object in it, none if it is free or if the object is not known.
    pub object: MemoryObjectId,
    /// Call path of its allocation.
    pub stack: MemoryStackId,
}

/// What the source itself said was in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTotals {
    /// The call after which this holds; none: before the first.
    pub after: MemoryCallId,
    /// When, ns.
    pub time_ns: i64,
    /// Where.
    pub device: MemoryDeviceId,
    /// Bytes in use by the program.
    pub allocated: u64,
    /// Bytes that the allocator holds, in use or not; 0 if not known.
    pub reserved: u64,
}

/// A request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The call before which it happened (may be the number of calls).
    pub before: MemoryCallId,
    /// When, ns.
    pub time_ns: i64,
    /// Where.
    pub device: MemoryDeviceId,
    /// The stream that asked.
    pub stream: MemoryStreamId,
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes that the device still had, as it said; `None` if not known.
    pub device_free: Option<u64>,
    /// Call path.
    pub stack: MemoryStackId,
}
