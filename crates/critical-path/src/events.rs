//! Table of the events of a critical path, which can be used without the trace.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use stackline_model::{EventId, Key, Trace, TrackKind};

/// Process or thread number or name, as in the source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TrackKey {
    /// A number.
    Number(i64),
    /// Text.
    Text(String),
    /// Not given in the source.
    Missing,
}

impl TrackKey {
    /// Convert the key of a process or thread of a trace.
    pub(super) fn from_trace(trace: &Trace, key: Key) -> Self {
        match key {
            Key::Int(i) => Self::Number(i),
            Key::Str(s) => Self::Text(trace.strings.get(s).to_owned()),
            Key::None => Self::Missing,
        }
    }
}

/// Thread or GPU stream of events on a critical path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathTrack {
    /// Process, or device of GPU work, as in the source.
    pub pid: TrackKey,
    /// Thread or stream, as in the source.
    pub tid: TrackKey,
    /// Label for readers: name of the thread, or device and stream.
    pub label: String,
    /// Shift in ns that reading added to the times of this track ([`Trace::clock_shift`]).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clock_shift_ns: i64,
}

/// True for a clock shift of 0, which JSON output omits.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

/// Table of the events of a path's graph, one column per field. Events are those of nodes and those that edges are
/// attributed to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathEvents {
    /// Position in the source's event list: HTA's event index.
    pub index: Vec<u32>,
    /// Name: a row of `names`.
    pub name: Vec<u32>,
    /// Track: a row of `tracks`.
    pub track: Vec<u32>,
    /// Recorded start in ns, not rounded.
    pub start_ns: Vec<i64>,
    /// Recorded duration in ns.
    pub dur_ns: Vec<i64>,
    /// Stream number as in the arguments; -1 for host events.
    pub stream: Vec<i64>,
    /// True if the arguments name a device.
    pub on_device: Vec<bool>,
    /// Distinct names.
    pub names: Vec<String>,
    /// Distinct tracks.
    pub tracks: Vec<PathTrack>,
}

impl PathEvents {
    /// Number of events in the table.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True if the table has no events.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Name of the event in a row of the table; empty if the row does not exist.
    pub fn name(&self, row: u32) -> &str {
        self.name.get(row as usize).and_then(|&n| self.names.get(n as usize)).map_or("", String::as_str)
    }

    /// Track (thread or GPU stream) of the event in a row of the table; `None` if the row does not exist.
    pub fn track(&self, row: u32) -> Option<&PathTrack> {
        self.track.get(row as usize).and_then(|&t| self.tracks.get(t as usize))
    }

    /// Label of the thread or GPU stream of the event in a row; empty if the row does not exist.
    pub fn track_label(&self, row: u32) -> &str {
        self.track(row).map_or("", |t| t.label.as_str())
    }

    /// True if an event is on a GPU stream.
    pub fn is_gpu(&self, row: u32) -> bool {
        self.stream.get(row as usize).is_some_and(|&s| s >= 0)
    }

    /// Check that columns have equal lengths and refer to existing names and tracks.
    pub(super) fn check(&self) -> Result<(), String> {
        let n = self.len();
        let lengths = [
            self.name.len(),
            self.track.len(),
            self.start_ns.len(),
            self.dur_ns.len(),
            self.stream.len(),
            self.on_device.len(),
        ];
        if lengths.iter().any(|&l| l != n) {
            return Err(format!("the columns of the table of events differ in length: {n} and {lengths:?}"));
        }
        let names = self.name.iter().all(|&i| (i as usize) < self.names.len());
        let tracks = self.track.iter().all(|&i| (i as usize) < self.tracks.len());
        if names && tracks {
            Ok(())
        } else {
            Err("an event in the table of events refers to a name or track that does not exist".to_owned())
        }
    }
}

const NONE: u32 = u32::MAX;

/// Builder that collects the events of a graph.
pub(super) struct EventsBuilder<'a> {
    trace: &'a Trace,
    device: stackline_model::AttrColumn<'a>,
    /// Row in the result, per number of the caller, per name and per track of the trace.
    row: Vec<u32>,
    name: FxHashMap<u32, u32>,
    track: Vec<u32>,
    events: PathEvents,
}

impl<'a> EventsBuilder<'a> {
    /// Create an empty table, for events that the caller numbers from 0 to below `numbers`.
    pub(super) fn new(trace: &'a Trace, numbers: usize) -> Self {
        Self {
            trace,
            device: trace.attr("device"),
            row: vec![NONE; numbers],
            name: FxHashMap::default(),
            track: vec![NONE; trace.tracks.len()],
            events: PathEvents::default(),
        }
    }

    /// Row of an event in the table of events. The caller numbers its events; the first call with a number adds the
    /// event.
    pub(super) fn row_for(&mut self, number: u32, event: EventId, stream: i64) -> u32 {
        let known = self.row[number as usize];
        if known != NONE {
            return known;
        }
        let row = self.events.len() as u32;
        self.row[number as usize] = row;
        let (i, trace) = (event.index(), self.trace);
        let name = self.name_row(trace.events.name[i]);
        let track = self.track_row(trace.events.track[i]);
        self.events.index.push(trace.events.source_index[i]);
        self.events.name.push(name);
        self.events.track.push(track);
        self.events.start_ns.push(trace.events.start[i]);
        self.events.dur_ns.push(trace.events.dur[i]);
        self.events.stream.push(stream);
        self.events.on_device.push(self.device.i64(event).is_some_and(|d| d >= 0));
        row
    }

    /// Row of a name in the table of names; the name is added if it is new.
    fn name_row(&mut self, name: stackline_model::StrId) -> u32 {
        let names = &mut self.events.names;
        *self.name.entry(name.0).or_insert_with(|| {
            names.push(self.trace.strings.get(name).to_owned());
            names.len() as u32 - 1
        })
    }

    /// Row of a track in the table of tracks; the track is added if it is new.
    pub(super) fn track_row(&mut self, id: stackline_model::TrackId) -> u32 {
        let known = self.track[id.index()];
        if known != NONE {
            return known;
        }
        let (trace, track) = (self.trace, self.trace.tracks.get(id));
        let pid = trace.tracks.pid(id);
        let label = match track.kind {
            TrackKind::Stream if track.device >= 0 => format!("GPU {} stream {}", track.device, track.stream),
            TrackKind::Stream => format!("GPU {} stream {}", trace.key_text(pid), trace.key_text(track.tid)),
            _ if track.name.is_some() => trace.strings.get(track.name).to_owned(),
            _ => format!("thread {}", trace.key_text(track.tid)),
        };
        let (pid, tid) = (TrackKey::from_trace(trace, pid), TrackKey::from_trace(trace, track.tid));
        self.track[id.index()] = self.events.tracks.len() as u32;
        self.events.tracks.push(PathTrack { pid, tid, label, clock_shift_ns: trace.clock_shift(id) });
        self.track[id.index()]
    }

    /// Return the finished table of events.
    pub(super) fn finish(self) -> PathEvents {
        self.events
    }
}
