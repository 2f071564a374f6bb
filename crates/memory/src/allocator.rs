//! Model of PyTorch's caching allocator: reserved bytes over a sequence of allocations and frees.
//!
//! The rules are those of its public source with default settings. Sizes are rounded up to 512 bytes, or by
//! `roundup_power2_divisions`. Blocks up to 1 MiB come from segments of 2 MiB. Larger blocks, below 10 MiB, come from
//! segments of 20 MiB. The rest have their own segments, rounded up to 2 MiB.
//!
//! A request takes the smallest free block of its pool and stream that is large enough (of equal ones, the one at the
//! lowest address). The remainder becomes a free block if it has at least 512 bytes (small pool) or more than 1 MiB
//! (large pool). A freed block joins free neighbors of its segment. Segments are kept; wholly free ones are released
//! only when the device has no room. Blocks never change their stream.
//!
//! With expandable segments there is one segment per pool and stream. It grows at its end by pages of 2 MiB (small
//! pool) or 20 MiB (large pool), and remainders are split off as in the small pool.
//!
//! A private pool (of a CUDA graph) has its own blocks, which no request of another pool takes.
//!
//! Addresses of segments ascend in the order of their creation; on a real device the order may differ, which matters
//! only between equal free blocks. Frees take effect at once: memory that another stream still uses (`record_stream`)
//! is not modeled. The model was checked against traces that were computed by hand from these rules, and against an
//! H100 (PyTorch 2.11). For snapshots with their whole history the model reserves as many bytes as the device's
//! allocator. Expandable segments are not yet checked against a GPU.

use crate::curve::Span;
use stackline_model::caching_allocator::{LARGE_SEGMENT, SMALL_REQUEST, SMALL_SEGMENT};
use stackline_model::{MemoryAllocatorSettings, MemoryDeviceId, MemoryObjectId, MemoryTrace, StrId};
use std::collections::{BTreeMap, BTreeSet};

const MIN_BLOCK: u64 = 512;
const MIN_OWN_SEGMENT: u64 = 10 << 20;
const ROUND_LARGE: u64 = 2 << 20;

/// Spacing of segments, so that none is adjacent to another.
const SPACING: u64 = 1 << 21;

/// Address range reserved for an expandable segment.
const EXPANDABLE_ROOM: u64 = MOST_BYTES;

/// Upper limit of device memory, so that sizes of a damaged trace cannot overflow sums.
const MOST_BYTES: u64 = 1 << 44;

/// Settings of PyTorch's caching allocator: expandable segments, device capacity, and rounding of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorSettings {
    /// `expandable_segments:True`.
    pub expandable: bool,
    /// Bytes of the device; `None` for no limit.
    pub capacity: Option<u64>,
    /// `roundup_power2_divisions`: rounding of sizes.
    pub rounding: MemoryAllocatorSettings,
}

impl AllocatorSettings {
    /// Settings of the caching allocator of a device, as far as the trace records them.
    pub fn from_trace(trace: &MemoryTrace, device: MemoryDeviceId) -> Self {
        let grows = trace.segments.iter().any(|segment| segment.device == device && segment.expandable);
        let rounding = trace.allocator_settings;
        Self { expandable: grows || rounding.expandable, capacity: None, rounding }
    }
}

/// True if a device's memory comes from PyTorch's caching allocator.
pub(crate) fn is_from_caching_allocator(trace: &MemoryTrace, device: MemoryDeviceId) -> bool {
    trace.devices.get(device.index()).is_some_and(|device| trace.strings.get(device.name).starts_with("cuda"))
}

/// Pool of blocks: small or large, stream, private pool.
type Pool = (bool, u64, StrId);

#[derive(Clone, Copy, Debug)]
struct Block {
    bytes: u64,
    pool: Pool,
    free: bool,
    segment: u64,
}

/// Model of PyTorch's caching allocator: its settings, blocks and segments.
#[derive(Clone, Debug, Default)]
pub struct Allocator {
    settings: AllocatorSettings,
    /// Blocks by address; the blocks of a segment are contiguous.
    blocks: BTreeMap<u64, Block>,
    /// Free blocks: pool, bytes, address.
    free: BTreeSet<(Pool, u64, u64)>,
    /// Segments by address: bytes.
    segments: BTreeMap<u64, u64>,
    /// Expandable segments by pool: address.
    expandable: BTreeMap<Pool, u64>,
    next: u64,
    allocated: u64,
    reserved: u64,
}

