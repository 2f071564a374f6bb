//! Worker processes of data loaders that a trace shows.

use super::names::{Names, bits};
use super::thread_timelines::ThreadTimeline;
use stackline_model::{Key, Trace};
use std::collections::BTreeMap;

/// Data loader workers: processes that only load data for another process.
pub struct LoaderWorkers(Vec<LoaderWorker>);

/// Worker process of a data loader.
pub struct LoaderWorker {
    /// Process ID.
    pub pid: Key,
    /// Lanes of the worker's threads.
    pub(super) lanes: Vec<u32>,
    /// Start of its first and end of its last span, in ns since the base.
    seen: (i64, i64),
}

impl LoaderWorkers {
    /// Find the data loader workers of a trace: processes with the frame of a worker loop.
    pub(super) fn from_trace(trace: &Trace, names: &Names, lanes: &[ThreadTimeline]) -> Self {
        let runs_worker = |e: &_| names.flags(trace, *e) & bits::RUNS_WORKER != 0;
        let loops = trace.events.ids().filter(runs_worker);
        let pid = |event| trace.tracks.pid(trace.events.track[event]);
        let mut workers: BTreeMap<Key, LoaderWorker> = BTreeMap::new();
        for event in loops {
            let (pid, nothing) = (pid(event.index()), (i64::MAX, i64::MIN));
            workers.entry(pid).or_insert(LoaderWorker { pid, lanes: Vec::new(), seen: nothing });
        }
        for (number, lane) in (0u32..).zip(lanes) {
            if let Some(worker) = workers.get_mut(&trace.tracks.pid(lane.track)) {
                worker.lanes.push(number);
                worker.seen = (worker.seen.0.min(lane.start()), worker.seen.1.max(lane.end()));
            }
        }
        Self(workers.into_values().collect())
    }

    /// True if the trace shows no data loader workers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Data loader workers that exist at any time between two times (in ns since the base).
    pub fn during(&self, from: i64, to: i64) -> impl Iterator<Item = &LoaderWorker> {
        self.0.iter().filter(move |worker| worker.seen.0 <= to && worker.seen.1 >= from)
    }
}
