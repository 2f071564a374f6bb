//! Simulation of GPU streams and CUDA events, call by call, to find the dependencies of each operation and call.

use super::commands::{Command, Commands, RecordKey};
use super::gpu_dependency::{CLOCK_TOLERANCE_NS, GpuDep, ROUNDING_NS, Reason, SyncCall};
use super::missing_records::{MissingRecords, launched_at};
use super::streams::{Streams, end, start};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::gpu_calls::CallKind;
use stackline_model::{EventId, GpuOpId, Key, Trace};
use std::collections::BTreeSet;

/// Maximum number of operations that a call depends on: those that ended last. The others are counted, because an edit
/// that delays one of them past these does not delay the call.
const MAX_AWAITED: usize = 256;

/// Dependencies of GPU operations and calls, as the simulation found them.
#[derive(Default)]
pub(super) struct SimulationResult {
    pub(super) deps: Vec<(GpuOpId, GpuDep)>,
    pub(super) syncs: Vec<SyncCall>,
    /// Calls with a possible wait that no record states.
    pub(super) uncertain: FxHashSet<EventId>,
    /// Processes with an operation that ended after a call that waited for it.
    pub(super) ends_late: BTreeSet<Key>,
    /// Operations that waited for an event without a record in the trace.
    pub(super) after_unknown: Vec<GpuOpId>,
    pub(super) unexplained: u64,
    /// Number of awaited operations without a dependency.
    pub(super) left_out: u64,
}

/// Replay the commands of a trace's streams in call order, and collect the dependencies of GPU operations and calls.
pub(super) fn simulate(
    trace: &Trace,
    commands: &Commands,
    streams: &Streams,
    missing_records: &MissingRecords<'_>,
    overlong: &FxHashSet<GpuOpId>,
) -> SimulationResult {
    let mut replay = Simulation {
        trace,
        streams,
        missing_records,
        overlong,
        pending: vec![Pending::default(); streams.operations.len()],
        events: FxHashMap::default(),
        unknown_waits: FxHashMap::default(),
        running: RunningStreams::default(),
        found: SimulationResult::default(),
    };
    for (_, command) in &commands.list {
        replay.execute(command, commands);
    }
    replay.found
}

/// State of streams and events during the replay.
struct Simulation<'a> {
    trace: &'a Trace,
    streams: &'a Streams,
    missing_records: &'a MissingRecords<'a>,
    overlong: &'a FxHashSet<GpuOpId>,
    /// Per stream: its last operation, and the last ones of other streams that a new operation must wait for.
    pending: Vec<Pending>,
    /// Operations that an event covers, by its record.
    events: FxHashMap<RecordKey, Vec<GpuOpId>>,
    /// Last operation of each stream at the time of a wait with unknown target.
    unknown_waits: FxHashMap<Waiter, Vec<GpuOpId>>,
    running: RunningStreams,
    found: SimulationResult,
}

/// Operations that a wait with unknown target delays: the next one of a stream, or if the stream is unknown, the next
/// one that a thread launches.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Waiter {
    Stream(usize),
    Thread(u32),
}

/// Set of streams with an unfinished last operation. Calls without record only need these, because a trace may have
/// very many streams.
#[derive(Default)]
struct RunningStreams {
    streams: Vec<usize>,
    is_listed: Vec<bool>,
}

impl RunningStreams {
    /// Add a stream to the set; nothing if it is already in the set.
    fn add(&mut self, stream: usize) {
        if self.is_listed.len() <= stream {
            self.is_listed.resize(stream + 1, false);
        }
        if !std::mem::replace(&mut self.is_listed[stream], true) {
            self.streams.push(stream);
        }
    }

    /// Remove the streams for which `is_done` returns true, and return the others. Finished streams return only after a
    /// new launch.
    fn retain_unfinished(&mut self, mut is_done: impl FnMut(usize) -> bool) -> &[usize] {
        let is_listed = &mut self.is_listed;
        self.streams.retain(|&stream| {
            is_listed[stream] = !is_done(stream);
            is_listed[stream]
        });
        &self.streams
    }
}

