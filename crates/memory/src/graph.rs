//! What happens before what.
//!
//! The dependency graph of DrGPUM's definition 5.1 (calls of a stream follow each other; reads after writes, writes and
//! frees after writes and reads of the same object), plus event waits and the host's waits. All edges lead from an
//! earlier call of the host to a later one, so one pass in the host's order is enough: [`OrderTracker`] keeps, per stream
//! and per live object, only the newest state, and gives each call its *wave* (Kahn's round, which is the length of the
//! longest way to it) and a vector clock by which any later call can tell whether it comes after. [`edges`] lists the same
//! graph edge by edge.

use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{
    AccessMode, MemoryCallId, MemoryCallKind, MemoryObjectId, MemoryStreamId, MemoryTrace, call_flags,
};

/// Why one call comes after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// The next call of the same stream.
    Stream,
    /// Reads what was written or allocated.
    ReadAfterWrite,
    /// Writes or frees what was written or allocated.
    WriteAfterWrite,
    /// Writes or frees what was read.
    WriteAfterRead,
    /// Waits for an event.
    Event,
    /// The host had waited.
    Host,
}

/// One edge of the dependency graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The earlier call.
    pub from: MemoryCallId,
    /// The later call.
    pub to: MemoryCallId,
    /// Why.
    pub kind: EdgeKind,
}

/// A moment: all that happened before or at a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Moment {
    /// One more than the longest way to the latest call in it; 0 if there is none.
    waves: u32,
    /// Per stream: how many of its calls are in it.
    clock: Box<[u32]>,
}

impl Moment {
    fn new(streams: usize) -> Self {
        Self { waves: 0, clock: vec![0; streams].into_boxed_slice() }
    }

    /// Like `clone_from`, in place.
    fn set(&mut self, other: &Self) {
        self.waves = other.waves;
        self.clock.copy_from_slice(&other.clock);
    }

    fn clear(&mut self) {
        self.waves = 0;
        self.clock.fill(0);
    }

    fn join(&mut self, other: &Self) {
        self.waves = self.waves.max(other.waves);
        for (mine, theirs) in self.clock.iter_mut().zip(&other.clock) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// The newest accesses of a live object.
#[derive(Clone, Debug)]
struct Newest {
    /// The last write or the allocation.
    write: Moment,
    /// All reads since.
    reads: Moment,
}

const NOWHERE: u32 = u32::MAX;

/// Gives calls their waves and clocks, one after the other, in memory that depends on the number of streams and of live
/// objects only.
#[derive(Debug)]
pub struct OrderTracker {
    streams: usize,
    /// Per stream: its last call.
    last: Vec<Moment>,
    /// What the host has waited for.
    host: Moment,
    /// Per object: its row in `newest`, `NOWHERE` if it was not touched or is freed.
    slots: Vec<u32>,
    newest: Vec<Newest>,
    /// Rows of `newest` that are free.
    unused: Vec<u32>,
    /// Moments of the calls that an event wait refers to later.
    events: FxHashMap<MemoryCallId, Moment>,
    waited: FxHashSet<MemoryCallId>,
    current: Moment,
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its wave, from 0.
    pub wave: u32,
    /// Its stream, as a position in clocks.
    pub stream: u32,
    /// Which call of the stream it is, from 1.
    pub number: u32,
}

impl OrderTracker {
    /// A tracker for the calls of this trace, which are to be given one after the other.
    pub fn new(trace: &MemoryTrace) -> Self {
        let streams = clock_size(trace);
        let is_wait = |call: &MemoryCallId| trace.calls.kind[call.index()] == MemoryCallKind::EventWait;
        let waited = trace.calls.ids().filter(is_wait).map(|call| MemoryCallId(trace.calls.target[call.index()]));
        Self {
            streams,
            last: vec![Moment::new(streams); streams],
            host: Moment::new(streams),
            slots: vec![NOWHERE; trace.objects.len()],
            newest: Vec::new(),
            unused: Vec::new(),
            events: FxHashMap::default(),
            waited: waited.collect(),
            current: Moment::new(streams),
        }
    }

    /// Number of entries of clocks.
    pub fn streams(&self) -> usize {
        self.streams
    }

    /// Places the next call.
    pub fn step(&mut self, trace: &MemoryTrace, call: MemoryCallId) -> Place {
        let stream = clock_index(trace, call);
        let kind = trace.calls.kind[call.index()];
        self.current.set(&self.last[stream]);
        self.current.join(&self.host);
        self.join_dependencies(trace, call, kind);
        let wave = self.current.waves;
        self.current.waves += 1;
        self.current.clock[stream] += 1;
        let number = self.current.clock[stream];
        self.last[stream].set(&self.current);
        self.remember(trace, call, kind);
        Place { wave, stream: stream as u32, number }
    }

    /// For the call that was placed last: how many calls of each stream happened before it or are it.
    pub fn clock(&self) -> &[u32] {
        &self.current.clock
    }

    fn join_dependencies(&mut self, trace: &MemoryTrace, call: MemoryCallId, kind: MemoryCallKind) {
        let target = trace.calls.target[call.index()];
        match kind {
            MemoryCallKind::EventWait => {
                if let Some(moment) = self.events.get(&MemoryCallId(target)) {
                    self.current.join(moment);
                }
            }
            MemoryCallKind::HostSync => match self.last.get(target as usize) {
                Some(stream) => self.current.join(stream),
                None => self.last.iter().for_each(|stream| self.current.join(stream)),
            },
            MemoryCallKind::Free => {
                if let Some(newest) = newest_of(&self.slots, &self.newest, MemoryObjectId(target)) {
                    self.current.join(&newest.write);
                    self.current.join(&newest.reads);
                }
            }
            _ => {}
        }
        for access in trace.accesses_of(call) {
            if let Some(newest) = newest_of(&self.slots, &self.newest, access.object) {
                self.current.join(&newest.write);
                if access.mode.writes() {
                    self.current.join(&newest.reads);
                }
            }
        }
    }

    fn remember(&mut self, trace: &MemoryTrace, call: MemoryCallId, kind: MemoryCallKind) {
        let object = trace.calls.target_object(call);
        let waits = kind == MemoryCallKind::HostSync || trace.calls.flags[call.index()] & call_flags::SYNCHRONOUS != 0;
        match kind {
            MemoryCallKind::Free => {
                if let Some(slot) = self.slots.get_mut(object.index()).filter(|slot| **slot != NOWHERE) {
                    self.unused.push(std::mem::replace(slot, NOWHERE));
                }
            }
            MemoryCallKind::Allocate => self.write(object),
            _ => {
                for access in trace.accesses_of(call) {
                    self.touch(access.object, access.mode);
                }
            }
        }
        if waits {
            self.host.join(&self.current);
        }
        if self.waited.contains(&call) {
            self.events.insert(call, self.current.clone());
        }
    }

    fn touch(&mut self, object: MemoryObjectId, mode: AccessMode) {
        if mode.writes() {
            return self.write(object);
        }
        let row = self.row(object);
        self.newest[row].reads.join(&self.current);
    }

    fn write(&mut self, object: MemoryObjectId) {
        let row = self.row(object);
        let newest = &mut self.newest[row];
        newest.write.set(&self.current);
        newest.reads.clear();
    }

    /// The row of `newest` that belongs to an object, which gets one if it has none.
    fn row(&mut self, object: MemoryObjectId) -> usize {
        let slot = &mut self.slots[object.index()];
        if *slot != NOWHERE {
            return *slot as usize;
        }
        let row = self.unused.pop().map_or(self.newest.len(), |row| row as usize);
        *slot = row as u32;
        match self.newest.get_mut(row) {
            Some(newest) => {
                newest.write.clear();
                newest.reads.clear();
            }
            None => {
                let empty = Moment::new(self.streams);
                self.newest.push(Newest { write: empty.clone(), reads: empty });
            }
        }
        row
    }
}

fn newest_of<'a>(slots: &[u32], newest: &'a [Newest], object: MemoryObjectId) -> Option<&'a Newest> {
    newest.get(*slots.get(object.index())? as usize)
}

