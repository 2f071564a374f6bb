//! Memory traces: allocations, frees and accesses of objects over time.
//!
//! A [`MemoryTrace`] contains
//! * **calls** ([`MemoryCalls`]) in the order in which the host made them: allocations, frees, copies, sets, kernels
//!   (or framework operators, which count as kernels), event records and waits, host synchronization, each on a
//!   stream;
//! * **objects** ([`MemoryObjects`]): memory from its allocation to its free. A reused address is another object;
//! * **accesses** ([`MemoryAccesses`]): reads and writes of objects by calls, with extent and evidence. The accesses
//!   of a call are contiguous: a source pushes a call, then its accesses, then the next call;
//! * data of the caching allocator, if the source has them: segment events, a snapshot of segments and blocks,
//!   totals, failed requests.
//!
//! Times are ns (of any clock, one per trace), sizes are bytes, positions are rows of `calls`. Positions are in host
//! order, in which live memory changes.
//!
//! ```
//! use stackline_model::{AccessEvidence, AccessExtent, AccessMode, MemoryCallKind, MemoryTrace, NewCall, NewObject};
//! let mut trace = MemoryTrace::default();
//! let device = trace.device("cuda:0");
//! let stream = trace.stream(device, 7);
//! let at = |time| NewCall { start_ns: time, stream, ..NewCall::default() };
//! let weights = trace.allocate(NewObject { bytes: 512, device, address: 0x1000, ..NewObject::default() }, at(0));
//! let name = trace.strings.intern("gemm");
//! trace.calls.push(MemoryCallKind::Kernel, NewCall { name, ..at(10) });
//! trace.accesses.push(weights, AccessMode::Read, AccessEvidence::OperatorLevel, AccessExtent::Whole);
//! trace.seal_call();
//! trace.release(weights, at(20));
//! let call = trace.calls.ids().nth(1).unwrap();
//! assert_eq!(trace.accesses_of(call).next().unwrap().object, weights);
//! ```

mod accesses;
mod address;
mod allocator;
mod calls;
mod lookup;
mod objects;
mod settings;
mod stacks;
#[cfg(test)]
mod tests;

pub use accesses::{AccessEvidence, AccessExtent, AccessMode, ByteRange, MemoryAccess, MemoryAccesses};
pub use address::AddressMap;
pub use allocator::{
    DelayedFree, MemoryBlock, MemoryBlockState, MemorySegment, MemorySegmentEvent, MemorySegmentEventKind,
    MemoryTotals, OutOfMemory,
};
pub use calls::{MemoryCallKind, MemoryCalls, NewCall, call_flags};
pub use lookup::MemoryLookup;
pub use objects::{MemoryObjectKind, MemoryObjects, NewObject};
pub use settings::MemoryAllocatorSettings;
pub use stacks::MemoryStacks;

use crate::{MemoryCallId, MemoryDeviceId, MemoryObjectId, MemoryStreamId, ReadReport, StrId, StringTable};

/// Memory trace of one process. The documentation of this module explains its parts.
#[derive(Debug, Default, Clone)]
pub struct MemoryTrace {
    /// Label for people, usually the file's name.
    pub label: String,
    /// All names and texts.
    pub strings: StringTable,
    /// Call paths.
    pub stacks: MemoryStacks,
    /// Devices, in order of first appearance.
    pub devices: Vec<MemoryDevice>,
    /// Streams (of CPU memory: threads), in order of first appearance.
    pub streams: Vec<MemoryStream>,
    /// Calls of the host, in order.
    pub calls: MemoryCalls,
    /// Objects in the order of allocation; those older than the trace are at their first access.
    pub objects: MemoryObjects,
    /// Earlier kinds of objects, before [`MemoryObjects::kind`], by object and time.
    pub kind_changes: Vec<MemoryKindChange>,
    /// Accesses, in the order of `calls`.
    pub accesses: MemoryAccesses,
    /// Named ranges of calls: steps, forward, backward; may nest.
    pub phases: Vec<MemoryPhase>,
    /// Settings of the caching allocator, as far as known.
    pub allocator_settings: MemoryAllocatorSettings,
    /// Segment events of the caching allocator, in the order of `calls`.
    pub segment_events: Vec<MemorySegmentEvent>,
    /// Frees that took effect later than requested, after other events.
    pub delayed_frees: Vec<DelayedFree>,
    /// Segments of the caching allocator at the time of the snapshot (usually the end).
    pub segments: Vec<MemorySegment>,
    /// Blocks of `segments`, by address within each; indexed by [`MemorySegment::blocks`].
    pub blocks: Vec<MemoryBlock>,
    /// Totals of the source, in the order of `calls`.
    pub totals: Vec<MemoryTotals>,
    /// Requests that failed.
    pub out_of_memory: Vec<OutOfMemory>,
    /// True if the records include the end of the program (or process). Otherwise objects that are live at the end are
    /// not leaks yet.
    pub saw_end: bool,
    /// True if the source has accesses. Otherwise only lifetimes can be analyzed.
    pub has_accesses: bool,
    /// Read report: repaired, skipped and lost records.
    pub report: ReadReport,
    /// Index for [`Self::device`] and [`Self::stream`], which updates itself.
    pub lookup: MemoryLookup,
}