/// State of a stream: its last operation, and the waits of its next operation.
#[derive(Clone, Default)]
struct Pending {
    last: GpuOpId,
    waits: Vec<GpuOpId>,
    /// True after a wait for an event without a record in the trace.
    waits_for_unknown: bool,
}

impl Simulation<'_> {
    /// Replay one command: a launch, event record, stream wait or synchronization.
    fn execute(&mut self, command: &Command, commands: &Commands) {
        match *command {
            Command::Launch { gpu, call } => self.launch(gpu, call, commands),
            Command::Record { record, stream } => {
                let held = self.unfinished_work(stream);
                self.events.insert(record, held);
            }
            Command::Wait { stream, record } => {
                let Some(held) = self.events.get(&record).cloned() else {
                    self.found.unexplained += 1;
                    self.pending[stream].waits_for_unknown = true;
                    return;
                };
                self.add_stream_waits(stream, held);
            }
            Command::UnknownWait { call, stream } => {
                let track = self.trace.events.track[call.index()];
                let waiter = stream.map_or(Waiter::Thread(track.0), Waiter::Stream);
                let at = self.trace.events.start[call.index()];
                // Finished work causes no wait.
                let held = self.running_at(self.trace.tracks.pid(track), at);
                self.unknown_waits.insert(waiter, held);
            }
            Command::Sync { call, kind, stream, device, record } => self.sync(call, kind, stream, device, record),
        }
    }

    /// Unfinished last operation at a time of each stream for which a process may wait.
    fn running_at(&mut self, process: Key, at: i64) -> Vec<GpuOpId> {
        let (trace, pending, streams) = (self.trace, &self.pending, self.streams);
        let running = self.running.retain_unfinished(|stream| end(trace, pending[stream].last) <= at);
        let own = running.iter().filter(|&&stream| streams.may_wait(process, stream));
        own.map(|&stream| pending[stream].last).collect()
    }

    /// Last operation of each stream for which a process may wait; only of one device if `device` is given.
    fn last_of_process(&self, process: Key, device: Option<i32>) -> Vec<GpuOpId> {
        let is_own = |stream: usize| {
            self.streams.may_wait(process, stream) && device.is_none_or(|device| self.streams.device[stream] == device)
        };
        let own = self.pending.iter().enumerate().filter(|(stream, _)| is_own(*stream));
        own.filter_map(|(_, pending)| pending.last.some()).collect()
    }

    /// Possibly unfinished work of a stream: its last operation and the waits after it.
    fn unfinished_work(&self, stream: usize) -> Vec<GpuOpId> {
        let pending = &self.pending[stream];
        pending.last.some().into_iter().chain(pending.waits.iter().copied()).collect()
    }

    /// Add operations to those that the next operation of a stream waits for. Only the latest operation of each other
    /// stream is kept.
    fn add_stream_waits(&mut self, stream: usize, held: Vec<GpuOpId>) {
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

    /// True if unrecorded work, or work with unknown launch time, may lie between two operations.
    fn may_miss(&self, on: GpuOpId, gpu: GpuOpId) -> bool {
        let process = self.streams.process_of(self.trace, gpu);
        [on, gpu].iter().any(|&g| self.missing_records.is_of_graph(self.trace, g))
            || self.missing_records.may_miss_between(process, launched_at(self.trace, on), launched_at(self.trace, gpu))
            || self.missing_records.unlaunched_between(process, start(self.trace, on), start(self.trace, gpu))
    }

    /// Replay a launch: the operation becomes the last one of its stream and depends on the stream's pending waits.
    fn launch(&mut self, gpu: GpuOpId, call: EventId, commands: &Commands) {
        let stream = self.streams.of[gpu.index()] as usize;
        let slot = &mut self.pending[stream];
        // An operation without launch record counts from its start, because later operations may have been launched
        // earlier.
        if slot.last.is_none() || start(self.trace, slot.last) <= start(self.trace, gpu) {
            slot.last = gpu;
            self.running.add(stream);
        }
        if std::mem::take(&mut slot.waits_for_unknown) {
            self.found.after_unknown.push(gpu);
        }
        let waits = if call.is_none() { slot.waits.clone() } else { std::mem::take(&mut slot.waits) };
        for on in waits {
            let reason =
                if call.is_none() || self.may_miss(on, gpu) { Reason::EventNearMissing } else { Reason::Event };
            self.found.deps.push((gpu, GpuDep { on, reason }));
        }
        if call.is_none() || commands.has_wait_records {
            return;
        }
        let track = self.trace.events.track[call.index()];
        let waiters = [Waiter::Stream(stream), Waiter::Thread(track.0)];
        let held: Vec<Vec<GpuOpId>> = waiters.iter().filter_map(|waiter| self.unknown_waits.remove(waiter)).collect();
        if held.is_empty() {
            return;
        }
        let begins = start(self.trace, gpu);
        let before = |&&id: &&GpuOpId| self.streams.of[id.index()] as usize != stream && end(self.trace, id) <= begins;
        let key = |&&id: &&GpuOpId| (end(self.trace, id), self.streams.rank[id.index()]);
        match held.iter().flatten().filter(before).max_by_key(key) {
            Some(&on) => self.found.deps.push((gpu, GpuDep { on, reason: Reason::UnrecordedWait })),
            None => self.found.unexplained += 1,
        }
    }

    /// Replace awaited operations by later operations of their stream without launch record that ended during a call.
    /// They were launched before the call, unless another thread may have launched them during the call.
    fn with_unlaunched(&self, mut on: Vec<GpuOpId>, call: EventId) -> Vec<GpuOpId> {
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

    /// True if an operation was certainly launched before a call, on the same thread or another one.
    fn launched_before(&self, id: GpuOpId, call: EventId) -> bool {
        let events = &self.trace.events;
        let launch = self.trace.gpu.launch[id.index()].some();
        launch.is_some_and(|launch| {
            events.track[launch.index()] == events.track[call.index()]
                || events.end(launch) <= events.start[call.index()]
        })
    }

    /// Limit a list of awaited operations to the [`MAX_AWAITED`] that ended last, and count the others as left out.
    fn limit_awaited(&mut self, mut on: Vec<GpuOpId>) -> Vec<GpuOpId> {
        if on.len() > MAX_AWAITED {
            let key = |id: &GpuOpId| std::cmp::Reverse((end(self.trace, *id), self.streams.rank[id.index()]));
            on.select_nth_unstable_by_key(MAX_AWAITED, key);
            self.found.left_out += (on.len() - MAX_AWAITED) as u64;
            on.truncate(MAX_AWAITED);
            on.sort_unstable_by_key(key);
        }
        on
    }

    /// Operations that a synchronizing call of a process waits for by its record or name; `None` if unknown.
    fn awaited(
        &self,
        process: Key,
        kind: CallKind,
        stream: Option<usize>,
        device: i32,
        record: Option<RecordKey>,
    ) -> Option<Vec<GpuOpId>> {
        match kind {
            CallKind::DeviceSync if self.streams.are_processes_known() => {
                let device = if device >= 0 { Some(device) } else { self.streams.only_device(process) };
                device.map(|device| self.last_of_process(process, Some(device)))
            }
            CallKind::StreamSync => stream.map(|stream| self.unfinished_work(stream)),
            CallKind::EventSync => record.and_then(|r| self.events.get(&r).cloned()),
            _ => None,
        }
    }

    /// Replay a synchronizing call: add its wait to the result, and mark the call as uncertain if its target is
    /// unknown.
    fn sync(&mut self, call: EventId, kind: CallKind, stream: Option<usize>, device: i32, record: Option<RecordKey>) {
        let trace = self.trace;
        let process = trace.tracks.pid(trace.events.track[call.index()]);
        let (from, to) = (trace.events.start[call.index()], trace.events.end(call));
        let known = self.awaited(process, kind, stream, device, record);
        let is_aim_unknown = known.is_none() && kind != CallKind::Free;
        let finds_nothing = known.as_ref().is_none_or(Vec::is_empty);
        if is_aim_unknown || (finds_nothing && self.missing_records.may_miss_between(process, i64::MIN, from)) {
            self.found.uncertain.insert(call);
        }
        // A record names the awaited work. If that work ended later than the call, the clocks disagree, by any amount,
        // unless the operation's end is doubtful.
        if record.is_some() || stream.is_some() || device >= 0 {
            let ended_late = |id: &GpuOpId| end(trace, *id) > to + ROUNDING_NS && self.launched_before(*id, call);
            let late: Vec<&GpuOpId> = known.iter().flatten().filter(|id| ended_late(id)).collect();
            if late.iter().any(|id| !self.overlong.contains(id)) {
                self.found.ends_late.insert(process);
            }
            if late.iter().any(|id| self.overlong.contains(id)) {
                self.found.uncertain.insert(call);
            }
        }
        match known {
            Some(on) => self.add_known_sync(call, kind, on),
            None if kind == CallKind::Free => self.add_free_sync(call),
            None => {
                // The work that ended last during the wait.
                let ended = |id: &GpuOpId| end(trace, *id) <= to;
                let streams = self.streams;
                let key = |id: &GpuOpId| (end(trace, *id), streams.rank[id.index()]);
                let running = self.running_at(process, from);
                if let Some(on) = running.into_iter().filter(ended).max_by_key(key) {
                    self.found.syncs.push(SyncCall { call, from, on: vec![on], reason: Reason::UnrecordedSync });
                }
            }
        }
    }

    /// Add the wait of a synchronizing call for known operations to the result.
    fn add_known_sync(&mut self, call: EventId, kind: CallKind, mut on: Vec<GpuOpId>) {
        let trace = self.trace;
        let process = trace.tracks.pid(trace.events.track[call.index()]);
        let (from, to) = (trace.events.start[call.index()], trace.events.end(call));
        // A call did not wait for work that ended well after its return.
        on.retain(|id| end(trace, *id) <= to + CLOCK_TOLERANCE_NS);
        let on = self.limit_awaited(on);
        if on.is_empty() {
            return;
        }
        let missing = |id: &GpuOpId| {
            self.missing_records.is_of_graph(trace, *id)
                || self.missing_records.may_miss_between(process, launched_at(trace, *id), from)
                || self.missing_records.unlaunched_between(process, start(trace, *id), to)
        };
        let may_miss = on.iter().any(missing);
        let reason = if may_miss { Reason::SynchronizationNearMissing } else { Reason::Synchronization };
        if may_miss {
            self.found.uncertain.insert(call);
        }
        let on = if may_miss && kind != CallKind::EventSync { self.with_unlaunched(on, call) } else { on };
        self.found.syncs.push(SyncCall { call, from, on, reason });
    }

    /// Add the possible wait of a call that frees memory for all work of the process to the result. If all work had
    /// ended, the release may still wait once threads are faster.
    fn add_free_sync(&mut self, call: EventId) {
        let (from, to) = (self.trace.events.start[call.index()], self.trace.events.end(call));
        let process = self.trace.tracks.pid(self.trace.events.track[call.index()]);
        let mut on = self.last_of_process(process, None);
        on.retain(|&id| end(self.trace, id) <= to);
        let on = self.limit_awaited(on);
        if !on.is_empty() {
            self.found.syncs.push(SyncCall { call, from, on, reason: Reason::Free });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_kind_cache::CallKindCache;
    use crate::gpu_order::GpuOrder;
    use stackline_ingest::{ReadOptions, read_bytes};
    use stackline_testkit::mini::MiniTrace;

    /// Process 10 launches `other`, which ends at 95 µs; process 20 launches `own`, which ends at 50 µs. Each operation
    /// runs on stream 7 of the given device.
    fn two_processes(other: u32, own: u32, calls: &str) -> Trace {
        let mut t = MiniTrace::new("");
        t.add("10/10 cuda_runtime cudaLaunchKernel 0+10 correlation=1");
        t.add("20/20 cuda_runtime cudaLaunchKernel 5+5 correlation=2");
        t.add(&format!("gpu{other}/7 kernel other 10+85 correlation=1"));
        t.add(&format!("gpu{own}/7 kernel own 12+38 correlation=2"));
        t.add(calls);
        read_bytes("t.json", t.json().as_bytes(), &ReadOptions::default()).unwrap()
    }

    /// Names of the awaited operations and rule of each call that waits.
    fn waits(trace: &Trace) -> Vec<(Vec<&str>, Reason)> {
        let order = GpuOrder::new(trace, &CallKindCache::new(trace));
        let name = |&id: &GpuOpId| trace.name(trace.gpu.event[id.index()]);
        order.syncs.iter().map(|sync| (sync.on.iter().map(name).collect(), sync.reason)).collect()
    }

    /// `other` ends during the calls of process 20, which wait for `own` only.
    #[test]
    fn calls_wait_for_work_of_their_process() {
        let known = [(vec!["own"], Reason::Synchronization)];
        for (other, own) in [(0, 1), (0, 0)] {
            let call = "20/20 cuda_runtime cudaDeviceSynchronize 60+40 correlation=3";
            assert_eq!(waits(&two_processes(other, own, call)), known, "device {own}");
            let free = two_processes(other, own, "20/20 cuda_runtime cudaFree 60+40 correlation=3");
            assert_eq!(waits(&free), [(vec!["own"], Reason::Free)], "device {own}");
        }
        // Without a record, the awaited stream is unknown; own work ended before the call.
        for call in ["cudaStreamSynchronize", "cudaEventSynchronize"] {
            let call = format!("20/20 cuda_runtime {call} 60+40 correlation=3");
            assert!(waits(&two_processes(0, 1, &call)).is_empty(), "{call}");
        }
        let polls = "20/20 cuda_runtime cudaEventQuery 60+1 correlation=3
                     20/20 cuda_runtime cudaEventQuery 80+1 correlation=4
                     20/20 cuda_runtime cudaEventQuery 96+1 correlation=5";
        assert!(waits(&two_processes(0, 1, polls)).is_empty(), "polling");
    }

    /// Both processes wait at the same time, by calls with the same correlation ID.
    #[test]
    fn records_of_waits_belong_to_the_process_that_uses_their_device() {
        let calls = "10/10 cuda_runtime cudaStreamSynchronize 40+60 correlation=3
                     20/20 cuda_runtime cudaStreamSynchronize 40+60 correlation=3
                     gpu0/7 cuda_sync \"Stream Sync\" 40+60 correlation=3
                     gpu1/7 cuda_sync \"Stream Sync\" 40+60 correlation=3";
        let known = |name| (vec![name], Reason::Synchronization);
        assert_eq!(waits(&two_processes(0, 1, calls)), [known("other"), known("own")]);
    }

    /// Streams of two processes have the same number on a shared device.
    #[test]
    fn streams_of_a_shared_device_belong_to_the_launching_process() {
        let call = "20/20 cuda_runtime cudaStreamSynchronize 40+20 correlation=3
                    gpu0/7 cuda_sync \"Stream Sync\" 40+20 correlation=3";
        assert_eq!(waits(&two_processes(0, 0, call)), [(vec!["own"], Reason::Synchronization)]);
    }
}
