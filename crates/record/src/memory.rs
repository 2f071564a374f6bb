//! Sizes and names of live tensor memory, by address. A free has no size, so allocations are remembered.

use rustc_hash::FxHashMap;
use std::sync::{Mutex, PoisonError};

/// Number of shards, a power of two: threads seldom share a lock.
const SHARDS: usize = 64;

/// Size and name of each live allocation of tensor memory, by address.
#[derive(Debug)]
pub(crate) struct LiveAllocations([Mutex<FxHashMap<usize, Piece>>; SHARDS]);

/// A live allocation: its size and the number of its name.
#[derive(Clone, Copy, Debug)]
struct Piece {
    bytes: u64,
    /// Number of its name, if it has one.
    name: Option<u32>,
}

/// Result of [`LiveAllocations::name`]: whether an allocation received a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// The memory has this name from now on.
    New(u32),
    /// The memory has a name already, or the tensor is only a part of it.
    Known,
    /// The limit of names is reached.
    Lost,
    /// The allocation of the memory was not recorded.
    NotRecorded,
}

impl Default for LiveAllocations {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl LiveAllocations {
    /// Shard of the table that contains an address.
    fn shard(&self, address: usize) -> &Mutex<FxHashMap<usize, Piece>> {
        // Allocations are aligned to 64 bytes.
        &self.0[(address >> 6 ^ address >> 12) % SHARDS]
    }

    /// Add a new, unnamed allocation by its address and size.
    pub(crate) fn put(&self, address: usize, bytes: u64) {
        self.shard(address).lock().unwrap_or_else(PoisonError::into_inner).insert(address, Piece { bytes, name: None });
    }

    /// Remove a freed allocation, and return its size in bytes; `None` if it was allocated before recording began.
    pub(crate) fn take(&self, address: usize) -> Option<u64> {
        self.shard(address).lock().unwrap_or_else(PoisonError::into_inner).remove(&address).map(|piece| piece.bytes)
    }

    /// Give an allocation the name with the number that `number` returns, unless it has a name. A tensor of `bytes`
    /// that is only a part of the memory, such as a parameter in a shared buffer, sets no name.
    pub(crate) fn name(&self, address: usize, bytes: u64, number: impl FnOnce() -> Option<u32>) -> Naming {
        let mut pieces = self.shard(address).lock().unwrap_or_else(PoisonError::into_inner);
        let Some(piece) = pieces.get_mut(&address) else { return Naming::NotRecorded };
        if piece.name.is_none() && bytes >= piece.bytes {
            piece.name = number();
            return piece.name.map_or(Naming::Lost, Naming::New);
        }
        Naming::Known
    }
}

#[cfg(test)]
mod tests {
    use super::{LiveAllocations, Naming};

    #[test]
    fn frees_return_the_size_once() {
        let live = LiveAllocations::default();
        live.put(4096, 100);
        live.put(8192, 7);
        assert_eq!([live.take(4096), live.take(4096), live.take(8192)], [Some(100), None, Some(7)]);
    }

    #[test]
    fn names_are_sent_once_per_allocation() {
        let live = LiveAllocations::default();
        let name = |bytes, name| live.name(4096, bytes, || name);
        assert_eq!(name(100, Some(3)), Naming::NotRecorded);
        live.put(4096, 100);
        assert_eq!(name(60, Some(2)), Naming::Known, "a part of it");
        assert_eq!(name(100, None), Naming::Lost);
        assert_eq!(
            [3, 3, 4, 3].map(|number| name(100, Some(number))),
            [Naming::New(3), Naming::Known, Naming::Known, Naming::Known]
        );
        live.take(4096);
        live.put(4096, 50);
        assert_eq!(name(50, Some(4)), Naming::New(4));
    }
}
