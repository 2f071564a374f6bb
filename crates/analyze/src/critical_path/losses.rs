//! What a trace does not record: launches whose operation is missing, operations whose launch is missing. A dependency
//! that something unrecorded may have come between is not certain.

use super::gpu_calls::{CallKind, CallKinds};
use super::gpu_order::{Streams, is_usable, start};
use crate::hta_view::LAUNCHES;
use rustc_hash::FxHashSet;
use stackline_model::{EventId, GpuId, Trace};

/// Where records are missing, by time.
pub(super) struct Losses {
    /// Starts of launch calls without an operation, and of all launches of graphs.
    launches: Vec<i64>,
    /// Per name: whether it launches a graph. Recordings of graphs lack kernels, and nothing tells which.
    graph_names: Vec<bool>,
    /// Starts of operations without a launch call.
    unlaunched: Vec<i64>,
    /// Whether calls and operations are missing amid others: then some may have left no record at all.
    pervasive: bool,
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
        let graph_names: Vec<bool> = trace.strings.iter().map(|name| name.contains("GraphLaunch")).collect();
        let launches_graph = |e: EventId| graph_names.get(trace.events.name[e.index()].index()).copied() == Some(true);
        let mut starts = starts_of(&|e| launches(e) && (launches_graph(e) || !linked.contains(&e)));
        starts.sort_unstable();
        let operations = streams.operations.iter().flatten().filter(|id| trace.gpu.launch[id.index()].is_none());
        let mut unlaunched: Vec<i64> = operations.map(|&id| start(trace, id)).collect();
        unlaunched.sort_unstable();
        let pervasive = is_pervasive(trace, streams, &starts_of(&|e| launches(e) && !linked.contains(&e)));
        Self { launches: starts, graph_names, unlaunched, pervasive }
    }

    /// Whether an operation was launched as part of a graph.
    pub(super) fn is_of_graph(&self, trace: &Trace, id: GpuId) -> bool {
        let call = trace.gpu.launch[id.index()];
        call.is_some() && self.graph_names.get(trace.events.name[call.index()].index()).copied().unwrap_or(false)
    }

    /// Calls that copy, and may have waited for a copy that has no record.
    pub(super) fn copies<'a>(&'a self, trace: &'a Trace, kinds: &'a CallKinds) -> impl Iterator<Item = EventId> + 'a {
        let copies = move |&e: &EventId| kinds.of(trace, e) == Some(CallKind::Copy);
        let is_lost = |&e: &EventId| self.launches.binary_search(&trace.events.start[e.index()]).is_ok();
        trace.events.ids().filter(copies).filter(is_lost)
    }

    /// Whether an operation may have been launched between two moments without being recorded.
    pub(super) fn between(&self, from: i64, to: i64) -> bool {
        self.pervasive || has_between(&self.launches, from, to)
    }

    /// Whether an operation, launched at an unknown time and on whatever stream, starts between two moments: it may be
    /// what a chain of waits between streams is about.
    pub(super) fn unlaunched_between(&self, from: i64, to: i64) -> bool {
        has_between(&self.unlaunched, from, to)
    }
}

/// Whether operations without launch ran after others with one, and launches without operation came before others with
/// one. At the ends of a recording both are usual.
fn is_pervasive(trace: &Trace, streams: &Streams, lost: &[i64]) -> bool {
    let launch = |id: &GpuId| trace.gpu.launch[id.index()].some();
    let calls = streams.operations.iter().flatten().filter_map(launch);
    let last = calls.map(|call| trace.events.start[call.index()]).max();
    let amid_calls = last.is_some_and(|last| lost.iter().any(|&at| at < last));
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
    trace.gpu.launch[id.index()].some().map_or(began, |c| trace.events.start[c.index()].min(began))
}