/// Device with memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryDevice {
    /// `cuda:0`, `cpu`.
    pub name: StrId,
    /// Size of the memory in bytes, 0 if unknown.
    pub total_bytes: u64,
}

/// A stream of a device; for CPU memory, a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryStream {
    /// The device.
    pub device: MemoryDeviceId,
    /// Number or handle in the source; 0 is the default stream.
    pub key: u64,
}

/// Named range of memory-related calls, such as a step or a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPhase {
    /// `ProfilerStep#3`, `forward`.
    pub name: StrId,
    /// First call.
    pub first: MemoryCallId,
    /// End of the range (exclusive; may be the number of calls).
    pub end: MemoryCallId,
}

/// Change of an object's kind, such as an activation that becomes a parameter's gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryKindChange {
    /// The object.
    pub object: MemoryObjectId,
    /// First call after the change (may be the number of calls).
    pub before: MemoryCallId,
    /// Kind before the change.
    pub kind: MemoryObjectKind,
}

impl MemoryTrace {
    /// True if calls have times. In sources without times, calls have their positions instead, or equal times.
    pub fn has_times(&self) -> bool {
        let times = &self.calls.start_ns;
        let is_position = |(at, ns): (usize, &i64)| i64::try_from(at) == Ok(*ns);
        times.first() != times.last() && !times.iter().enumerate().all(is_position)
    }

    /// Set the begin of each call to its position: the source has no times.
    pub fn clear_times(&mut self) {
        for (at, start) in self.calls.start_ns.iter_mut().enumerate() {
            *start = i64::try_from(at).unwrap_or(i64::MAX);
        }
    }

    /// Function from a call's row to its begin, in ns since the first call; `None` for unknown rows and sources without
    /// times.
    pub fn times_since_first(&self) -> impl Fn(usize) -> Option<i64> {
        let begin = self.calls.start_ns.first().copied().filter(|_| self.has_times());
        move |row| Some(self.calls.start_ns.get(row)?.saturating_sub(begin?))
    }

    /// Kind of an object at a position in the sequence of calls.
    pub fn kind_at(&self, object: MemoryObjectId, position: MemoryCallId) -> MemoryObjectKind {
        let over = self.kind_changes.partition_point(|change| (change.object, change.before) <= (object, position));
        let next = self.kind_changes.get(over).filter(|change| change.object == object);
        next.map_or(self.objects.kind[object.index()], |change| change.kind)
    }

    /// Device with this name, which is added if it is new.
    pub fn device(&mut self, name: &str) -> MemoryDeviceId {
        let name = self.strings.intern(name);
        self.lookup.device(&self.devices, name).unwrap_or_else(|| {
            self.devices.push(MemoryDevice { name, total_bytes: 0 });
            MemoryDeviceId::new(self.devices.len() - 1)
        })
    }

    /// Stream of `device` with this `key` in the source, which is added if it is new.
    pub fn stream(&mut self, device: MemoryDeviceId, key: u64) -> MemoryStreamId {
        let stream = MemoryStream { device, key };
        self.lookup.stream(&self.streams, stream).unwrap_or_else(|| {
            self.streams.push(stream);
            MemoryStreamId::new(self.streams.len() - 1)
        })
    }

