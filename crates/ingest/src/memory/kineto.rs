//! Memory trace from the `[memory]` instants of `torch.profiler` (`profile_memory=True`) and the operators around them.
//!
//! Each event has its bytes (negative if freed), and since PyTorch 1.11 the address and the allocator's totals after
//! the event. The call path consists of the enclosing operators, annotations and (`with_stack=True`) Python frames.
//! Memory that only the totals contain becomes one object that is older than the records. If the totals of a GPU change
//! without an event, the difference is an allocation or a free that is not recorded (`unrecorded`). Events of one time
//! are in the order of the totals (`order`). The `[OutOfMemory]` instants are failed requests (`failures`).

mod failures;
mod order;
mod unrecorded;

use crate::diagnostics;
use order::{MemoryEvent, order_by_totals};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::names::python_frame;
use stackline_model::{
    AddressMap, EventId, EventKind, Frame, FrameId, FrameKind, Key, MemoryCallId, MemoryDeviceId, MemoryObjectId,
    MemoryPhase, MemoryStackId, MemoryStreamId, MemoryTotals, MemoryTrace, NewCall, NewObject, StrId, Trace, TrackId,
    TrackKind, flags,
};

/// Memory trace of a `torch.profiler` trace; `None` if it has no memory events.
pub fn from_trace(source: &Trace) -> Option<MemoryTrace> {
    let mut events: Vec<EventId> = source.events.ids().filter(|e| source.kind(*e) == EventKind::Memory).collect();
    if events.is_empty() {
        return None;
    }
    let begin = |event: &EventId| (source.events.start[event.index()], source.events.source_index[event.index()]);
    events.sort_by_key(begin);
    let mut reader = Reader::new(source);
    let keys = ["Bytes", "Addr", "Device Type", "Device Id", "Total Allocated", "Total Reserved"];
    let columns = keys.map(|key| source.attr(key));
    let mut records = Vec::with_capacity(events.len());
    for event in events {
        let [bytes, address, kind, id, allocated, reserved] = columns.each_ref().map(|column| column.i64(event));
        let Some(bytes) = bytes.filter(|_| source.events.is_plausible(event)) else {
            diagnostics::MEMORY_BAD_EVENT.count(
                &mut reader.trace.report,
                None,
                "a memory event without a size or a valid time",
            );
            continue;
        };
        let device = reader.device(kind.unwrap_or(0), id.unwrap_or(-1));
        let (start, track) = (source.events.start[event.index()], source.events.track[event.index()]);
        let address = address.map(i64::cast_unsigned);
        records.push(MemoryEvent { event, track, start, device, bytes, address, allocated, reserved });
    }
    order_by_totals(&mut records);
    for record in &records {
        reader.infer_unrecorded(record);
        reader.event(record);
        reader.totals(record);
    }
    Some(reader.finish())
}

/// Live objects, balance and totals of one device during the conversion.
#[derive(Default)]
struct Device {
    live: AddressMap,
    /// Addresses that were used before.
    used: FxHashSet<u64>,
    /// Objects by size, oldest first, for events without addresses.
    by_size: FxHashMap<u64, Vec<MemoryObjectId>>,
    /// Live bytes by the events: allocated minus freed bytes, each within the trace.
    balance: i128,
    /// Bytes in use before the first event, from the totals.
    before: Option<i128>,
    /// Bytes of older objects that the events free.
    older: u64,
    disagreements: u64,
    unrecorded: unrecorded::Unrecorded,
}

/// Kind of the call-path frame for an event kind.
fn frame_kind(kind: EventKind) -> FrameKind {
    match kind {
        EventKind::Operator => FrameKind::Operator,
        EventKind::PythonFunction => FrameKind::Python,
        kind if kind.is_api_call() => FrameKind::Runtime,
        _ => FrameKind::Span,
    }
}

/// Conversion of the `[memory]` events of a trace to a memory trace.
struct Reader<'a> {
    source: &'a Trace,
    trace: MemoryTrace,
    devices: Vec<Device>,
    frames: FxHashMap<StrId, FrameId>,
    paths: FxHashMap<EventId, MemoryStackId>,
    /// Twin thread by track ([`Self::track_with_text_key`]).
    twins: FxHashMap<TrackId, Option<TrackId>>,
    without_address: u64,
}

