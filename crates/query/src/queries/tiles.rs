//! The timeline: a lane for each track, and its events as boxes, tile by tile.
//!
//! A tile of level `l` is [`BUCKETS`] buckets of 2^l ns. Events narrower than a bucket that start in the same one become
//! a single box, which has the name of the longest and says how many there are: so a tile has at most so many boxes per
//! depth, however many events there are.

use super::Texts;
use crate::{Answer, Arguments, Column, Opened, QueryError};
use serde_json::json;
use stackline_model::{EventId, EventKind, Trace, TrackId, TrackKind, flags};

/// Buckets of a tile.
const BUCKETS: i64 = 512;
/// Tiles that hold the whole trace where it is asked for at once.
const WHOLE: i64 = 4;
/// Highest level: a tile of it is as long as a trace can be.
const LEVELS: u32 = 53;
/// Events before a tile that may last into it, where spans do not nest.
const BACK: usize = 256;
/// Most boxes in an answer; what is deeper is left out then, and said.
const MOST: usize = 200_000;

/// What the timeline has rows for.
pub(super) fn lanes(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let (_, trace) = opened.trace(rank)?;
    let depths = opened.depths(rank)?;
    let (start, end) = trace.span().unwrap_or((0, 0));
    let lane = |track: TrackId| {
        let events = trace.track_events(track).iter().filter(|&&event| is_shown(trace, event));
        let (mut count, mut deepest, mut kinds) = (0_usize, 0, [false; 256]);
        for &event in events {
            count += 1;
            deepest = deepest.max(depths[event.index()]);
            kinds[trace.kind(event) as usize] = true;
        }
        (count > 0).then(|| {
            let data = trace.tracks.get(track);
            let process = &trace.tracks.processes[data.process.index()];
            json!({
                "track": track.0,
                "kind": data.kind.name(),
                "process": trace.key_text(process.pid),
                "process_name": trace.strings.get(process.name),
                "thread": trace.key_text(data.tid),
                "name": trace.strings.get(data.name),
                "device": if data.kind == TrackKind::Stream { json!(data.device) } else { json!(null) },
                "stream": if data.kind == TrackKind::Stream { json!(data.stream) } else { json!(null) },
                "events": count,
                "rows": deepest + 1,
            })
        })
    };
    let lanes: Vec<_> = trace.tracks.ids().filter_map(lane).collect();
    let kinds: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.name()).collect();
    let whole = json!({"tracks": tracks_of(&lanes), "level": whole_level(end - start), "first": 0, "last": WHOLE - 1});
    Ok(Answer::document(&json!({
        "start": start, "end": end, "buckets": BUCKETS, "kinds": kinds, "whole": whole, "lanes": lanes,
    })))
}

/// The tracks of some lanes, with commas between them.
fn tracks_of(lanes: &[serde_json::Value]) -> String {
    lanes.iter().map(|lane| lane["track"].to_string()).collect::<Vec<_>>().join(",")
}

/// The level at which [`WHOLE`] tiles hold so many ns.
fn whole_level(ns: i64) -> u32 {
    let least = ns.max(1) as u64 / (WHOLE * BUCKETS) as u64 + 1;
    least.next_power_of_two().trailing_zeros()
}

/// Tiles of some lanes at one level, from one index to another.
pub(super) fn tiles(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let (_, trace) = opened.trace(rank)?;
    let depths = opened.depths(rank)?;
    let tracks: Vec<u32> = arguments.numbers("tracks")?;
    let level: u32 = arguments.needed("level")?;
    let (first, last): (i64, i64) = (arguments.needed("first")?, arguments.needed("last")?);
    if level > LEVELS {
        return Err(QueryError::Argument { name: "level", why: format!("{level} is above {LEVELS}") });
    }
    if let Some(track) = tracks.iter().find(|&&track| track as usize >= trace.tracks.len()) {
        return Err(QueryError::missing(format!("there is no track {track}")));
    }
    let origin = trace.span().map_or(0, |(start, _)| start);
    let at = |index: i64| {
        let ns = (i128::from(index) * i128::from(BUCKETS)) << level;
        i64::try_from(ns + i128::from(origin)).unwrap_or(if ns > 0 { i64::MAX } else { i64::MIN })
    };
    let window = (at(first), at(last.saturating_add(1)));
    let mut boxes = Boxes { trace, depths, origin, level, texts: Texts::default(), rows: Vec::new() };
    for &track in &tracks {
        boxes.add(TrackId(track), window);
    }
    Ok(boxes.answer())
}

