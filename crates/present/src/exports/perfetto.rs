//! Perfetto's native format (`.pftrace`): smaller and quicker to open than JSON, with exact nanoseconds.
//!
//! Slices on one Perfetto track must nest. Where events of a track cross each other (dependent launches, damaged Python
//! frames), the later one goes to an extra lane below, named after the track.

use super::perfetto_proto as proto;
use super::perfetto_tracks::{Lanes, Tracks};
use prost::Message;
use proto::EventType;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{AttrValue, EventId, Phase, StrId, Trace, TrackId, flags};
use std::io::{self, Write};

/// Write traces with a common clock into one file. Returns the number of omitted events, whose times are unknown or
/// implausible.
pub fn write(traces: &[&Trace], out: &mut dyn Write) -> io::Result<u64> {
    let base = traces.iter().map(|trace| base(trace)).max().unwrap_or(0);
    let mut left_out = 0;
    for (number, trace) in (0..).zip(traces) {
        let mut writer = Writer::new(trace, number, base, out);
        for track in trace.tracks.ids() {
            writer.track(track)?;
            left_out += writer.events(track)?;
        }
    }
    Ok(left_out)
}

/// Offset in ns to add to event times: the trace's base time, or more if an event time would be negative.
fn base(trace: &Trace) -> i128 {
    let timed = trace.events.ids().filter(|e| trace.events.is_plausible(*e));
    let earliest = timed.map(|e| i128::from(trace.events.start[e.index()])).min().unwrap_or(0);
    i128::from(trace.meta.base_ns).max(-earliest)
}

/// Kinds of interned text, each with ids of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Interned {
    Category,
    Name,
    Key,
    Text,
}

struct Writer<'a> {
    trace: &'a Trace,
    out: &'a mut dyn Write,
    /// The sequence that all packets of the trace belong to.
    sequence: u32,
    /// Added to event times.
    base: i128,
    tracks: Tracks,
    flows: Flows,
    known: FxHashSet<(Interned, StrId)>,
    fresh: proto::InternedData,
    started: bool,
    buffer: Vec<u8>,
}

impl<'a> Writer<'a> {
    fn new(trace: &'a Trace, number: u32, base: i128, out: &'a mut dyn Write) -> Self {
        Self {
            trace,
            out,
            sequence: number + 1,
            base,
            tracks: Tracks::of_trace(number),
            flows: Flows::from_trace(trace, number),
            known: FxHashSet::default(),
            fresh: proto::InternedData::default(),
            started: false,
            buffer: Vec::new(),
        }
    }

    /// Write a packet, with the texts interned since the last packet.
    fn packet(&mut self, mut packet: proto::TracePacket) -> io::Result<()> {
        packet.trusted_packet_sequence_id = self.sequence;
        packet.sequence_flags = Some(if std::mem::replace(&mut self.started, true) { 2 } else { 3 });
        if self.fresh != proto::InternedData::default() {
            packet.interned_data = Some(std::mem::take(&mut self.fresh));
        }
        self.buffer.clear();
        // Field 1 of `Trace`, length-delimited.
        self.buffer.push(0x0a);
        packet.encode_length_delimited(&mut self.buffer).map_err(io::Error::other)?;
        self.out.write_all(&self.buffer)
    }

    /// Id of a text in Perfetto's interned data; a new text is added to the next packet.
    fn intern(&mut self, kind: Interned, text: StrId) -> u64 {
        let iid = u64::from(text.0) + 1;
        if self.known.insert((kind, text)) {
            let entry = proto::InternedName { iid, name: self.trace.strings.get(text).to_owned() };
            match kind {
                Interned::Category => self.fresh.event_categories.push(entry),
                Interned::Name => self.fresh.event_names.push(entry),
                Interned::Key => self.fresh.debug_annotation_names.push(entry),
                Interned::Text => self.fresh.debug_annotation_string_values.push(entry),
            }
        }
        iid
    }

    fn track(&mut self, track: TrackId) -> io::Result<()> {
        for descriptor in self.tracks.describe(self.trace, track) {
            self.packet(proto::TracePacket { track_descriptor: Some(descriptor), ..Default::default() })?;
        }
        Ok(())
    }

