//! One event with all that is known of it, and what happened in a stretch of time.

use super::{Texts, shortened};
use crate::{Answer, Arguments, Opened, QueryError};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use stackline_analyze::findings::place_of;
use stackline_model::{AttrValue, EventId, StrId, Trace, TrackKind};

/// Most names that a summary lists.
const MOST: usize = 50;

pub(super) fn answer(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let (_, trace) = opened.trace(rank)?;
    let origin = opened.origin(rank)?;
    let number: u32 = arguments.needed("event")?;
    let event = EventId(number);
    if event.index() >= trace.events.len() {
        return Err(QueryError::missing(format!("there is no event {number}: there are {}", trace.events.len())));
    }
    let place = place_of(trace, event);
    let track = trace.events.track[event.index()];
    let gpu = trace.gpu.of_event(event);
    let launched: Vec<Value> = match gpu {
        Some(_) => Vec::new(),
        None => trace
            .gpu
            .ids()
            .filter(|gpu| trace.gpu.launch[gpu.index()] == event)
            .take(MOST)
            .map(|gpu| brief(trace, origin, trace.gpu.event[gpu.index()]))
            .collect(),
    };
    let owner = |id: Option<EventId>| id.and_then(EventId::some).map(|id| brief(trace, origin, id));
    Ok(Answer::document(&json!({
        "event": brief(trace, origin, event),
        "category": trace.category(event),
        "track": track.0,
        "step": trace.step_at(trace.events.start[event.index()], trace.tracks.pid(track)).map(|at| trace.steps[at as usize].number),
        "place": {
            "file": place.file, "line": place.line, "function": place.function, "module": place.module,
            "operator": place.operator, "text": place.text(),
        },
        "arguments": trace.attrs.of(event).map(|(key, value)| json!([trace.strings.get(key), attribute(trace, value)])).collect::<Vec<_>>(),
        "enclosing": trace.ancestors(event).map(|up| brief(trace, origin, up)).collect::<Vec<_>>(),
        "launch": owner(gpu.map(|gpu| trace.gpu.launch[gpu.index()])),
        "operator": owner(gpu.map(|gpu| trace.gpu.operator[gpu.index()])),
        "launched": launched,
    })))
}

fn brief(trace: &Trace, origin: i64, event: EventId) -> Value {
    let at = event.index();
    json!({
        "event": event.0, "name": shortened(trace.name(event)), "kind": trace.kind(event).name(),
        "start": trace.events.start[at].saturating_sub(origin), "dur": trace.events.dur[at], "track": trace.events.track[at].0,
    })
}

fn attribute(trace: &Trace, value: AttrValue) -> Value {
    if let Some(text) = value.as_str(&trace.strings) {
        return json!(shortened(text));
    }
    match value.as_i64() {
        // Beyond 2^53 a browser would round them.
        Some(number) if number.unsigned_abs() > 1 << 53 => json!(number.to_string()),
        Some(number) => json!(number),
        None => json!(value.as_f64()),
    }
}

pub(super) fn range(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let (_, trace) = opened.trace(rank)?;
    let origin = opened.origin(rank)?;
    let (from, to): (i64, i64) = (arguments.needed("from")?, arguments.needed("to")?);
    let (from, to) = (from.saturating_add(origin), to.saturating_add(origin));
    let mut sums: FxHashMap<(StrId, bool), (u64, i64)> = FxHashMap::default();
    let mut tracks = Vec::new();
    for track in trace.tracks.ids() {
        let is_gpu = trace.tracks.get(track).kind == TrackKind::Stream;
        let (mut busy, mut until, mut events) = (0_i64, i64::MIN, 0_u64);
        for &event in trace.track_events(track) {
            let (start, end) = (trace.events.start[event.index()].max(from), trace.events.end(event).min(to));
            if start >= to || end <= from || !trace.events.is_timed(event) {
                continue;
            }
            events += 1;
            busy = busy.saturating_add(end.saturating_sub(start.max(until)).max(0));
            until = until.max(end);
            let sum = sums.entry((trace.events.name[event.index()], is_gpu)).or_default();
            sum.0 += 1;
            sum.1 = sum.1.saturating_add(end.saturating_sub(start));
        }
        if events > 0 {
            tracks.push(json!({"track": track.0, "busy": busy, "events": events}));
        }
    }
    let mut names: Vec<_> = sums.into_iter().collect();
    names.sort_by_key(|&((name, is_gpu), (_, ns))| (std::cmp::Reverse(ns), name, is_gpu));
    let mut texts = Texts::default();
    let row = |((name, is_gpu), (count, ns)): &((StrId, bool), (u64, i64))| json!({"name": texts.index(trace.strings.get(*name)), "gpu": is_gpu, "count": count, "ns": ns});
    let rows: Vec<_> = names.iter().take(MOST).map(row).collect();
    Ok(Answer::document(&json!({
        "tracks": tracks, "names": rows, "texts": texts.list(), "left_out": names.len() - rows.len(),
    })))
}