/// Whether an event is drawn.
fn is_shown(trace: &Trace, event: EventId) -> bool {
    trace.events.has(event, flags::HAS_DURATION)
        && trace.events.is_plausible(event)
        && trace.kind(event) != EventKind::Recording
}

/// One box.
#[derive(Clone, Copy, Debug)]
struct Box {
    track: TrackId,
    depth: u16,
    start: i64,
    end: i64,
    /// The longest of its events.
    event: EventId,
    longest: i64,
    count: u32,
}

struct Boxes<'a> {
    trace: &'a Trace,
    depths: &'a [u16],
    origin: i64,
    level: u32,
    texts: Texts<'a>,
    rows: Vec<Box>,
}

impl<'a> Boxes<'a> {
    fn add(&mut self, track: TrackId, (from, to): (i64, i64)) {
        let trace = self.trace;
        let events = trace.track_events(track);
        let after = |ns: i64| events.partition_point(|event| trace.events.start[event.index()] < ns);
        let (begin, until) = (after(from), after(to).max(after(from)));
        // What began before and lasts into the window: the last one that began before, and what that stands in.
        let mut earlier: Vec<EventId> = Vec::new();
        if let Some(&last) = begin.checked_sub(1).and_then(|before| events.get(before)) {
            earlier.extend(trace.ancestors(last).filter(|up| trace.events.track[up.index()] == track));
            earlier.insert(0, last);
            earlier.reverse();
        }
        if trace.tracks.get(track).kind != TrackKind::Thread {
            // Here nothing tells what lasts on, but what began shortly before.
            earlier = events[begin.saturating_sub(BACK)..begin].to_vec();
        }
        let mut open: Vec<Option<Box>> = Vec::new();
        for &event in earlier.iter().chain(&events[begin..until]) {
            let end = trace.events.end(event);
            if end < from || !is_shown(trace, event) {
                continue;
            }
            let depth = self.depths[event.index()];
            if open.len() <= usize::from(depth) {
                open.resize(usize::from(depth) + 1, None);
            }
            let (start, dur) = (trace.events.start[event.index()], trace.events.dur[event.index()]);
            let one = Box { track, depth, start, end, event, longest: dur, count: 1 };
            self.put(&mut open[usize::from(depth)], one);
        }
        self.rows.extend(open.into_iter().flatten());
    }

    /// Puts an event into the open box of its depth, or that box away.
    fn put(&mut self, open: &mut Option<Box>, one: Box) {
        let bucket = |ns: i64| (ns - self.origin) >> self.level;
        match open {
            Some(before) if bucket(before.start) == bucket(one.start) && bucket(before.end) <= bucket(one.start) => {
                before.end = before.end.max(one.end);
                before.count = before.count.saturating_add(1);
                if one.longest > before.longest {
                    (before.event, before.longest) = (one.event, one.longest);
                }
            }
            _ => self.rows.extend(open.replace(one)),
        }
    }

    fn answer(mut self) -> Answer {
        let left_out = self.rows.len().saturating_sub(MOST);
        if left_out > 0 {
            self.rows.sort_by_key(|row| row.depth);
            self.rows.truncate(MOST);
        }
        let (trace, rows) = (self.trace, std::mem::take(&mut self.rows));
        let names: Vec<u32> = rows.iter().map(|row| self.texts.index(trace.name(row.event))).collect();
        let kind = |row: &Box| trace.kind(row.event) as u8;
        let columns = vec![
            ("track", Column::U32(rows.iter().map(|row| row.track.0).collect())),
            ("depth", Column::U32(rows.iter().map(|row| u32::from(row.depth)).collect())),
            ("start", Column::F64(rows.iter().map(|row| row.start as f64).collect())),
            ("end", Column::F64(rows.iter().map(|row| row.end as f64).collect())),
            ("event", Column::U32(rows.iter().map(|row| row.event.0).collect())),
            ("count", Column::U32(rows.iter().map(|row| row.count).collect())),
            ("name", Column::U32(names)),
            ("kind", Column::U8(rows.iter().map(kind).collect())),
        ];
        Answer { json: json!({"texts": self.texts.list(), "left_out": left_out}).to_string(), columns }
    }
}
