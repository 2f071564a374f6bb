//! Diagnostic of calls in flight: the innermost span of each thread that was still open at the end of the recording, with
//! its callers.

use crate::byte_offsets::ByteOffsets;
use crate::diagnostics;
use stackline_model::{EventId, Trace, TrackId, TrackKind, flags};
use std::collections::BTreeSet;

/// Limit on named callers of a path. All levels of a recursion count as one.
const NAMED: usize = 6;

/// Count the innermost open span of each thread, with its callers. Requires the time order and nesting. A span that was
/// cut at the end of its caller was not open at the end. Neither was a span that was followed by another one of its
/// kind ([`ended`]): their end records are missing.
pub(super) fn note(trace: &mut Trace, places: &ByteOffsets) {
    let is_open = |event: &EventId| {
        let of_event = trace.events.flags[event.index()];
        of_event & (flags::UNFINISHED | flags::CLAMPED) == flags::UNFINISHED && trace.events.is_plausible(*event)
    };
    if !trace.events.ids().any(|event| is_open(&event)) {
        return;
    }
    let mut found = Vec::new();
    for id in trace.tracks.ids().filter(|&id| trace.tracks.get(id).kind == TrackKind::Thread) {
        if !trace.track_events(id).iter().any(is_open) {
            continue;
        }
        let ended = ended(trace, trace.track_events(id), is_open);
        let in_flight = |event: &EventId| is_open(event) && !ended.contains(event);
        let open: Vec<EventId> = trace.track_events(id).iter().copied().filter(in_flight).collect();
        let [outermost, ..] = open[..] else { continue };
        let around = trace.ancestors(outermost).filter(|event| !ended.contains(event));
        // Parents are not sufficient: a span that began with the last record has no length, so it has no parent.
        let path: Vec<EventId> = open.into_iter().rev().chain(around).collect();
        found.push((path[0], path_in_words(trace, id, &path)));
    }
    for (event, example) in found {
        diagnostics::IN_FLIGHT.count(&mut trace.report, places.offset_of(event), &example);
    }
}

/// Spans without an end record that must have ended: a direct child with the same name has ended, like the next
/// iteration of a loop after one without an end record. (A function that calls itself directly and is open at the end
/// is treated likewise.)
fn ended(trace: &Trace, by_start: &[EventId], is_open: impl Fn(&EventId) -> bool) -> BTreeSet<EventId> {
    let events = &trace.events;
    let mut ended = BTreeSet::new();
    // Parents start first, so the reverse order visits all children before their parents.
    for &event in by_start.iter().rev().filter(|&&event| events.is_timed(event)) {
        let Some(parent) = events.parent[event.index()].some().filter(&is_open) else { continue };
        let has_same_name = events.name[parent.index()] == events.name[event.index()];
        if has_same_name && (!is_open(&event) || ended.contains(&event)) {
            ended.insert(parent);
        }
    }
    ended
}

/// Text of a call path (innermost first), with the names of its trace and thread.
fn path_in_words(trace: &Trace, track: TrackId, path: &[EventId]) -> String {
    let track = trace.tracks.get(track);
    let tid = trace.key_text(track.tid);
    let thread = match track.name.some().map(|name| trace.strings.get(name)) {
        Some(name) if !name.is_empty() && name != tid => format!("{name} ({tid})"),
        _ => tid,
    };
    let frames: Vec<String> = path.iter().map(|&frame| trace.name(frame).to_owned()).collect();
    in_words(&trace.meta.name, &thread, &frames)
}

/// Text of a call path, after its source (a file or stream) and its thread; `frames` has the innermost frame first. A
/// function that calls itself is named once, with the number of its levels.
pub(crate) fn in_words(source: &str, thread: &str, frames: &[String]) -> String {
    let with_levels = |name: String, levels: usize| match levels {
        1 => name,
        levels => format!("{name} ({levels} recursive calls)"),
    };
    let mut functions = frames.chunk_by(|inner, outer| inner == outer);
    let Some([innermost, rest @ ..]) = functions.next() else { return format!("{source}: thread {thread}") };
    let innermost = with_levels(innermost.clone(), 1 + rest.len());
    let mut words = format!("{source}: {innermost} on thread {thread}");
    // The installation folder of packages is irrelevant.
    let short = |frame: &String| match frame.rsplit_once("site-packages/") {
        Some((before, file)) => format!("{}({file}", before.split('(').next().unwrap_or_default()),
        None => frame.clone(),
    };
    let caller = |levels: &[String]| Some(with_levels(short(levels.first()?), levels.len()));
    let callers: Vec<String> = functions.take(NAMED + 1).filter_map(caller).collect();
    for (at, caller) in callers.iter().take(NAMED).enumerate() {
        words.push_str(if at == 0 { ", called from " } else { " < " });
        words.push_str(caller);
    }
    if callers.len() > NAMED {
        words.push_str(" < …");
    }
    words
}
