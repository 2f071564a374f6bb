//! Conversion of records into rows: phases, tracks, metadata, open spans.

use super::categories::{kind_of, track_kind};
use super::event::merge;
use super::flows::{FlowPhase, FlowPoint};
use super::record::{KeyCache, RawEvent, Time};
use crate::byte_offsets::ByteOffsets;
use crate::diagnostics::{self, Code};
use crate::text::TextReader;
use rustc_hash::FxHashMap;
use stackline_model::{
    AttrType, EventId, EventKind, INSTRUCTION_SAMPLE, Key, NewEvent, Phase, StackId, StrId, Trace, TrackId, TrackKind,
    flags,
};
use std::collections::{BTreeMap, BTreeSet};

/// Identity of an asynchronous span: category, ID, and true if the ID is local to its process.
type AsyncKey = (StrId, Key, bool);

/// Row of a begin record with the arguments of its end record.
type LateArguments = (EventId, Vec<(StrId, AttrType)>, Vec<u64>);

/// Limit on bytes scanned without finding a record before reading stops; further bytes are allowed per byte read.
const MAX_UNUSED_BYTES: u64 = 64 << 20;
const UNUSED_PER_BYTE: u64 = 16;

/// Number of open spans with one ID that are searched for the one that ends.
const MAX_ASYNC_DEPTH: usize = 1024;

/// Builder of a trace from records.
pub(super) struct Builder {
    pub(super) trace: Trace,
    /// Byte offsets of the events.
    pub(super) places: ByteOffsets,
    pub(super) text: TextReader,
    pub(super) keys: KeyCache,
    pub(super) raw: RawEvent,
    /// Diagnostics of the current record.
    pub(super) pending: Vec<(Code, u64)>,
    pub(super) frame_ids: BTreeMap<String, StackId>,
    pub(super) saw_events: bool,
    pub(super) truncated: bool,
    /// True if reading stopped because the text was too damaged.
    pub(super) gave_up: bool,
    /// True if decompression failed for a reason other than truncation.
    pub(super) garbled: bool,
    /// Bytes scanned without finding a record.
    unused_bytes: u64,
    pub(super) final_pass: bool,
    /// Commas since the last record; 1 at the start of the list.
    pub(super) commas: u32,
    next_index: u32,
    /// Top-level keys so far.
    header_keys: BTreeSet<String>,
    /// Per attribute layout: true if it contains a key twice.
    repeats: Vec<bool>,
    kinds: FxHashMap<StrId, EventKind>,
    last_kind: (StrId, EventKind),
    last_track: Option<(Key, Key, TrackKind, TrackId)>,
    pub(super) open: FxHashMap<TrackId, Vec<EventId>>,
    open_async: FxHashMap<AsyncKey, Vec<EventId>>,
    /// Arguments of end records.
    pub(super) late: Vec<LateArguments>,
    pub(super) flows: Vec<FlowPoint>,
    /// Name and display order of threads, from metadata.
    pub(super) threads: BTreeMap<(Key, Key), (StrId, Option<i64>)>,
    /// Events with a frame of `stackFrames`, which may follow later in the file.
    pub(super) stack_of: Vec<(EventId, Key)>,
    /// Categories that mean no kind.
    pub(super) unknown_categories: BTreeSet<StrId>,
    /// Offset of the last record, if it had no members.
    pub(super) empty_record: Option<u64>,
}

