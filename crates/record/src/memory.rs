//! Sizes of the tensors' memory that is allocated now: a free does not say how much it frees.

use rustc_hash::FxHashMap;
use std::sync::{Mutex, PoisonError};

/// Power of two; so many threads seldom meet at one lock.
const SHARDS: usize = 64;

/// What is allocated, by address.
#[derive(Debug)]
pub(crate) struct Live([Mutex<FxHashMap<usize, u64>>; SHARDS]);

impl Default for Live {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Live {
    fn shard(&self, address: usize) -> &Mutex<FxHashMap<usize, u64>> {
        // Allocations are aligned to 64 bytes.
        &self.0[(address >> 6 ^ address >> 12) % SHARDS]
    }

    /// Memory was allocated.
    pub(crate) fn put(&self, address: usize, bytes: u64) {
        self.shard(address).lock().unwrap_or_else(PoisonError::into_inner).insert(address, bytes);
    }

    /// Memory is freed; `None` if it was allocated before anybody looked.
    pub(crate) fn take(&self, address: usize) -> Option<u64> {
        self.shard(address).lock().unwrap_or_else(PoisonError::into_inner).remove(&address)
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
}
