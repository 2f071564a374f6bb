//! Random traces.

use proptest::prelude::*;
use stackline_model::{
    AttrType, EventId, EventKind, Key, Level, LinkKind, NewEvent, Phase, StackId, Step, StrId, Trace, TrackId,
    TrackKind,
};

/// Small deterministic generator for large traces (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

fn value(trace: &mut Trace, kind: AttrType, raw: u64) -> u64 {
    match kind {
        AttrType::Null => 0,
        AttrType::Bool => raw & 1,
        AttrType::Str if raw.is_multiple_of(50) => u64::from(StrId::NONE.0),
        AttrType::Str | AttrType::Json => u64::from(trace.strings.intern(&format!("text {}", raw % 1000)).0),
        _ => raw,
    }
}

fn event(trace: &mut Trace, n: &mut Numbers, row: u32) {
    let tracks = trace.tracks.len() as u64;
    let name = trace.strings.intern(&format!("kernel_{}", n.below(50)));
    let category = if n.below(10) == 0 { StrId::NONE } else { trace.strings.intern("kernel") };
    let kinds = EventKind::ALL.len() as u64;
    trace.events.push(NewEvent {
        start: n.below(1 << 40) as i64 - (1 << 20),
        dur: n.below(1 << 20) as i64,
        track: TrackId(n.below(tracks) as u32),
        name,
        category,
        kind: EventKind::ALL[n.below(kinds) as usize],
        phase: Phase::ALL[n.below(8) as usize],
        flags: n.below(64) as u8,
        source_index: row * 2,
    });
}

fn with_tracks() -> Trace {
    let mut trace = Trace::default();
    for i in 0..5 {
        trace.tracks.track(Key::Int(i % 2), Key::Int(i), if i == 3 { TrackKind::Stream } else { TrackKind::Thread });
    }
    trace
}

/// `keys` keys of all types, some twice in one record.
pub(crate) fn many_keys(keys: u64) -> Trace {
    let (mut trace, mut n) = (with_tracks(), Numbers(7));
    for row in 0..3000 {
        event(&mut trace, &mut n, row);
        let count = n.below(6);
        let mut fields = Vec::new();
        let mut values = Vec::new();
        for _ in 0..count {
            let rank = n.below(keys);
            let key =
                trace.strings.intern(&format!("{} {}", if rank % 3 == 0 { "Key" } else { "key" }, n.below(rank + 1)));
            let kind = AttrType::from_u8(n.below(7) as u8).unwrap();
            for _ in 0..1 + n.below(2) {
                let raw = n.next();
                fields.push((key, kind));
                values.push(value(&mut trace, kind, raw));
            }
        }
        trace.attrs.push(&fields, &values);
    }
    trace.index_tracks();
    trace
}

/// Trace with as many keys as records.
pub(crate) fn key_per_record(records: u32) -> Trace {
    let (mut trace, mut n) = (with_tracks(), Numbers(5));
    for row in 0..records {
        event(&mut trace, &mut n, row);
        let key = trace.strings.intern(&format!("key {row}"));
        trace.attrs.push(&[(key, AttrType::Int)], &[u64::from(row)]);
    }
    trace.index_tracks();
    trace
}

/// Many events with a few arguments each.
pub(crate) fn long(events: u32) -> Trace {
    let (mut trace, mut n) = (with_tracks(), Numbers(11));
    let keys = ["correlation", "stream", "Input Dims", "occupancy"].map(|k| trace.strings.intern(k));
    let kinds = [AttrType::Int, AttrType::Int, AttrType::Json, AttrType::Float];
    let twice = trace.strings.intern("twice");
    for row in 0..events {
        event(&mut trace, &mut n, row);
        let from = n.below(4) as usize;
        let mut fields: Vec<_> = keys.into_iter().zip(kinds).skip(from).collect();
        if row % 10_000 < 3 {
            // Arguments without their own column, in each row group.
            fields.extend([(twice, AttrType::Null), (twice, AttrType::Int)]);
        }
        let values: Vec<u64> = fields.iter().map(|f| value(&mut trace, f.1, u64::from(row))).collect();
        trace.attrs.push(&fields, &values);
        if row % 3 == 0 {
            trace.gpu.event.push(EventId(row));
            trace.gpu.correlation.push(i64::from(row) - 1);
            trace.gpu.device.push(n.below(3) as i32 - 1);
            trace.gpu.stream.push(7);
            trace.gpu.launch.push(if row == 0 { EventId::NONE } else { EventId(n.below(u64::from(row)) as u32) });
            trace.gpu.operator.push(EventId::NONE);
            trace.gpu.python.push(EventId::NONE);
            trace.gpu.module.push(EventId::NONE);
            trace.gpu.annotation.push(EventId(row));
            trace.gpu.step.push(u32::MAX);
        }
    }
    // Parents that come first in time order, as in nesting.
    for row in 1..events as usize {
        let earlier = n.below(row as u64) as usize;
        if trace.events.start[earlier] < trace.events.start[row] && n.below(4) > 0 {
            trace.events.parent[row] = EventId(earlier as u32);
        }
    }
    trace.index_tracks();
    trace
}

