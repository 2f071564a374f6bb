//! Assignment of a track's events to timeline rows, so that events of a row do not overlap.

use stackline_model::{EventId, EventKind, Trace, TrackId, TrackKind};
use stackline_timeline::import_frames::ImportFrames;

/// Maximum number of rows of a track whose events overlap; further events are drawn over each other.
const MOST: usize = 63;

/// Frames of Python's import machinery that the timeline shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImportView {
    /// Only the outermost frame of each import.
    Folded,
    All,
}

impl ImportView {
    /// Words of the query argument `imports`.
    pub(crate) const CHOICES: &'static [(&'static str, Self)] = &[("folded", Self::Folded), ("all", Self::All)];
}

/// Timeline rows of all tracks: events by track and row, each row by start.
#[derive(Debug, Default)]
pub(crate) struct TrackLayout(Vec<Vec<Vec<EventId>>>);

impl TrackLayout {
    /// Assign the events of each track to rows: nested for threads, first free row for other tracks. With `imports`,
    /// threads show only the outermost frame of each import.
    pub(crate) fn from_trace(trace: &Trace, imports: Option<&ImportFrames>) -> Self {
        let row_of = |track: TrackId| match trace.tracks.get(track).kind {
            TrackKind::Thread => nested(trace, track, imports),
            _ => stacked(trace, track),
        };
        Self(trace.tracks.ids().map(row_of).collect())
    }

    /// Timeline rows of a track; none if there is no such track.
    pub(crate) fn of_track(&self, track: TrackId) -> &[Vec<EventId>] {
        self.0.get(track.index()).map_or(&[], Vec::as_slice)
    }
}

/// Check if the timeline draws an event.
fn is_shown(trace: &Trace, event: EventId) -> bool {
    trace.events.is_timed(event) && trace.kind(event) != EventKind::Recording
}

/// Rows of a thread's nested spans. Each span is one row below its enclosing span, which precedes it in the order of a
/// track.
fn nested(trace: &Trace, track: TrackId, imports: Option<&ImportFrames>) -> Vec<Vec<EventId>> {
    let is_shown =
        |event: EventId| is_shown(trace, event) && imports.is_none_or(|imports| !imports.is_hidden(trace, event));
    let mut rows: Vec<Vec<EventId>> = Vec::new();
    // The spans around the event that was placed last, with their rows.
    let mut around: Vec<EventId> = Vec::new();
    for &event in trace.track_events(track).iter().filter(|&&event| is_shown(event)) {
        let parent = trace.ancestors(event).find(|up| trace.events.track[up.index()] == track && is_shown(*up));
        while around.last().copied() != parent && !around.is_empty() {
            around.pop();
        }
        let row = around.len();
        around.push(event);
        if row == rows.len() {
            rows.push(Vec::new());
        }
        rows[row].push(event);
    }
    rows
}

/// Rows of a track whose events may overlap without nesting: each event takes the first free row.
fn stacked(trace: &Trace, track: TrackId) -> Vec<Vec<EventId>> {
    let mut rows: Vec<(i64, Vec<EventId>)> = Vec::new();
    for &event in trace.track_events(track).iter().filter(|&&event| is_shown(trace, event)) {
        let start = trace.events.start[event.index()];
        let row = rows.iter().position(|(free, _)| *free <= start).unwrap_or(rows.len()).min(MOST);
        if row == rows.len() {
            rows.push((i64::MIN, Vec::new()));
        }
        rows[row].0 = rows[row].0.max(trace.events.end(event));
        rows[row].1.push(event);
    }
    rows.into_iter().map(|(_, events)| events).collect()
}
