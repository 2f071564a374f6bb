//! Sizes that PyTorch's caching allocator of CUDA memory has built in, in bytes (`c10/cuda/CUDACachingAllocator.h`).

/// The largest request of the pool for small blocks, and the most that may remain of a large block without being cut off (`kSmallSize`).
pub const SMALL_REQUEST: u64 = 1 << 20;

/// A segment of the pool for small blocks (`kSmallBuffer`); those of the other pool are larger.
pub const SMALL_SEGMENT: u64 = 2 << 20;
