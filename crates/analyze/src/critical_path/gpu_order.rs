//! In which order GPU work had to run, and what each call that waits for the GPU waited for.
//!
//! Commands are replayed in the order in which the host gave them: a stream keeps its last operation and what it was
//! told to wait for; an event keeps what its stream held when it was recorded. So waits merge and pass on, as they do
//! on the device. What the records do not tell is inferred by a named rule ([`Reason`]), never silently.

use super::call_kind_cache::CallKindCache;
use super::commands::Commands;
use super::inferred_sync::{self, Loops};
use super::launch_queue;
use super::missing_records::{Losses, launched_at};
use super::stream_simulation::{Replayed, replay};
use super::streams::{Streams, end, start};
use super::value_reads;
use rustc_hash::FxHashSet;
use serde::Serialize;
use stackline_model::gpu_calls::CallKind;
use stackline_model::{EventId, GpuId, Key, Trace};
use std::collections::BTreeSet;
use std::ops::Range;

/// How far the host's and the GPU's clock may disagree before a dependency is not believed, in ns.
pub(crate) const CLOCK_TOLERANCE_NS: i64 = 50_000;
/// By how much times in whole µs may be off, in ns.
pub(crate) const ROUNDING_NS: i64 = 2_000;

/// How sure a dependency is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// A record of the trace says so.
    Exact,
    /// A rule concludes it from names and times.
    Inferred,
}

impl Evidence {
    /// Stable text name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Inferred => "inferred",
        }
    }
}

/// Why something waited for GPU work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A stream waits for an event that a record names.
    Event,
    /// A stream waits for an event that a record names, but work that is not recorded may have come before the event.
    EventAmidLoss,
    /// A stream waits, but no record says for what: the work of another stream that ended last before the start.
    UnrecordedWait,
    /// A long gap without recorded cause that ended right after work of another stream.
    OtherStream,
    /// Of a device of which no launch is recorded: the work of another stream that ended last before the start.
    OtherStreamUnlaunched,
    /// Copies of one direction follow one another on their engine.
    CopyEngine,
    /// The kernel of the same graph launch that ended last before the start.
    Graph,
    /// A synchronisation whose record or name says what it waits for.
    Synchronisation,
    /// A synchronisation whose record or name says what it waits for, but work that is not recorded may have come later.
    SynchronisationAmidLoss,
    /// A synchronisation without record: the work that ended last while it waited.
    UnrecordedSync,
    /// A copy that returns when it is done.
    BlockingCopy,
    /// A release of memory that waited for the device.
    Free,
    /// A loop of queries that ended when the work was done.
    Polling,
    /// The launch queue was full.
    BackPressure,
    /// A value of the GPU was read (JAX): the copy to the host that was started meanwhile.
    ValueRead,
}

impl Reason {
    /// How sure it is.
    pub fn evidence(self) -> Evidence {
        match self {
            Self::Event | Self::Synchronisation | Self::BlockingCopy => Evidence::Exact,
            _ => Evidence::Inferred,
        }
    }

    /// Name of the rule in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::EventAmidLoss => "event_amid_loss",
            Self::UnrecordedWait => "unrecorded_wait",
            Self::OtherStream => "other_stream",
            Self::OtherStreamUnlaunched => "other_stream_without_launch",
            Self::CopyEngine => "copy_engine",
            Self::Graph => "graph",
            Self::Synchronisation => "synchronisation",
            Self::SynchronisationAmidLoss => "synchronisation_amid_loss",
            Self::UnrecordedSync => "unrecorded_synchronisation",
            Self::BlockingCopy => "blocking_copy",
            Self::Free => "free_waits",
            Self::Polling => "polling",
            Self::BackPressure => "launch_queue_full",
            Self::ValueRead => "value_read",
        }
    }
}

/// An operation that another one waited for, on top of the order of its own stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuDep {
    /// The operation that had to end first.
    pub on: GpuId,
    /// Why.
    pub reason: Reason,
}

/// A call (or a loop of queries) that waits for the GPU, whether it had to or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncCall {
    /// The call that returned when the wait was over.
    pub call: EventId,
    /// When the wait may have begun, in ns since the base: the start of the call, or of the first query.
    pub from: i64,
    /// Operations that had to end first: at most one per stream.
    pub on: Vec<GpuId>,
    /// Why.
    pub reason: Reason,
}