    /// Add the call that allocates `object`, and the object. If `call` has a stack and `object` has none, the object
    /// gets it.
    pub fn allocate(&mut self, object: NewObject, call: NewCall) -> MemoryObjectId {
        let stack = if object.stack.is_some() { object.stack } else { call.stack };
        let id = self.objects.push(NewObject { stack, ..object });
        let call = self.calls.push(MemoryCallKind::Allocate, NewCall { target: id.0, ..call });
        self.objects.allocated_by[id.index()] = call;
        self.seal_call();
        id
    }

    /// Add an object that was allocated before the trace begins, without an allocating call.
    pub fn add_older(&mut self, object: NewObject) -> MemoryObjectId {
        self.objects.push(object)
    }

    /// Add the call that frees `object`. A second free of the same object only adds the call.
    pub fn release(&mut self, object: MemoryObjectId, call: NewCall) -> MemoryCallId {
        let id = self.calls.push(MemoryCallKind::Free, NewCall { target: object.0, ..call });
        if let Some(freed) = self.objects.freed_by.get_mut(object.index()).filter(|freed| freed.is_none()) {
            *freed = id;
        }
        self.seal_call();
        id
    }

    /// Complete the accesses of the last call. Call it after each call that was pushed directly.
    pub fn seal_call(&mut self) {
        let accesses = self.accesses.len();
        self.calls.seal(accesses);
        self.has_accesses |= accesses > 0;
    }

    /// Rows of [`Self::accesses`] that belong to a call.
    pub fn access_rows(&self, call: MemoryCallId) -> std::ops::Range<usize> {
        self.calls.access_rows(call)
    }

