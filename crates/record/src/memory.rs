//! Sizes of the tensors' memory that is allocated now: a free does not say how much it frees. And what was said of whose it is.

use rustc_hash::FxHashMap;
use std::sync::{Mutex, PoisonError};

/// Power of two; so many threads seldom meet at one lock.
const SHARDS: usize = 64;

/// What is allocated, by address.
#[derive(Debug)]
pub(crate) struct Live([Mutex<FxHashMap<usize, Piece>>; SHARDS]);

#[derive(Clone, Copy, Debug)]
struct Piece {
    bytes: u64,
    /// The number of its name, once it was told.
    name: Option<u32>,
}

impl Default for Live {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Live {
    fn shard(&self, address: usize) -> &Mutex<FxHashMap<usize, Piece>> {
        // Allocations are aligned to 64 bytes.
        &self.0[(address >> 6 ^ address >> 12) % SHARDS]
    }

    /// Memory was allocated.
    pub(crate) fn put(&self, address: usize, bytes: u64) {
        self.shard(address).lock().unwrap_or_else(PoisonError::into_inner).insert(address, Piece { bytes, name: None });
    }

    /// Memory is freed; `None` if it was allocated before anybody looked.
    pub(crate) fn take(&self, address: usize) -> Option<u64> {
        self.shard(address).lock().unwrap_or_else(PoisonError::into_inner).remove(&address).map(|piece| piece.bytes)
    }

    /// Memory has a name; `Some(true)` if that was not known, `None` if the memory itself is not.
    pub(crate) fn name(&self, address: usize, name: u32) -> Option<bool> {
        let mut pieces = self.shard(address).lock().unwrap_or_else(PoisonError::into_inner);
        Some(pieces.get_mut(&address)?.name.replace(name) != Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::Live;

    #[test]
    fn a_free_knows_its_size_once() {
        let live = Live::default();
        live.put(4096, 100);
        live.put(8192, 7);
        assert_eq!([live.take(4096), live.take(4096), live.take(8192)], [Some(100), None, Some(7)]);
    }

    #[test]
    fn a_name_is_told_once_and_of_other_memory_at_the_address_anew() {
        let live = Live::default();
        assert_eq!(live.name(4096, 3), None);
        live.put(4096, 100);
        assert_eq!([3, 3, 4].map(|name| live.name(4096, name)), [Some(true), Some(false), Some(true)]);
        live.take(4096);
        live.put(4096, 50);
        assert_eq!(live.name(4096, 4), Some(true));
    }
}
