//! Happens-before order of memory calls (allocations, accesses, frees) on streams, by longest-path depth and vector
//! clocks.
//!
//! The dependency graph is that of DrGPUM's definition 5.1: calls of a stream follow each other; reads follow writes,
//! and writes and frees follow writes and reads of the same object. Event waits and host waits are added. All edges
//! lead from an earlier host call to a later one, so one pass in host order suffices. [`OrderTracker`] keeps only the
//! newest state per stream and live object. It gives each call its *wave* (iteration of Kahn's algorithm, the length of
//! the longest path to the call) and a vector clock, by which any later call can be ordered.
//!
//! Clocks have one entry per stream, and each stream, event and live object has a clock. A damaged file may name too
//! many streams for memory. Beyond `MOST_CLOCK_ENTRIES`, only the order within each stream is known, so no use is
//! wrongly reported as over.

use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{
    AccessMode, MemoryCallId, MemoryCallKind, MemoryObjectId, MemoryStreamId, MemoryTrace, call_flags,
};

/// Set of calls that happened before or at a call: a vector clock with the length of the longest path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Moment {
    /// One more than the longest path to the latest call of the moment; 0 if empty.
    waves: u32,
    /// Number of included calls per stream.
    clock: Box<[u32]>,
}

impl Moment {
    /// Create an empty set of calls for this number of streams.
    fn new(streams: usize) -> Self {
        Self { waves: 0, clock: vec![0; streams].into_boxed_slice() }
    }

    /// Copy another moment into this one, without a new allocation.
    fn copy_from(&mut self, other: &Self) {
        self.waves = other.waves;
        self.clock.copy_from_slice(&other.clock);
    }

    /// Empty the set of calls that happened before, when a new write or another object takes its entry.
    fn clear(&mut self) {
        self.waves = 0;
        self.clock.fill(0);
    }

    /// Add the calls of another moment to this one (maximum of clocks and path lengths).
    fn join(&mut self, other: &Self) {
        self.waves = self.waves.max(other.waves);
        for (mine, theirs) in self.clock.iter_mut().zip(&other.clock) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// Moments of the newest write and reads of a live object.
#[derive(Clone, Debug)]
struct Newest {
    /// Last write, or the allocation.
    write: Moment,
    /// All reads since the last write.
    reads: Moment,
}

const NOWHERE: u32 = u32::MAX;

/// Maximum number of entries of all clocks, of four bytes each (512 MiB).
pub(crate) const MOST_CLOCK_ENTRIES: usize = 1 << 27;

/// Tracker of the happens-before order: gives each call, in trace order, its wave and vector clock. Memory use depends
/// only on the numbers of streams and of live objects.
#[derive(Debug)]
pub struct OrderTracker {
    streams: usize,
    /// Number of calls per stream so far, if there is no room for clocks; else empty.
    numbers: Vec<u32>,
    /// Last call of each stream.
    last: Vec<Moment>,
    /// Calls that the host has waited for.
    host: Moment,
    /// Row of each object in `newest`; `NOWHERE` if it was not accessed, or is freed.
    slots: Vec<u32>,
    newest: Vec<Newest>,
    /// Free rows of `newest`.
    unused: Vec<u32>,
    /// Moments of calls that a later event wait refers to.
    events: FxHashMap<MemoryCallId, Moment>,
    waited: FxHashSet<MemoryCallId>,
    current: Moment,
}

/// Position of a call: its wave in the happens-before order, its stream, and its number in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPosition {
    /// Wave, from 0.
    pub wave: u32,
    /// Stream, as a position in clocks.
    pub stream: u32,
    /// Number of the call in its stream, from 1.
    pub number: u32,
}

impl OrderTracker {
    /// Tracker for the calls of a trace, which are passed in order.
    pub fn new(trace: &MemoryTrace) -> Self {
        Self::within(trace, MOST_CLOCK_ENTRIES)
    }

    /// Tracker for the calls of a trace, with another limit on clock entries than `MOST_CLOCK_ENTRIES`.
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

    /// True if only the order within each stream is known, for lack of memory.
    pub fn knows_streams_only(&self) -> bool {
        !self.numbers.is_empty()
    }

    /// Number of entries of each vector clock: one per stream, plus one for calls without a stream.
    pub fn streams(&self) -> usize {
        self.streams
    }

    /// Add the next call of the trace to the happens-before order, and return its position.
    pub fn step(&mut self, trace: &MemoryTrace, call: MemoryCallId) -> StreamPosition {
        let stream = clock_index(trace, call);
        if let Some(number) = self.numbers.get_mut(stream) {
            *number += 1;
            return StreamPosition { wave: *number - 1, stream: stream as u32, number: *number };
        }
        let kind = trace.calls.kind[call.index()];
        self.current.copy_from(&self.last[stream]);
        self.current.join(&self.host);
        self.join_dependencies(trace, call, kind);
        let wave = self.current.waves;
        self.current.waves += 1;
        self.current.clock[stream] += 1;
        let number = self.current.clock[stream];
        self.last[stream].copy_from(&self.current);
        self.remember(trace, call, kind);
        StreamPosition { wave, stream: stream as u32, number }
    }

    /// Clock of the last processed call: per stream, the number of calls that happened before it or are it. Empty if
    /// [`Self::knows_streams_only`].
    pub fn clock(&self) -> &[u32] {
        &self.current.clock
    }

    /// Number of calls of each stream that the host has waited for; empty if [`Self::knows_streams_only`].
    pub(crate) fn host_clock(&self) -> &[u32] {
        &self.host.clock
    }

    /// Add all calls that a call depends on to the current moment: awaited events, streams, and earlier accesses of its
    /// objects.
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

    /// Store the moment of a call for later calls: as access of its objects, wait of the host, or awaited event.
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

    /// Store the current moment as the newest write or read of an object.
    fn touch(&mut self, object: MemoryObjectId, mode: AccessMode) {
        if mode.writes() {
            return self.write(object);
        }
        let row = self.row(object);
        self.newest[row].reads.join(&self.current);
    }

    /// Store the current moment as the newest write of an object, and clear its reads.
    fn write(&mut self, object: MemoryObjectId) {
        let row = self.row(object);
        let newest = &mut self.newest[row];
        newest.write.copy_from(&self.current);
        newest.reads.clear();
    }

    /// Row of an object in the table of newest accesses, created if missing.
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

/// Newest accesses of an object; `None` if it was not accessed, or is freed.
fn newest_of<'a>(slots: &[u32], newest: &'a [Newest], object: MemoryObjectId) -> Option<&'a Newest> {
    newest.get(*slots.get(object.index())? as usize)
}

/// Maximum number of memory objects of a trace that are live at once.
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

/// Number of entries of a vector clock: streams of the trace, plus one for calls without a stream.
fn clock_size(trace: &MemoryTrace) -> usize {
    trace.streams.len() + 1
}

/// Position of a call's stream in vector clocks; the last one for calls without a stream.
fn clock_index(trace: &MemoryTrace, call: MemoryCallId) -> usize {
    trace.calls.stream[call.index()].some().map_or(trace.streams.len(), MemoryStreamId::index)
}
