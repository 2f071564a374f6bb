//! Thread of a calling context tree that runs the steps, with its time at each node.

use super::step_marks::{is_mark, is_span};
use stackline_model::{CallMetric, CallNodeId, CallOverhead, CallStats, CallThreadId, CallingContextTree, FrameId};
use stackline_timeline::vocabulary::autograd::is_device_thread;
use stackline_timeline::vocabulary::python::{OPTIMIZER_STEP, TAKE_BATCH};
use std::collections::{BTreeMap, BTreeSet};

/// Time of one thread in ns, with its waiting and unsampled parts and its number of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Time {
    /// Total in ns, including recorded waits.
    pub(super) ns: u64,
    /// Waiting time, in ns.
    pub(super) waits_ns: u64,
    /// Elapsed time without samples, in ns.
    pub(super) measured_ns: u64,
    /// Number of samples of the rest.
    pub(super) samples: u64,
    /// Number of these samples that show a wait.
    pub(super) wait_samples: u64,
}

impl Time {
    /// Add another time: its total, waits, unsampled part and samples.
    pub(super) fn add(&mut self, other: Self) {
        self.ns = self.ns.saturating_add(other.ns);
        self.waits_ns = self.waits_ns.saturating_add(other.waits_ns);
        self.measured_ns = self.measured_ns.saturating_add(other.measured_ns);
        self.samples = self.samples.saturating_add(other.samples);
        self.wait_samples = self.wait_samples.saturating_add(other.wait_samples);
    }

    /// Create a computing time from CPU samples.
    fn sampled(ns: u64, samples: u64) -> Self {
        Self { ns, samples, ..Self::default() }
    }

    /// Create a waiting time from samples of blocked threads.
    fn waited(ns: u64, samples: u64) -> Self {
        Self { ns, waits_ns: ns, samples, wait_samples: samples, ..Self::default() }
    }

    /// Create a time that was measured, not sampled.
    fn measured(ns: u64) -> Self {
        Self { ns, measured_ns: ns, ..Self::default() }
    }

    /// Elapsed time without samples, in which the thread waited or had no processor.
    pub(super) fn unsampled(ns: u64) -> Self {
        Self { waits_ns: ns, ..Self::measured(ns) }
    }

    /// Subtract a part, such as that of callees, from a time. The rest counts as sampled computing.
    pub(super) fn without(self, part: Self) -> Self {
        Self::sampled(self.ns.saturating_sub(part.ns), self.samples.saturating_sub(part.samples))
    }

    /// The waiting part of a time, with its samples.
    pub(super) fn waiting(self) -> Self {
        let measured_ns = self.measured_ns.min(self.waits_ns);
        Self { measured_ns, ..Self::waited(self.waits_ns, self.wait_samples) }
    }

    /// The computing part of a time, without waits.
    pub(super) fn computing(self) -> Self {
        let samples = self.samples.saturating_sub(self.wait_samples);
        let measured_ns = self.measured_ns.saturating_sub(self.waits_ns);
        Self { measured_ns, ..Self::sampled(self.ns.saturating_sub(self.waits_ns), samples) }
    }
}

/// Source of a thread's times: samples of wall time or CPU time, or elapsed times of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeSource {
    /// Wall time samples, of computing and waiting.
    Wall,
    /// CPU time samples, and samples of waits if recorded.
    Cpu,
    /// Elapsed times of operators only.
    Operators,
}

/// Thread that runs the steps, with its exclusive time and calls at each node of the call tree.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) id: CallThreadId,
    pub(super) known: TimeSource,
    /// Exclusive time of each node.
    pub(super) own: Vec<Time>,
    /// Exclusive CPU time samples of each node, for recordings whose wall time samples are not divided by samples of
    /// waits; empty without CPU time.
    cpu: Option<Vec<Time>>,
    /// Exclusive calls of operators and spans at each node.
    pub(super) calls: Vec<u64>,
    /// Exclusive elapsed time of operators and spans at each node, in ns.
    pub(super) operators: Vec<u64>,
    /// Durations of taking a batch from a loader, in ns.
    pub(super) durations: BTreeMap<CallNodeId, CallStats>,
    /// Samples of waits, in ns.
    pub(super) waits: BTreeMap<CallNodeId, CallStats>,
    /// Measured overhead of the recorder.
    pub(super) overhead: CallOverhead,
    /// Share of recorded steps. In the others, which measure the overhead, only spans are counted.
    recorded_part: f64,
}

impl Thread {
    /// Check if the times distinguish computing from waiting: wall time alone includes both.
    pub(super) fn knows_computing(&self) -> bool {
        self.cpu.as_ref().is_none_or(|cpu| !cpu.is_empty())
    }

