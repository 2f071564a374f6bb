//! Memory trace for timeline viewers. Each device has a counter of live bytes, a lane per stream of calls, and a lane
//! per object from allocation to free with its waste.

use rustc_hash::FxHashMap;
use stackline_model::{
    AttrType, AttrValue, EventKind, Key, MemoryCallId, MemoryCallKind, MemoryDeviceId, MemoryObjectId, MemoryTrace,
    NewEvent, Phase, StrId, Trace, TrackId, TrackKind, flags,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Maximum number of lanes with one object each, per device. Beyond it, objects with disjoint lifetimes share lanes.
const MAX_OWN_LANES: usize = 256;

/// Time range in which an object takes memory without use.
#[derive(Clone, Debug)]
pub struct Waste {
    /// The object.
    pub object: MemoryObjectId,
    /// Name of the waste pattern.
    pub name: &'static str,
    /// The call at which it begins; none: with the object.
    pub from: MemoryCallId,
    /// The call at which it ends; none: with the object.
    pub to: MemoryCallId,
    /// Bytes.
    pub bytes: u64,
}

/// Callback for additional attributes of an object, as names and texts.
pub type ObjectAttributes<'a> = dyn Fn(MemoryObjectId) -> Vec<(&'static str, String)> + 'a;

/// Convert a memory trace to a trace of timeline lanes, with the waste and attributes of each object.
///
/// Start times never decrease, except for operators, which are listed at their end and drawn from their start.
pub fn lanes(memory: &MemoryTrace, waste: &[Waste], attributes: &ObjectAttributes<'_>) -> Trace {
    let mut writer = Writer::new(memory, attributes);
    writer.counters();
    writer.calls();
    writer.objects(waste);
    writer.trace.index_tracks();
    writer.trace
}

struct Writer<'a> {
    memory: &'a MemoryTrace,
    attributes: &'a ObjectAttributes<'a>,
    trace: Trace,
    /// Start of each call, and one more value for the end.
    clock: Vec<i64>,
}

impl<'a> Writer<'a> {
    fn new(memory: &'a MemoryTrace, attributes: &'a ObjectAttributes<'a>) -> Self {
        let calls = &memory.calls;
        let (mut clock, mut now) = (Vec::with_capacity(calls.len() + 1), calls.start_ns.first().copied().unwrap_or(0));
        for start in &calls.start_ns {
            now = now.max(*start);
            clock.push(now);
        }
        let ends = (0..calls.len()).map(|row| calls.start_ns[row].saturating_add_unsigned(calls.duration_ns[row]));
        let end = ends.fold(now.saturating_add(1), i64::max);
        clock.push(end);
        let mut trace = Trace::default();
        trace.meta.name.clone_from(&memory.label);
        trace.meta.format = "memory".to_owned();
        Self { memory, attributes, trace, clock }
    }

    fn track(&mut self, device: MemoryDeviceId, kind: TrackKind, number: usize, name: &str) -> TrackId {
        let known = self.memory.devices.get(device.index());
        let device = known.map_or("no device", |known| self.memory.strings.get(known.name));
        let process = self.trace.strings.intern(&format!("memory of {device}"));
        let pid = Key::Str(process);
        let tid = Key::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let id = self.trace.tracks.track(pid, tid, kind);
        let name = self.trace.strings.intern(name);
        let at = self.trace.tracks.get(id).process.index();
        self.trace.tracks.processes[at].name = process;
        let track = &mut self.trace.tracks.tracks[id.index()];
        (track.name, track.sort_index) = (name, tid.as_int());
        id
    }