impl Builder {
    pub(super) fn new(name: &str) -> Self {
        let mut trace = Trace::default();
        trace.meta.name = name.to_owned();
        Self {
            trace,
            places: ByteOffsets::default(),
            text: TextReader::default(),
            keys: KeyCache::default(),
            raw: RawEvent::default(),
            pending: Vec::new(),
            frame_ids: BTreeMap::new(),
            saw_events: false,
            truncated: false,
            gave_up: false,
            garbled: false,
            unused_bytes: 0,
            final_pass: false,
            commas: 1,
            next_index: 0,
            header_keys: BTreeSet::new(),
            repeats: Vec::new(),
            kinds: FxHashMap::default(),
            last_kind: (StrId::NONE, EventKind::Other),
            last_track: None,
            open: FxHashMap::default(),
            open_async: FxHashMap::default(),
            late: Vec::new(),
            flows: Vec::new(),
            threads: BTreeMap::new(),
            stack_of: Vec::new(),
            unknown_categories: BTreeSet::new(),
            empty_record: None,
        }
    }

    /// Count bytes that were scanned without finding a record. Returns false once they exceed the effect of real
    /// damage: reading then stops, because hostile text could otherwise delay it without limit.
    pub(super) fn count_unused_bytes(&mut self, bytes: usize, offset: u64) -> bool {
        self.unused_bytes = self.unused_bytes.saturating_add(bytes as u64);
        self.gave_up = self.unused_bytes > MAX_UNUSED_BYTES.saturating_add(offset.saturating_mul(UNUSED_PER_BYTE));
        if self.gave_up {
            diagnostics::TOO_DAMAGED.count(&mut self.trace.report, Some(offset), "");
        }
        !self.gave_up
    }

    /// Count an unreadable record, so that later ones keep their position.
    pub(super) fn skip_record(&mut self) {
        self.next_index = self.next_index.saturating_add(1);
        self.trace.report.records += 1;
    }

    /// Store a member of the top-level object as a metadata entry. Its value ends at byte `offset`.
    pub(super) fn store_member(&mut self, key: String, json: String, offset: u64) {
        if !self.header_keys.insert(key.clone()) {
            diagnostics::DUPLICATE_KEY.count(&mut self.trace.report, Some(offset), &key);
        }
        self.places.set_member_end(&key, offset);
        self.trace.meta.entries.push((key, json));
    }

    /// Convert the scratch record, which was read last, to an event, an arrow point or metadata of the trace.
    pub(super) fn commit(&mut self, offset: u64) {
        let index = self.next_index;
        self.next_index = self.next_index.saturating_add(1);
        self.trace.report.records += 1;
        if !self.pending.is_empty() {
            merge(&mut self.trace.report, &mut self.pending, self.trace.strings.get(self.raw.head.name));
        }
        if self.is_empty_record(offset) {
            return;
        }
        self.unify_units(offset);
        match self.raw.head.ts {
            Time::At(t) => self.trace.meta.fractional_ts |= t.fractional,
            Time::Missing | Time::Bad => self.trace.meta.fractional_ts |= self.raw.head.phase != b'M',
        }
        match self.raw.head.phase {
            b'X' => self.complete(index, offset, Phase::Complete),
            b'B' => self.begin(index, offset),
            b'E' => self.end(offset),
            b's' | b't' | b'f' => self.flow(offset),
            b'M' => self.metadata(),
            b'i' | b'I' | b'R' => self.point(index, offset, Phase::Instant),
            b'C' => self.point(index, offset, Phase::Counter),
            b'b' | b'S' => self.begin_async(index, offset),
            b'e' | b'F' => self.end_async(offset),
            b'n' | b'T' | b'p' => self.point(index, offset, Phase::AsyncInstant),
            b'P' => self.point(index, offset, Phase::Sample),
            0 if self.raw.head.dur != Time::Missing => {
                diagnostics::NO_PHASE.count(
                    &mut self.trace.report,
                    Some(offset),
                    self.trace.strings.get(self.raw.head.name),
                );
                self.complete(index, offset, Phase::Complete);
            }
            0 => diagnostics::UNKNOWN_RECORD.count(&mut self.trace.report, Some(offset), ""),
            _ => self.point(index, offset, Phase::Other),
        }
    }