    /// Exclusive computing time of a node; 0 if unknown.
    pub(super) fn computing(&self, node: CallNodeId) -> Time {
        match &self.cpu {
            Some(cpu) => cpu.get(node.index()).copied().unwrap_or_default(),
            None => self.own[node.index()].computing(),
        }
    }

    /// Scale a count or time of spans in all steps to the recorded steps.
    pub(super) fn scale_to_recorded(&self, spans: u64) -> u64 {
        (spans as f64 * self.recorded_part).round() as u64
    }

    /// Find the thread that runs the steps, of one rank if selected; `None` without times. The thread marks steps, runs
    /// most operators (except for autograd threads), or has most time.
    pub(super) fn find(tree: &CallingContextTree, rank: Option<i64>) -> Option<Self> {
        let mut by_thread: BTreeMap<CallThreadId, BTreeMap<CallMetric, u64>> = BTreeMap::new();
        let is_chosen = |thread: CallThreadId| rank.is_none_or(|rank| rank_of(tree, thread) == Some(rank));
        let first = first_rows(tree);
        let of_row = |thread: CallThreadId| first.get(thread.index()).copied().unwrap_or(thread);
        for (_, thread, metric, stats) in tree.metrics.iter() {
            if metric.is_time() && is_chosen(thread) {
                let sum = by_thread.entry(of_row(thread)).or_default().entry(metric).or_default();
                *sum = sum.saturating_add(stats.sum);
            }
        }
        let is_mark = |(node, _, metric, stats): &(CallNodeId, CallThreadId, CallMetric, &CallStats)| {
            *metric == CallMetric::OperatorTime && stats.count > 0 && is_mark(tree, *node)
        };
        let marking: BTreeSet<CallThreadId> =
            tree.metrics.iter().filter(is_mark).map(|(_, thread, ..)| of_row(thread)).collect();
        let of = |times: &BTreeMap<CallMetric, u64>, metric| times.get(&metric).copied().unwrap_or(0);
        let size = |(id, times): (&CallThreadId, &BTreeMap<CallMetric, u64>)| {
            let most = times.values().copied().max().unwrap_or(0);
            let runs_steps = (marking.contains(id), !is_of_autograd(tree, *id));
            (runs_steps, of(times, CallMetric::OperatorTime), most, std::cmp::Reverse(*id))
        };
        let (&id, times) = by_thread.iter().max_by_key(|(id, times)| size((id, times)))?;
        let has = |metric| of(times, metric) > 0;
        let known = match () {
            () if has(CallMetric::WallTime) => TimeSource::Wall,
            () if has(CallMetric::CpuTime) => TimeSource::Cpu,
            () => TimeSource::Operators,
        };
        Some(Self::from_rows(tree, id, known))
    }

    /// Build a thread with its times and calls from all its rows in the table of threads.
    pub(super) fn from_rows(tree: &CallingContextTree, id: CallThreadId, known: TimeSource) -> Self {
        let first = first_rows(tree);
        let is_it = |thread: CallThreadId| first.get(thread.index()).copied().unwrap_or(thread) == id;
        let nodes = tree.nodes.len();
        let (mut own, mut calls, mut operators) =
            (vec![Time::default(); nodes], vec![0_u64; nodes], vec![0_u64; nodes]);
        let mut waits = vec![0_u64; nodes];
        let mut cpu = vec![Time::default(); nodes];
        let (mut durations, mut waits_at): (BTreeMap<_, CallStats>, BTreeMap<_, CallStats>) = Default::default();
        for (node, _, metric, stats) in tree.metrics.iter().filter(|(_, thread, ..)| is_it(*thread)) {
            let at = node.index();
            let (ns, samples) = (stats.sum, stats.count);
            match (metric, known) {
                (CallMetric::WallTime, TimeSource::Wall) => own[at].add(Time::sampled(ns, samples)),
                // Samples of waits are separate from wall time samples.
                (CallMetric::WaitTime, TimeSource::Wall) => waits[at] = waits[at].saturating_add(ns),
                (CallMetric::CpuTime, TimeSource::Wall) => cpu[at].add(Time::sampled(ns, samples)),
                (CallMetric::CpuTime, TimeSource::Cpu) => own[at].add(Time::sampled(ns, samples)),
                (CallMetric::WaitTime, TimeSource::Cpu) => own[at].add(Time::waited(ns, samples)),
                (CallMetric::OperatorTime | CallMetric::GcTime | CallMetric::HostTime, TimeSource::Operators) => {
                    own[at].add(Time::measured(ns));
                }
                _ => {}
            }
            match metric {
                CallMetric::CallTime if is_span(tree, node, TAKE_BATCH) => {
                    durations.entry(node).or_default().merge(stats);
                }
                CallMetric::WaitTime => waits_at.entry(node).or_default().merge(stats),
                _ => {}
            }
            if matches!(metric, CallMetric::OperatorTime | CallMetric::HostTime) {
                calls[at] = calls[at].saturating_add(stats.count);
                operators[at] = operators[at].saturating_add(ns);
            }
        }
        let is_undivided = known == TimeSource::Wall && is_stackline_recording(tree) && waits.iter().all(|&ns| ns == 0);
        let is_sampled = cpu.iter().any(|time| time.ns > 0);
        let cpu = is_undivided.then(|| if is_sampled { cpu } else { Vec::new() });
        for (time, waits) in own.iter_mut().zip(waits).filter(|(_, waits)| *waits > 0) {
            let part = waits as f64 / time.ns.max(1) as f64;
            time.waits_ns = waits.min(time.ns);
            time.wait_samples = (time.samples as f64 * part.min(1.0)).round() as u64;
        }
        if !is_stackline_recording(tree) {
            // Rows of profiles may represent many samples each.
            own.iter_mut().for_each(|time| (time.samples, time.wait_samples) = (0, 0));
        }
        let process = tree.threads.get(id.index()).and_then(|thread| tree.processes.get(thread.process.index()));
        let overhead = process.and_then(|process| process.overhead).unwrap_or_default();
        let recorded_part = recorded_part(tree, &calls, overhead.unrecorded_steps);
        Self { id, known, own, cpu, calls, operators, durations, waits: waits_at, overhead, recorded_part }
    }
}

