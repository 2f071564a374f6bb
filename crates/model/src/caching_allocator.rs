//! Built-in sizes of PyTorch's caching allocator for CUDA memory, in bytes (`c10/cuda/CUDACachingAllocator.h`).

/// Largest request of the pool for small blocks, and largest remainder of a large block that is not split off
/// (`kSmallSize`).
pub const SMALL_REQUEST: u64 = 1 << 20;

/// Segment size of the pool for small blocks (`kSmallBuffer`); those of the other pool are larger.
pub const SMALL_SEGMENT: u64 = 2 << 20;

/// Segment size of the other pool for requests below 10 MiB (`kLargeBuffer`). Expandable segments grow by pages of this
/// size, or of [`SMALL_SEGMENT`] in the pool for small blocks.
pub const LARGE_SEGMENT: u64 = 20 << 20;