    /// Use one time unit for start and duration: a start in nanoseconds implies a duration in nanoseconds. A duration
    /// that only fits as nanoseconds next to a start in microseconds is invalid.
    fn unify_units(&mut self, offset: u64) {
        let (Time::At(ts), Time::At(dur)) = (self.raw.head.ts, &mut self.raw.head.dur) else { return };
        match (ts.was_ns, dur.was_ns) {
            (true, false) => dur.ns /= 1000,
            (false, true) => {
                self.raw.head.dur = Time::Bad;
                let name = self.trace.strings.get(self.raw.head.name);
                diagnostics::BAD_TIME.count(&mut self.trace.report, Some(offset), name);
            }
            _ => {}
        }
    }

    /// Event kind for the category of the scratch record.
    fn kind(&mut self) -> EventKind {
        let category = self.raw.head.category;
        if category.is_none() {
            return EventKind::Other;
        }
        if self.last_kind.0 == category {
            return self.last_kind.1;
        }
        let kind = match self.kinds.get(&category) {
            Some(&kind) => kind,
            None => {
                let known = kind_of(self.trace.strings.get(category));
                if known.is_none() {
                    self.unknown_categories.insert(category);
                }
                let kind = known.unwrap_or(EventKind::Other);
                self.kinds.insert(category, kind);
                kind
            }
        };
        self.last_kind = (category, kind);
        kind
    }

    /// Track of this kind for the process and thread of the scratch record, added if new.
    fn track(&mut self, kind: TrackKind) -> TrackId {
        let (pid, tid) = (self.raw.head.pid, if kind == TrackKind::Counter { Key::None } else { self.raw.head.tid });
        if let Some((p, t, k, track)) = self.last_track
            && (p, t, k) == (pid, tid, kind)
        {
            return track;
        }
        let track = self.trace.tracks.track(pid, tid, kind);
        self.last_track = Some((pid, tid, kind, track));
        track
    }

    /// Start of the scratch record in ns, and flags; 0 and `NO_TIME` for a missing or invalid time.
    fn start(&mut self, offset: u64) -> (i64, u8) {
        match self.raw.head.ts {
            Time::At(t) => (t.ns, 0),
            Time::Missing => {
                let name = self.trace.strings.get(self.raw.head.name);
                diagnostics::NO_TIME.count(&mut self.trace.report, Some(offset), name);
                (0, flags::NO_TIME)
            }
            Time::Bad => (0, flags::NO_TIME),
        }
    }

    /// Append an event with the attributes and stack of the scratch record.
    fn push(&mut self, event: NewEvent, offset: u64) -> EventId {
        let id = self.trace.events.push(event);
        self.places.push(offset);
        if !self.trace.attrs.push(&self.raw.fields, &self.raw.values) {
            diagnostics::TABLE_FULL.count(&mut self.trace.report, Some(offset), "");
        }
        self.note_repeated_key(id, offset);
        if self.raw.head.stack != Key::None {
            self.stack_of.push((id, self.raw.head.stack));
        }
        id
    }

    /// Count arguments that contain a key twice; each layout is checked once.
    fn note_repeated_key(&mut self, event: EventId, offset: u64) {
        let (shapes, shape, _) = self.trace.attrs.columns();
        let Some(shape) = shape.last() else { return };
        while self.repeats.len() <= shape.index() {
            let mut keys: Vec<StrId> = shapes[self.repeats.len()].fields.iter().map(|f| f.0).collect();
            keys.sort_unstable();
            self.repeats.push(keys.windows(2).any(|pair| pair[0] == pair[1]));
        }
        if self.repeats[shape.index()] {
            let name = self.trace.strings.get(self.trace.events.name[event.index()]);
            diagnostics::DUPLICATE_KEY.count(&mut self.trace.report, Some(offset), name);
        }
    }

