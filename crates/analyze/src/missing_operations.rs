//! Lost GPU operations, which may have run in idle gaps: kernels without a record, and operations without a plausible
//! time.

use stackline_model::{EventId, GpuOpId, Trace, TrackId, flags, names};
use std::collections::{BTreeMap, BTreeSet};

/// Lost operations that a device may have run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Missing {
    /// Starts of their launch calls, ascending.
    pub(crate) launches: Vec<i64>,
    /// Own start and start of the launch call, ascending; only of operations whose call launched several, as graphs do.
    pub(crate) starts: Vec<(i64, i64)>,
}

impl Missing {
    /// Earliest time in a gap at which a lost operation may have run. Either it was launched between the two operations
    /// around the gap, `after` and `before`, or it shares its launch call and started in the gap. Returns the end of
    /// the gap if there is none.
    pub(crate) fn first_time(&self, (after, before): (i64, i64), gap: (i64, i64)) -> i64 {
        let next = self.launches.get(self.launches.partition_point(|&launched| launched <= after));
        let between = next.copied().filter(|&launched| launched < before);
        let from = self.starts.partition_point(|&(start, _)| start < gap.0);
        let in_gap = self.starts[from..].iter().take_while(|(start, _)| *start < gap.1).map(|(_, launched)| *launched);
        between.into_iter().chain(in_gap).min().map_or(gap.1, |launched| launched.clamp(gap.0, gap.1))
    }

    fn sort(&mut self) {
        self.launches.sort_unstable();
        self.starts.sort_unstable();
    }
}

/// Lost operations by the host thread that launched them.
pub(crate) struct MissingByThread(BTreeMap<TrackId, Missing>);

impl MissingByThread {
    /// Collect the lost operations of a trace.
    pub(crate) fn new(trace: &Trace) -> Self {
        let mut missing: BTreeMap<TrackId, Missing> = BTreeMap::new();
        let mut add = |call: EventId, start: Option<i64>| {
            if !trace.events.is_plausible(call) {
                return;
            }
            let of_thread = missing.entry(trace.events.track[call.index()]).or_default();
            let launched = trace.events.start[call.index()];
            of_thread.launches.push(launched);
            // An operation cannot run before its launch.
            of_thread.starts.extend(start.map(|start| (start.max(launched), launched)));
        };
        // Profilers may omit fills and empty copies.
        let is_kernel = |call: &EventId| names::is_kernel_launch(trace.name(*call));
        trace.unrecorded_launches().iter().copied().filter(is_kernel).for_each(|call| add(call, None));
        let is_timed = |gpu: GpuOpId| trace.events.is_plausible(trace.gpu.event[gpu.index()]);
        let untimed: Vec<GpuOpId> = trace.gpu.ids().filter(|&gpu| !is_timed(gpu)).collect();
        if !untimed.is_empty() {
            let timed = trace.gpu.ids().filter(|&gpu| is_timed(gpu));
            let shared: BTreeSet<EventId> = timed.filter_map(|gpu| trace.gpu.launch[gpu.index()].some()).collect();
            for gpu in untimed {
                let event = trace.gpu.event[gpu.index()];
                let Some(call) = trace.gpu.launch[gpu.index()].some() else { continue };
                let has_start = shared.contains(&call) && !trace.events.has(event, flags::NO_TIME);
                add(call, has_start.then(|| trace.events.start[event.index()]));
            }
        }
        missing.values_mut().for_each(Missing::sort);
        Self(missing)
    }

    /// Lost operations of the threads that make some launch calls.
    pub(crate) fn of_launches(&self, trace: &Trace, launches: impl Iterator<Item = EventId>) -> Missing {
        if self.0.is_empty() {
            return Missing::default();
        }
        let tracks: BTreeSet<TrackId> = launches.map(|launch| trace.events.track[launch.index()]).collect();
        let mut found = Missing::default();
        for of_thread in tracks.iter().filter_map(|track| self.0.get(track)) {
            found.launches.extend(&of_thread.launches);
            found.starts.extend(&of_thread.starts);
        }
        found.sort();
        found
    }
}