    fn event(
        &mut self,
        track: TrackId,
        span: (i64, Option<i64>),
        phase: Phase,
        name: &str,
        args: &[(&str, AttrValue)],
    ) {
        let strings = &mut self.trace.strings;
        let category = strings.intern("memory");
        let fields: Vec<(StrId, AttrType)> =
            args.iter().map(|(key, value)| (strings.intern(key), value.to_raw().0)).collect();
        let values: Vec<u64> = args.iter().map(|(_, value)| value.to_raw().1).collect();
        let number = u32::try_from(self.trace.events.len()).unwrap_or(u32::MAX);
        let new = NewEvent {
            start: span.0,
            dur: span.1.map_or(0, |end| end.saturating_sub(span.0).max(0)),
            track,
            name: strings.intern(name),
            category,
            kind: EventKind::Other,
            phase,
            flags: if span.1.is_some() { flags::HAS_DURATION } else { 0 },
            source_index: number,
        };
        self.trace.events.push(new);
        self.trace.attrs.push(&fields, &values);
    }

    /// Add a counter per device with the bytes in use after each call that changes them.
    fn counters(&mut self) {
        let objects = &self.memory.objects;
        let mut changes: FxHashMap<MemoryDeviceId, Vec<(usize, i128)>> = FxHashMap::default();
        for object in objects.ids() {
            let life = self.memory.held(object);
            let bytes = i128::from(objects.bytes[object.index()]);
            let of_device = changes.entry(objects.device[object.index()]).or_default();
            of_device.extend([(life.start, bytes), (life.end, -bytes)]);
        }
        let mut changes: Vec<_> = changes.into_iter().collect();
        changes.sort_by_key(|(device, _)| *device);
        for (device, mut changes) in changes {
            changes.sort_unstable();
            let track = self.track(device, TrackKind::Counter, 0, "in use");
            let mut bytes = 0_i128;
            for at in 0..changes.len() {
                let (position, change) = changes[at];
                bytes += change;
                // Objects that are alive at the end are never freed, so changes after the last call are left out.
                if position < self.memory.calls.len() && changes.get(at + 1).is_none_or(|next| next.0 > position) {
                    let value = AttrValue::Int(i64::try_from(bytes).unwrap_or(i64::MAX));
                    self.event(track, (self.clock[position], None), Phase::Counter, "in use", &[("bytes", value)]);
                }
            }
        }
    }

    /// Start and end times of the memory-related calls, by row; no end without a duration. A call inside another call
    /// of its stream ends no later.
    fn spans(&self) -> Vec<(i64, Option<i64>)> {
        let calls = &self.memory.calls;
        let mut spans: Vec<(i64, Option<i64>)> = self.clock.iter().take(calls.len()).map(|at| (*at, None)).collect();
        let ended = |row: usize| calls.start_ns[row].saturating_add_unsigned(calls.duration_ns[row]);
        let mut lasting: Vec<usize> = (0..calls.len()).filter(|row| calls.duration_ns[*row] > 0).collect();
        lasting.sort_by_key(|row| (calls.start_ns[*row], Reverse(ended(*row)), *row));
        let mut open: FxHashMap<_, Vec<i64>> = FxHashMap::default();
        for row in lasting {
            let (start, around) = (calls.start_ns[row], open.entry(self.lane(row)).or_default());
            while around.last().is_some_and(|end| *end <= start) {
                around.pop();
            }
            let end = around.last().map_or(i64::MAX, |end| *end).min(ended(row));
            around.push(end);
            spans[row] = (start, Some(end));
        }
        spans
    }

    /// Device and stream number of a memory-related call, the key of its lane; 0 without a stream.
    fn lane(&self, row: usize) -> (MemoryDeviceId, usize) {
        let (memory, stream) = (self.memory, self.memory.calls.stream[row]);
        let device = match (memory.streams.get(stream.index()), memory.object_of(MemoryCallId::new(row))) {
            (Some(stream), _) => stream.device,
            (None, Some(object)) => memory.objects.device[object.index()],
            _ => MemoryDeviceId::NONE,
        };
        (device, stream.some().map_or(0, |stream| stream.index() + 1))
    }

