//! Move of device events to shifted times. Synchronization records that use the host's clock stay.

use super::device_shift::Shift;
use rustc_hash::FxHashMap;
use stackline_model::{EventKind, Trace, TrackKind};
use std::collections::BTreeMap;

/// Shift the events of each device whose start lies in the range of the device's shift.
pub(super) fn move_events(trace: &mut Trace, shifts: &BTreeMap<i32, Shift>) {
    let calls = synchronized_calls(trace);
    let correlation = super::launches::correlation(trace);
    let mut moved = Vec::new();
    for event in trace.events.ids() {
        let track = trace.tracks.get(trace.events.track[event.index()]);
        let Some(shift) = shifts.get(&track.device).filter(|_| track.kind == TrackKind::Stream) else { continue };
        let start = trace.events.start[event.index()];
        let is_usable = trace.events.is_plausible(event) && (shift.from..=shift.to).contains(&start);
        let shifted = start.saturating_add(shift.by);
        // Synchronization records may use the host's clock; their call determines which clock they use.
        let stays = trace.kind(event) == EventKind::Sync
            && calls.get(&correlation(event)).is_some_and(|call| start.abs_diff(*call) < shifted.abs_diff(*call));
        if is_usable && !stays {
            moved.push((event, shifted));
        }
    }
    drop(correlation);
    for (event, start) in moved {
        trace.events.start[event.index()] = start;
    }
}

/// Starts of runtime calls by correlation ID; empty if the trace has no synchronization records.
fn synchronized_calls(trace: &Trace) -> FxHashMap<i64, i64> {
    if !trace.events.kind.contains(&EventKind::Sync) {
        return FxHashMap::default();
    }
    let correlation = super::launches::correlation(trace);
    let calls = trace.events.ids().filter(|e| trace.kind(*e).is_api_call() && trace.events.is_plausible(*e));
    calls.map(|e| (correlation(e), trace.events.start[e.index()])).filter(|(id, _)| *id > 0).collect()
}
