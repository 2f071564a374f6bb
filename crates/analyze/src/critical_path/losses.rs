//! What a trace does not record: launches whose operation is missing, operations whose launch is missing. A dependency
//! that something unrecorded may have come between is not certain.

use super::gpu_calls::{CallKind, CallKinds};
use super::gpu_order::{Streams, is_usable, start};
use crate::hta_view::LAUNCHES;
use rustc_hash::FxHashSet;
use stackline_model::{EventId, GpuId, Trace};

/// Where records are missing, by time.
pub(super) struct Losses {
    /// Starts of launch calls without an operation.
    launches: Vec<i64>,
    /// Per name: whether it launches a graph. Recordings of graphs lack kernels, and nothing tells which.
    graph_names: Vec<bool>,
    /// Per stream: starts of operations without a launch call.
    unlaunched: Vec<Vec<i64>>,
}

impl Losses {
    pub(super) fn new(trace: &Trace, kinds: &CallKinds, streams: &Streams) -> Self {
        let usable = trace.gpu.ids().filter(|id| is_usable(trace, *id));
        let linked: FxHashSet<EventId> = usable.map(|id| trace.gpu.launch[id.index()]).collect();
        let launches_work: Vec<bool> = trace.strings.iter().map(|name| LAUNCHES.contains(&name)).collect();
        let launches = |e: EventId| {
            trace.kind(e).is_api_call()
                && (launches_work.get(trace.events.name[e.index()].index()).copied().unwrap_or(false)
                    || kinds.of(trace, e) == Some(CallKind::Copy))
        };
        let starts_of = |wanted: &dyn Fn(EventId) -> bool| -> Vec<i64> {
            trace.events.ids().filter(|&e| wanted(e)).map(|e| trace.events.start[e.index()]).collect()
        };
        let mut starts = starts_of(&|e| launches(e) && !linked.contains(&e));
        starts.sort_unstable();
        let graph_names = trace.strings.iter().map(|name| name.contains("GraphLaunch")).collect();
        let unlaunched = |ids: &Vec<GpuId>| {
            let ids = ids.iter().filter(|id| trace.gpu.launch[id.index()].is_none());
            ids.map(|&id| start(trace, id)).collect()
        };
        Self { launches: starts, graph_names, unlaunched: streams.operations.iter().map(unlaunched).collect() }
    }

    /// Whether an operation was launched as part of a graph.
    pub(super) fn is_of_graph(&self, trace: &Trace, id: GpuId) -> bool {
        let call = trace.gpu.launch[id.index()];
        call.is_some() && self.graph_names.get(trace.events.name[call.index()].index()).copied().unwrap_or(false)
    }

    /// Whether an operation may have been launched between two moments without being recorded.
    pub(super) fn between(&self, from: i64, to: i64) -> bool {
        let after = self.launches.partition_point(|&at| at <= from);
        self.launches.get(after).is_some_and(|&at| at < to)
    }

    /// Whether an operation of a stream, launched at an unknown time, starts after a moment and before another.
    pub(super) fn unlaunched_between(&self, stream: usize, from: i64, to: i64) -> bool {
        let Some(starts) = self.unlaunched.get(stream) else { return false };
        let after = starts.partition_point(|&at| at <= from);
        starts.get(after).is_some_and(|&at| at < to)
    }
}

/// When an operation was launched, in ns since the base: the start of its call, else its own start.
pub(super) fn launched_at(trace: &Trace, id: GpuId) -> i64 {
    let began = start(trace, id);
    trace.gpu.launch[id.index()].some().map_or(began, |c| trace.events.start[c.index()].min(began))
}