impl<'a> Reader<'a> {
    fn new(source: &'a Trace) -> Self {
        let trace = MemoryTrace {
            label: source.meta.name.clone(),
            report: source.report.clone(),
            strings: source.strings.clone(),
            ..MemoryTrace::default()
        };
        let (frames, paths, twins) = (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        Self { source, trace, devices: Vec::new(), frames, paths, twins, without_address: 0 }
    }

    /// Memory device for a number of c10's `DeviceType` and a device index; created on first use.
    fn device(&mut self, kind: i64, id: i64) -> MemoryDeviceId {
        // Numbers of c10's DeviceType.
        let name = match kind {
            0 => "cpu".to_owned(),
            1 => format!("cuda:{id}"),
            6 => format!("hip:{id}"),
            12 => format!("xpu:{id}"),
            13 => format!("mps:{id}"),
            19 => format!("mtia:{id}"),
            other => format!("device type {other}:{id}"),
        };
        let device = self.trace.device(&name);
        if self.devices.len() <= device.index() {
            self.devices.resize_with(device.index() + 1, Device::default);
        }
        device
    }

    /// Stream of a memory event: the thread for CPU memory, else the default stream.
    fn stream(&mut self, event: EventId, device: MemoryDeviceId) -> MemoryStreamId {
        let is_cpu = self.trace.strings.get(self.trace.devices[device.index()].name) == "cpu";
        let track = self.source.events.track[event.index()];
        let thread = self.source.tracks.get(track).tid.as_int().map_or(0, i64::cast_unsigned);
        self.trace.stream(device, if is_cpu { thread } else { 0 })
    }

    /// Add a memory event: an allocation for bytes of at least 0, else a free.
    fn event(&mut self, record: &MemoryEvent) {
        let MemoryEvent { event, device, bytes, address, .. } = *record;
        let stream = self.stream(event, device);
        let parent = self.enclosing_span(event);
        let call = NewCall {
            start_ns: self.source.meta.base_ns.saturating_add(self.source.events.start[event.index()]),
            stream,
            stack: self.path(parent),
            ..NewCall::default()
        };
        self.without_address += u64::from(address.is_none());
        let size = bytes.unsigned_abs();
        self.devices[device.index()].balance += i128::from(bytes);
        if bytes >= 0 {
            let operator = self.operator(parent);
            let object = NewObject {
                address: address.unwrap_or(0),
                bytes: size,
                device,
                stream,
                operator,
                ..NewObject::default()
            };
            self.allocation(object, call, address.is_some());
        } else {
            self.free(size, address, device, call);
        }
    }

    /// Add an allocation. Live objects that overlap its address range are freed first, because their frees were not
    /// recorded.
    fn allocation(&mut self, object: NewObject, call: NewCall, has_address: bool) {
        let state = &mut self.devices[object.device.index()];
        if !has_address {
            let id = self.trace.allocate(object, call);
            state.by_size.entry(object.bytes).or_default().push(id);
            return;
        }
        let old: Vec<MemoryObjectId> =
            state.live.find_all(object.address, object.bytes.max(1)).map(|(object, _)| object).collect();
        for old in old {
            diagnostics::MEMORY_OVERLAP.count(&mut self.trace.report, None, &format!("at {:#x}", object.address));
            state.live.remove(self.trace.objects.address[old.index()]);
            let flags = stackline_model::call_flags::INFERRED;
            self.trace.release(old, NewCall { flags, stack: MemoryStackId::NONE, ..call });
        }
        let id = self.trace.allocate(object, call);
        state.used.insert(object.address);
        state.live.insert(object.address, object.bytes, id);
    }

    /// Add a free of the object at the address, else of the newest object of that size. An unknown object counts as
    /// older, or the free as unmatched if its address was used before.
    fn free(&mut self, size: u64, address: Option<u64>, device: MemoryDeviceId, call: NewCall) {
        let state = &mut self.devices[device.index()];
        let found = match address {
            Some(address) => state.live.remove(address),
            None => state.by_size.get_mut(&size).and_then(Vec::pop),
        };
        let is_new = address.is_none_or(|address| state.used.insert(address));
        let object = match found {
            Some(object) => {
                if self.trace.objects.bytes[object.index()] != size {
                    diagnostics::MEMORY_OTHER_SIZE.count(&mut self.trace.report, None, &format!("{size} bytes"));
                }
                object
            }
            None if is_new => {
                state.older = state.older.saturating_add(size);
                let (address, stream) = (address.unwrap_or(0), call.stream);
                self.trace.add_older(NewObject { address, bytes: size, device, stream, ..NewObject::default() })
            }
            None => {
                let place = format!("{size} bytes at {:#x}", address.unwrap_or(0));
                diagnostics::MEMORY_UNKNOWN_FREE.count(&mut self.trace.report, None, &place);
                MemoryObjectId::NONE
            }
        };
        self.trace.release(object, call);
    }

    /// Store the allocator's totals after an event, and count those that disagree with the sum of the events.
    fn totals(&mut self, record: &MemoryEvent) {
        let Some((allocated, reserved)) = record.totals() else { return };
        let device = record.device;
        let state = &mut self.devices[device.index()];
        let before = i128::from(allocated) - state.balance;
        state.disagreements += u64::from(*state.before.get_or_insert(before) != before);
        self.trace.totals.push(MemoryTotals {
            after: MemoryCallId::new(self.trace.calls.len().saturating_sub(1)),
            time_ns: self.source.meta.base_ns.saturating_add(record.start),
            device,
            allocated,
            reserved,
        });
    }

    /// Innermost span around an event; if the event has no parent, searched on the thread with the same ID as text.
    /// Traces of 2021 write the thread of operators as text and that of memory events as a number.
    fn enclosing_span(&mut self, event: EventId) -> EventId {
        let events = &self.source.events;
        let parent = events.parent[event.index()];
        if parent.is_some() {
            return parent;
        }
        let Some(twin) = self.track_with_text_key(events.track[event.index()]) else { return parent };
        let (spans, time) = (self.source.track_events(twin), events.start[event.index()]);
        let begun = spans.partition_point(|span| events.start[span.index()] <= time);
        let Some(last) = begun.checked_sub(1).map(|at| spans[at]) else { return parent };
        let holds = |span: &EventId| {
            let (start, duration) = (events.start[span.index()], events.dur[span.index()]);
            events.has(*span, flags::HAS_DURATION) && start.saturating_add(duration) >= time
        };
        std::iter::once(last).chain(self.source.ancestors(last)).find(holds).unwrap_or(parent)
    }

    /// Track of the thread with the same ID as text (thread `"12"` for thread 12 of the process); `None` without one.
    fn track_with_text_key(&mut self, track: TrackId) -> Option<TrackId> {
        let tracks = &self.source.tracks;
        *self.twins.entry(track).or_insert_with(|| {
            let own = tracks.get(track);
            let text = self.source.strings.find(&own.tid.as_int()?.to_string())?;
            let is_twin = |other: &TrackId| {
                let other = tracks.get(*other);
                (other.process, other.tid, other.kind) == (own.process, Key::Str(text), TrackKind::Thread)
            };
            tracks.ids().find(is_twin)
        })
    }

    /// Name of the innermost operator among the span `inner` and its ancestors; [`StrId::NONE`] without one.
    fn operator(&mut self, inner: EventId) -> StrId {
        let mut around =
            inner.some().into_iter().chain(inner.some().into_iter().flat_map(|e| self.source.ancestors(e)));
        around
            .find(|event| self.source.kind(*event) == EventKind::Operator)
            .map_or(StrId::NONE, |event| self.source.events.name[event.index()])
    }

    /// Call path of a span for memory calls: the frames of its ancestors, outermost first, and its own.
    fn path(&mut self, event: EventId) -> MemoryStackId {
        let mut open = Vec::new();
        let mut at = event;
        let mut stack = MemoryStackId::NONE;
        while at.is_some() {
            if let Some(known) = self.paths.get(&at) {
                stack = *known;
                break;
            }
            open.push(at);
            at = self.source.events.parent[at.index()];
        }
        for event in open.into_iter().rev() {
            let frame = self.frame(event);
            stack = self.trace.stacks.node(stack, frame);
            self.paths.insert(event, stack);
        }
        stack
    }

    /// Call-path frame of a span, shared by all spans of one name: Python for names such as `train.py(88): step`, else
    /// by kind.
    fn frame(&mut self, event: EventId) -> FrameId {
        let name = self.source.events.name[event.index()];
        if let Some(frame) = self.frames.get(&name) {
            return *frame;
        }
        let frame = match python_frame(self.source.strings.get(name)) {
            Some((file, line, function)) => {
                let [function, file] = [function, file].map(|text| self.trace.strings.intern(text));
                Frame::Python { function, file, line, first_line: 0 }
            }
            None => Frame::with_line(frame_kind(self.source.kind(event)), name, StrId::NONE, 0),
        };
        let frame = self.trace.stacks.frames.intern(frame);
        self.frames.insert(name, frame);
        frame
    }

    /// Complete the trace: memory that only the totals contain, one phase per step, and the diagnostics.
    fn finish(mut self) -> MemoryTrace {
        self.failed_requests();
        for (at, state) in self.devices.iter().enumerate() {
            // Total before the first event, less the older objects that the events show.
            let rest = state.before.map_or(0, |before| before - i128::from(state.older));
            if let Ok(bytes @ 1..) = u64::try_from(rest) {
                let name = self.trace.strings.intern("allocated before the recording and not freed in it");
                self.trace.add_older(NewObject {
                    bytes,
                    device: MemoryDeviceId::new(at),
                    name,
                    ..NewObject::default()
                });
            }
            diagnostics::MEMORY_TOTALS.count_many(&mut self.trace.report, state.disagreements, None, "");
        }
        for step in &self.source.steps {
            let time = |at: i64| self.source.meta.base_ns.saturating_add(at);
            let position =
                |at: i64| MemoryCallId::new(self.trace.calls.start_ns.partition_point(|start| *start < time(at)));
            let name = self.source.events.name[step.event.index()];
            self.trace.phases.push(MemoryPhase { name, first: position(step.start), end: position(step.end) });
        }
        let older = self.trace.objects.allocated_by.iter().filter(|call| call.is_none()).count();
        diagnostics::MEMORY_OLDER.count_many(&mut self.trace.report, older as u64, None, "");
        diagnostics::MEMORY_NO_ADDRESS.count_many(&mut self.trace.report, self.without_address, None, "");
        self.trace.report.sort();
        self.trace
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn frames_of_call_paths_have_kinds() {
        let json = br#"{"traceEvents": [
            {"ph": "X", "cat": "python_function", "name": "train.py(3): step", "pid": 1, "tid": 1, "ts": 1, "dur": 90},
            {"ph": "X", "cat": "user_annotation", "name": "load", "pid": 1, "tid": 1, "ts": 2, "dur": 80},
            {"ph": "X", "cat": "python_function", "name": "<built-in empty>", "pid": 1, "tid": 1, "ts": 3, "dur": 70},
            {"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 1, "tid": 1, "ts": 4, "dur": 60},
            {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "args":
                {"Total Allocated": 64, "Bytes": 64, "Addr": 4096, "Device Id": -1, "Device Type": 0}}]}"#;
        let trace = from_trace(&crate::read_bytes("t", json, &Default::default()).unwrap()).unwrap();
        let frames = trace.stacks.frames_of(trace.objects.stack[0]);
        let path: Vec<_> = frames.map(|f| (f.kind(), f.function_text(&trace.strings).to_owned(), f.line())).collect();
        let frame = |kind, name: &str, line| (kind, name.to_owned(), line);
        let expected = [
            frame(FrameKind::Operator, "aten::empty", None),
            frame(FrameKind::Python, "<built-in empty>", None),
            frame(FrameKind::Span, "load", None),
            frame(FrameKind::Python, "step", Some(3)),
        ];
        assert_eq!(path, expected);
    }

    /// Trace of memory events on one GPU: time in µs, thread, bytes, address, and `Total Allocated`.
    fn of_events(events: &[(u64, u64, i64, u64, i64)]) -> MemoryTrace {
        let event = |(ts, tid, bytes, address, total): &(u64, u64, i64, u64, i64)| {
            format!(
                r#"{{"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": {tid},
                "ts": {ts}, "args": {{"Total Allocated": {total}, "Total Reserved": 1000, "Bytes": {bytes},
                "Addr": {address}, "Device Id": 0, "Device Type": 1}}}}"#
            )
        };
        let events: Vec<String> = events.iter().map(event).collect();
        let json = format!(r#"{{"traceEvents": [{}]}}"#, events.join(","));
        let trace = from_trace(&crate::read_bytes("t", json.as_bytes(), &Default::default()).unwrap()).unwrap();
        trace.check().unwrap();
        trace
    }