    /// Convert the scratch record to an event with a duration.
    fn complete(&mut self, index: u32, offset: u64, phase: Phase) {
        let kind = self.kind();
        let (start, mut bits) = self.start(offset);
        let dur = match self.raw.head.dur {
            Time::At(d) if d.ns < 0 => {
                let name = self.trace.strings.get(self.raw.head.name);
                diagnostics::NEGATIVE_DURATION.count(&mut self.trace.report, Some(offset), name);
                bits |= flags::HAS_DURATION | flags::CLAMPED;
                0
            }
            Time::At(d) => {
                bits |= flags::HAS_DURATION;
                d.ns
            }
            Time::Missing => {
                let name = self.trace.strings.get(self.raw.head.name);
                diagnostics::NO_DURATION.count(&mut self.trace.report, Some(offset), name);
                0
            }
            Time::Bad => {
                bits |= flags::NO_TIME;
                0
            }
        };
        let track = self.track(track_kind(kind));
        let (name, category) = (self.raw.head.name, self.raw.head.category);
        self.push(
            NewEvent { start, dur, track, name, category, kind, phase, flags: bits, source_index: index },
            offset,
        );
    }

    /// Convert the scratch record to an event without a duration: instant, counter or sample.
    fn point(&mut self, index: u32, offset: u64, phase: Phase) {
        let (start, bits) = self.start(offset);
        let kind = match (phase, self.kind()) {
            (Phase::Counter, _) => EventKind::Counter,
            (Phase::Sample, _) => EventKind::Sample,
            _ if self.trace.strings.get(self.raw.head.name) == "[memory]" => EventKind::Memory,
            (_, EventKind::Other) => EventKind::Instant,
            (_, kind) => kind,
        };
        let track_kind = match phase {
            Phase::AsyncInstant => TrackKind::Async,
            Phase::Sample if self.trace.strings.get(self.raw.head.category) == INSTRUCTION_SAMPLE => TrackKind::Stream,
            _ => track_kind(kind),
        };
        let track = self.track(track_kind);
        let (name, category) = (self.raw.head.name, self.raw.head.category);
        self.push(
            NewEvent { start, dur: 0, track, name, category, kind, phase, flags: bits, source_index: index },
            offset,
        );
    }

    /// Convert the scratch record to a span that stays open until its end record.
    fn begin(&mut self, index: u32, offset: u64) {
        let kind = self.kind();
        let (start, bits) = self.start(offset);
        let track = self.track(track_kind(kind));
        let (name, category) = (self.raw.head.name, self.raw.head.category);
        let flags = bits | flags::UNFINISHED;
        let phase = Phase::BeginEnd;
        let id = self
            .push(NewEvent { start, dur: 0, track, name, category, kind, phase, flags, source_index: index }, offset);
        self.open.entry(track).or_default().push(id);
    }

    /// End the innermost open span on the thread or stream of the scratch record.
    fn end(&mut self, offset: u64) {
        let kind = self.kind();
        // End records often have neither name nor category, so the thread's track is tried first.
        let mut candidates = vec![track_kind(kind), TrackKind::Thread, TrackKind::Stream];
        candidates.dedup();
        let (pid, tid) = (self.raw.head.pid, self.raw.head.tid);
        let found = candidates.into_iter().find_map(|k| {
            let track = self.trace.tracks.find(pid, tid, k)?;
            self.open.get_mut(&track)?.pop()
        });
        self.end_span(found, offset);
    }

    /// Convert the scratch record to an asynchronous span that stays open until the end record with its ID.
    fn begin_async(&mut self, index: u32, offset: u64) {
        let (start, bits) = self.start(offset);
        let kind = match self.kind() {
            EventKind::Other => EventKind::Async,
            kind => kind,
        };
        let track = self.track(TrackKind::Async);
        let (name, category) = (self.raw.head.name, self.raw.head.category);
        let flags = bits | flags::UNFINISHED;
        let phase = Phase::Async;
        let id = self
            .push(NewEvent { start, dur: 0, track, name, category, kind, phase, flags, source_index: index }, offset);
        self.open_async.entry((category, self.raw.head.id, self.raw.head.id_is_local)).or_default().push(id);
    }

