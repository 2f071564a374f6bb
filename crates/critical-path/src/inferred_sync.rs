//! Inferred synchronization that the trace does not record: copy engines, CUDA graphs, blocking copies, polling loops.

use super::call_kind_cache::CallKindCache;
use super::gpu_dependency::{GpuDep, Reason, SyncCall};
use super::streams::{LastOnTwoStreams, Streams, end, start};
use rustc_hash::FxHashMap;
use stackline_model::gpu_calls::{CallKind, CopyDirection, copy_direction};
use stackline_model::{EventId, EventKind, GpuOpId, Trace, TrackKind};

/// Direction of a memory copy, such as host to device; `None` for other GPU operations.
fn direction(trace: &Trace, id: GpuOpId) -> Option<CopyDirection> {
    let event = trace.gpu.event[id.index()];
    if trace.kind(event) == EventKind::Memcpy { copy_direction(trace.name(event)) } else { None }
}

/// Infer that copies of one direction run in order, on devices where such copies never overlap.
pub(super) fn infer_copy_engine_order(trace: &Trace, streams: &Streams, deps: &mut Vec<(GpuOpId, GpuDep)>) {
    let mut engines: FxHashMap<(i32, CopyDirection), Vec<GpuOpId>> = FxHashMap::default();
    for id in streams.operations.iter().flatten().copied() {
        if let Some(direction) = direction(trace, id) {
            engines.entry((trace.gpu.device[id.index()], direction)).or_default().push(id);
        }
    }
    let mut engines: Vec<_> = engines.into_iter().collect();
    engines.sort_unstable_by_key(|(key, _)| *key);
    for (_, mut copies) in engines {
        copies.sort_by_key(|&id| streams.rank[id.index()]);
        if copies.windows(2).any(|pair| end(trace, pair[0]) > start(trace, pair[1])) {
            continue;
        }
        for pair in copies.windows(2) {
            if streams.of[pair[0].index()] != streams.of[pair[1].index()] {
                deps.push((pair[1], GpuDep { on: pair[0], reason: Reason::CopyEngine }));
            }
        }
    }
}

/// Infer dependencies between kernels of one CUDA graph launch that run on several streams. Each kernel waits for the
/// kernel of another stream that ended last before it.
pub(super) fn infer_graph_dependencies(trace: &Trace, streams: &Streams, deps: &mut Vec<(GpuOpId, GpuDep)>) {
    let launch = |id: GpuOpId| trace.gpu.launch[id.index()];
    let stream = |id: GpuOpId| streams.of[id.index()];
    let mut launched: Vec<GpuOpId> =
        streams.operations.iter().flatten().copied().filter(|&id| launch(id).is_some()).collect();
    launched.sort_unstable_by_key(|&id| (launch(id), streams.rank[id.index()]));
    for by_start in launched.chunk_by(|&a, &b| launch(a) == launch(b)) {
        if by_start.iter().all(|&id| stream(id) == stream(by_start[0])) {
            continue;
        }
        let mut by_end = by_start.to_vec();
        by_end.sort_by_key(|&id| (end(trace, id), streams.rank[id.index()]));
        let mut last = LastOnTwoStreams::new();
        let mut ended = by_end.into_iter().peekable();
        for &id in by_start {
            while let Some(next) = ended.next_if(|&e| end(trace, e) <= start(trace, id) && e != id) {
                last.ended(stream(next), next);
            }
            if let Some(on) = last.ended_on_other_stream(stream(id)) {
                deps.push((id, GpuDep { on, reason: Reason::Graph }));
            }
        }
    }
}

/// Infer that copy calls waited for their copy, if they return after its end.
pub(super) fn infer_blocking_copies(
    trace: &Trace,
    kinds: &CallKindCache,
    streams: &Streams,
    syncs: &mut Vec<SyncCall>,
) {
    for id in streams.operations.iter().flatten().copied() {
        let Some(call) = trace.gpu.launch[id.index()].some() else { continue };
        let (from, to, done) = (trace.events.start[call.index()], trace.events.end(call), end(trace, id));
        if kinds.kind_of(trace, call) == Some(CallKind::Copy) && from < done && done <= to {
            syncs.push(SyncCall { call, from, on: vec![id], reason: Reason::BlockingCopy });
        }
    }
}

