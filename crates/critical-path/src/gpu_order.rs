//! Order of GPU work: dependencies between operations, and the operations that host calls wait for.
//!
//! Commands are replayed in the order of the host's calls. A stream keeps its last operation and its pending waits. An
//! event keeps the content of its stream at the time of the record. So waits merge and propagate as on the device.
//! Named rules ([`Reason`]) infer dependencies without a record.

use super::call_kind_cache::CallKindCache;
use super::commands::Commands;
use super::gpu_dependency::ROUNDING_NS;
pub use super::gpu_dependency::{Evidence, GpuDep, Reason, SyncCall};
use super::inferred_sync::{self, PollingLoops};
use super::launch_queue;
use super::missing_records::{MissingRecords, launched_at};
use super::stream_simulation::{SimulationResult, simulate};
use super::streams::{Streams, end, start};
use super::value_reads;
use rustc_hash::FxHashSet;
use stackline_model::gpu_calls::CallKind;
use stackline_model::{EventId, GpuOpId, Key, Trace};
use std::collections::BTreeSet;
use std::ops::Range;

/// Order of GPU work: dependencies of each GPU operation, and host calls that wait for the GPU.
#[derive(Clone, Debug, Default)]
pub struct GpuOrder {
    /// Stream per operation, as an index; `u32::MAX` for operations with unusable times.
    pub stream: Vec<u32>,
    /// Previous operation on the same stream, per operation.
    pub previous: Vec<GpuOpId>,
    /// Position in time order per operation, with ties in the order of device, stream, correlation ID and name;
    /// `u32::MAX` for operations with unusable times.
    pub rank: Vec<u32>,
    /// Calls that wait, by (track, start).
    pub syncs: Vec<SyncCall>,
    /// Calls with a possible wait that no record states.
    pub uncertain: FxHashSet<EventId>,
    /// Calls with a possible wait for work without record, by start.
    pub near_missing_records: Vec<EventId>,
    /// Polling loops that saw no end of recorded work. The spans around such queries may have waited.
    pub loops: PollingLoops,
    /// Processes whose clock disagrees with that of a GPU. Evidence: an operation starts before its launch call, or
    /// ends after a call that waited for it.
    pub clocks_disagree: BTreeSet<Key>,
    /// Operations whose recorded end is long after the start of the next operation on their stream, so that their ends
    /// are doubtful.
    pub overlong: FxHashSet<GpuOpId>,
    /// Per operation: true if an unrecorded operation may have run between it and the previous one on its stream.
    pub after_missing_records: Vec<bool>,
    /// True if no two processes share a stream number on a device number.
    pub is_one_process: bool,
    dep_offset: Vec<u32>,
    deps: Vec<GpuDep>,
    /// Number of waits without record and without an applicable rule.
    pub unexplained_waits: u64,
    /// Number of awaited operations without a dependency, because a call waits for too many.
    pub left_out: u64,
}

impl GpuOrder {
    /// Compute the dependencies of all GPU operations and waiting calls of a trace.
    pub(crate) fn new(trace: &Trace, kinds: &CallKindCache) -> Self {
        let streams = Streams::new(trace);
        let commands = Commands::collect(trace, kinds, &streams);
        let missing_records = MissingRecords::new(trace, kinds, &streams);
        let overlong = find_overlong(trace, &streams);
        let SimulationResult {
            mut deps,
            mut syncs,
            mut uncertain,
            mut ends_late,
            after_unknown,
            unexplained,
            left_out,
        } = simulate(trace, &commands, &streams, &missing_records, &overlong);
        drop(commands);
        uncertain.extend(missing_records.copies_without_record());
        inferred_sync::infer_copy_engine_order(trace, &streams, &mut deps);
        inferred_sync::infer_graph_dependencies(trace, &streams, &mut deps);
        inferred_sync::infer_blocking_copies(trace, kinds, &streams, &mut syncs);
        let loops = inferred_sync::infer_polling_waits(trace, kinds, &streams, &mut syncs);
        launch_queue::infer_back_pressure(trace, &streams, &mut syncs);
        value_reads::infer_value_reads(trace, &streams, &mut syncs);
        syncs.sort_by_key(|s| (trace.events.track[s.call.index()], s.from, s.call));
        let doubtful = uncertain.iter().copied().chain(loops.spans());
        let near_missing_records = missing_records.calls_near_missing_records(trace, doubtful, &syncs);
        let mut after_missing_records = after_missing_records(trace, &streams, &missing_records);
        after_unknown.into_iter().for_each(|id| after_missing_records[id.index()] = true);
        let (dep_offset, deps) = group_by_operation(trace.gpu.len(), deps);
        let early = streams.operations.iter().flatten().filter(|&&id| starts_early(trace, id));
        ends_late.extend(early.map(|&id| streams.process_of(trace, id)));
        let clocks_disagree = ends_late;
        if !clocks_disagree.is_empty() {
            let waits = |kind| {
                use CallKind::{GraphLaunch, Launch, Record, StreamWait};
                !matches!(kind, Record | StreamWait | Launch | GraphLaunch)
            };
            let disagrees = |e: EventId| clocks_disagree.contains(&trace.tracks.pid(trace.events.track[e.index()]));
            let calls = trace.events.ids().filter(|&e| kinds.kind_of(trace, e).is_some_and(waits));
            uncertain.extend(calls.filter(|&call| disagrees(call)));
        }
        let Streams { of, previous, rank, is_one_process, .. } = streams;
        Self {
            stream: of,
            previous,
            rank,
            syncs,
            uncertain,
            loops,
            near_missing_records,
            clocks_disagree,
            overlong,
            after_missing_records,
            is_one_process,
            dep_offset,
            deps,
            unexplained_waits: unexplained,
            left_out,
        }
    }