/// The order of GPU work.
#[derive(Clone, Debug, Default)]
pub struct GpuOrder {
    /// Per operation its stream, as an index; `u32::MAX` for operations with unusable times.
    pub stream: Vec<u32>,
    /// Per operation the one before it on its stream.
    pub previous: Vec<GpuId>,
    /// Per operation its place among all by time, then by what it is; `u32::MAX` for operations with unusable times.
    pub rank: Vec<u32>,
    /// Calls that wait, by (track, start).
    pub syncs: Vec<SyncCall>,
    /// Calls that may have waited for something, though no record says so.
    pub uncertain: FxHashSet<EventId>,
    /// Calls that may have waited for work that has no record, by start.
    pub amid_loss: Vec<EventId>,
    /// Loops of queries that saw nothing of the trace done: what surrounds the queries may have waited.
    pub loops: Loops,
    /// Processes whose clock visibly disagrees with that of a GPU: an operation starts before the call that launched it,
    /// or ends after a call that waited for it.
    pub clocks_disagree: BTreeSet<Key>,
    /// Operations that are said to end long after the next one of their stream began: their ends may be wrong.
    pub overlong: FxHashSet<GpuId>,
    /// Per operation: whether one that is not recorded may have run between it and the one before it on its stream.
    pub after_loss: Vec<bool>,
    /// Whether no two processes have a stream of one number on a device of one number.
    pub is_one_process: bool,
    dep_offset: Vec<u32>,
    deps: Vec<GpuDep>,
    /// Waits that no record explains and no rule could.
    pub unexplained_waits: u64,
    /// Operations of very many that calls waited for and are not tied to.
    pub left_out: u64,
}

impl GpuOrder {
    /// Works the order out.
    pub(crate) fn new(trace: &Trace, kinds: &CallKindCache) -> Self {
        let streams = Streams::new(trace);
        let commands = Commands::collect(trace, kinds, &streams);
        let losses = Losses::new(trace, kinds, &streams);
        let overlong = overlong(trace, &streams);
        let Replayed { mut deps, mut syncs, mut uncertain, mut ends_late, after_unknown, unexplained, left_out } =
            replay(trace, &commands, &streams, &losses, &overlong);
        drop(commands);
        uncertain.extend(losses.copies());
        inferred_sync::copy_engines(trace, &streams, &mut deps);
        inferred_sync::graphs(trace, &streams, &mut deps);
        inferred_sync::blocking_copies(trace, kinds, &streams, &mut syncs);
        let loops = inferred_sync::polling(trace, kinds, &streams, &mut syncs);
        launch_queue::back_pressure(trace, &streams, &mut syncs);
        value_reads::value_reads(trace, &streams, &mut syncs);
        syncs.sort_by_key(|s| (trace.events.track[s.call.index()], s.from, s.call));
        let doubtful = uncertain.iter().copied().chain(loops.spans());
        let amid_loss = losses.calls_amid_loss(trace, doubtful, &syncs);
        let mut after_loss = after_loss(trace, &streams, &losses);
        after_unknown.into_iter().for_each(|id| after_loss[id.index()] = true);
        let (dep_offset, deps) = by_target(trace.gpu.len(), deps);
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
            amid_loss,
            clocks_disagree,
            overlong,
            after_loss,
            is_one_process,
            dep_offset,
            deps,
            unexplained_waits: unexplained,
            left_out,
        }
    }

    /// What an operation waited for, on top of the order of its stream and its launch.
    pub fn deps(&self, gpu: GpuId) -> &[GpuDep] {
        let at = |i: usize| self.dep_offset.get(i).map_or(0, |&o| o as usize);
        let range: Range<usize> = at(gpu.index())..at(gpu.index() + 1);
        self.deps.get(range).unwrap_or(&[])
    }
}

fn after_loss(trace: &Trace, streams: &Streams, losses: &Losses<'_>) -> Vec<bool> {
    let is_after = |id: GpuId| {
        let previous = streams.previous[id.index()].some();
        previous.is_some_and(|p| {
            [p, id].iter().any(|&g| losses.is_of_graph(trace, g))
                || losses.may_miss_between(streams.process_of(trace, id), launched_at(trace, p), launched_at(trace, id))
        })
    };
    trace.gpu.ids().map(is_after).collect()
}

/// Whether an operation starts before the call that launched it, by more than times in whole µs are off.
fn starts_early(trace: &Trace, id: GpuId) -> bool {
    let call = trace.gpu.launch[id.index()].some();
    call.is_some_and(|call| start(trace, id) + ROUNDING_NS < trace.events.start[call.index()])
}

/// Overlaps up to this are noise of the clock, or by design where a GPU has programmatic dependent launch, in ns: as the
/// reader tells them apart.
const OVERLAP_NS: i64 = 3_000;
const OVERLAP_BY_DESIGN_NS: i64 = 30_000;

/// Operations that are said to run on while others of their stream that began later do, for longer than noise or design
/// explains. Of all before an operation the one that ends last counts: its record may cover many operations.
fn overlong(trace: &Trace, streams: &Streams) -> FxHashSet<GpuId> {
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

/// Pairs (operation, what it waited for) as offsets and one flat list.
fn by_target(operations: usize, mut pairs: Vec<(GpuId, GpuDep)>) -> (Vec<u32>, Vec<GpuDep>) {
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
