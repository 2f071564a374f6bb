//! Launches whose kernels are missing from the trace, although the kernels took GPU time.

use crate::gpu_calls::{CallKind, kind_of_name};
use crate::names::{is_graph_launch, is_kernel_launch};
use crate::{EventId, EventKind, Key, Trace, TrackId, flags};
use std::collections::BTreeMap;

/// Percentage of kernel records that a profiler may lose without an effect on results.
const FEW_PERCENT: usize = 2;
/// Capacity of CUDA's launch queue, which limits the kernels that run after the end of a recording.
const LONGEST_QUEUE: usize = 1_024;

/// Counts of launch calls (single kernels, or graphs of kernels), of their kernels, and of kernels without a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelLaunches {
    /// Launches without an operation on a device, in the order of events. Excluded are the last ones of a process,
    /// whose kernels may run after the end of the recording, and graphs if no graph launch has an operation, because
    /// they may be empty. In a trace without any operation, all count.
    pub without: Vec<EventId>,
    /// Number of all launches.
    pub all: usize,
    /// Number of launched kernels: recorded ones, and for each launch without an operation one, or the mean number per
    /// graph.
    pub kernels: usize,
    /// Number of kernels without a record.
    pub kernels_without: usize,
}

impl KernelLaunches {
    /// Count the launches of a trace with known [`Trace::unrecorded_launches`].
    #[must_use]
    pub fn from_trace(trace: &Trace, unrecorded: &[EventId]) -> Self {
        let names: Vec<(bool, bool)> =
            trace.strings.iter().map(|name| (is_kernel_launch(name), is_graph_launch(name))).collect();
        let name = |call: &EventId| names.get(trace.events.name[call.index()].index()).copied().unwrap_or_default();
        let launches_kernel = |call: &EventId| name(call).0;
        let is_graph = |call: &EventId| name(call).1;
        let operations = trace.gpu.launch.iter().filter_map(|call| call.some());
        let mut recorded: Vec<EventId> = operations.filter(launches_kernel).collect();
        let of_graphs = recorded.iter().filter(|call| is_graph(call)).count();
        recorded.sort_unstable();
        recorded.dedup();
        let graphs = recorded.iter().filter(|call| is_graph(call)).count();

        let mut without: Vec<EventId> = unrecorded.iter().copied().filter(launches_kernel).collect();
        without.retain(|call| graphs > 0 || !is_graph(call));
        if !trace.gpu.is_empty() && !without.is_empty() {
            without = LastLaunches::from_trace(trace).missing_among(trace, without);
        }
        let graphs_without = without.iter().filter(|call| is_graph(call)).count();
        let of_a_graph = of_graphs.checked_div(graphs).unwrap_or_default();
        let kernels_without = without.len() - graphs_without + graphs_without.saturating_mul(of_a_graph);
        let is_kernel = |event: &&EventId| trace.kind(**event) == EventKind::Kernel;
        let kernels = trace.gpu.event.iter().filter(is_kernel).count().saturating_add(kernels_without);
        Self { all: recorded.len() + without.len(), without, kernels, kernels_without }
    }

    /// True if so many kernels lack a record that GPU times do not represent the program.
    #[must_use]
    pub fn lack_many(&self) -> bool {
        self.kernels_without.saturating_mul(100) > self.kernels.saturating_mul(FEW_PERCENT)
    }
}

/// Last recorded launch and last waits of each process, to find launches whose kernels may run after the end of the
/// recording. These launches follow the last one with an operation, unless a call that waited for the device has
/// returned since. They are at most as many as fit into the queue.
struct LastLaunches {
    /// Begin of the last launch with an operation, by process.
    last_recorded: BTreeMap<Key, i64>,
    /// Begin of the last wait for a device, by process, and for a stream, by thread, because another thread may wait
    /// for another stream.
    last_wait: BTreeMap<Key, i64>,
    last_wait_of_thread: BTreeMap<TrackId, i64>,
    /// Number of operations without a launch, which may belong to any launch.
    unlinked: usize,
    /// Begin of each kernel without a launch and without a correlation ID, ascending, as ROCm records those of RCCL.
    unidentified: Vec<i64>,
}