/// Polling loops (repeated queries if GPU work has ended) that did not see the end of any recorded work.
#[derive(Clone, Debug, Default)]
pub struct PollingLoops {
    /// Time ranges of loops per span: of the queries, and of the span around them.
    parts: FxHashMap<EventId, Vec<(i64, i64)>>,
}

impl PollingLoops {
    /// Spans of which a part is in a polling loop, unordered.
    pub(super) fn spans(&self) -> impl Iterator<Item = EventId> + '_ {
        self.parts.keys().copied()
    }

    /// Add a polling loop, given as its queries. Loops of one span must be added in time order.
    fn add(&mut self, trace: &Trace, queries: &[EventId]) {
        let (Some(&first), Some(&last)) = (queries.first(), queries.last()) else { return };
        let range = (trace.events.start[first.index()], trace.events.end(last));
        for &query in queries {
            self.parts.insert(query, vec![range]);
        }
        if let Some(around) = trace.events.parent[first.index()].some() {
            self.parts.entry(around).or_default().push(range);
        }
    }

    /// True if a span is part of a polling loop at a given time.
    pub(crate) fn contains(&self, event: EventId, at: i64) -> bool {
        self.parts.get(&event).is_some_and(|ranges| {
            let begun = ranges.partition_point(|&(from, _)| from <= at);
            ranges[..begun].last().is_some_and(|&(_, to)| at < to)
        })
    }
}

/// Infer waits from polling loops: consecutive queries on one thread, of which the last one saw the end of the work.
/// Returns the loops that saw no end of recorded work.
pub(super) fn infer_polling_waits(
    trace: &Trace,
    kinds: &CallKindCache,
    streams: &Streams,
    syncs: &mut Vec<SyncCall>,
) -> PollingLoops {
    let mut loops = PollingLoops::default();
    let mut by_end: Vec<(i64, GpuOpId)> = streams.operations.iter().flatten().map(|&id| (end(trace, id), id)).collect();
    by_end.sort_unstable_by_key(|&(end, id)| (end, streams.rank[id.index()]));
    let mut finish = |run: &mut Vec<EventId>| {
        match polling_wait(trace, streams, run, &by_end) {
            Some(sync) => syncs.push(sync),
            None if run.len() > 1 => loops.add(trace, run),
            None => {}
        }
        run.clear();
    };
    for track in trace.tracks.ids().filter(|&t| trace.tracks.get(t).kind == TrackKind::Thread) {
        let mut run: Vec<EventId> = Vec::new();
        for &event in trace.track_events(track) {
            // Only calls below the operators interrupt a loop, because the loop may be in one Python frame.
            let queries = kinds.kind_of(trace, event) == Some(CallKind::Query);
            let has_other_parent =
                |last: &EventId| trace.events.parent[last.index()] != trace.events.parent[event.index()];
            if !queries || run.last().is_some_and(has_other_parent) {
                finish(&mut run);
            }
            if queries {
                run.push(event);
            }
        }
        finish(&mut run);
    }
    loops
}

/// Infer the wait of a polling loop for the work that ended last between its last two queries; `None` if no work ended
/// then.
fn polling_wait(trace: &Trace, streams: &Streams, run: &[EventId], by_end: &[(i64, GpuOpId)]) -> Option<SyncCall> {
    let (&first, &[before, call]) = (run.first()?, run.last_chunk::<2>()?);
    let (after, until) = (trace.events.start[before.index()], trace.events.start[call.index()]);
    let process = trace.tracks.pid(trace.events.track[call.index()]);
    let ended = &by_end[..by_end.partition_point(|&(ended, _)| ended <= until)];
    let mut recent = ended.iter().rev().take_while(|(ended, _)| *ended > after);
    let &(_, on) = recent.find(|(_, id)| streams.may_wait_for(process, *id))?;
    let from = trace.events.start[first.index()];
    Some(SyncCall { call, from, on: vec![on], reason: Reason::Polling })
}
