//! Allocations and frees that only the allocator's totals show, such as those of threads that the profiler misses.
//!
//! The caching allocator of a GPU takes its totals while it is locked, so they are exact at each event. CPU totals
//! aren't: several threads write them in any order.

use super::Reader;
use super::order::MemoryEvent;
use stackline_model::{MemoryDeviceId, MemoryObjectId, NewCall, NewObject, call_flags};

/// Memory of one device that the totals contain and the events do not.
#[derive(Default)]
pub(super) struct Unrecorded {
    /// Live bytes by the events.
    counted: i128,
    /// Total minus `counted` at the last event; `None` before the first total.
    hidden: Option<i128>,
    /// Inferred objects that are live, oldest first.
    live: Vec<MemoryObjectId>,
    /// Bytes of unrecorded frees whose objects are unknown, and which count as live for that reason.
    still_live: u64,
}

impl Reader<'_> {
    /// Add the allocations and frees that must have occurred between the last event of the device and this one.
    pub(super) fn infer_unrecorded(&mut self, record: &MemoryEvent) {
        let change = self.live_change(record);
        let state = &mut self.devices[record.device.index()].unrecorded;
        state.counted += change;
        let Some((allocated, 1..)) = record.totals() else { return };
        let hidden = i128::from(allocated) - state.counted;
        let growth = hidden - state.hidden.replace(hidden).unwrap_or(hidden);
        let bytes = u64::try_from(growth.unsigned_abs()).unwrap_or(u64::MAX);
        if growth == 0 {
            return;
        }
        let call = NewCall {
            start_ns: self.source.meta.base_ns.saturating_add(record.start),
            stream: self.trace.stream(record.device, 0),
            flags: call_flags::INFERRED,
            ..NewCall::default()
        };
        if growth > 0 {
            let paid = bytes.min(state.still_live);
            state.still_live -= paid;
            self.unrecorded_allocation(record.device, bytes - paid, call);
        } else {
            self.unrecorded_free(record.device, bytes, call);
        }
    }

    /// Change of the live bytes by an event: that of its object, and of overlapping objects without a free.
    fn live_change(&self, record: &MemoryEvent) -> i128 {
        let state = &self.devices[record.device.index()];
        let size = |object: MemoryObjectId| i128::from(self.trace.objects.bytes[object.index()]);
        let bytes = i128::from(record.bytes);
        let Some(address) = record.address else { return bytes };
        if record.bytes >= 0 {
            let overlapping = state.live.find_all(address, record.bytes.unsigned_abs().max(1));
            return bytes - overlapping.map(|(object, _)| size(object)).sum::<i128>();
        }
        match state.live.find(address) {
            Some((object, 0)) => -size(object),
            _ if state.used.contains(&address) => 0,
            _ => bytes,
        }
    }

    /// Add an object of unrecorded bytes.
    fn unrecorded_allocation(&mut self, device: MemoryDeviceId, bytes: u64, call: NewCall) {
        if bytes == 0 {
            return;
        }
        let name = self.trace.strings.intern("allocated without a record");
        let object = NewObject { bytes, device, stream: call.stream, name, ..NewObject::default() };
        let object = self.trace.allocate(object, call);
        self.devices[device.index()].unrecorded.live.push(object);
    }

    /// Free unrecorded bytes: first those that were allocated without a record, then those from before the recording.
    /// Further bytes belong to recorded objects, but it is unknown to which ones.
    fn unrecorded_free(&mut self, device: MemoryDeviceId, bytes: u64, call: NewCall) {
        let mut left = bytes;
        while left > 0 {
            let Some(object) = self.devices[device.index()].unrecorded.live.pop() else { break };
            let size = self.trace.objects.bytes[object.index()];
            self.trace.release(object, call);
            self.unrecorded_allocation(device, size.saturating_sub(left), call);
            left = left.saturating_sub(size);
        }
        let state = &self.devices[device.index()];
        let before = state.before.map_or(0, |before| before - i128::from(state.older));
        let older = left.min(u64::try_from(before).unwrap_or(0));
        if older > 0 {
            let name = self.trace.strings.intern("allocated before the recording and freed without a record");
            let object = NewObject { bytes: older, device, stream: call.stream, name, ..NewObject::default() };
            let object = self.trace.add_older(object);
            self.trace.release(object, call);
        }
        let state = &mut self.devices[device.index()];
        state.older = state.older.saturating_add(older);
        state.unrecorded.still_live = state.unrecorded.still_live.saturating_add(left - older);
    }
}