/// Share of recorded steps among all steps: spans are counted in all steps, operators only in recorded ones. The number
/// of all steps is the most calls of an optimizer step.
fn recorded_part(tree: &CallingContextTree, calls: &[u64], unrecorded: u64) -> f64 {
    let mut steps: BTreeMap<FrameId, u64> = BTreeMap::new();
    for node in tree.nodes.ids().filter(|node| is_span(tree, *node, OPTIMIZER_STEP)) {
        *steps.entry(tree.nodes.frame[node.index()]).or_default() += calls[node.index()];
    }
    match steps.into_values().max() {
        Some(all) if unrecorded < all => (all - unrecorded) as f64 / all as f64,
        _ => 1.0,
    }
}

/// For each row of the table of threads: the first row of the same thread. Counted calls and samples may use different
/// names of a thread.
fn first_rows(tree: &CallingContextTree) -> Vec<CallThreadId> {
    let mut known = BTreeMap::new();
    let rows = tree.threads.iter().enumerate().map(|(at, thread)| (CallThreadId::new(at), thread));
    rows.map(|(id, thread)| match thread.tid {
        0 => id,
        tid => *known.entry((thread.process, tid)).or_insert(id),
    })
    .collect()
}

/// Check if a tree is from Stackline's own recorder, which counts samples.
pub(super) fn is_stackline_recording(tree: &CallingContextTree) -> bool {
    tree.processes.iter().any(|process| !process.recorder.is_empty())
}

/// Check by its name if a thread is one on which autograd only runs backward passes of a device.
pub(super) fn is_of_autograd(tree: &CallingContextTree, thread: CallThreadId) -> bool {
    let name = tree.threads.get(thread.index()).map(|thread| tree.strings.get(thread.name));
    name.is_some_and(is_device_thread)
}

/// Rank of a thread's process; `None` if unknown.
pub(super) fn rank_of(tree: &CallingContextTree, thread: CallThreadId) -> Option<i64> {
    let process = tree.threads.get(thread.index())?.process;
    tree.processes.get(process.index())?.rank.map(i64::from)
}

/// Sum the values of each calling-context-tree node and all nodes below.
pub(super) fn inclusive<T: Copy>(tree: &CallingContextTree, mut values: Vec<T>, add: impl Fn(&mut T, T)) -> Vec<T> {
    for node in (1..values.len()).rev() {
        let value = values[node];
        add(&mut values[tree.nodes.parent[node].index()], value);
    }
    values
}

/// For each node: the outermost node at or above it that a test accepts, with the result of the test.
pub(super) fn outermost<K: Copy>(
    tree: &CallingContextTree,
    which: impl Fn(CallNodeId) -> Option<K>,
) -> Vec<Option<(CallNodeId, K)>> {
    let mut found = vec![None; tree.nodes.len()];
    for node in tree.nodes.ids().skip(1) {
        let above = found[tree.nodes.parent[node.index()].index()];
        found[node.index()] = above.or_else(|| which(node).map(|kind| (node, kind)));
    }
    found
}

/// A node and its ancestors, innermost first, without the root.
pub(super) fn ancestors_of(tree: &CallingContextTree, node: CallNodeId) -> impl Iterator<Item = CallNodeId> {
    let above = |node: &CallNodeId| tree.nodes.parent[node.index()].some();
    std::iter::successors(Some(node), above).filter(|node| *node != CallingContextTree::ROOT)
}