/// Error: a request needs more memory than the device has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfDeviceMemory {
    /// Requested bytes, rounded.
    pub bytes: u64,
    /// Reserved and unused bytes, in blocks that are too small.
    pub cached: u64,
    /// The largest free block of any pool and stream.
    pub largest: u64,
}

/// Size in bytes of the segment that the allocator requests from the device for a request, without expandable segments.
pub(crate) fn segment_bytes(request: u64) -> u64 {
    match request {
        0..=SMALL_REQUEST => SMALL_SEGMENT,
        _ if request < MIN_OWN_SEGMENT => LARGE_SEGMENT,
        _ => round_up(request, ROUND_LARGE),
    }
}

/// Round up a size in bytes to a multiple of `to`.
fn round_up(bytes: u64, to: u64) -> u64 {
    bytes.div_ceil(to).saturating_mul(to)
}

impl Allocator {
    /// Create a model of PyTorch's caching allocator that holds no memory yet.
    pub fn new(settings: AllocatorSettings) -> Self {
        Self { settings, next: SPACING, ..Self::default() }
    }

    /// Total bytes of blocks that the program has allocated and not freed.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Total bytes that the allocator model has obtained from the device.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Number of segments that the allocator model holds.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Allocate `bytes` for a stream and return the block's address.
    ///
    /// # Errors
    /// If the device has no room, even after the release of all wholly free segments.
    pub fn allocate(&mut self, bytes: u64, stream: u64) -> Result<u64, OutOfDeviceMemory> {
        self.allocate_in(StrId::NONE, bytes, stream)
    }

    /// Allocate `bytes` in a private pool (none: the default pool) and return the block's address. Neither pool takes
    /// blocks of the other.
    ///
    /// # Errors
    /// Like [`Self::allocate`].
    pub fn allocate_in(&mut self, private: StrId, bytes: u64, stream: u64) -> Result<u64, OutOfDeviceMemory> {
        let bytes = self.settings.rounding.round(bytes);
        let pool = (bytes <= SMALL_REQUEST, stream, private);
        let address = match self.best_fit(pool, bytes) {
            Some(address) => address,
            None => self.grow(pool, bytes)?,
        };
        self.take(address, bytes);
        Ok(address)
    }

    /// Address of the smallest free block of a pool with at least `bytes` bytes; `None` if there is none.
    fn best_fit(&self, pool: Pool, bytes: u64) -> Option<u64> {
        self.free.range((pool, bytes, 0)..=(pool, u64::MAX, u64::MAX)).next().map(|(_, _, address)| *address)
    }

    /// Obtain memory from the device until a free block is large enough, and return the address of that block.
    fn grow(&mut self, pool: Pool, bytes: u64) -> Result<u64, OutOfDeviceMemory> {
        if !self.has_room(self.needed(pool, bytes)) {
            self.release_cached();
        }
        // Recomputed, because the release may have included the free end of the pool's segment.
        let more = self.needed(pool, bytes);
        if !self.has_room(more) {
            let largest = self.free.iter().map(|(_, bytes, _)| *bytes).max().unwrap_or(0);
            return Err(OutOfDeviceMemory { bytes, cached: self.reserved - self.allocated, largest });
        }
        self.reserved += more;
        Ok(if self.settings.expandable { self.extend(pool, more) } else { self.segment(pool, more) })
    }

    /// Bytes to request from the device if no free block of the pool is large enough.
    fn needed(&self, pool: Pool, bytes: u64) -> u64 {
        match (self.settings.expandable, pool.0) {
            (true, small) => {
                let missing = bytes - self.free_end(pool).map_or(0, |(_, free)| free).min(bytes);
                round_up(missing, if small { SMALL_SEGMENT } else { LARGE_SEGMENT })
            }
            (false, true) => SMALL_SEGMENT,
            (false, false) if bytes < MIN_OWN_SEGMENT => LARGE_SEGMENT,
            (false, false) => round_up(bytes, ROUND_LARGE),
        }
    }