    /// Live bytes at each call.
    fn live_bytes(trace: &MemoryTrace) -> Vec<u64> {
        let held = |at: usize| trace.objects.ids().filter(move |object| trace.held(*object).contains(&at));
        let bytes = |at: usize| held(at).map(|object| trace.objects.bytes[object.index()]).sum::<u64>();
        (0..trace.calls.len()).map(bytes).collect()
    }

    /// Number of disagreeing totals, older objects and unmatched frees.
    fn counts(trace: &MemoryTrace) -> [u64; 3] {
        ["totals_disagree", "older_than_records", "free_without_allocation"].map(|code| trace.report.count_of(code))
    }

    #[test]
    fn a_free_and_an_allocation_at_one_time_are_in_the_order_of_the_totals() {
        let trace = of_events(&[
            (10, 1, 20, 4096, 20),
            // The other thread freed the memory just before.
            (20, 1, 20, 4096, 20),
            (20, 2, -20, 4096, 0),
            (30, 1, 5, 8192, 25),
            (40, 1, -20, 4096, 5),
            (50, 1, -5, 8192, 0),
        ]);
        assert_eq!((live_bytes(&trace), counts(&trace)), (vec![20, 0, 20, 25, 5, 0], [0, 0, 0]));
    }

    #[test]
    fn a_second_free_at_an_address_frees_no_older_object() {
        let trace = of_events(&[(1, 1, 8, 4096, -1), (2, 1, -8, 4096, -1), (3, 1, -8, 4096, -1)]);
        assert_eq!((live_bytes(&trace), counts(&trace)), (vec![8, 0, 0], [0, 0, 1]));
        let older = of_events(&[(1, 1, -8, 4096, -1), (2, 1, -8, 4096, -1)]);
        assert_eq!((live_bytes(&older), counts(&older)), (vec![8, 0], [0, 1, 1]));
    }

    #[test]
    fn the_curve_equals_the_totals_of_a_gpu() {
        let trace = of_events(&[
            (10, 1, 5, 4096, 5),
            (20, 1, 5, 8192, 60),
            (30, 1, -5, 8192, 55),
            (40, 1, -5, 4096, 50),
            (50, 1, 1, 4096, 31),
        ]);
        let live = live_bytes(&trace);
        assert_eq!(live, [5, 55, 60, 55, 50, 0, 30, 31]);
        assert!(trace.totals.iter().all(|total| live[total.after.index()] == total.allocated));
        assert_eq!(counts(&trace), [4, 0, 0]);
        // Memory from before the recording is freed without a record.
        let trace = of_events(&[(10, 1, 5, 4096, 105), (20, 1, 5, 8192, 70)]);
        assert_eq!((live_bytes(&trace), counts(&trace)), (vec![105, 65, 70], [1, 2, 0]));
        // Recorded memory is freed without a record: it counts until its address is allocated again.
        let trace = of_events(&[(10, 1, 5, 4096, 5), (20, 1, 5, 8192, 5), (30, 1, 5, 4096, 10)]);
        assert_eq!(live_bytes(&trace), [5, 10, 5, 10]);
    }
}
