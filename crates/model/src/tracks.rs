//! Tracks (threads, GPU streams, counters) on which events lie, and their processes.

use crate::{ProcessId, StrId, TrackId};
use hashbrown::HashMap;

/// Process or thread number as in the source. The key includes the type, because ranks of GPUs collide with real
/// process ids, and some sources write names ("stream 7", "Spans").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A number (beyond 64 bits: as text).
    Int(i64),
    /// Text.
    Str(StrId),
    /// Not given.
    None,
}

impl Key {
    /// Number of a process or thread key; `None` for other keys.
    pub fn as_int(self) -> Option<i64> {
        match self {
            Self::Int(i) => Some(i),
            _ => None,
        }
    }
}

/// Kind of a track: CPU thread, GPU stream, counters or asynchronous spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TrackKind {
    /// A CPU thread: spans nest.
    Thread = 0,
    /// A GPU stream (or an accelerator's queue).
    Stream = 1,
    /// Counters of a process.
    Counter = 2,
    /// Asynchronous spans, which may overlap.
    Async = 3,
}

impl TrackKind {
    /// Track kind with this discriminant; `None` for an unknown number.
    pub fn from_u8(value: u8) -> Option<Self> {
        [Self::Thread, Self::Stream, Self::Counter, Self::Async].get(value as usize).copied()
    }

    /// Stable text name of a track kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Stream => "stream",
            Self::Counter => "counter",
            Self::Async => "async",
        }
    }
}

/// Process of the trace (for GPU tracks: the device, which traces write as a process).
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// Number or name as in the source.
    pub pid: Key,
    /// Name from metadata.
    pub name: StrId,
    /// Labels from metadata, such as "GPU 0".
    pub labels: StrId,
    /// Display order from metadata.
    pub sort_index: Option<i64>,
}

/// Track of events, such as a thread or a GPU stream, with its process.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Process.
    pub process: ProcessId,
    /// Thread number, stream number or name as in the source.
    pub tid: Key,
    /// Kind.
    pub kind: TrackKind,
    /// Name from metadata.
    pub name: StrId,
    /// Display order from metadata.
    pub sort_index: Option<i64>,
    /// Device number of a stream (ROCm: agent id), -1 otherwise.
    pub device: i32,
    /// Stream number of a stream, -1 otherwise.
    pub stream: i64,
}

/// All tracks and processes in order of first appearance.
#[derive(Clone, Debug, Default)]
pub struct TrackTable {
    /// Processes.
    pub processes: Vec<Process>,
    /// Tracks.
    pub tracks: Vec<Track>,
    process_index: HashMap<Key, ProcessId, rustc_hash::FxBuildHasher>,
    track_index: HashMap<(Key, Key, TrackKind), TrackId, rustc_hash::FxBuildHasher>,
}

impl TrackTable {
    /// Rebuild the table of tracks from its rows, with lookup indices. The error names a track whose process does not
    /// exist.
    pub fn from_rows(processes: Vec<Process>, tracks: Vec<Track>) -> Result<Self, String> {
        let mut table = Self::default();
        for (i, process) in processes.iter().enumerate() {
            table.process_index.insert(process.pid, ProcessId::new(i));
        }
        for (i, track) in tracks.iter().enumerate() {
            let process = processes
                .get(track.process.index())
                .ok_or_else(|| format!("track {i} refers to a process that does not exist"))?;
            table.track_index.insert((process.pid, track.tid, track.kind), TrackId::new(i));
        }
        Ok(Self { processes, tracks, ..table })
    }

    /// Process with this key in the track table, added if new.
    pub fn process(&mut self, pid: Key) -> ProcessId {
        *self.process_index.entry(pid).or_insert_with(|| {
            self.processes.push(Process { pid, name: StrId::NONE, labels: StrId::NONE, sort_index: None });
            ProcessId::new(self.processes.len() - 1)
        })
    }

    /// Track of a process, thread number and kind, added if new.
    pub fn track(&mut self, pid: Key, tid: Key, kind: TrackKind) -> TrackId {
        if let Some(&id) = self.track_index.get(&(pid, tid, kind)) {
            return id;
        }
        let process = self.process(pid);
        let id = TrackId::new(self.tracks.len());
        let track = Track { process, tid, kind, name: StrId::NONE, sort_index: None, device: -1, stream: -1 };
        self.tracks.push(track);
        self.track_index.insert((pid, tid, kind), id);
        id
    }

    /// Track of a process, thread number and kind; `None` if it does not exist.
    pub fn find(&self, pid: Key, tid: Key, kind: TrackKind) -> Option<TrackId> {
        self.track_index.get(&(pid, tid, kind)).copied()
    }

    /// Properties of a track.
    pub fn get(&self, id: TrackId) -> &Track {
        &self.tracks[id.index()]
    }

    /// Number or name of a track's process (for a GPU track, of the device).
    pub fn pid(&self, id: TrackId) -> Key {
        self.processes[self.get(id).process.index()].pid
    }

    /// Number of tracks.
    pub fn len(&self) -> usize {
        self.tracks.len()
    }

    /// True if there are no tracks.
    pub fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    /// Handles of all tracks.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = TrackId> + use<> {
        (0..self.len() as u32).map(TrackId)
    }
}
