//! In which order GPU work had to run, and what each call that waits for the GPU waited for.
//!
//! Commands are replayed in the order in which the host gave them: a stream keeps its last operation and what it was
//! told to wait for; an event keeps what its stream held when it was recorded. So waits merge and pass on, as they do
//! on the device. What the records do not tell is inferred by a named rule ([`Reason`]), never silently.

use super::commands::{Command, Commands, RecordKey};
use super::gpu_calls::{CallKind, CallKinds};
use super::implicit_waits;
use super::losses::{Losses, launched_at};
use super::streams::{Streams, end, start};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use stackline_model::{EventId, GpuId, Trace};
use std::ops::Range;

/// How far the host's and the GPU's clock may disagree before a dependency is not believed, in ns.
pub(crate) const CLOCK_TOLERANCE_NS: i64 = 50_000;
/// A synchronising call is tied to the work of at most so many streams.
const MOST_AWAITED: usize = 256;
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
            Self::CopyEngine => "copy_engine",
            Self::Graph => "graph",
            Self::Synchronisation => "synchronisation",
            Self::SynchronisationAmidLoss => "synchronisation_amid_loss",
            Self::UnrecordedSync => "unrecorded_synchronisation",
            Self::BlockingCopy => "blocking_copy",
            Self::Free => "free_waits",
            Self::Polling => "polling",
            Self::BackPressure => "launch_queue_full",
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
    /// Whether the clocks of host and GPU visibly disagree: an operation starts before the call that launched it, or
    /// ends after a call that waited for it.
    pub clocks_disagree: bool,
    /// Per operation: whether one that is not recorded may have run between it and the one before it on its stream.
    pub after_loss: Vec<bool>,
    dep_offset: Vec<u32>,
    deps: Vec<GpuDep>,
    /// Waits that no record explains and no rule could.
    pub unexplained_waits: u64,
}

impl GpuOrder {
    /// Works the order out.
    pub fn new(trace: &Trace) -> Self {
        let kinds = CallKinds::new(trace);
        let streams = Streams::new(trace);
        let commands = Commands::collect(trace, &kinds, &streams);
        let losses = Losses::new(trace, &kinds, &streams);
        let mut replay = Replay::new(trace, &streams, &losses);
        for (_, command) in &commands.list {
            replay.execute(command, &commands);
        }
        let Replay { mut deps, mut syncs, mut uncertain, ends_late, after_unknown, unexplained, .. } = replay;
        uncertain.extend(losses.copies());
        implicit_waits::copy_engines(trace, &streams, &mut deps);
        implicit_waits::graphs(trace, &streams, &mut deps);
        implicit_waits::blocking_copies(trace, &kinds, &streams, &mut syncs);
        implicit_waits::polling(trace, &kinds, &streams, &mut syncs, &mut uncertain);
        implicit_waits::back_pressure(trace, &streams, &mut syncs);
        syncs.sort_by_key(|s| (trace.events.track[s.call.index()], s.from, s.call));
        let amid_loss = losses.calls_amid_loss(trace, &uncertain, &syncs);
        let mut after_loss = after_loss(trace, &streams, &losses);
        after_unknown.into_iter().for_each(|id| after_loss[id.index()] = true);
        let (dep_offset, deps) = by_target(trace.gpu.len(), deps);
        let clocks_disagree = ends_late || streams.operations.iter().flatten().any(|&id| starts_early(trace, id));
        if clocks_disagree {
            let waits = |kind| {
                use CallKind::{GraphLaunch, Launch, Record, StreamWait};
                !matches!(kind, Record | StreamWait | Launch | GraphLaunch)
            };
            uncertain.extend(trace.events.ids().filter(|&e| kinds.of(trace, e).is_some_and(waits)));
        }
        let Streams { of, previous, rank, .. } = streams;
        Self {
            stream: of,
            previous,
            rank,
            syncs,
            uncertain,
            amid_loss,
            clocks_disagree,
            after_loss,
            dep_offset,
            deps,
            unexplained_waits: unexplained,
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
                || losses.may_miss_between(launched_at(trace, p), launched_at(trace, id))
        })
    };
    trace.gpu.ids().map(is_after).collect()
}

/// Whether an operation starts before the call that launched it, by more than times in whole µs are off.
fn starts_early(trace: &Trace, id: GpuId) -> bool {
    let call = trace.gpu.launch[id.index()].some();
    call.is_some_and(|call| start(trace, id) + ROUNDING_NS < trace.events.start[call.index()])
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

/// The calls' effect on streams and events, one after the other.
struct Replay<'a> {
    trace: &'a Trace,
    streams: &'a Streams,
    losses: &'a Losses<'a>,
    /// Per stream what a new operation has to wait for: its last operation, and the last ones of other streams.
    pending: Vec<Pending>,
    /// By its record: what an event stands for.
    events: FxHashMap<RecordKey, Vec<GpuId>>,
    /// Per thread a wait of unknown aim: the last operation of each stream when it was called.
    unknown_waits: FxHashMap<u32, Vec<GpuId>>,
    deps: Vec<(GpuId, GpuDep)>,
    syncs: Vec<SyncCall>,
    uncertain: FxHashSet<EventId>,
    /// Whether an operation ended after a call that waited for it.
    ends_late: bool,
    /// Operations that waited for an event whose record is not in the trace.
    after_unknown: Vec<GpuId>,
    unexplained: u64,
}