/// Streams, and one more for calls without.
fn clock_size(trace: &MemoryTrace) -> usize {
    trace.streams.len() + 1
}

fn clock_index(trace: &MemoryTrace, call: MemoryCallId) -> usize {
    trace.calls.stream[call.index()].some().map_or(trace.streams.len(), MemoryStreamId::index)
}

/// The accesses of an object since its last write, for [`edges`].
#[derive(Default)]
struct Since {
    write: Option<MemoryCallId>,
    reads: Vec<MemoryCallId>,
}

/// All edges, ordered by their end. An edge that several reasons give stands there once per reason.
pub fn edges(trace: &MemoryTrace) -> Vec<Edge> {
    let mut edges = Vec::new();
    let mut last: Vec<Option<MemoryCallId>> = vec![None; clock_size(trace)];
    let mut host: Vec<MemoryCallId> = Vec::new();
    let mut objects: FxHashMap<MemoryObjectId, Since> = FxHashMap::default();
    for to in trace.calls.ids() {
        let first = edges.len();
        let mut add = |from: Option<MemoryCallId>, kind| edges.extend(from.map(|from| Edge { from, to, kind }));
        let stream = clock_index(trace, to);
        let target = trace.calls.target[to.index()];
        add(last[stream], EdgeKind::Stream);
        host.iter().for_each(|from| add(Some(*from), EdgeKind::Host));
        match trace.calls.kind[to.index()] {
            MemoryCallKind::EventWait => add(MemoryCallId(target).some(), EdgeKind::Event),
            MemoryCallKind::HostSync => match last.get(target as usize) {
                Some(waited) => add(*waited, EdgeKind::Host),
                None => last.iter().for_each(|waited| add(*waited, EdgeKind::Host)),
            },
            _ => {}
        }
        for (object, mode) in touched(trace, to) {
            let since = objects.entry(object).or_default();
            if mode.reads() {
                add(since.write, EdgeKind::ReadAfterWrite);
            }
            if mode.writes() {
                if since.reads.is_empty() && !mode.reads() {
                    add(since.write, EdgeKind::WriteAfterWrite);
                }
                since.reads.iter().for_each(|read| add(Some(*read), EdgeKind::WriteAfterRead));
            }
        }
        for (object, mode) in touched(trace, to) {
            let since = objects.entry(object).or_default();
            if mode.writes() {
                *since = Since { write: Some(to), reads: Vec::new() };
            } else {
                since.reads.push(to);
            }
        }
        edges[first..].sort_unstable();
        last[stream] = Some(to);
        let waits = trace.calls.flags[to.index()] & call_flags::SYNCHRONOUS != 0;
        if waits || trace.calls.kind[to.index()] == MemoryCallKind::HostSync {
            host.push(to);
        }
    }
    edges
}

/// What a call touches; allocations and frees count as writes.
fn touched(trace: &MemoryTrace, call: MemoryCallId) -> Vec<(MemoryObjectId, AccessMode)> {
    let about = trace.object_of(call).map(|object| (object, AccessMode::Write));
    about.into_iter().chain(trace.accesses_of(call).map(|access| (access.object, access.mode))).collect()
}
