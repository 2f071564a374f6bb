//! Parents of device events by time: groups of operations (modules and steps of XLA, annotations of a stream) enclose
//! them.

use super::{Parent, ParentEvidence};
use crate::{EventId, EventKind, ProcessId, Trace, TrackId, TrackKind};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Prefix of XProf's rows of transfers from start to wait. Other work in that time is not part of them.
const TRANSFERS: &str = "Async";

/// Parents of device events by time: the innermost group around each operation without a launch record, and around each
/// group. `is_known` is true for events that have a parent already.
pub(super) fn parents(trace: &Trace, is_known: impl Fn(EventId) -> bool) -> Vec<Parent> {
    if !trace.events.kind.contains(&EventKind::GpuAnnotation) {
        return Vec::new();
    }
    let rows = DeviceTracks::from_trace(trace);
    let mut devices: BTreeMap<ProcessId, Vec<EventId>> = BTreeMap::new();
    for event in trace.events.ids().filter(|&event| rows.is_candidate(event)) {
        devices.entry(trace.tracks.get(trace.events.track[event.index()]).process).or_default().push(event);
    }
    let mut found = Vec::new();
    for mut events in devices.into_values() {
        // A group comes before the events that it encloses.
        events.sort_unstable_by_key(|&e| (trace.events.start[e.index()], Reverse(trace.events.dur[e.index()]), e));
        // Groups of rows without operations, which enclose those of all rows, and of each other row.
        let (mut shared, mut own): (OpenGroups, BTreeMap<TrackId, OpenGroups>) = Default::default();
        for (at, event) in events.into_iter().enumerate() {
            if rows.is_orphan(event) && !is_known(event) {
                let of_row = own.get_mut(&rows.track(event));
                let around = [Some(&mut shared), of_row].into_iter().flatten();
                let innermost = around.filter_map(|open| open.innermost(&rows, event)).max();
                found.extend(innermost.map(|(_, group)| (event, group, ParentEvidence::TimeContainment)));
            }
            if trace.kind(event) == EventKind::GpuAnnotation && !rows.is_transfers[rows.track(event).index()] {
                let has_work = rows.has_work[rows.track(event).index()];
                let open = if has_work { own.entry(rows.track(event)).or_default() } else { &mut shared };
                open.push(&rows, (at, event));
            }
        }
    }
    found
}

/// Groups that were started and may still be open, in the order of their starts, each with its position among the
/// events.
#[derive(Default)]
struct OpenGroups {
    groups: Vec<(usize, EventId)>,
    /// Number of groups at which ended ones are removed, because a scan of all of them for each event would take too
    /// long.
    most: usize,
}

impl OpenGroups {
    /// Least value of `most`, below which removal gains nothing.
    const FEW: usize = 64;

    /// Add a group that starts now; ended groups are removed first if the list has grown long.
    fn push(&mut self, rows: &DeviceTracks<'_>, group: (usize, EventId)) {
        if self.groups.len() >= self.most.max(Self::FEW) {
            let now = rows.trace.events.start[group.1.index()];
            self.groups.retain(|&(_, group)| rows.trace.events.end(group) > now);
            self.most = 2 * self.groups.len();
        }
        self.groups.push(group);
    }

    /// Group event that started last among those that enclose an event.
    fn innermost(&mut self, rows: &DeviceTracks<'_>, event: EventId) -> Option<(usize, EventId)> {
        let events = &rows.trace.events;
        let is_open = |group: EventId| events.end(group) > events.start[event.index()];
        while self.groups.last().is_some_and(|&(_, group)| !is_open(group)) {
            self.groups.pop();
        }
        self.groups.iter().rev().copied().find(|&(_, group)| is_open(group) && rows.encloses(group, event))
    }
}

/// Device tracks (rows of operations or of groups), with properties by track.
struct DeviceTracks<'a> {
    trace: &'a Trace,
    /// Per track: true if operations run on it. Then its groups enclose only operations of this track.
    has_work: Vec<bool>,
    /// Per track: true for a row of transfers.
    is_transfers: Vec<bool>,
}

impl<'a> DeviceTracks<'a> {
    /// Find for each track if GPU operations run on it, and if it is a row of transfers.
    fn from_trace(trace: &'a Trace) -> Self {
        let mut has_work = vec![false; trace.tracks.len()];
        for event in trace.events.ids().filter(|&event| trace.kind(event).is_gpu_work()) {
            has_work[trace.events.track[event.index()].index()] = true;
        }
        let is_transfers =
            trace.tracks.tracks.iter().map(|track| trace.strings.get(track.name).starts_with(TRANSFERS)).collect();
        Self { trace, has_work, is_transfers }
    }

    /// Track of an event.
    fn track(&self, event: EventId) -> TrackId {
        self.trace.events.track[event.index()]
    }

    /// True if an event is an operation or a group of a device, with comparable times.
    fn is_candidate(&self, event: EventId) -> bool {
        let (trace, kind) = (self.trace, self.trace.kind(event));
        (kind == EventKind::GpuAnnotation || kind.is_gpu_work())
            && trace.events.is_timed(event)
            && trace.tracks.get(self.track(event)).kind != TrackKind::Thread
    }

    /// True if no record names the parent of a group or an operation.
    fn is_orphan(&self, event: EventId) -> bool {
        let gpu = &self.trace.gpu;
        gpu.of_event(event).and_then(|operation| gpu.launcher(operation)).is_none()
    }

    /// True if a group contains an event and lasts longer: equal times do not show which one is inside.
    fn encloses(&self, group: EventId, event: EventId) -> bool {
        let events = &self.trace.events;
        events.end(group) >= events.end(event) && events.dur[group.index()] > events.dur[event.index()]
    }
}