    /// Dependencies of a GPU operation, in addition to its launch and the order of its stream.
    pub fn deps(&self, gpu: GpuOpId) -> &[GpuDep] {
        let at = |i: usize| self.dep_offset.get(i).map_or(0, |&o| o as usize);
        let range: Range<usize> = at(gpu.index())..at(gpu.index() + 1);
        self.deps.get(range).unwrap_or(&[])
    }
}

/// Per GPU operation: true if an unrecorded operation may have run between it and the previous one on its stream.
fn after_missing_records(trace: &Trace, streams: &Streams, missing_records: &MissingRecords<'_>) -> Vec<bool> {
    let is_after = |id: GpuOpId| {
        let previous = streams.previous[id.index()].some();
        previous.is_some_and(|p| {
            [p, id].iter().any(|&g| missing_records.is_of_graph(trace, g))
                || missing_records.may_miss_between(
                    streams.process_of(trace, id),
                    launched_at(trace, p),
                    launched_at(trace, id),
                )
        })
    };
    trace.gpu.ids().map(is_after).collect()
}

/// True if an operation starts before its launch call by more than the rounding error of whole µs.
fn starts_early(trace: &Trace, id: GpuOpId) -> bool {
    let call = trace.gpu.launch[id.index()].some();
    call.is_some_and(|call| start(trace, id) + ROUNDING_NS < trace.events.start[call.index()])
}

/// Maximum overlap in ns that clock noise explains, or programmatic dependent launch where the device has it. Same
/// limits as in the trace reader.
const OVERLAP_NS: i64 = 3_000;
const OVERLAP_BY_DESIGN_NS: i64 = 30_000;

/// Find the operations that end after the start of later operations on their stream, by more than noise or dependent
/// launch explains. Of all earlier operations, the one that ends last is marked, because its record may cover many
/// operations.
fn find_overlong(trace: &Trace, streams: &Streams) -> FxHashSet<GpuOpId> {
    let mut found = FxHashSet::default();
    if trace.report.count_of("stream_overlap") == 0 {
        return found;
    }
    let by_design = trace.report.count_of("stream_overlap_dependent_launch") > 0;
    let usual = if by_design { OVERLAP_BY_DESIGN_NS } else { OVERLAP_NS };
    for operations in &streams.operations {
        let Some((&first, later)) = operations.split_first() else { continue };
        let mut longest = first;
        for &id in later {
            if end(trace, longest) - start(trace, id) >= usual {
                found.insert(longest);
            }
            if end(trace, id) >= end(trace, longest) {
                longest = id;
            }
        }
    }
    found
}

/// Group pairs (operation, dependency) by operation: offsets per operation, and one flat list of dependencies.
fn group_by_operation(operations: usize, mut pairs: Vec<(GpuOpId, GpuDep)>) -> (Vec<u32>, Vec<GpuDep>) {
    pairs.sort_by_key(|(to, dep)| (*to, dep.on, dep.reason));
    pairs.dedup_by_key(|(to, dep)| (*to, dep.on));
    let mut offset = vec![0u32; operations + 1];
    for (to, _) in &pairs {
        offset[to.index() + 1] += 1;
    }
    for i in 0..operations {
        offset[i + 1] += offset[i];
    }
    (offset, pairs.into_iter().map(|(_, dep)| dep).collect())
}
