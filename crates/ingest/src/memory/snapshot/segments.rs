//! Segments and blocks of the allocator at the moment of the snapshot.

use super::Reader;
use super::events::Live;
use crate::diagnostics;
use crate::memory::values::{NodeId, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{
    MemoryBlock, MemoryBlockState, MemoryCallId, MemoryDeviceId, MemoryObjectId, MemorySegment, MemoryStackId,
    MemoryStreamId, NewObject, StrId,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// Address ranges of segments by device number: end by begin.
type SegmentRanges = FxHashMap<u16, BTreeMap<u64, u64>>;

impl Reader<'_> {
    /// Read the allocator's segments with their blocks. Objects in active blocks without an allocation event are older
    /// than the trace.
    pub(super) fn segments(&mut self, segments: Option<NodeId>, live: &mut Live) {
        let mut seen = FxHashSet::default();
        let mut lists = FxHashSet::default();
        let mut taken = SegmentRanges::default();
        for segment in segments.map_or(&[][..], |list| self.values.items(list)) {
            self.trace.report.records += 1;
            let Some(dict) = self.values.as_dict(*segment).filter(|dict| seen.insert(*dict)) else {
                self.count_damaged("an allocator segment that is not a dict or occurs twice");
                continue;
            };
            // A block list that several segments share would be read once per reference.
            let list = self.list(Some(dict), self.keys.blocks, diagnostics::MEMORY_BAD_SEGMENT);
            if list.is_some_and(|list| !self.values.items(list).is_empty() && !lists.insert(list)) {
                self.count_damaged("an allocator segment that refers to the list of blocks of an earlier segment");
                continue;
            }
            match self.segment_range(dict, &mut taken) {
                Ok((number, place)) => self.segment(dict, number, place, live),
                Err(what) => self.count_damaged(&what),
            }
        }
    }

    /// Count a damaged segment or block, with its description.
    fn count_damaged(&mut self, what: &str) {
        diagnostics::MEMORY_BAD_SEGMENT.count(&mut self.trace.report, None, what);
    }

    /// Read the device number and address range of a segment; an error if it is invalid or overlaps an earlier one.
    fn segment_range(&self, dict: NodeId, taken: &mut SegmentRanges) -> Result<(u16, Range<u64>), String> {
        let keys = self.keys;
        let Some(address) = self.number(dict, keys.address) else {
            return Err("an allocator segment without an address".to_owned());
        };
        let Some(bytes) = self.size(dict, keys.total_size) else {
            return Err(format!("the segment at {address:#x} has no valid size"));
        };
        let number = match self.field(dict, keys.device) {
            Some(number) => self.values.as_int(number).and_then(|number| u16::try_from(number).ok()),
            None => Some(0),
        };
        let Some(number) = number else {
            return Err(format!("the segment at {address:#x} has an invalid device number"));
        };
        let Some(end) = address.checked_add(bytes) else {
            return Err(format!("the end address of the segment at {address:#x} exceeds 64 bits"));
        };
        // Accepted segments do not overlap: of those that begin before this one's end, the last one reaches furthest.
        let known = taken.entry(number).or_default();
        if known.range(..end.max(address.saturating_add(1))).next_back().is_some_and(|(_, end)| *end > address) {
            return Err(format!("the segment at {address:#x} overlaps another one or is a duplicate"));
        }
        if bytes > 0 {
            known.insert(address, end);
        }
        Ok((number, address..end))
    }

    /// Add a segment with the address range `place` and its blocks to the trace.
    fn segment(&mut self, dict: NodeId, number: u16, place: Range<u64>, live: &mut Live) {
        let keys = self.keys;
        let device = self.trace.device(&format!("cuda:{number}"));
        let stream = self.trace.stream(device, self.number(dict, keys.stream).unwrap_or(0));
        let pool = self.pool(dict, keys.segment_pool_id);
        let first = self.trace.blocks.len();
        self.blocks(dict, &place, (device, stream, pool), live);
        let expandable = self.field(dict, keys.is_expandable) == Some(Value::TRUE);
        let stack = self.stack(dict);
        self.trace.segments.push(MemorySegment {
            device,
            stream,
            address: place.start,
            bytes: place.end - place.start,
            small: self.text(dict, keys.segment_type) == keys.small,
            expandable,
            pool,
            stack,
            blocks: first..self.trace.blocks.len(),
        });
    }

    /// Add the blocks of a segment to the trace, and connect active blocks with their memory objects.
    fn blocks(
        &mut self,
        dict: NodeId,
        place: &Range<u64>,
        owner: (MemoryDeviceId, MemoryStreamId, StrId),
        live: &mut Live,
    ) {
        let list = self.field(dict, self.keys.blocks).and_then(|value| self.values.as_list(value));
        let mut address = place.start;
        for block in list.map_or(&[][..], |list| self.values.items(list)) {
            match self.block(*block, address..place.end) {
                Ok((mut block, requested)) => {
                    address = block.address + block.bytes;
                    if block.state == MemoryBlockState::Active {
                        block.object = self.block_object((&block, requested), owner, live);
                    }
                    if block.state == MemoryBlockState::AwaitingFree {
                        self.trace.delayed_frees.extend(live.device(owner.0).awaited_free(block.address));
                    }
                    self.trace.blocks.push(block);
                }
                Err(what) => self.count_damaged(&what),
            }
        }
    }

    /// Read a block, and its requested size if the file has it. The block must lie in `left`, the rest of its segment.
    /// Blocks are sorted by address; older versions omit it.
    fn block(&mut self, block: Value, left: Range<u64>) -> Result<(MemoryBlock, Option<u64>), String> {
        let keys = self.keys;
        let Some(dict) = self.values.as_dict(block) else {
            return Err("an allocator block that is not a dict".to_owned());
        };
        let address = self.number(dict, keys.address).unwrap_or(left.start);
        let Some(bytes) = self.size(dict, keys.size) else {
            return Err(format!("the block at {address:#x} has no valid size"));
        };
        if address < left.start || address.checked_add(bytes).is_none_or(|end| end > left.end) {
            return Err(format!("the block at {address:#x} overlaps another one or lies outside its segment"));
        }
        let state = self.text(dict, keys.state);
        let state = match state {
            _ if state == keys.active_allocated => MemoryBlockState::Active,
            _ if state == keys.inactive => MemoryBlockState::Inactive,
            _ if state == keys.active_awaiting_free || state == keys.active_pending_free => {
                MemoryBlockState::AwaitingFree
            }
            _ => {
                return Err(format!(
                    "the block at {address:#x} has the unknown state {:?}",
                    self.trace.strings.get(state)
                ));
            }
        };
        let (known, unknown, stack) = self.block_history(dict, bytes, state != MemoryBlockState::Inactive);
        let requested = known.unwrap_or(unknown);
        Ok((MemoryBlock { address, bytes, requested, state, object: MemoryObjectId::NONE, stack }, known))
    }

    /// Requested size, its substitute if it is unknown, and call path: in the block, or (old versions) in the first
    /// entry of its history. A free block keeps the request of its last object, which may have had a larger block
    /// before a split, so its request is unknown.
    fn block_history(&mut self, block: NodeId, bytes: u64, is_owned: bool) -> (Option<u64>, u64, MemoryStackId) {
        let keys = self.keys;
        let history = self.field(block, keys.history).and_then(|value| self.values.as_list(value));
        let first = history.and_then(|list| self.values.items(list).first().copied());
        let (dict, key, unknown) = match first.and_then(|first| self.values.as_dict(first)) {
            Some(first) => (first, keys.real_size, bytes),
            None => (block, keys.requested_size, 0),
        };
        let requested = if is_owned { self.requested_bytes(dict, key, bytes) } else { None };
        // Zero stands for an unknown size.
        let requested = requested.filter(|requested| *requested > 0);
        (requested, if is_owned { unknown } else { 0 }, self.stack(dict))
    }

    /// Requested bytes at a key; `None` if missing, or if larger than the block of `given` bytes, which counts as
    /// damage.
    fn requested_bytes(&mut self, dict: NodeId, key: StrId, given: u64) -> Option<u64> {
        self.field(dict, key)?;
        let requested = self.size(dict, key).filter(|requested| *requested <= given);
        if requested.is_none() {
            let key = self.trace.strings.get(key).to_owned();
            self.count_damaged(&format!(
                "the value of the key {key} is not a valid size for an allocator block of {given} bytes"
            ));
        }
        requested
    }

    /// Set the private pool of objects whose events lack it: PyTorch before 2.8 states it only for segments. An object
    /// belongs to the segment now at its address, unless that segment was allocated after the object.
    pub(super) fn pools_by_address(&mut self) {
        let mut private: FxHashMap<MemoryDeviceId, BTreeMap<u64, (u64, StrId, MemoryCallId)>> = FxHashMap::default();
        for segment in self.trace.segments.iter().filter(|segment| segment.pool.is_some()) {
            let end = segment.address.saturating_add(segment.bytes);
            let is_here = |event: &&stackline_model::MemorySegmentEvent| {
                event.kind.grows() && event.device == segment.device && (segment.address..end).contains(&event.address)
            };
            let since = self.trace.segment_events.iter().filter(is_here).map(|event| event.before).max();
            let known = (end, segment.pool, since.unwrap_or(MemoryCallId(0)));
            private.entry(segment.device).or_default().insert(segment.address, known);
        }
        if private.is_empty() {
            return;
        }
        let objects = &mut self.trace.objects;
        for row in (0..objects.pool.len()).filter(|row| objects.pool[*row].is_none()).collect::<Vec<_>>() {
            let Some(of_device) = private.get(&objects.device[row]) else { continue };
            let before = of_device.range(..=objects.address[row]).next_back();
            let Some((_, (end, pool, since))) = before else { continue };
            let made = objects.allocated_by[row].some().unwrap_or(MemoryCallId(0));
            if objects.address[row] < *end && made >= *since {
                objects.pool[row] = *pool;
            }
        }
    }

    /// Live object of an active block with its requested size, created if the events have none. None if a different
    /// object is live there by the events: its free and the block's allocation are not recorded, so the block is newer
    /// than all events and does not belong to their peaks.
    fn block_object(
        &mut self,
        (block, requested): (&MemoryBlock, Option<u64>),
        (device, stream, pool): (MemoryDeviceId, MemoryStreamId, StrId),
        live: &mut Live,
    ) -> MemoryObjectId {
        let state = live.device(device);
        let first = state.objects.find_all(block.address, block.bytes.max(1)).next().map(|(object, _)| object);
        let object = match first {
            Some(object) if self.is_block_of(object, block, requested) => {
                self.trace.objects.bytes[object.index()] = block.bytes;
                if pool.is_some() {
                    self.trace.objects.pool[object.index()] = pool;
                }
                object
            }
            Some(_) => {
                let place = format!("{} bytes at {:#x}", block.bytes, block.address);
                diagnostics::MEMORY_NEW_BLOCK.count(&mut self.trace.report, None, &place);
                return MemoryObjectId::NONE;
            }
            None => {
                let operator = self.operator(block.stack);
                let object = self.trace.add_older(NewObject {
                    operator,
                    address: block.address,
                    bytes: block.bytes,
                    requested: block.requested,
                    device,
                    stream,
                    pool,
                    stack: block.stack,
                    ..NewObject::default()
                });
                state.objects.insert(block.address, block.bytes.max(1), object);
                object
            }
        };
        state.confirmed.insert(object);
        object
    }

    /// Check if a block with this requested size (if known) may belong to an object: it begins at the object's address,
    /// and has the object's request or, if unknown, room for it.
    fn is_block_of(&self, object: MemoryObjectId, block: &MemoryBlock, requested: Option<u64>) -> bool {
        let objects = &self.trace.objects;
        let row = object.index();
        objects.address[row] == block.address
            && requested.map_or(objects.requested[row] <= block.bytes, |known| known == objects.requested[row])
    }
}
