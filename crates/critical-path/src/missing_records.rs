//! Missing GPU records of a trace: launch calls without operation, operations without launch call. A dependency is
//! uncertain if unrecorded work may lie in between.

use super::call_kind_cache::CallKindCache;
use super::gpu_dependency::{Reason, SyncCall};
use super::streams::{Streams, is_usable, start};
use rustc_hash::FxHashSet;
use stackline_model::gpu_calls::CallKind;
use stackline_model::{EventId, GpuOpId, Key, Trace};
use std::collections::BTreeMap;

/// Missing records per process. Missing records of one process do not affect the certainty of others.
pub(super) struct MissingRecords<'a> {
    kinds: &'a CallKindCache,
    by_process: BTreeMap<Key, MissingOfProcess>,
    /// Starts of operations of an unknown process.
    unowned: Vec<i64>,
    /// Copy calls without a recorded copy.
    copies: Vec<EventId>,
}

/// Missing records of one process, by time.
#[derive(Default)]
struct MissingOfProcess {
    /// Starts of launch calls without an operation, and of all graph launches.
    launches: Vec<i64>,
    /// Starts of launch calls without an operation.
    without_operation: Vec<i64>,
    /// Starts of operations without a launch call.
    unlaunched: Vec<i64>,
    /// True if calls and operations are missing between recorded ones, so that some may have left no record at all.
    pervasive: bool,
}

impl<'a> MissingRecords<'a> {
    /// Collect, per process, the launch calls without a GPU operation and the GPU operations without a launch call.
    pub(super) fn new(trace: &Trace, kinds: &'a CallKindCache, streams: &Streams) -> Self {
        let usable = trace.gpu.ids().filter(|id| is_usable(trace, *id));
        let linked: FxHashSet<EventId> = usable.map(|id| trace.gpu.launch[id.index()]).collect();
        // A call inside another API call belongs to the same launch.
        let is_outer = |e: EventId| trace.events.parent[e.index()].some().is_none_or(|p| !trace.kind(p).is_api_call());
        let process = |e: EventId| trace.tracks.pid(trace.events.track[e.index()]);
        let mut found = Self { kinds, by_process: BTreeMap::new(), unowned: Vec::new(), copies: Vec::new() };
        let mut first_lost: BTreeMap<Key, i64> = BTreeMap::new();
        for event in trace.events.ids() {
            let Some(kind) = kinds.kind_of(trace, event).filter(|&kind| launches_work(kind)) else { continue };
            let at = trace.events.start[event.index()];
            let is_lost = !linked.contains(&event) && is_outer(event);
            if is_lost {
                first_lost.entry(process(event)).and_modify(|first| *first = at.min(*first)).or_insert(at);
            }
            if is_lost && kind == CallKind::Copy {
                found.copies.push(event);
            }
            if is_lost || kind == CallKind::GraphLaunch {
                let lost = found.by_process.entry(process(event)).or_default();
                lost.launches.push(at);
                lost.without_operation.extend(is_lost.then_some(at));
            }
        }
        for id in streams.operations.iter().flatten().copied().filter(|id| trace.gpu.launch[id.index()].is_none()) {
            match streams.process_of(trace, id) {
                Key::None => found.unowned.push(start(trace, id)),
                process => found.by_process.entry(process).or_default().unlaunched.push(start(trace, id)),
            }
        }
        found.unowned.sort_unstable();
        for (process, lost) in &mut found.by_process {
            lost.launches.sort_unstable();
            lost.without_operation.sort_unstable();
            lost.unlaunched.sort_unstable();
            lost.pervasive = first_lost.get(process).is_some_and(|&at| is_pervasive(trace, streams, *process, at));
        }
        found
    }

    /// True if a GPU operation was launched as part of a CUDA graph, whose recordings may lack any number of kernels.
    pub(super) fn is_of_graph(&self, trace: &Trace, id: GpuOpId) -> bool {
        let call = trace.gpu.launch[id.index()];
        self.kinds.kind_of(trace, call) == Some(CallKind::GraphLaunch)
    }

    /// Copy calls that may have waited for a copy that is missing in the trace.
    pub(super) fn copies_without_record(&self) -> &[EventId] {
        &self.copies
    }