    /// Write the events of a track as Perfetto packets, and return the number of omitted ones.
    fn events(&mut self, track: TrackId) -> io::Result<u64> {
        let trace = self.trace;
        let mut lanes = Lanes::default();
        let mut left_out = 0;
        for &event in trace.track_events(track) {
            if !trace.events.is_plausible(event) {
                left_out += 1;
                continue;
            }
            match trace.events.phase[event.index()] {
                Phase::Counter => self.counter(track, event)?,
                _ if !trace.events.has(event, flags::HAS_DURATION) => {
                    let uuid = self.tracks.lane(track, 0);
                    self.start(uuid, event, EventType::Instant)?;
                }
                _ => self.slice(track, event, &mut lanes)?,
            }
        }
        for (lane, ends) in lanes.finish() {
            self.ends(track, lane, &ends)?;
        }
        Ok(left_out)
    }

    /// Write the start of an event with a duration, after the ends of earlier slices in its lane.
    fn slice(&mut self, track: TrackId, event: EventId, lanes: &mut Lanes) -> io::Result<()> {
        let (start, end) = (self.trace.events.start[event.index()], self.trace.events.end(event));
        let placed = lanes.place(start, end);
        if placed.is_new && placed.lane > 0 {
            let descriptor = self.tracks.extra_lane(self.trace, track, placed.lane);
            self.packet(proto::TracePacket { track_descriptor: Some(descriptor), ..Default::default() })?;
        }
        self.ends(track, placed.lane, &placed.ended)?;
        let uuid = self.tracks.lane(track, placed.lane);
        self.start(uuid, event, EventType::SliceBegin)
    }

    /// Write the ends of slices in one lane of a track.
    fn ends(&mut self, track: TrackId, lane: usize, ends: &[i64]) -> io::Result<()> {
        let uuid = self.tracks.lane(track, lane);
        for &end in ends {
            let event = proto::TrackEvent {
                r#type: Some(EventType::SliceEnd as i32),
                track_uuid: Some(uuid),
                ..Default::default()
            };
            self.event(end, event)?;
        }
        Ok(())
    }

    fn start(&mut self, uuid: u64, event: EventId, kind: EventType) -> io::Result<()> {
        let row = event.index();
        let (name, category) = (self.trace.events.name[row], self.trace.events.category[row]);
        let message = proto::TrackEvent {
            r#type: Some(kind as i32),
            track_uuid: Some(uuid),
            name_iid: name.some().map(|n| self.intern(Interned::Name, n)),
            category_iids: category.some().map(|c| self.intern(Interned::Category, c)).into_iter().collect(),
            debug_annotations: self.annotations(event),
            flow_ids: self.flows.from.remove(&event).unwrap_or_default(),
            terminating_flow_ids: self.flows.to.remove(&event).unwrap_or_default(),
            ..Default::default()
        };
        self.event(self.trace.events.start[row], message)
    }

    fn event(&mut self, at: i64, event: proto::TrackEvent) -> io::Result<()> {
        let timestamp = u64::try_from(self.base + i128::from(at)).unwrap_or(0);
        self.packet(proto::TracePacket { timestamp: Some(timestamp), track_event: Some(event), ..Default::default() })
    }

    fn annotations(&mut self, event: EventId) -> Vec<proto::DebugAnnotation> {
        let trace = self.trace;
        let annotate = |(key, value)| {
            let mut annotation =
                proto::DebugAnnotation { name_iid: Some(self.intern(Interned::Key, key)), ..Default::default() };
            match value {
                AttrValue::Null => {}
                AttrValue::Bool(b) => annotation.bool_value = Some(b),
                AttrValue::Int(i) => annotation.int_value = Some(i),
                AttrValue::Uint(u) => annotation.uint_value = Some(u),
                AttrValue::Float(f) => annotation.double_value = Some(f),
                AttrValue::Str(s) | AttrValue::Json(s) => {
                    annotation.string_value_iid = Some(self.intern(Interned::Text, s));
                }
            }
            annotation
        };
        trace.attrs.of_event(event).map(annotate).collect()
    }

    /// Write the values of a counter event as packets: each numeric argument is a counter of its own.
    fn counter(&mut self, track: TrackId, event: EventId) -> io::Result<()> {
        let trace = self.trace;
        let (name, at) = (trace.events.name[event.index()], trace.events.start[event.index()]);
        for (key, value) in trace.attrs.of_event(event) {
            let Some(number) = value.as_f64() else { continue };
            let (uuid, descriptor) = self.tracks.counter(trace, track, name, key);
            if let Some(descriptor) = descriptor {
                self.packet(proto::TracePacket { track_descriptor: Some(descriptor), ..Default::default() })?;
            }
            let integer = value.as_i64();
            let message = proto::TrackEvent {
                r#type: Some(EventType::Counter as i32),
                track_uuid: Some(uuid),
                counter_value: integer,
                double_counter_value: if integer.is_some() { None } else { Some(number) },
                ..Default::default()
            };
            self.event(at, message)?;
        }
        Ok(())
    }
}