    /// End the last open asynchronous span with the scratch record's ID, preferably of the same process.
    fn end_async(&mut self, offset: u64) {
        let key = (self.raw.head.category, self.raw.head.id, self.raw.head.id_is_local);
        let (name, pid, is_local) = (self.raw.head.name, self.raw.head.pid, self.raw.head.id_is_local);
        let (events, tracks) = (&self.trace.events, &self.trace.tracks);
        let fits = |e: &EventId| name.is_none() || events.name[e.index()] == name;
        let at_home = |e: &EventId| tracks.pid(events.track[e.index()]) == pid;
        let found = self.open_async.get_mut(&key).and_then(|open| {
            // IDs are global unless stated otherwise, but merged files reuse them, so the same process is tried first.
            let recent = open.len().saturating_sub(MAX_ASYNC_DEPTH);
            let inner = &open[recent..];
            let own = inner.iter().rposition(|e| fits(e) && at_home(e));
            let at = own.or_else(|| inner.iter().rposition(|e| fits(e) && !is_local))?;
            Some(open.remove(recent + at))
        });
        self.end_span(found, offset);
    }

    /// End an open span at the time of the scratch record; without such a span, count an unmatched end.
    fn end_span(&mut self, found: Option<EventId>, offset: u64) {
        let (at, bits) = self.start(offset);
        let Some(event) = found else {
            let name = self.trace.strings.get(self.raw.head.name);
            diagnostics::UNMATCHED_END.count(&mut self.trace.report, Some(offset), name);
            return;
        };
        let row = event.index();
        let events = &mut self.trace.events;
        let dur = at.saturating_sub(events.start[row]);
        if dur < 0 {
            let name = self.trace.strings.get(events.name[row]);
            diagnostics::NEGATIVE_DURATION.count(&mut self.trace.report, Some(offset), name);
            events.flags[row] |= flags::CLAMPED;
        }
        events.dur[row] = dur.max(0);
        events.flags[row] = (events.flags[row] & !flags::UNFINISHED) | flags::HAS_DURATION | bits;
        if !self.raw.fields.is_empty() {
            self.late.push((event, self.raw.fields.clone(), self.raw.values.clone()));
        }
    }

    /// Collect the scratch record as a point of a flow arrow; a record without a time is dropped.
    fn flow(&mut self, offset: u64) {
        let phase = match self.raw.head.phase {
            b's' => FlowPhase::Start,
            b't' => FlowPhase::Step,
            _ => FlowPhase::Finish,
        };
        let (at, bits) = self.start(offset);
        if bits != 0 {
            return;
        }
        let (pid, tid, id, category) = (self.raw.head.pid, self.raw.head.tid, self.raw.head.id, self.raw.head.category);
        self.flows.push(FlowPoint { pid, tid, id, category, at, phase });
    }

    /// Apply a metadata record: name, labels or display order of a process or thread.
    fn metadata(&mut self) {
        let mut text = StrId::NONE;
        let mut number = None;
        for (&(_, kind), &value) in self.raw.fields.iter().zip(&self.raw.values) {
            let value = stackline_model::AttrValue::from_raw(kind, value);
            text = value.text_id().unwrap_or(text);
            number = value.as_i64().or(number);
        }
        let tracks = &mut self.trace.tracks;
        let process = tracks.process(self.raw.head.pid);
        let process = &mut tracks.processes[process.index()];
        match self.trace.strings.get(self.raw.head.name) {
            "process_name" => process.name = text,
            "process_labels" => process.labels = text,
            "process_sort_index" => process.sort_index = number,
            "thread_name" => self.threads.entry((self.raw.head.pid, self.raw.head.tid)).or_default().0 = text,
            "thread_sort_index" => self.threads.entry((self.raw.head.pid, self.raw.head.tid)).or_default().1 = number,
            _ => {}
        }
    }
}
