//! Map from memory addresses to the objects that are live there.

use crate::MemoryObjectId;
use std::collections::BTreeMap;

/// Live objects by address. Sources keep one map per device: allocations insert, frees remove, accesses look up. A
/// reused address refers to the newer object.
#[derive(Clone, Debug, Default)]
pub struct AddressMap {
    /// First byte → end and object; ranges do not overlap. Objects without bytes take one byte here, so that their free
    /// is found.
    live: BTreeMap<u64, (u64, MemoryObjectId)>,
}

impl AddressMap {
    /// Insert an object at `address`. Overlapping objects without a free are removed and returned: their free was lost.
    /// (An object without bytes never removes another one, and is not found if another one has the same address.)
    pub fn insert(&mut self, address: u64, bytes: u64, object: MemoryObjectId) -> Vec<MemoryObjectId> {
        if bytes == 0 && self.find(address).is_some() {
            return Vec::new();
        }
        let end = address.saturating_add(bytes.max(1));
        let first = self.live.range(..=address).next_back().filter(|(_, (old_end, _))| *old_end > address);
        let from = first.map_or(address, |(begin, _)| *begin);
        let begins: Vec<u64> = self.live.range(from..end).map(|(begin, _)| *begin).collect();
        let overlapped = begins.iter().filter_map(|begin| self.live.remove(begin)).map(|(_, object)| object).collect();
        self.live.insert(address, (end, object));
        overlapped
    }

    /// Remove the object that begins at `address` from the address map, and return it; `None` if no live object begins
    /// there.
    pub fn remove(&mut self, address: u64) -> Option<MemoryObjectId> {
        self.live.remove(&address).map(|(_, object)| object)
    }

    /// Live object that contains `address`, and the offset of `address` from the object's first byte; `None` if there
    /// is none.
    pub fn find(&self, address: u64) -> Option<(MemoryObjectId, u64)> {
        let (begin, (end, object)) = self.live.range(..=address).next_back()?;
        if address < *end { Some((*object, address - begin)) } else { None }
    }

    /// Objects that overlap `bytes` bytes at `address`, by address, each with the overlapping part (relative to its
    /// first byte).
    pub fn find_all(
        &self,
        address: u64,
        bytes: u64,
    ) -> impl Iterator<Item = (MemoryObjectId, std::ops::Range<u64>)> + '_ {
        let end = address.saturating_add(bytes);
        let from = self.live.range(..=address).next_back().map_or(address, |(begin, _)| *begin);
        self.live.range(from..end.max(from)).filter_map(move |(begin, (object_end, object))| {
            let (first, last) = (address.max(*begin), end.min(*object_end));
            if first < last { Some((*object, first - begin..last - begin)) } else { None }
        })
    }

    /// Number of live objects in the address map.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// True if the address map has no objects.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }
}