    fn calls(&mut self) {
        let memory = self.memory;
        let calls = &memory.calls;
        let spans = self.spans();
        for call in calls.ids() {
            let row = call.index();
            let stream = memory.streams.get(calls.stream[row].index());
            let object = memory.object_of(call);
            let lane = stream.map_or_else(|| "calls".to_owned(), |stream| format!("calls on stream {}", stream.key));
            let (device, number) = self.lane(row);
            let track = self.track(device, TrackKind::Stream, number, &lane);
            let (start, end) = spans[row];
            let phase = if end.is_some() { Phase::Complete } else { Phase::Instant };
            let name = match (object, memory.strings.get(calls.name[row])) {
                (Some(object), _) => format!("{} {}", calls.kind[row].name(), memory.object_name(object)),
                (None, name) if calls.kind[row] == MemoryCallKind::Kernel && !name.is_empty() => name.to_owned(),
                _ => calls.kind[row].name().to_owned(),
            };
            let mut args = vec![("call", int(row as u64))];
            args.extend(object.map(|object| ("bytes", int(memory.objects.bytes[object.index()]))));
            self.event(track, (start, end), phase, &name, &args);
        }
    }

    fn objects(&mut self, waste: &[Waste]) {
        let mut of_object: FxHashMap<MemoryObjectId, Vec<&Waste>> = FxHashMap::default();
        for waste in waste {
            of_object.entry(waste.object).or_default().push(waste);
        }
        for device in self.memory.objects.device.iter().copied().collect::<std::collections::BTreeSet<_>>() {
            let objects: Vec<MemoryObjectId> = self
                .memory
                .objects
                .ids()
                .filter(|object| self.memory.objects.device[object.index()] == device)
                .collect();
            for (object, lane) in self.assign_lanes(objects) {
                let name = lane.map_or_else(|| self.memory.object_name(object), |lane| format!("objects {lane}"));
                // Below the lanes of the streams.
                let number = self.memory.streams.len() + 1 + lane.unwrap_or(object.index());
                let track = self.track(device, TrackKind::Stream, number, &name);
                self.object(track, object, of_object.get(&object).map_or(&[], Vec::as_slice));
            }
        }
    }

    /// Assign memory objects, in the order of their allocation, to lanes shared by objects with disjoint lifetimes.
    /// `None` if few enough for one lane each.
    fn assign_lanes(&self, mut objects: Vec<MemoryObjectId>) -> Vec<(MemoryObjectId, Option<usize>)> {
        objects.sort_by_key(|object| self.memory.life(*object).start);
        if objects.len() <= MAX_OWN_LANES {
            return objects.into_iter().map(|object| (object, None)).collect();
        }
        let (mut open, mut lanes) = (BinaryHeap::new(), 0);
        let mut place = |object: MemoryObjectId| {
            let life = self.memory.life(object);
            let free = open.peek().is_some_and(|Reverse((end, _)): &Reverse<(usize, usize)>| *end <= life.start);
            let lane = if free { open.pop().map_or(0, |Reverse((_, lane))| lane) } else { lanes };
            lanes = lanes.max(lane + 1);
            open.push(Reverse((life.end, lane)));
            (object, Some(lane))
        };
        objects.into_iter().map(&mut place).collect()
    }

    fn object(&mut self, track: TrackId, object: MemoryObjectId, waste: &[&Waste]) {
        let (memory, row) = (self.memory, object.index());
        let (objects, life) = (&memory.objects, memory.life(object));
        let (begin, end) = (self.clock[life.start], self.clock[life.end]);
        let texts = [("kind", objects.kind[row].name()), ("dtype", memory.strings.get(objects.dtype[row]))];
        let texts = texts.into_iter().chain([("shape", memory.strings.get(objects.shape[row]))]);
        let attributes = (self.attributes)(object);
        let texts = texts.chain(attributes.iter().map(|(key, text)| (*key, text.as_str())));
        let mut args = vec![("object", int(row as u64)), ("bytes", int(objects.bytes[row]))];
        for (key, text) in texts.filter(|(_, text)| !text.is_empty()) {
            args.push((key, AttrValue::Str(self.trace.strings.intern(text))));
        }
        self.event(track, (begin, Some(end)), Phase::Complete, &memory.object_name(object), &args);
        for waste in waste {
            let at = |call: MemoryCallId, none: i64| call.some().map_or(none, |call| self.clock[call.index()]);
            let from = at(waste.from, begin).clamp(begin, end);
            let to = at(waste.to, end).clamp(from, end);
            let args = [("wasted bytes", int(waste.bytes))];
            self.event(track, (from, Some(to)), Phase::Complete, waste.name, &args);
        }
    }
}

