//! Calls of the GPU runtime that were in progress during waits of unknown cause on the critical path.

use rustc_hash::FxHashMap;
use stackline_model::{EventId, Trace, TrackId};

/// Least share of a wait that a call must cover to be the visible part of the wait.
const MIN_WAIT_SHARE: f64 = 0.9;

/// Index of outermost GPU runtime calls by thread, in time order; calls of one thread do not overlap.
pub(super) struct CallsInProgress {
    by_track: Vec<Vec<(i64, i64, EventId)>>,
}

impl CallsInProgress {
    /// Build the index of outermost GPU runtime calls by thread and time.
    pub(super) fn new(trace: &Trace, calls: impl Iterator<Item = EventId>) -> Self {
        let mut by_track: FxHashMap<TrackId, Vec<(i64, i64, EventId)>> = FxHashMap::default();
        for call in calls {
            if !trace.ancestors(call).any(|around| trace.kind(around).is_api_call()) {
                let span = (trace.events.start[call.index()], trace.events.end(call), call);
                by_track.entry(trace.events.track[call.index()]).or_default().push(span);
            }
        }
        let mut by_track: Vec<_> = by_track.into_iter().collect();
        by_track.sort_unstable_by_key(|(track, _)| *track);
        let sorted = |(_, mut calls): (_, Vec<_>)| {
            calls.sort_unstable();
            calls
        };
        Self { by_track: by_track.into_iter().map(sorted).collect() }
    }

    /// Find the call that was in progress for nearly all of a time range, of several threads the longest; `None`
    /// without one.
    pub(super) fn around(&self, from: i64, to: i64) -> Option<EventId> {
        let middle = from + (to - from) / 2;
        let of_track = |calls: &Vec<(i64, i64, EventId)>| {
            let &(start, end, call) = calls[..calls.partition_point(|call| call.0 <= middle)].last()?;
            let shared = end.min(to) - start.max(from);
            (shared as f64 >= MIN_WAIT_SHARE * (to - from) as f64).then_some((shared, call))
        };
        let most =
            self.by_track.iter().filter_map(of_track).max_by_key(|&(shared, call)| (shared, std::cmp::Reverse(call)));
        most.map(|(_, call)| call)
    }
}