    /// True if the device has room for `more` bytes in addition to the reserved ones.
    fn has_room(&self, more: u64) -> bool {
        let most = self.settings.capacity.unwrap_or(MOST_BYTES).min(MOST_BYTES);
        self.reserved.saturating_add(more) <= most && self.next <= u64::MAX - 2 * EXPANDABLE_ROOM
    }

    /// Add a segment with one free block at the next address, and return the address.
    fn segment(&mut self, pool: Pool, bytes: u64) -> u64 {
        let address = self.next;
        let room = if self.settings.expandable { EXPANDABLE_ROOM } else { round_up(bytes, SPACING) + SPACING };
        self.next = self.next.saturating_add(room);
        self.segments.insert(address, bytes);
        self.blocks.insert(address, Block { bytes, pool, free: true, segment: address });
        self.free.insert((pool, bytes, address));
        address
    }

    /// Last block of the pool's expandable segment, if it is free: address and bytes.
    fn free_end(&self, pool: Pool) -> Option<(u64, u64)> {
        let segment = *self.expandable.get(&pool)?;
        let end = segment + self.segments.get(&segment)?;
        let (address, block) = self.blocks.range(segment..end).next_back()?;
        block.free.then_some((*address, block.bytes))
    }

    /// Extend the pool's expandable segment at its end by `more` bytes, and return the address of the free block there.
    fn extend(&mut self, pool: Pool, more: u64) -> u64 {
        let Some(segment) = self.expandable.get(&pool).copied() else {
            let address = self.segment(pool, more);
            self.expandable.insert(pool, address);
            return address;
        };
        let end = segment + self.segments.get(&segment).copied().unwrap_or(0);
        self.segments.insert(segment, end - segment + more);
        self.blocks.insert(end, Block { bytes: more, pool, free: true, segment });
        self.free.insert((pool, more, end));
        self.join(end)
    }

    /// Mark the free block at an address as allocated, and split off the remainder if it is large enough.
    fn take(&mut self, address: u64, bytes: u64) {
        let Some(block) = self.blocks.get_mut(&address) else { return };
        let (pool, whole, segment) = (block.pool, block.bytes, block.segment);
        let over = whole.saturating_sub(bytes);
        let splits = if pool.0 || self.settings.expandable { over >= MIN_BLOCK } else { over > SMALL_REQUEST };
        block.free = false;
        self.free.remove(&(pool, whole, address));
        if splits {
            block.bytes = bytes;
            self.blocks.insert(address + bytes, Block { bytes: over, pool, free: true, segment });
            self.free.insert((pool, over, address + bytes));
        }
        self.allocated += if splits { bytes } else { whole };
    }

    /// Free the block at an address; false if no used block starts there.
    pub fn free(&mut self, address: u64) -> bool {
        let Some(block) = self.blocks.get_mut(&address).filter(|block| !block.free) else { return false };
        block.free = true;
        self.allocated -= block.bytes;
        self.free.insert((block.pool, block.bytes, address));
        self.join(address);
        true
    }

    /// Join a free block with its free neighbors, and return the address of the joined block.
    fn join(&mut self, address: u64) -> u64 {
        let Some(middle) = self.blocks.get(&address).copied() else { return address };
        let mine = |other: &Block| other.free && other.segment == middle.segment;
        let before = self.blocks.range(..address).next_back().filter(|(_, other)| mine(other)).map(|(at, _)| *at);
        let after = self.blocks.range(address + 1..).next().filter(|(_, other)| mine(other)).map(|(at, _)| *at);
        let first = before.unwrap_or(address);
        let mut bytes = 0;
        for at in [before, Some(address), after].into_iter().flatten() {
            if let Some(block) = self.blocks.remove(&at) {
                self.free.remove(&(block.pool, block.bytes, at));
                bytes += block.bytes;
            }
        }
        self.blocks.insert(first, Block { bytes, ..middle });
        self.free.insert((middle.pool, bytes, first));
        first
    }