#[derive(Clone, Default)]
struct Pending {
    last: GpuId,
    waits: Vec<GpuId>,
    /// A wait for an event whose record is not in the trace.
    waits_for_unknown: bool,
}

impl<'a> Replay<'a> {
    fn new(trace: &'a Trace, streams: &'a Streams, losses: &'a Losses<'a>) -> Self {
        Self {
            trace,
            streams,
            losses,
            pending: vec![Pending::default(); streams.operations.len()],
            events: FxHashMap::default(),
            unknown_waits: FxHashMap::default(),
            deps: Vec::new(),
            syncs: Vec::new(),
            uncertain: FxHashSet::default(),
            ends_late: false,
            after_unknown: Vec::new(),
            unexplained: 0,
        }
    }

    fn execute(&mut self, command: &Command, commands: &Commands) {
        match *command {
            Command::Launch { gpu, call } => self.launch(gpu, call, commands),
            Command::Record { record, stream } => {
                let held = self.held(stream);
                self.events.insert(record, held);
            }
            Command::Wait { stream, record } => {
                let Some(held) = self.events.get(&record).cloned() else {
                    self.unexplained += 1;
                    self.pending[stream].waits_for_unknown = true;
                    return;
                };
                self.merge(stream, held);
            }
            Command::UnknownWait { call } => {
                let track = self.trace.events.track[call.index()];
                let at = self.trace.events.start[call.index()];
                let held = self.pending.iter().filter_map(|p| p.last.some());
                // Nothing waits for what is done.
                let held = held.filter(|&id| end(self.trace, id) > at).collect();
                self.unknown_waits.insert(track.0, held);
            }
            Command::Sync { call, kind, stream, device, record } => self.sync(call, kind, stream, device, record),
        }
    }

    /// What is not yet known to be done on a stream: its last operation and the waits after it.
    fn held(&self, stream: usize) -> Vec<GpuId> {
        let pending = &self.pending[stream];
        pending.last.some().into_iter().chain(pending.waits.iter().copied()).collect()
    }

    /// Adds waits to a stream, keeping the latest operation of each other stream.
    fn merge(&mut self, stream: usize, held: Vec<GpuId>) {
        for id in held {
            let of = self.streams.of[id.index()];
            if of as usize == stream {
                continue;
            }
            let streams = self.streams;
            let waits = &mut self.pending[stream].waits;
            match waits.iter_mut().find(|w| streams.of[w.index()] == of) {
                Some(known) if end(self.trace, *known) < end(self.trace, id) => *known = id,
                Some(_) => {}
                None => waits.push(id),
            }
        }
    }

    /// Whether work that is not recorded, or launched at an unknown time, may have come between two operations.
    fn may_miss(&self, on: GpuId, gpu: GpuId) -> bool {
        [on, gpu].iter().any(|&g| self.losses.is_of_graph(self.trace, g))
            || self.losses.may_miss_between(launched_at(self.trace, on), launched_at(self.trace, gpu))
            || self.losses.unlaunched_between(start(self.trace, on), start(self.trace, gpu))
    }

    fn launch(&mut self, gpu: GpuId, call: EventId, commands: &Commands) {
        let stream = self.streams.of[gpu.index()] as usize;
        let slot = &mut self.pending[stream];
        // An operation without launch record takes its turn when it starts: later ones may have been launched before.
        if slot.last.is_none() || start(self.trace, slot.last) <= start(self.trace, gpu) {
            slot.last = gpu;
        }
        if std::mem::take(&mut slot.waits_for_unknown) {
            self.after_unknown.push(gpu);
        }
        let waits = if call.is_none() { slot.waits.clone() } else { std::mem::take(&mut slot.waits) };
        for on in waits {
            let reason = if call.is_none() || self.may_miss(on, gpu) { Reason::EventAmidLoss } else { Reason::Event };
            self.deps.push((gpu, GpuDep { on, reason }));
        }
        if call.is_none() || commands.has_wait_records {
            return;
        }
        let track = self.trace.events.track[call.index()];
        let Some(held) = self.unknown_waits.remove(&track.0) else { return };
        let begins = start(self.trace, gpu);
        let before = |&&id: &&GpuId| self.streams.of[id.index()] as usize != stream && end(self.trace, id) <= begins;
        match held.iter().filter(before).max_by_key(|&&id| (end(self.trace, id), self.streams.rank[id.index()])) {
            Some(&on) => self.deps.push((gpu, GpuDep { on, reason: Reason::UnrecordedWait })),
            None => self.unexplained += 1,
        }
    }

