//! The allocator's memory at the moment of the snapshot.

use super::Reader;
use super::events::Live;
use crate::memory::values::NodeId;
use crate::problems;
use rustc_hash::FxHashSet;
use stackline_model::{
    MemoryBlock, MemoryBlockState, MemoryDeviceId, MemoryObjectId, MemorySegment, MemoryStackId, MemoryStreamId,
    NewObject, StrId,
};

impl Reader<'_> {
    /// Reads segments; objects in active blocks that no event made are older than the trace.
    pub(super) fn segments(&mut self, segments: Option<NodeId>, live: &mut Live) {
        let mut seen = FxHashSet::default();
        let mut lists = FxHashSet::default();
        for segment in segments.map_or(&[][..], |list| self.values.items(list)) {
            self.trace.report.records += 1;
            let Some(dict) = self.values.as_dict(*segment).filter(|dict| seen.insert(*dict)) else {
                problems::MEMORY_BAD_SEGMENT.count(&mut self.trace.report, None, "no dict, or there twice");
                continue;
            };
            // A list that stands for the blocks of several segments would be read as often as the file says.
            let list = self.field(dict, self.keys.blocks).and_then(|value| self.values.as_list(value));
            if list.is_some_and(|list| !self.values.items(list).is_empty() && !lists.insert(list)) {
                problems::MEMORY_BAD_SEGMENT.count(&mut self.trace.report, None, "the blocks of another segment");
                continue;
            }
            self.segment(dict, live);
        }
    }

    fn segment(&mut self, dict: NodeId, live: &mut Live) {
        let keys = self.keys;
        let (Some(address), Some(bytes)) = (self.number(dict, keys.address), self.number(dict, keys.total_size)) else {
            problems::MEMORY_BAD_SEGMENT.count(&mut self.trace.report, None, "no address or size");
            return;
        };
        let device = self.trace.device(&format!("cuda:{}", self.number(dict, keys.device).unwrap_or(0)));
        let stream = self.trace.stream(device, self.number(dict, keys.stream).unwrap_or(0));
        let pool = self.pool(dict, keys.segment_pool_id);
        let first = self.trace.blocks.len();
        self.blocks(dict, address, (device, stream, pool), live);
        let expandable = self.field(dict, keys.is_expandable) == Some(crate::memory::values::Value::TRUE);
        let stack = self.stack(dict);
        self.trace.segments.push(MemorySegment {
            device,
            stream,
            address,
            bytes,
            small: self.text(dict, keys.segment_type) == keys.small,
            expandable,
            pool,
            stack,
            blocks: first..self.trace.blocks.len(),
        });
    }

    fn blocks(&mut self, dict: NodeId, start: u64, owner: (MemoryDeviceId, MemoryStreamId, StrId), live: &mut Live) {
        let keys = self.keys;
        let list = self.field(dict, keys.blocks).and_then(|value| self.values.as_list(value));
        let mut address = start;
        for block in list.map_or(&[][..], |list| self.values.items(list)) {
            let block = self.values.as_dict(*block);
            let Some((dict, bytes)) = block.and_then(|dict| Some((dict, self.number(dict, keys.size)?))) else {
                problems::MEMORY_BAD_SEGMENT.count(&mut self.trace.report, None, "a block without a size");
                continue;
            };
            address = self.number(dict, keys.address).unwrap_or(address);
            let state = self.text(dict, keys.state);
            let state = match state {
                _ if state == keys.active_allocated => MemoryBlockState::Active,
                _ if state == keys.inactive => MemoryBlockState::Inactive,
                _ => MemoryBlockState::AwaitingFree,
            };
            let (requested, stack) = self.block_history(dict, bytes);
            let mut block = MemoryBlock { address, bytes, requested, state, object: MemoryObjectId::NONE, stack };
            if state == MemoryBlockState::Active {
                block.object = self.block_object(&block, owner, live);
            }
            self.trace.blocks.push(block);
            address = address.saturating_add(bytes);
        }
    }

    /// What was asked for, and where: in the block, or (old versions) in the first entry of its history.
    fn block_history(&mut self, block: NodeId, bytes: u64) -> (u64, MemoryStackId) {
        let keys = self.keys;
        let history = self.field(block, keys.history).and_then(|value| self.values.as_list(value));
        let first = history.and_then(|list| self.values.items(list).first().copied());
        match first.and_then(|first| self.values.as_dict(first)) {
            Some(first) => (self.number(first, keys.real_size).unwrap_or(bytes), self.stack(first)),
            None => (self.number(block, keys.requested_size).unwrap_or(0), self.stack(block)),
        }
    }

    /// The object in an active block.
    fn block_object(
        &mut self,
        block: &MemoryBlock,
        (device, stream, pool): (MemoryDeviceId, MemoryStreamId, StrId),
        live: &mut Live,
    ) -> MemoryObjectId {
        let state = live.of(device);
        let object = match state.objects.find(block.address) {
            Some((object, 0)) => {
                self.trace.objects.bytes[object.index()] = block.bytes;
                object
            }
            Some(_) => return MemoryObjectId::NONE,
            None => {
                let object = self.trace.older(NewObject {
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
}