impl LastLaunches {
    /// Find the last recorded launch of each process, and the last waits for the device and for streams.
    fn from_trace(trace: &Trace) -> Self {
        let launches = trace.gpu.launch.iter().filter_map(|call| call.some());
        let last_recorded = last_of(launches.map(|call| (process(trace, call), start(trace, call))));
        let kinds: Vec<Option<CallKind>> = trace.strings.iter().map(kind_of_name).collect();
        let is = |event: &EventId, kind: CallKind| {
            let name = trace.events.name[event.index()];
            let has_returned = trace.events.has(*event, flags::HAS_DURATION) && trace.events.is_plausible(*event);
            kinds.get(name.index()).is_some_and(|known| *known == Some(kind))
                && trace.kind(*event).is_api_call()
                && has_returned
        };
        let waits = |kind: CallKind| trace.events.ids().filter(move |event| is(event, kind));
        let by_process = waits(CallKind::DeviceSync).map(|wait| (process(trace, wait), start(trace, wait)));
        let by_thread = waits(CallKind::StreamSync).map(|wait| (trace.events.track[wait.index()], start(trace, wait)));
        let is_unidentified = |gpu: &usize| {
            let event = trace.gpu.event[*gpu];
            let has_id = trace.gpu.correlation.get(*gpu).is_some_and(|id| *id > 0);
            !has_id && trace.gpu.launch[*gpu].is_none() && trace.kind(event) == EventKind::Kernel
        };
        let begin = |gpu: usize| trace.events.start[trace.gpu.event[gpu].index()];
        let mut unidentified: Vec<i64> = (0..trace.gpu.len()).filter(is_unidentified).map(begin).collect();
        unidentified.sort_unstable();
        Self {
            last_recorded,
            last_wait: last_of(by_process),
            last_wait_of_thread: last_of(by_thread),
            unlinked: trace.gpu.launch.iter().filter(|call| call.is_none()).count(),
            unidentified,
        }
    }

    /// Select the launches without an operation whose records are missing, from `without`. The last launches of a
    /// process may not have run yet.
    fn missing_among(&self, trace: &Trace, without: Vec<EventId>) -> Vec<EventId> {
        let mut tails: BTreeMap<Key, Vec<EventId>> = BTreeMap::new();
        let mut of_others: Vec<EventId> = Vec::new();
        let mut missing: Vec<EventId> = Vec::new();
        for call in without {
            match self.last_recorded.get(&process(trace, call)) {
                None => of_others.push(call),
                Some(last) if start(trace, call) < *last || self.is_awaited(trace, call) => missing.push(call),
                Some(_) => tails.entry(process(trace, call)).or_default().push(call),
            }
        }
        for mut tail in tails.into_values() {
            tail.sort_by_key(|call| (start(trace, *call), *call));
            tail.truncate(tail.len().saturating_sub(LONGEST_QUEUE));
            missing.extend(tail);
        }
        // Processes without any launch with an operation: operations without a launch may be theirs.
        if of_others.len() > self.unlinked {
            missing.extend(of_others);
        }
        let mut missing = self.without_unidentified(trace, missing);
        missing.sort_unstable();
        missing
    }

    /// Exclude launches whose kernels may be those without a correlation ID. Each such kernel counts for the earliest
    /// launch before it.
    fn without_unidentified(&self, trace: &Trace, mut missing: Vec<EventId>) -> Vec<EventId> {
        missing.sort_by_key(|call| (start(trace, *call), *call));
        let mut matched = 0;
        for begin in &self.unidentified {
            matched += usize::from(missing.get(matched).is_some_and(|call| start(trace, *call) <= *begin));
        }
        missing.split_off(matched)
    }

    /// True if a later call waited for the process's device, or waited for a stream on the same thread.
    fn is_awaited(&self, trace: &Trace, call: EventId) -> bool {
        let waits = [
            self.last_wait.get(&process(trace, call)),
            self.last_wait_of_thread.get(&trace.events.track[call.index()]),
        ];
        waits.into_iter().flatten().any(|wait| *wait > start(trace, call))
    }
}

/// Begin of a launch or wait call, in ns since the trace's base.
fn start(trace: &Trace, call: EventId) -> i64 {
    trace.events.start[call.index()]
}

/// Process (PID) of the thread that made a call.
fn process(trace: &Trace, call: EventId) -> Key {
    trace.tracks.pid(trace.events.track[call.index()])
}

/// Latest time by key, from pairs of key and time.
fn last_of<K: Ord>(times: impl Iterator<Item = (K, i64)>) -> BTreeMap<K, i64> {
    let mut last = BTreeMap::new();
    for (key, time) in times {
        let of_key = last.entry(key).or_insert(i64::MIN);
        *of_key = time.max(*of_key);
    }
    last
}

impl Trace {
    /// Counts of all kernel launches, and of those without an operation in the GPU table.
    #[must_use]
    pub(crate) fn kernel_launches(&self) -> KernelLaunches {
        KernelLaunches::from_trace(self, self.unrecorded_launches())
    }
}