fn int(value: u64) -> AttrValue {
    AttrValue::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_ingest::memory::text;

    const PROGRAM: &str = "a x 100 t=5\na y 50 t=9\nk fill >x t=10 dur=4\nd x t=20\nf x t=30\nf y t=8 @3\n";

    fn nothing(_: MemoryObjectId) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn spans(trace: &Trace) -> Vec<String> {
        let one = |event: stackline_model::EventId| {
            let row = event.index();
            let track = trace.tracks.get(trace.events.track[row]);
            let lane = trace.strings.get(track.name);
            format!("{lane}: {} {} {}", trace.name(event), trace.events.start[row], trace.events.dur[row])
        };
        trace.events.ids().map(one).collect()
    }

    #[test]
    fn objects_span_their_lane_from_allocation_to_free() {
        let memory = text::read("m", PROGRAM).unwrap();
        let (none, object) = (MemoryCallId::NONE, MemoryObjectId(1));
        let waste = Waste { object, name: "unused allocation", from: none, to: none, bytes: 50 };
        let late = Waste { object: MemoryObjectId(0), name: "late", from: MemoryCallId(3), to: none, bytes: 100 };
        let attributes = |object: MemoryObjectId| {
            vec![("call path", format!("train.py:{}", object.0 + 1)), ("suggestion", String::new())]
        };
        let trace = lanes(&memory, &[waste, late], &attributes);
        let found = spans(&trace);
        for expected in [
            "in use: in use 5 0",
            "calls on stream 0: allocate x 5 0",
            "calls on stream 0: fill 10 4",
            "calls on stream 3: free y 30 0",
            "x: x 5 25",
            "x: late 20 10",
            "y: y 9 21",
            "y: unused allocation 9 21",
        ] {
            assert!(found.iter().any(|span| span == expected), "{expected}: {found:#?}");
        }
        let path = trace.attr("call path");
        let paths =
            trace.events.ids().filter_map(|event| Some((trace.name(event), trace.strings.get(path.text(event)?))));
        assert_eq!(paths.collect::<Vec<_>>(), [("x", "train.py:1"), ("y", "train.py:2")], "of objects alone");
        assert!(
            trace.events.ids().all(|event| trace.attr("suggestion").text(event).is_none()),
            "what is empty is left out"
        );
        let values = trace.attr("bytes");
        let counted: Vec<_> = trace.events.ids().take(3).map(|event| values.i64(event)).collect();
        assert_eq!(counted, [Some(100), Some(150), Some(50)]);
    }

    #[test]
    fn objects_with_disjoint_lifetimes_share_lanes() {
        let lines = (0..MAX_OWN_LANES + 10).map(|at| format!("a o{at} 8; f o{at}\n"));
        let memory = text::read("m", &lines.collect::<String>()).unwrap();
        let trace = lanes(&memory, &[], &nothing);
        assert_eq!(trace.tracks.tracks.len(), 3, "a counter, a stream, one lane");
        assert!(trace.events.check().is_ok());
        let mut bytes = Vec::new();
        assert_eq!(crate::exports::perfetto::write(&[&trace], &mut bytes).unwrap(), 0);
        assert!(lanes(&MemoryTrace::default(), &[], &nothing).events.check().is_ok());
    }
}
