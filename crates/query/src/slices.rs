//! Slices of a timeline row: events that begin and end in the same time bucket are merged.

use crate::track_layout::TrackLayout;
use stackline_model::{EventId, Trace, TrackId};

/// Slice of a timeline row: one event, or several merged ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The longest of its events.
    pub(crate) event: EventId,
    pub(crate) longest: i64,
    pub(crate) count: u32,
    /// Time of all its events.
    pub(crate) busy: i64,
}

impl Slice {
    /// Create the slice of a single event.
    pub(crate) fn from_trace(trace: &Trace, event: EventId) -> Self {
        let (start, dur) = (trace.events.start[event.index()], trace.events.dur[event.index()]);
        Self { start, end: trace.events.end(event), event, longest: dur, count: 1, busy: dur }
    }

    /// Extend the slice by a later one: sum of events and times, and the longest event of both.
    fn join(&mut self, other: &Self) {
        self.end = self.end.max(other.end);
        self.count = self.count.saturating_add(other.count);
        self.busy = self.busy.saturating_add(other.busy);
        if other.longest > self.longest {
            (self.event, self.longest) = (other.event, other.longest);
        }
    }
}

/// Merge events or slices of a timeline row into slices by buckets of 2^`level` ns from `origin` on. Slices of a finer
/// level give the same result as their events.
pub(crate) fn merged(boxes: impl IntoIterator<Item = Slice>, origin: i64, level: u32) -> Vec<Slice> {
    let bucket = |ns: i64| ns.saturating_sub(origin) >> level;
    let mut all: Vec<Slice> = Vec::new();
    for one in boxes {
        match all.last_mut() {
            Some(open) if bucket(open.start) == bucket(one.end) => open.join(&one),
            _ => all.push(one),
        }
    }
    all
}

/// Number of events before a time range that may overlap it: one, if spans nest correctly.
const BACK: usize = 8;

/// Part of a list that may overlap a time range. The list is sorted by start.
pub(crate) fn reaching<T>(list: &[T], (from, to): (i64, i64), start: impl Fn(&T) -> i64) -> &[T] {
    let before = |ns: i64| list.partition_point(|one| start(one) < ns);
    list.get(before(from).saturating_sub(BACK)..before(to)).unwrap_or_default()
}

/// Number of events below which traces are scanned event by event.
const MANY: usize = 200_000;

/// All slices of a trace at one level, by track and row; slices of coarser levels are merged from them.
#[derive(Debug)]
pub(crate) struct CoarseSlices {
    pub(crate) level: u32,
    tracks: Vec<Vec<Vec<Slice>>>,
}

impl CoarseSlices {
    /// Merge all events of a trace into timeline slices of one level; `None` for a trace with few events.
    pub(crate) fn from_trace(trace: &Trace, rows: &TrackLayout, origin: i64, level: u32) -> Option<Self> {
        let row =
            |events: &Vec<EventId>| merged(events.iter().map(|&event| Slice::from_trace(trace, event)), origin, level);
        let track = |track: TrackId| rows.of_track(track).iter().map(row).collect();
        (trace.events.len() >= MANY).then(|| Self { level, tracks: trace.tracks.ids().map(track).collect() })
    }

    /// Merged timeline slices in one row of a track.
    pub(crate) fn row(&self, track: TrackId, depth: usize) -> &[Slice] {
        self.tracks.get(track.index()).and_then(|rows| rows.get(depth)).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::{Slice, merged};
    use proptest::prelude::*;
    use stackline_model::EventId;

    proptest! {
        #[test]
        fn coarse_slices_of_fine_ones_equal_those_of_events(
            spans in prop::collection::vec((0_i64..40, 0_i64..60), 0..60),
            (fine, more) in (0_u32..6, 0_u32..5),
            origin in -50_i64..50,
        ) {
            let mut at = origin;
            let events: Vec<Slice> = (0..).zip(&spans).map(|(event, &(gap, dur))| {
                let start = at + gap;
                at = start + dur;
                Slice { start, end: at, event: EventId(event), longest: dur, count: 1, busy: dur }
            }).collect();
            let boxes = merged(events.iter().copied(), origin, fine);
            prop_assert_eq!(boxes.iter().map(|one| one.count as usize).sum::<usize>(), events.len());
            prop_assert_eq!(merged(boxes, origin, fine + more), merged(events, origin, fine + more));
        }
    }
}