    /// Accesses of a call.
    pub fn accesses_of(&self, call: MemoryCallId) -> impl ExactSizeIterator<Item = MemoryAccess> + '_ {
        self.access_rows(call).map(|row| self.accesses.get(row))
    }

    /// Object that a call allocates or frees; `None` for other calls and for unknown objects.
    pub fn object_of(&self, call: MemoryCallId) -> Option<MemoryObjectId> {
        let about = matches!(self.calls.kind[call.index()], MemoryCallKind::Allocate | MemoryCallKind::Free);
        if about { MemoryObjectId(self.calls.target[call.index()]).some() } else { None }
    }

    /// Range of call positions at which an object is live, from its allocation up to, and without, its free. An object
    /// older than the trace is live from 0, and one without a free up to the number of calls.
    pub fn life(&self, object: MemoryObjectId) -> std::ops::Range<usize> {
        let row = object.index();
        let first = self.objects.allocated_by[row].some().map_or(0, MemoryCallId::index);
        let end = self.objects.freed_by[row].some().map_or(self.calls.len(), MemoryCallId::index);
        first..end.max(first)
    }

    /// Range of call positions at which an object takes memory: those of its life. No position precedes the first call,
    /// so position 0 also represents the time before it. An object older than the trace exists there even if the first
    /// call frees it, or there is no call. A call either takes memory or gives it back, so no position has too much.
    pub fn held(&self, object: MemoryObjectId) -> std::ops::Range<usize> {
        let life = self.life(object);
        let is_older = self.objects.allocated_by[object.index()].is_none();
        life.start..if is_older { life.end.max(1) } else { life.end }
    }

    /// Bytes on a device that the program freed before a position, and that another stream may still use there.
    pub fn awaiting_bytes(&self, device: MemoryDeviceId, position: MemoryCallId) -> u64 {
        let waits = |free: &&DelayedFree| {
            let row = free.object.index();
            let freed = self.objects.freed_by[row];
            self.objects.device[row] == device && freed < position && position < free.until
        };
        let waiting = self.delayed_frees.iter().filter(waits);
        waiting.map(|free| self.objects.bytes[free.object.index()]).fold(0, u64::saturating_add)
    }

    /// Name of an object, else its row (`object 12`).
    pub fn object_name(&self, object: MemoryObjectId) -> String {
        match self.strings.get(self.objects.name[object.index()]) {
            "" => format!("object {}", object.index()),
            name => name.to_owned(),
        }
    }

    /// Check all properties that analyses rely on: columns of equal length, valid handles, accesses in order.
    ///
    /// # Errors
    /// One sentence with the violated property.
    pub fn check(&self) -> Result<(), String> {
        self.calls.check(self.accesses.len())?;
        self.objects.check()?;
        self.accesses.check(self.objects.len())?;
        self.stacks.check()?;
        let (calls, devices, streams) = (self.calls.len(), self.devices.len(), self.streams.len());
        let in_range = |rows: usize, handle: u32| handle == u32::MAX || (handle as usize) < rows;
        let rules: [(&str, bool); 6] = [
            (
                "a memory call refers to a stream that does not exist",
                self.calls.stream.iter().all(|s| in_range(streams, s.0)),
            ),
            (
                "a memory object refers to a device that does not exist",
                self.objects.device.iter().all(|d| in_range(devices, d.0)),
            ),
            (
                "a memory object is allocated by a call that does not exist",
                self.objects.allocated_by.iter().all(|c| in_range(calls, c.0)),
            ),
            (
                "a memory object is freed by a call that does not exist",
                self.objects.freed_by.iter().all(|c| in_range(calls, c.0)),
            ),
            (
                "a stream refers to a device that does not exist",
                self.streams.iter().all(|s| in_range(devices, s.device.0)),
            ),
            (
                "a memory segment refers to blocks that do not exist",
                self.segments.iter().all(|s| s.blocks.start <= s.blocks.end && s.blocks.end <= self.blocks.len()),
            ),
        ];
        match rules.iter().find(|(_, holds)| !holds) {
            Some((what, _)) => Err((*what).to_owned()),
            None => self.check_targets().and_then(|()| self.check_allocator()),
        }
    }

    /// Check the caching allocator's data and phases. Positions between calls may be the number of calls.
    fn check_allocator(&self) -> Result<(), String> {
        let (calls, objects) = (self.calls.len(), self.objects.len());
        let in_range = |rows: usize, handle: u32| handle == u32::MAX || (handle as usize) < rows;
        let place = |device: MemoryDeviceId, stream: MemoryStreamId| {
            in_range(self.devices.len(), device.0) && in_range(self.streams.len(), stream.0)
        };
        let between = |call: MemoryCallId| in_range(calls + 1, call.0);
        let on = MemoryStreamId::NONE;
        let rules: [(&str, bool); 9] = [
            (
                "a memory object refers to a stream that does not exist",
                self.objects.stream.iter().all(|s| place(MemoryDeviceId::NONE, *s)),
            ),
            (
                "the table that lists when memory objects change their kind is not sorted, or refers to an object or \
                 call that does not exist",
                self.kind_changes.iter().all(|c| c.object.index() < objects && between(c.before))
                    && self.kind_changes.is_sorted_by_key(|c| (c.object, c.before)),
            ),
            (
                "a phase of the program refers to memory calls that do not exist",
                self.phases.iter().all(|p| between(p.first) && between(p.end)),
            ),
            (
                "an event of the caching allocator refers to a call, device or stream that does not exist",
                self.segment_events.iter().all(|e| between(e.before) && place(e.device, e.stream)),
            ),
            (
                "a memory segment refers to a device or stream that does not exist",
                self.segments.iter().all(|s| place(s.device, s.stream)),
            ),
            (
                "a delayed free refers to a memory object or call that does not exist",
                self.delayed_frees.iter().all(|f| f.object.index() < objects && between(f.until)),
            ),
            (
                "a memory block refers to a memory object that does not exist",
                self.blocks.iter().all(|b| in_range(objects, b.object.0)),
            ),
            (
                "a memory total of the caching allocator refers to a device or call that does not exist",
                self.totals.iter().all(|t| place(t.device, on) && in_range(calls, t.after.0)),
            ),
            (
                "a failed allocation refers to a call, device, stream or segment event that does not exist",
                self.out_of_memory.iter().all(|o| {
                    between(o.before) && place(o.device, o.stream) && o.segment_events <= self.segment_events.len()
                }),
            ),
        ];
        rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(what, _)| Err((*what).to_owned()))
    }

    /// Check that the targets of allocations, frees, event waits and host synchronizations exist.
    fn check_targets(&self) -> Result<(), String> {
        for call in self.calls.ids() {
            let (kind, target) = (self.calls.kind[call.index()], self.calls.target[call.index()]);
            let rows = match kind {
                MemoryCallKind::Allocate | MemoryCallKind::Free => self.objects.len(),
                MemoryCallKind::EventWait => call.index(),
                MemoryCallKind::HostSync => self.streams.len(),
                _ => continue,
            };
            if target != u32::MAX && target as usize >= rows {
                return Err(format!(
                    "memory call {} ({}) refers to an object, call or stream that does not exist",
                    call.index(),
                    kind.name()
                ));
            }
        }
        Ok(())
    }
}
