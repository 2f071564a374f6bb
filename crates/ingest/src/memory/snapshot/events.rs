//! Events of the allocator, merged over all devices by time.

use super::Reader;
use crate::diagnostics;
use crate::memory::values::NodeId;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{
    AddressMap, DelayedFree, MemoryAllocatorSettings, MemoryCallId, MemoryDeviceId, MemoryObjectId, MemoryObjectKind,
    MemorySegmentEvent, MemorySegmentEventKind, MemoryStackId, MemoryTrace, NewCall, NewObject, OutOfMemory, StrId,
    call_flags,
};

/// Live objects and pending frees of each device while events are read.
#[derive(Default)]
pub(super) struct Live {
    devices: Vec<DeviceState>,
}

/// Live objects, freed addresses and confirmed objects of one device while events are read.
#[derive(Default)]
pub(super) struct DeviceState {
    pub(super) objects: AddressMap,
    /// Requested frees that have not taken effect, by address.
    pending: FxHashMap<u64, PendingFree>,
    /// Addresses that were used before.
    used: FxHashSet<u64>,
    /// Objects with an active block.
    pub(super) confirmed: FxHashSet<MemoryObjectId>,
}

/// Free that was requested, but has not taken effect.
struct PendingFree {
    object: MemoryObjectId,
    /// Numbers of calls, segment events and failed requests at the request.
    recorded: [usize; 3],
}

impl DeviceState {
    /// Delayed free of the object at the address of a block that still awaits it.
    pub(super) fn awaited_free(&mut self, address: u64) -> Option<DelayedFree> {
        let object = self.pending.remove(&address)?.object.some()?;
        Some(DelayedFree { object, until: MemoryCallId::NONE })
    }
}

impl Live {
    /// State of a device, created if missing.
    pub(super) fn device(&mut self, device: MemoryDeviceId) -> &mut DeviceState {
        if self.devices.len() <= device.index() {
            self.devices.resize_with(device.index() + 1, DeviceState::default);
        }
        &mut self.devices[device.index()]
    }

    /// Objects that are alive after the events but have no active block, on devices with known segments.
    pub(super) fn without_block(&self, trace: &MemoryTrace) -> Vec<MemoryObjectId> {
        let known: FxHashSet<usize> = trace.segments.iter().map(|segment| segment.device.index()).collect();
        let alive = trace.objects.ids().filter(|object| trace.objects.freed_by[object.index()].is_none());
        let lost = alive.filter(|object| {
            let device = trace.objects.device[object.index()].index();
            known.contains(&device) && self.devices.get(device).is_some_and(|state| !state.confirmed.contains(object))
        });
        lost.collect()
    }
}

/// Event list of one device, with the position of the next event.
struct Lane {
    device: MemoryDeviceId,
    events: NodeId,
    next: usize,
    /// Latest time so far.
    time_ns: i64,
    /// True if an event has a time, valid or not.
    has_times: bool,
    /// True if an event has a valid time.
    is_timed: bool,
    /// Number of events without a valid time.
    untimed: u64,
}

/// Fields that all allocator events have: device, address, size and call.
struct Event {
    dict: NodeId,
    device: MemoryDeviceId,
    address: u64,
    size: u64,
    call: NewCall,
}

