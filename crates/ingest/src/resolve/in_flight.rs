//! Calls in flight: spans without an end that were open on their threads when the recording ended.

use crate::places::Places;
use crate::problems;
use stackline_model::{EventId, Trace, TrackId, TrackKind, flags};

/// Frames of a path that are named.
const NAMED: usize = 6;

/// Notes the innermost open span of each thread, with those around it. Needs the time order and nesting. A span that was cut at the end of
/// its caller was not open at the end: its end record is missing.
pub(super) fn note(trace: &mut Trace, places: &Places) {
    let is_open = |event: &EventId| {
        let of_event = trace.events.flags[event.index()];
        of_event & (flags::UNFINISHED | flags::CLAMPED) == flags::UNFINISHED && trace.events.is_plausible(*event)
    };
    if !trace.events.ids().any(|event| is_open(&event)) {
        return;
    }
    let mut found = Vec::new();
    for id in trace.tracks.ids().filter(|&id| trace.tracks.get(id).kind == TrackKind::Thread) {
        let open: Vec<EventId> = trace.track_events(id).iter().copied().filter(is_open).collect();
        let [outermost, ..] = open[..] else { continue };
        // Parents do not tell: a span that began with the last record has no length, and so lies in none.
        let path: Vec<EventId> = open.into_iter().rev().chain(trace.ancestors(outermost)).collect();
        found.push((path[0], path_in_words(trace, id, &path)));
    }
    for (event, example) in found {
        problems::IN_FLIGHT.count(&mut trace.report, places.of(event), &example);
    }
}

fn path_in_words(trace: &Trace, track: TrackId, path: &[EventId]) -> String {
    let track = trace.tracks.get(track);
    let tid = trace.key_text(track.tid);
    let thread = match track.name.some().map(|name| trace.strings.get(name)) {
        Some(name) if !name.is_empty() && name != tid => format!("{name} ({tid})"),
        _ => tid,
    };
    let frames: Vec<String> = path.iter().take(NAMED + 2).map(|&frame| trace.name(frame).to_owned()).collect();
    in_words(&trace.meta.name, &thread, &frames)
}

/// Where a thread of a source was: its frames, the innermost first.
pub(crate) fn in_words(source: &str, thread: &str, frames: &[String]) -> String {
    let [innermost, callers @ ..] = frames else { return format!("{source}: thread {thread}") };
    let mut words = format!("{source}: {innermost} on thread {thread}");
    // Where packages are installed says nothing of the call.
    let short = |frame: &String| match frame.rsplit_once("site-packages/") {
        Some((before, file)) => format!("{}({file}", before.split('(').next().unwrap_or_default()),
        None => frame.clone(),
    };
    let callers: Vec<String> = callers.iter().map(short).collect();
    for (at, caller) in callers.iter().take(NAMED).enumerate() {
        words.push_str(if at == 0 { ", called from " } else { " < " });
        words.push_str(caller);
    }
    if callers.len() > NAMED {
        words.push_str(" < …");
    }
    words
}