    /// Release wholly free segments, and whole free pages at the end of expandable ones. A private pool keeps its
    /// segments, as during the lifetime of a CUDA graph.
    pub fn release_cached(&mut self) {
        let whole = |(segment, bytes): (&u64, &u64)| {
            let is_free = |block: &Block| block.free && block.bytes == *bytes && block.pool.2.is_none();
            let free = self.blocks.get(segment).is_some_and(is_free);
            free.then_some(*segment)
        };
        let released: Vec<u64> = self.segments.iter().filter_map(whole).collect();
        for segment in released {
            let (Some(block), Some(bytes)) = (self.blocks.remove(&segment), self.segments.remove(&segment)) else {
                continue;
            };
            self.free.remove(&(block.pool, block.bytes, segment));
            self.expandable.retain(|_, other| *other != segment);
            self.reserved -= bytes;
        }
        let usual = self.expandable.iter().filter(|(pool, _)| pool.2.is_none());
        let pools: Vec<(Pool, u64)> = usual.map(|(pool, segment)| (*pool, *segment)).collect();
        for (pool, segment) in pools {
            let page = if pool.0 { SMALL_SEGMENT } else { LARGE_SEGMENT };
            let Some((address, bytes)) = self.free_end(pool) else { continue };
            let back = bytes / page * page;
            if back == 0 {
                continue;
            }
            self.free.remove(&(pool, bytes, address));
            self.blocks.remove(&address);
            if bytes > back {
                self.blocks.insert(address, Block { bytes: bytes - back, pool, free: true, segment });
                self.free.insert((pool, bytes - back, address));
            }
            if let Some(whole) = self.segments.get_mut(&segment) {
                *whole -= back;
            }
            self.reserved -= back;
        }
    }
}

/// Allocated and reserved bytes over a trace as the allocator model predicts them, with the maximum and a failed
/// request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// Points by position: allocated bytes (rounded), reserved bytes.
    pub points: Vec<(u32, u64, u64)>,
    /// Maximum of the reserved bytes.
    pub peak: u64,
    /// First request without room, and its position.
    pub failed: Option<(u32, OutOfDeviceMemory)>,
}

/// Predict reserved memory: allocate and free blocks ([`crate::replay::Replay::blocks`]) in the allocator model, in
/// order. Between two calls, frees come first. The run ends at the first request without room.
pub fn reserved(
    trace: &MemoryTrace,
    settings: AllocatorSettings,
    blocks: impl Iterator<Item = (MemoryObjectId, Vec<Span>)>,
) -> Reserved {
    // Position, true for an allocation, index of the block.
    let mut events: Vec<(u32, bool, usize)> = Vec::new();
    let mut pieces: Vec<(u64, u64, StrId)> = Vec::new();
    for (object, spans) in blocks {
        let row = object.index();
        let stream = trace.streams.get(trace.objects.stream[row].index()).map_or(0, |stream| stream.key);
        for span in spans.into_iter().filter(|span| span.from < span.to && span.bytes > 0) {
            let whole = span.bytes == trace.objects.bytes[row];
            events.push((span.from, true, pieces.len()));
            events.push((span.to, false, pieces.len()));
            let bytes = if whole { trace.objects.requested[row] } else { span.bytes };
            pieces.push((bytes, stream, trace.objects.pool[row]));
        }
    }
    events.sort_unstable();
    let mut allocator = Allocator::new(settings);
    let mut addresses: Vec<u64> = vec![0; pieces.len()];
    let mut found = Reserved::default();
    for (position, allocates, piece) in events {
        if allocates {
            let (bytes, stream, private) = pieces[piece];
            match allocator.allocate_in(private, bytes, stream) {
                Ok(address) => addresses[piece] = address,
                Err(no_room) => {
                    found.failed = Some((position, no_room));
                    return found;
                }
            }
        } else {
            allocator.free(addresses[piece]);
        }
        found.peak = found.peak.max(allocator.reserved());
        let point = (position, allocator.allocated(), allocator.reserved());
        match found.points.last_mut().filter(|last| last.0 == position) {
            Some(last) => *last = point,
            None => found.points.push(point),
        }
    }
    found
}