type RawEvent = (i64, i64, u8, u8, String, Option<String>, Vec<(u8, u8, u64)>);

fn raw_event() -> impl Strategy<Value = RawEvent> {
    let fields = proptest::collection::vec((0..6u8, 0..7u8, any::<u64>()), 0..5);
    (any::<i64>(), 0..i64::MAX, 0..4u8, any::<u8>(), ".{0,8}", proptest::option::of(".{0,3}"), fields)
}

/// Traces of up to 40 events with all features of the model.
pub(crate) fn trace() -> impl Strategy<Value = Trace> {
    let events = proptest::collection::vec(raw_event(), 0..40);
    (events, any::<(i64, Option<i64>, Option<i64>, bool)>(), ".{0,10}", any::<u64>()).prop_map(
        |(events, (base_ns, rank, world_size, fractional_ts), name, seed)| {
            let mut trace = Trace::default();
            (trace.meta.base_ns, trace.meta.rank, trace.meta.world_size) = (base_ns, rank, world_size);
            (trace.meta.name, trace.meta.fractional_ts) = (name.clone(), fractional_ts);
            trace.meta.entries = vec![(name.clone(), format!("\"{seed}\""))];
            let text = Key::Str(trace.strings.intern(&name));
            for (pid, tid) in [(Key::Int(seed as i64), text), (text, Key::None), (Key::None, Key::Int(-1))] {
                trace.tracks.track(pid, tid, TrackKind::from_u8((seed % 4) as u8).unwrap());
            }
            trace.tracks.tracks[1].device = seed as i32;
            trace.tracks.tracks[1].stream = seed as i64;
            events.into_iter().for_each(|e| push(&mut trace, e));
            links(&mut trace, &mut Numbers(seed));
            trace.index_tracks();
            trace
        },
    )
}

fn push(trace: &mut Trace, (start, dur, track, bits, name, category, fields): RawEvent) {
    let row = trace.events.len() as u32;
    let category = category.map_or(StrId::NONE, |c| trace.strings.intern(&c));
    let name = if bits == 0 { StrId::NONE } else { trace.strings.intern(&name) };
    trace.events.push(NewEvent {
        start,
        dur,
        track: TrackId(u32::from(track) % 3),
        name,
        category,
        kind: EventKind::ALL[bits as usize % EventKind::ALL.len()],
        phase: Phase::ALL[bits as usize % 8],
        flags: bits,
        source_index: row.wrapping_mul(u32::from(bits)),
    });
    let mut keys = Vec::new();
    let mut values = Vec::new();
    for (key, kind, raw) in fields {
        let kind = AttrType::from_u8(kind).unwrap();
        keys.push((trace.strings.intern(["a", "A", "", "b|int", "b", "ü.x"][key as usize]), kind));
        values.push(value(trace, kind, raw));
    }
    trace.attrs.push(&keys, &values);
}

fn links(trace: &mut Trace, n: &mut Numbers) {
    let events = trace.events.len() as u64;
    if events == 0 {
        return;
    }
    // A forest: row order, which need not be time order.
    for row in 1..events {
        if n.below(2) == 0 {
            trace.events.parent[row as usize] = EventId(n.below(row) as u32);
        }
    }
    let any = |n: &mut Numbers| EventId(n.below(events) as u32);
    let pairs: Vec<(EventId, EventId)> = (0..n.below(5)).map(|_| (any(n), any(n))).collect();
    trace.links.set(LinkKind::Flow, pairs.iter().map(|&(from, to)| (from, to, StrId::NONE)));
    trace.links.set(LinkKind::Backward, pairs.iter().map(|&(from, to)| (to, from, StrId(0))));
    let levels = Level::ALL;
    trace.events.level.iter_mut().for_each(|level| *level = levels[n.below(levels.len() as u64) as usize]);
    let at = any(n);
    trace.steps.push(Step { number: n.next() as i64, event: EventId::NONE, start: i64::MIN, end: i64::MAX });
    trace.steps.push(Step { number: 0, event: at, start: 0, end: 0 });
    for (parent, texts) in [(StackId::NONE, (StrId(0), StrId::NONE)), (StackId(0), (StrId::NONE, StrId(0)))] {
        trace.stacks.push(parent, texts, &trace.strings);
    }
    trace.stacks.event = vec![at];
    trace.stacks.stack = vec![StackId(1)];
}