/// Flow ids (arrows) by event: those that start at the event, and those that end there.
struct Flows {
    from: FxHashMap<EventId, Vec<u64>>,
    to: FxHashMap<EventId, Vec<u64>>,
}

impl Flows {
    /// Collect the flows of a trace: the source's arrows, launches, and forward to backward.
    fn from_trace(trace: &Trace, number: u32) -> Self {
        let mut flows = Self { from: FxHashMap::default(), to: FxHashMap::default() };
        let mut id = u64::from(number) << 32;
        let links = trace.links.from.iter().copied().zip(trace.links.to.iter().copied());
        let launches = trace.gpu.ids().map(|g| (trace.gpu.launch[g.index()], trace.gpu.event[g.index()]));
        let mut seen = FxHashSet::default();
        for (from, to) in launches.chain(links) {
            // The source's arrows repeat launches and backward links.
            if from.is_some() && to.is_some() && seen.insert((from, to)) {
                id += 1;
                flows.from.entry(from).or_default().push(id);
                flows.to.entry(to).or_default().push(id);
            }
        }
        flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_ingest::{ReadOptions, read_bytes};

    /// The whole file, for reading back.
    #[derive(Clone, PartialEq, Message)]
    struct File {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<proto::TracePacket>,
    }

    const TRACE: &[u8] = br#"{"baseTimeNanoseconds": 1000000, "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "outer", "pid": 7, "tid": 8, "ts": 0, "dur": 10, "args": {"n": 3}},
        {"ph": "X", "cat": "python_function", "name": "crossing", "pid": 7, "tid": 8, "ts": 5, "dur": 10},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 8, "ts": 1, "dur": 1,
         "args": {"correlation": 5}},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 3.001, "dur": 4,
         "args": {"device": 0, "stream": 7, "correlation": 5}},
        {"ph": "C", "name": "memory", "pid": 7, "ts": 2, "args": {"used": 12, "ratio": 0.5}},
        {"ph": "i", "name": "now", "pid": 7, "tid": 8, "ts": 4, "s": "t"},
        {"ph": "X", "cat": "cpu_op", "name": "no time", "pid": 7, "tid": 8, "dur": 4}]}"#;

    #[test]
    fn written_packets_decode_nest_and_link() {
        let trace = read_bytes("t", TRACE, &ReadOptions::default()).unwrap();
        let mut bytes = Vec::new();
        assert_eq!(write(&[&trace], &mut bytes).unwrap(), 1);
        let packets = File::decode(&bytes[..]).unwrap().packet;
        assert_eq!(packets[0].sequence_flags, Some(3));
        let of_type = |kind: EventType| {
            let is =
                move |p: &&proto::TracePacket| p.track_event.as_ref().is_some_and(|e| e.r#type == Some(kind as i32));
            packets.iter().filter(is).collect::<Vec<_>>()
        };
        let begins = of_type(EventType::SliceBegin);
        assert_eq!((begins.len(), of_type(EventType::SliceEnd).len()), (4, 4));
        assert_eq!((of_type(EventType::Instant).len(), of_type(EventType::Counter).len()), (1, 2));
        // Exact nanoseconds from the epoch; the launch's arrow ends at the kernel.
        let kernel = begins.iter().find(|p| p.timestamp == Some(1_003_001)).unwrap();
        let arrow = &kernel.track_event.as_ref().unwrap().terminating_flow_ids;
        assert!(begins.iter().any(|p| p.track_event.as_ref().unwrap().flow_ids == *arrow && !arrow.is_empty()));
        // The crossing span has a separate lane.
        let names: Vec<String> =
            packets.iter().filter_map(|p| p.track_descriptor.as_ref().and_then(|d| d.name.clone())).collect();
        assert!(names.iter().any(|n| n.contains("overlap 1")), "{names:?}");
    }

    #[test]
    fn traces_of_one_file_share_no_ids() {
        let trace = read_bytes("t", TRACE, &ReadOptions::default()).unwrap();
        let mut bytes = Vec::new();
        assert_eq!(write(&[&trace, &trace], &mut bytes).unwrap(), 2);
        let packets = File::decode(&bytes[..]).unwrap().packet;
        let ids = |sequence: u32| {
            let own = packets.iter().filter(move |packet| packet.trusted_packet_sequence_id == sequence);
            own.filter_map(|packet| packet.track_descriptor.as_ref()).map(|track| track.uuid).collect::<FxHashSet<_>>()
        };
        assert!(ids(1).is_disjoint(&ids(2)) && ids(1).len() == ids(2).len() && !ids(1).is_empty());
    }
}
