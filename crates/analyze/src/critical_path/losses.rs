//! What a trace does not record: launches whose operation is missing, operations whose launch is missing. A dependency
//! that something unrecorded may have come between is not certain.

use super::gpu_calls::{CallKind, CallKinds};
use super::gpu_order::{Reason, SyncCall};
use super::streams::{Streams, is_usable, start};
use rustc_hash::FxHashSet;
use stackline_model::{EventId, GpuId, Trace};

/// Where records are missing, by time.
pub(super) struct Losses<'a> {
    kinds: &'a CallKinds,
    /// Starts of launch calls without an operation, and of all launches of graphs.
    launches: Vec<i64>,
    /// Starts of launch calls without an operation.
    lost: Vec<i64>,
    /// Calls that copy, without a copy.
    copies: Vec<EventId>,
    /// Starts of operations without a launch call.
    unlaunched: Vec<i64>,
    /// Whether calls and operations are missing amid others: then some may have left no record at all.
    pervasive: bool,
}

impl<'a> Losses<'a> {
    pub(super) fn new(trace: &Trace, kinds: &'a CallKinds, streams: &Streams) -> Self {
        let usable = trace.gpu.ids().filter(|id| is_usable(trace, *id));
        let linked: FxHashSet<EventId> = usable.map(|id| trace.gpu.launch[id.index()]).collect();
        // A call that another call makes is the same launch.
        let is_outer = |e: EventId| trace.events.parent[e.index()].some().is_none_or(|p| !trace.kind(p).is_api_call());
        let launches: Vec<(EventId, CallKind)> =
            trace.events.ids().filter_map(|e| Some((e, kinds.of(trace, e).filter(|&k| launches_work(k))?))).collect();
        let lost: Vec<EventId> = launches.iter().map(|l| l.0).filter(|e| !linked.contains(e) && is_outer(*e)).collect();
        let start_of = |e: &EventId| trace.events.start[e.index()];
        let graphs = launches.iter().filter(|(_, kind)| *kind == CallKind::GraphLaunch).map(|(e, _)| e);
        let mut starts: Vec<i64> = lost.iter().chain(graphs).map(start_of).collect();
        starts.sort_unstable();
        let mut lost_starts: Vec<i64> = lost.iter().map(start_of).collect();
        lost_starts.sort_unstable();
        let operations = streams.operations.iter().flatten().filter(|id| trace.gpu.launch[id.index()].is_none());
        let mut unlaunched: Vec<i64> = operations.map(|&id| start(trace, id)).collect();
        unlaunched.sort_unstable();
        let pervasive = is_pervasive(trace, streams, &lost);
        let copies = lost.into_iter().filter(|&e| kinds.of(trace, e) == Some(CallKind::Copy)).collect();
        Self { kinds, launches: starts, lost: lost_starts, copies, unlaunched, pervasive }
    }

    /// Whether an operation was launched as part of a graph. Recordings of graphs lack kernels, and nothing tells which.
    pub(super) fn is_of_graph(&self, trace: &Trace, id: GpuId) -> bool {
        let call = trace.gpu.launch[id.index()];
        self.kinds.of(trace, call) == Some(CallKind::GraphLaunch)
    }

    /// Calls that copy, and may have waited for a copy that has no record.
    pub(super) fn copies(&self) -> &[EventId] {
        &self.copies
    }

    /// Whether an operation may have been launched between two moments without being recorded.
    pub(super) fn may_miss_between(&self, from: i64, to: i64) -> bool {
        self.pervasive || has_between(&self.launches, from, to)
    }

    /// Whether an operation was, or may have been, launched between two moments and has no record; kernels of graphs, which
    /// every trace may lack, do not count.
    pub(super) fn is_missing_between(&self, from: i64, to: i64) -> bool {
        self.pervasive || has_between(&self.lost, from, to)
    }

    /// Calls that may have waited for work that has no record, by start.
    pub(super) fn calls_amid_loss(
        &self,
        trace: &Trace,
        uncertain: &FxHashSet<EventId>,
        syncs: &[SyncCall],
    ) -> Vec<EventId> {
        let start_of = |call: EventId| trace.events.start[call.index()];
        let missed_before = |call: EventId, on: &[GpuId]| {
            let last = on.iter().map(|&id| launched_at(trace, id)).max().unwrap_or(i64::MIN);
            self.is_missing_between(last, start_of(call))
        };
        let calls = uncertain.iter().copied().filter(|call| call.is_some());
        let mut found: Vec<EventId> = calls.filter(|&call| missed_before(call, &[])).collect();
        let waited = syncs.iter().filter(|s| match s.reason {
            _ if s.call.is_none() => false,
            Reason::SynchronisationAmidLoss | Reason::Free | Reason::UnrecordedSync | Reason::Polling => {
                missed_before(s.call, &s.on)
            }
            _ => false,
        });
        found.extend(waited.map(|s| s.call));
        found.extend(self.copies());
        found.sort_unstable_by_key(|&call| (start_of(call), call));
        found.dedup();
        found
    }

    /// Whether an operation, launched at an unknown time and on whatever stream, starts between two moments: it may be
    /// what a chain of waits between streams is about.
    pub(super) fn unlaunched_between(&self, from: i64, to: i64) -> bool {
        has_between(&self.unlaunched, from, to)
    }
}

/// Whether calls of this kind give the GPU something to do.
fn launches_work(kind: CallKind) -> bool {
    matches!(kind, CallKind::Launch | CallKind::GraphLaunch | CallKind::Copy)
}

/// Whether operations without launch ran after others with one, and launches without operation came before others with
/// one. At the ends of a recording both are usual.
fn is_pervasive(trace: &Trace, streams: &Streams, lost: &[EventId]) -> bool {
    let launch = |id: &GpuId| trace.gpu.launch[id.index()].some();
    let calls = streams.operations.iter().flatten().filter_map(launch);
    let last = calls.map(|call| trace.events.start[call.index()]).max();
    let amid_calls = last.is_some_and(|last| lost.iter().any(|e| trace.events.start[e.index()] < last));
    let amid_operations =
        |ids: &Vec<GpuId>| ids.iter().skip_while(|id| launch(id).is_none()).any(|id| launch(id).is_none());
    amid_calls && streams.operations.iter().any(amid_operations)
}

/// Whether one of these moments lies after one and before the other.
fn has_between(moments: &[i64], from: i64, to: i64) -> bool {
    let after = moments.partition_point(|&at| at <= from);
    moments.get(after).is_some_and(|&at| at < to)
}

/// When an operation was launched, in ns since the base: the start of its call, else its own start.
pub(super) fn launched_at(trace: &Trace, id: GpuId) -> i64 {
    let began = start(trace, id);
    trace.gpu.launch[id.index()].some().map_or(began, |c| trace.events.start[c.index()])
}