impl Reader<'_> {
    /// Read the allocator events of the devices (name and event list of each) in time order, and return the objects
    /// that stay live.
    pub(super) fn events(&mut self, lanes: &[(String, NodeId)]) -> Live {
        let mut live = Live::default();
        let mut seen = FxHashSet::default();
        let mut open = Vec::new();
        for (name, events) in lanes {
            // A list that several devices share is invalid; it is read once, even if the file repeats it.
            if self.values.items(*events).is_empty() || !seen.insert(*events) {
                continue;
            }
            let device = self.trace.device(name);
            open.push(Lane {
                device,
                events: *events,
                next: 0,
                time_ns: i64::MIN,
                has_times: false,
                is_timed: false,
                untimed: 0,
            });
        }
        self.reserve(open.iter().map(|lane| self.values.items(lane.events).len()).sum());
        while let Some((lane, time_ns)) = self.next_event(&mut open) {
            let (device, events, at) = (lane.device, lane.events, lane.next - 1);
            self.trace.report.records += 1;
            match self.values.as_dict(self.values.items(events)[at]) {
                Some(dict) => self.event(dict, device, time_ns, live.device(device)),
                None => {
                    diagnostics::MEMORY_BAD_EVENT.count(
                        &mut self.trace.report,
                        None,
                        "an allocator event that is not a dict",
                    );
                }
            }
        }
        if !open.iter().any(|lane| lane.is_timed) {
            self.trace.clear_times();
        }
        // Old versions of PyTorch write no times; the order of one device's events is that of the file.
        if open.len() > 1 || open.iter().any(|lane| lane.has_times) {
            let untimed = open.iter().map(|lane| lane.untimed).sum();
            diagnostics::MEMORY_NO_TIME.count_many(&mut self.trace.report, untimed, None, "");
        }
        live
    }

    /// Reserve memory for the calls of `events` events, and for objects: most events are allocations with a later free.
    /// Columns that grow by copying are in memory twice, next to all values of the file. Unused reserved memory costs
    /// nothing, and columns still grow if the reservation fails.
    fn reserve(&mut self, events: usize) {
        macro_rules! reserve {
            ($table:expr, $rows:expr, $($column:ident)*) => { $(let _ = $table.$column.try_reserve($rows);)* };
        }
        reserve!(self.trace.calls, events, kind start_ns duration_ns stream name stack flags target access_end);
        reserve!(self.trace.objects, events / 2, address bytes requested device stream pool stack name module operator dtype shape);
        reserve!(self.trace.objects, events / 2, kind allocated_by freed_by);
    }

    /// Advance past the earliest event of all devices, and return its event list and its time in ns; `None` at the end.
    fn next_event<'l>(&mut self, lanes: &'l mut [Lane]) -> Option<(&'l Lane, i64)> {
        let mut first: Option<(usize, i64)> = None;
        for (at, lane) in lanes.iter().enumerate() {
            let Some(event) = self.values.items(lane.events).get(lane.next) else { continue };
            let time = self.values.as_dict(*event).and_then(|event| self.time(event)).unwrap_or(lane.time_ns);
            if first.is_none_or(|(_, earliest)| time.max(lane.time_ns) < earliest) {
                first = Some((at, time.max(lane.time_ns)));
            }
        }
        let (at, _) = first?;
        let lane = &mut lanes[at];
        let event = self.values.as_dict(self.values.items(lane.events)[lane.next]);
        let position = i64::try_from(self.trace.calls.len()).unwrap_or(i64::MAX);
        let given = event.and_then(|event| self.time(event));
        if let Some(time) = given.filter(|time| *time < lane.time_ns) {
            let back = format!("{} ns", lane.time_ns.saturating_sub(time));
            diagnostics::MEMORY_CLOCK_BACK.count(&mut self.trace.report, None, &back);
        }
        if let Some(event) = event {
            lane.has_times |= self.field(event, self.keys.time_us).is_some();
            lane.is_timed |= given.is_some();
            lane.untimed += u64::from(given.is_none());
        }
        // An event without a time has that of the event before it, or its position if no time is known so far.
        lane.time_ns = lane.time_ns.max(given.unwrap_or(if event.is_some() { position } else { lane.time_ns }));
        lane.next += 1;
        let time = lane.time_ns;
        Some((&lanes[at], time))
    }

    /// Time of an event in ns, from the microseconds in the file; `None` without a valid time.
    pub(super) fn time(&self, event: NodeId) -> Option<i64> {
        let time = self.values.as_int(self.field(event, self.keys.time_us)?)?;
        i64::try_from(time).ok()?.checked_mul(1000)
    }

    /// Apply an allocator event by its action; invalid and unknown events are only counted.
    fn event(&mut self, dict: NodeId, device: MemoryDeviceId, time_ns: i64, state: &mut DeviceState) {
        let keys = self.keys;
        let action = self.text(dict, keys.action);
        // A failed request may exceed the memory of any machine.
        let size = if action == keys.oom { self.request(dict) } else { self.size(dict, keys.size) };
        // An OOM event of old versions has the free memory of the device in place of the address.
        let address = self.number(dict, keys.addr).or_else(|| self.number(dict, keys.device_free));
        let (Some(size), Some(address)) = (size, address) else {
            if action != keys.snapshot && action != keys.annotate {
                let what = format!(
                    "allocator event {:?} without an address, or with an impossible size",
                    self.trace.strings.get(action)
                );
                diagnostics::MEMORY_BAD_EVENT.count(&mut self.trace.report, None, &what);
            }
            return;
        };
        let stream = self.trace.stream(device, self.number(dict, keys.stream).unwrap_or(0));
        let call = NewCall { start_ns: time_ns, stream, stack: self.stack(dict), ..NewCall::default() };
        let event = Event { dict, device, address, size, call };
        match action {
            _ if action == keys.alloc => self.allocation(&event, state),
            _ if action == keys.free_requested || action == keys.free => self.free(&event, state),
            _ if action == keys.free_completed => self.free_completed(&event, state),
            _ if action == keys.segment_alloc => self.segment_event(&event, MemorySegmentEventKind::Allocate),
            _ if action == keys.segment_free => self.segment_event(&event, MemorySegmentEventKind::Free),
            _ if action == keys.segment_map => self.segment_event(&event, MemorySegmentEventKind::Map),
            _ if action == keys.segment_unmap => self.segment_event(&event, MemorySegmentEventKind::Unmap),
            _ if action == keys.oom => self.out_of_memory(&event),
            _ if action == keys.annotate => self.annotation(&event, state),
            _ if action == keys.snapshot => {}
            _ => {
                let name = self.trace.strings.get(action).to_owned();
                diagnostics::MEMORY_UNKNOWN_EVENT.count(&mut self.trace.report, None, &name);
            }
        }
    }

    /// Size in bytes of a failed request, which may exceed the memory of any machine.
    fn request(&self, dict: NodeId) -> Option<u64> {
        self.values.as_int(self.field(dict, self.keys.size)?).and_then(|bytes| u64::try_from(bytes).ok())
    }

    /// Add an allocated object; live objects that it overlaps are freed first, because their frees are missing.
    fn allocation(&mut self, event: &Event, state: &mut DeviceState) {
        let old: Vec<MemoryObjectId> =
            state.objects.find_all(event.address, event.size.max(1)).map(|(object, _)| object).collect();
        for object in old {
            diagnostics::MEMORY_OVERLAP.count(&mut self.trace.report, None, &format!("at {:#x}", event.address));
            state.objects.remove(self.trace.objects.address[object.index()]);
            self.trace
                .release(object, NewCall { flags: call_flags::INFERRED, stack: MemoryStackId::NONE, ..event.call });
        }
        let pool = self.pool(event.dict, self.keys.pool_id);
        let category = self.text(event.dict, self.keys.category);
        let object = NewObject {
            address: event.address,
            bytes: self.rounded(event),
            requested: event.size,
            device: event.device,
            stream: event.call.stream,
            pool,
            module: self.present_text(event.dict, self.keys.user_metadata),
            kind: kind(self.trace.strings.get(category)),
            operator: self.operator(event.call.stack),
            ..NewObject::default()
        };
        let compiled = self.present_text(event.dict, self.keys.compile_context);
        let object = self.trace.allocate(object, NewCall { name: compiled, ..event.call });
        state.pending.remove(&event.address);
        state.used.insert(event.address);
        state.objects.insert(event.address, event.size.max(1), object);
    }

    /// Size in bytes that the allocator reserves for a request; 0 for an empty request. The settings belong to the GPU's
    /// allocator, not to the host's.
    fn rounded(&self, event: &Event) -> u64 {
        let device = self.trace.devices.get(event.device.index());
        let is_gpu = device.is_some_and(|device| self.trace.strings.get(device.name).starts_with("cuda"));
        let settings = if is_gpu { self.trace.allocator_settings } else { MemoryAllocatorSettings::default() };
        if event.size == 0 { 0 } else { settings.round(event.size) }
    }

    /// Text at a key of a snapshot's dict; none if it is missing, empty or `N/A`.
    fn present_text(&self, dict: NodeId, key: StrId) -> StrId {
        let text = self.text(dict, key);
        if text == self.keys.not_given || self.trace.strings.get(text).is_empty() { StrId::NONE } else { text }
    }

    /// Free the object at an event's address; an unknown object counts as older than the trace, or the free as
    /// unmatched.
    fn free(&mut self, event: &Event, state: &mut DeviceState) {
        let object = match state.objects.remove(event.address) {
            Some(object) => {
                if self.trace.objects.requested[object.index()] != event.size {
                    diagnostics::MEMORY_OTHER_SIZE.count(
                        &mut self.trace.report,
                        None,
                        &format!("{} bytes", event.size),
                    );
                }
                object
            }
            None if state.used.insert(event.address) => self.trace.add_older(NewObject {
                address: event.address,
                bytes: self.rounded(event),
                requested: event.size,
                device: event.device,
                stream: event.call.stream,
                ..NewObject::default()
            }),
            None => {
                let place = format!("{} bytes at {:#x}", event.size, event.address);
                diagnostics::MEMORY_UNKNOWN_FREE.count(&mut self.trace.report, None, &place);
                MemoryObjectId::NONE
            }
        };
        self.trace.release(object, event.call);
        state.pending.insert(event.address, PendingFree { object, recorded: self.recorded() });
    }

    /// Numbers of calls, segment events and failed requests so far.
    fn recorded(&self) -> [usize; 3] {
        [self.trace.calls.len(), self.trace.segment_events.len(), self.trace.out_of_memory.len()]
    }

    /// Process the completion of a free. It frees the object only if the free's request was not seen, and is kept if
    /// other events lie between the request and the completion.
    fn free_completed(&mut self, event: &Event, state: &mut DeviceState) {
        if let Some(pending) = state.pending.remove(&event.address) {
            if pending.object.is_some() && pending.recorded != self.recorded() {
                let until = MemoryCallId::new(self.trace.calls.len());
                self.trace.delayed_frees.push(DelayedFree { object: pending.object, until });
            }
            return;
        }
        if state.objects.find(event.address).is_some_and(|(_, offset)| offset == 0) {
            self.free(event, state);
            state.pending.remove(&event.address);
        } else {
            diagnostics::MEMORY_LATE_FREE.count(&mut self.trace.report, None, &format!("{} bytes", event.size));
        }
    }

    /// Add an allocation, free, mapping or unmapping of a segment to the trace.
    fn segment_event(&mut self, event: &Event, kind: MemorySegmentEventKind) {
        self.trace.segment_events.push(MemorySegmentEvent {
            kind,
            before: MemoryCallId::new(self.trace.calls.len()),
            time_ns: event.call.start_ns,
            device: event.device,
            stream: event.call.stream,
            address: event.address,
            bytes: event.size,
            stack: event.call.stack,
        });
    }

    /// Add a failed request to the trace; the event's address is the free memory of the device in bytes.
    fn out_of_memory(&mut self, event: &Event) {
        let pool = self.pool(event.dict, self.keys.pool_id);
        self.trace.out_of_memory.push(OutOfMemory {
            before: MemoryCallId::new(self.trace.calls.len()),
            segment_events: self.trace.segment_events.len(),
            time_ns: event.call.start_ns,
            device: event.device,
            stream: event.call.stream,
            requested: event.size,
            device_free: Some(event.address),
            pool,
            stack: event.call.stack,
        });
    }

    /// Set the name of the live object at an event's address to the text that the program supplied.
    fn annotation(&mut self, event: &Event, state: &DeviceState) {
        if let Some((object, 0)) = state.objects.find(event.address) {
            self.trace.objects.name[object.index()] = self.present_text(event.dict, self.keys.user_metadata);
        }
    }
}

/// Memory object kind of a category of `torch.profiler`.
pub(in crate::memory) fn kind(category: &str) -> MemoryObjectKind {
    match category.to_ascii_lowercase().as_str() {
        "parameter" => MemoryObjectKind::Parameter,
        "gradient" => MemoryObjectKind::Gradient,
        "optimizer_state" => MemoryObjectKind::OptimizerState,
        "activation" => MemoryObjectKind::Activation,
        "input" => MemoryObjectKind::Input,
        // Intermediate results of the backward pass.
        "temporary" | "autograd_detail" => MemoryObjectKind::Temporary,
        _ => MemoryObjectKind::Unknown,
    }
}