    /// True if a process may have launched, between two times, a GPU operation that is missing in the trace.
    pub(super) fn may_miss_between(&self, process: Key, from: i64, to: i64) -> bool {
        let lost = self.by_process.get(&process);
        lost.is_some_and(|lost| lost.pervasive || any_between(&lost.launches, from, to))
    }

    /// True if a process launched, or may have launched, an unrecorded operation between two times. Excludes kernels of
    /// graphs, which every trace may lack.
    fn is_missing_between(&self, process: Key, from: i64, to: i64) -> bool {
        let lost = self.by_process.get(&process);
        lost.is_some_and(|lost| lost.pervasive || any_between(&lost.without_operation, from, to))
    }

    /// Calls that may have waited for GPU work that is missing in the trace, by start.
    pub(super) fn calls_near_missing_records(
        &self,
        trace: &Trace,
        doubtful: impl Iterator<Item = EventId>,
        syncs: &[SyncCall],
    ) -> Vec<EventId> {
        let start_of = |call: EventId| trace.events.start[call.index()];
        let missed_before = |call: EventId, on: &[GpuOpId]| {
            let last = on.iter().map(|&id| launched_at(trace, id)).max().unwrap_or(i64::MIN);
            let process = trace.tracks.pid(trace.events.track[call.index()]);
            self.is_missing_between(process, last, start_of(call))
        };
        let calls = doubtful.filter(|call| call.is_some());
        let mut found: Vec<EventId> = calls.filter(|&call| missed_before(call, &[])).collect();
        let waited = syncs.iter().filter(|s| match s.reason {
            _ if s.call.is_none() => false,
            Reason::SynchronizationNearMissing | Reason::Free | Reason::UnrecordedSync | Reason::Polling => {
                missed_before(s.call, &s.on)
            }
            _ => false,
        });
        found.extend(waited.map(|s| s.call));
        found.extend(self.copies_without_record());
        found.sort_unstable_by_key(|&call| (start_of(call), call));
        found.dedup();
        found
    }

    /// True if a GPU operation without known launch time starts between two times, on any stream of a process. A chain
    /// of waits between streams may refer to it.
    pub(super) fn unlaunched_between(&self, process: Key, from: i64, to: i64) -> bool {
        let lost = self.by_process.get(&process);
        lost.is_some_and(|lost| any_between(&lost.unlaunched, from, to)) || any_between(&self.unowned, from, to)
    }
}

/// True if calls of this kind start GPU work.
fn launches_work(kind: CallKind) -> bool {
    matches!(kind, CallKind::Launch | CallKind::GraphLaunch | CallKind::Copy)
}

/// True if records are missing in the middle of a recording: operations without launch ran after operations with one,
/// and launches without operation came before launches with one. `first_lost` is the first of the latter. Both are
/// common at the ends of a recording.
fn is_pervasive(trace: &Trace, streams: &Streams, process: Key, first_lost: i64) -> bool {
    let own = || streams.operations.iter().zip(&streams.process).filter(|(_, of)| **of == process).map(|(ids, _)| ids);
    let launch = |id: &GpuOpId| trace.gpu.launch[id.index()].some();
    let last = own().flatten().filter_map(launch).map(|call| trace.events.start[call.index()]).max();
    let amid_operations =
        |ids: &Vec<GpuOpId>| ids.iter().skip_while(|id| launch(id).is_none()).any(|id| launch(id).is_none());
    last.is_some_and(|last| first_lost < last) && own().any(amid_operations)
}

/// True if any of the sorted times lies between `from` and `to`, both excluded.
fn any_between(moments: &[i64], from: i64, to: i64) -> bool {
    let after = moments.partition_point(|&at| at <= from);
    moments.get(after).is_some_and(|&at| at < to)
}

/// Launch time of an operation in ns since the base: the start of its launch call, or its own start.
pub(super) fn launched_at(trace: &Trace, id: GpuOpId) -> i64 {
    let began = start(trace, id);
    trace.gpu.launch[id.index()].some().map_or(began, |c| trace.events.start[c.index()])
}