    /// Operations without launch record that ended while a call waited were launched before it, unless another thread may
    /// have launched them meanwhile.
    fn with_unlaunched(&self, mut on: Vec<GpuId>, call: EventId) -> Vec<GpuId> {
        let events = &self.trace.events;
        let (from, to) = (events.start[call.index()], events.end(call));
        let launched_before = |operator: EventId| {
            let same_thread = events.track[operator.index()] == events.track[call.index()];
            events.end(operator) <= from || (same_thread && events.start[operator.index()] <= from)
        };
        for id in &mut on {
            let stream = &self.streams.operations[self.streams.of[id.index()] as usize];
            let from_here = stream.partition_point(|&o| start(self.trace, o) <= start(self.trace, *id));
            let later = stream[from_here..].iter().take_while(|&&o| start(self.trace, o) < to).filter(|&&o| {
                let ended = end(self.trace, o);
                let row = &self.trace.gpu;
                let operator = row.operator[o.index()].some();
                row.launch[o.index()].is_none()
                    && operator.is_none_or(launched_before)
                    && (from + 1..=to).contains(&ended)
            });
            *id = later.last().copied().unwrap_or(*id);
        }
        on
    }

    /// Whether an operation was certainly launched before a call, on its thread or on another one.
    fn launched_before(&self, id: GpuId, call: EventId) -> bool {
        let events = &self.trace.events;
        let launch = self.trace.gpu.launch[id.index()].some();
        launch.is_some_and(|launch| {
            events.track[launch.index()] == events.track[call.index()]
                || events.end(launch) <= events.start[call.index()]
        })
    }

    /// Of very many operations those that ended last: one of them is what a call waits for, whatever an edit changes.
    fn latest(&self, mut on: Vec<GpuId>) -> Vec<GpuId> {
        if on.len() > MOST_AWAITED {
            let key = |id: &GpuId| std::cmp::Reverse((end(self.trace, *id), self.streams.rank[id.index()]));
            on.select_nth_unstable_by_key(MOST_AWAITED, key);
            on.truncate(MOST_AWAITED);
            on.sort_unstable_by_key(key);
        }
        on
    }

    fn sync(&mut self, call: EventId, kind: CallKind, stream: Option<usize>, device: i32, record: Option<RecordKey>) {
        let (from, to) = (self.trace.events.start[call.index()], self.trace.events.end(call));
        let all = || self.pending.iter().enumerate().filter_map(|(s, p)| Some((s, p.last.some()?)));
        let known = match kind {
            CallKind::DeviceSync
                if self.streams.is_one_process && (device >= 0 || self.streams.only_device.is_some()) =>
            {
                let of_device = |s: usize| device < 0 || self.streams.device[s] == device;
                Some(all().filter(|&(s, _)| of_device(s)).map(|(_, id)| id).collect())
            }
            CallKind::StreamSync => stream.map(|stream| self.held(stream)),
            CallKind::EventSync => record.and_then(|r| self.events.get(&r).cloned()),
            _ => None,
        };
        let is_aim_unknown = known.is_none() && kind != CallKind::Free;
        let finds_nothing = known.as_ref().is_none_or(Vec::is_empty);
        if is_aim_unknown || (finds_nothing && self.losses.may_miss_between(i64::MIN, from)) {
            self.uncertain.insert(call);
        }
        // A record names what the call waited for: where that ended later, the clocks disagree, however far.
        if record.is_some() || stream.is_some() || device >= 0 {
            let ended_late = |id: &GpuId| end(self.trace, *id) > to + ROUNDING_NS && self.launched_before(*id, call);
            self.ends_late |= known.iter().flatten().any(ended_late);
        }
        // Work that ended well after the call returned is not what the call waited for.
        let believable = |id: &GpuId| end(self.trace, *id) <= to + CLOCK_TOLERANCE_NS;
        if let Some(on) = known {
            let on: Vec<GpuId> = on.into_iter().filter(believable).collect();
            let on = self.latest(on);
            if !on.is_empty() {
                let missing = |id: &GpuId| {
                    self.losses.is_of_graph(self.trace, *id)
                        || self.losses.may_miss_between(launched_at(self.trace, *id), from)
                        || self.losses.unlaunched_between(start(self.trace, *id), to)
                };
                let may_miss = on.iter().any(missing);
                let reason = if may_miss { Reason::SynchronisationAmidLoss } else { Reason::Synchronisation };
                if may_miss {
                    self.uncertain.insert(call);
                }
                let on = if may_miss && kind != CallKind::EventSync { self.with_unlaunched(on, call) } else { on };
                self.syncs.push(SyncCall { call, from, on, reason });
            }
            return;
        }
        if kind == CallKind::Free {
            // It waits for the device where it must; where all was done, faster threads may make it wait.
            let on: Vec<GpuId> = all().map(|(_, id)| id).filter(|&id| end(self.trace, id) <= to).collect();
            if !on.is_empty() {
                self.syncs.push(SyncCall { call, from, on, reason: Reason::Free });
            }
            return;
        }
        let reason = Reason::UnrecordedSync;
        let ended_inside = |id: &GpuId| (from + 1..=to).contains(&end(self.trace, *id));
        let last = all()
            .map(|(_, id)| id)
            .filter(ended_inside)
            .max_by_key(|&id| (end(self.trace, id), self.streams.rank[id.index()]));
        if let Some(on) = last {
            self.syncs.push(SyncCall { call, from, on: vec![on], reason });
        }
    }
}
