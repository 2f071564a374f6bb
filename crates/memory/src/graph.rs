//! What happens before what.
//!
//! The dependency graph of DrGPUM's definition 5.1 (calls of a stream follow each other; reads after writes, writes and
//! frees after writes and reads of the same object), plus event waits and the host's waits. All edges lead from an
//! earlier call of the host to a later one, so one pass in the host's order is enough: [`OrderTracker`] keeps, per stream
//! and per live object, only the newest state, and gives each call its *wave* (Kahn's round, which is the length of the
//! longest way to it) and a vector clock by which any later call can tell whether it comes after.
//!
//! Clocks have an entry per stream, and so have streams, events and live objects each. A damaged file may name so many
//! streams that this finds no room: beyond [`MOST_CLOCK_ENTRIES`], calls are taken to come after the calls of their own
//! stream only. Nothing is then said to be over that may not be.

use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{
    AccessMode, MemoryCallId, MemoryCallKind, MemoryObjectId, MemoryStreamId, MemoryTrace, call_flags,
};

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

/// Most entries of all clocks together, of four bytes each (512 MiB).
pub const MOST_CLOCK_ENTRIES: usize = 1 << 27;

/// Gives calls their waves and clocks, one after the other, in memory that depends on the number of streams and of live
/// objects only.
#[derive(Debug)]
pub struct OrderTracker {
    streams: usize,
    /// Per stream, how many of its calls there were: all that is known if there is no room for clocks. Else empty.
    numbers: Vec<u32>,
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

/// Position of a call in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPosition {
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
        Self::within(trace, MOST_CLOCK_ENTRIES)
    }

    /// The same with another bound than [`MOST_CLOCK_ENTRIES`].
    pub fn within(trace: &MemoryTrace, most_entries: usize) -> Self {
        let streams = clock_size(trace);
        let is_wait = |call: &MemoryCallId| trace.calls.kind[call.index()] == MemoryCallKind::EventWait;
        let waited = trace.calls.ids().filter(is_wait).map(|call| MemoryCallId(trace.calls.target[call.index()]));
        let waited: FxHashSet<MemoryCallId> = waited.collect();
        let clocks = streams.saturating_add(waited.len()).saturating_add(most_alive(trace).saturating_mul(2));
        let has_room = clocks.saturating_mul(streams) <= most_entries;
        let size = if has_room { streams } else { 0 };
        Self {
            streams,
            numbers: vec![0; streams - size],
            last: vec![Moment::new(size); size],
            host: Moment::new(size),
            slots: vec![NOWHERE; if has_room { trace.objects.len() } else { 0 }],
            newest: Vec::new(),
            unused: Vec::new(),
            events: FxHashMap::default(),
            waited,
            current: Moment::new(size),
        }
    }

    /// Whether only the order within each stream is known, for want of room.
    pub fn knows_streams_only(&self) -> bool {
        !self.numbers.is_empty()
    }

    /// Number of entries of clocks.
    pub fn streams(&self) -> usize {
        self.streams
    }

    /// Places the next call.
    pub fn step(&mut self, trace: &MemoryTrace, call: MemoryCallId) -> StreamPosition {
        let stream = clock_index(trace, call);
        if let Some(number) = self.numbers.get_mut(stream) {
            *number += 1;
            return StreamPosition { wave: *number - 1, stream: stream as u32, number: *number };
        }
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
        StreamPosition { wave, stream: stream as u32, number }
    }

    /// For the call that was placed last: how many calls of each stream happened before it or are it; empty if
    /// [`Self::knows_streams_only`].
    pub fn clock(&self) -> &[u32] {
        &self.current.clock
    }

    /// How many calls of each stream the host has waited for; empty if [`Self::knows_streams_only`].
    pub fn host_clock(&self) -> &[u32] {
        &self.host.clock
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

/// How many objects are alive at once, at most.
fn most_alive(trace: &MemoryTrace) -> usize {
    let mut alive = trace.objects.allocated_by.iter().filter(|call| call.is_none()).count();
    let mut most = alive;
    for call in trace.calls.ids() {
        match (trace.calls.kind[call.index()], trace.object_of(call)) {
            (MemoryCallKind::Allocate, Some(_)) => alive += 1,
            (MemoryCallKind::Free, Some(object)) if trace.objects.freed_by[object.index()] == call => {
                alive = alive.saturating_sub(1);
            }
            _ => {}
        }
        most = most.max(alive);
    }
    most
}

/// Streams, and one more for calls without.
fn clock_size(trace: &MemoryTrace) -> usize {
    trace.streams.len() + 1
}

fn clock_index(trace: &MemoryTrace, call: MemoryCallId) -> usize {
    trace.calls.stream[call.index()].some().map_or(trace.streams.len(), MemoryStreamId::index)
}
