//! Data of a caching allocator (PyTorch's): segments, blocks, totals, failed requests.

use crate::{MemoryCallId, MemoryDeviceId, MemoryObjectId, MemoryStackId, MemoryStreamId, StrId};

/// Kind of an event of an allocator segment: obtained, returned, mapped or unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemorySegmentEventKind {
    /// Obtained from the device.
    Allocate,
    /// Returned to the device.
    Free,
    /// Part of an expandable segment was mapped.
    Map,
    /// Part of an expandable segment was unmapped.
    Unmap,
}

impl MemorySegmentEventKind {
    /// All kinds, in their order.
    pub const ALL: [Self; 4] = [Self::Allocate, Self::Free, Self::Map, Self::Unmap];

    /// Stable name of an event of an allocator segment.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Free => "free",
            Self::Map => "map",
            Self::Unmap => "unmap",
        }
    }

    /// True if the segment event increases reserved memory.
    pub fn grows(self) -> bool {
        matches!(self, Self::Allocate | Self::Map)
    }
}

/// Event of an allocator segment: memory obtained from the device, or returned to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySegmentEvent {
    /// Kind.
    pub kind: MemorySegmentEventKind,
    /// Call after the event (may be the number of calls).
    pub before: MemoryCallId,
    /// Time, ns.
    pub time_ns: i64,
    /// Device.
    pub device: MemoryDeviceId,
    /// Stream of the segment.
    pub stream: MemoryStreamId,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Call path.
    pub stack: MemoryStackId,
}

/// Segment: memory that the allocator obtained from the device in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySegment {
    /// Device.
    pub device: MemoryDeviceId,
    /// Stream of the segment.
    pub stream: MemoryStreamId,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// True for the pool of small blocks.
    pub small: bool,
    /// True if the segment is expandable.
    pub expandable: bool,
    /// Private pool, none for the default pool.
    pub pool: StrId,
    /// Call path of the allocation.
    pub stack: MemoryStackId,
    /// Blocks: rows of [`crate::MemoryTrace::blocks`].
    pub blocks: std::ops::Range<usize>,
}

/// State of an allocator block: active, awaiting free, or inactive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryBlockState {
    /// In use.
    Active,
    /// Freed by the program, but a stream may still use it.
    AwaitingFree,
    /// Free.
    Inactive,
}

impl MemoryBlockState {
    /// All states, in their order.
    pub const ALL: [Self; 3] = [Self::Active, Self::AwaitingFree, Self::Inactive];

    /// Stable name of the state of an allocator block.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::AwaitingFree => "awaiting free",
            Self::Inactive => "inactive",
        }
    }
}

/// Allocator block: a part of a segment, used by one object or free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBlock {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Requested bytes; 0 if unknown.
    pub requested: u64,
    /// State.
    pub state: MemoryBlockState,
    /// Object in the block; none if it is free or the object is unknown.
    pub object: MemoryObjectId,
    /// Call path of the allocation.
    pub stack: MemoryStackId,
}

/// Free that takes effect later than the program requested it, because another stream may still use the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedFree {
    /// The freed object.
    pub object: MemoryObjectId,
    /// First call after the memory became free (may be the number of calls); none if it is not free at the end.
    pub until: MemoryCallId,
}

/// Total bytes of a device's allocator at one time, as the source reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTotals {
    /// Call after which the totals hold; none for the time before the first call.
    pub after: MemoryCallId,
    /// Time, ns.
    pub time_ns: i64,
    /// Device.
    pub device: MemoryDeviceId,
    /// Bytes in use by the program.
    pub allocated: u64,
    /// Reserved bytes of the allocator, in use or not; unknown if 0, unless no bytes are in use.
    pub reserved: u64,
}

/// Allocation request that failed for lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Call after the request (may be the number of calls).
    pub before: MemoryCallId,
    /// Number of rows of [`crate::MemoryTrace::segment_events`] before the request: further ones may precede the same
    /// call.
    pub segment_events: usize,
    /// Time, ns.
    pub time_ns: i64,
    /// Device.
    pub device: MemoryDeviceId,
    /// Stream of the request.
    pub stream: MemoryStreamId,
    /// Requested bytes.
    pub requested: u64,
    /// Free bytes of the device, as it reported; `None` if unknown.
    pub device_free: Option<u64>,
    /// Private pool of the request; none for the default pool, or if unknown.
    pub pool: StrId,
    /// Call path.
    pub stack: MemoryStackId,
}
