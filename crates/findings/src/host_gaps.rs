//! Gaps of host threads between operators, with the samples that fall into them.
//!
//! A recording contains exact times of operators. Work between two operators is known only from samples, which are
//! rarer than steps: a function that runs for 3 ms in each step occurs in one of three steps. A program does the same
//! work between the same two operators in each step. So this module sums each gap over all steps, and divides the sum
//! by the samples in it.

use super::estimate::Estimate;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, SampleMetric, StackId, StrId, Trace, TrackId};
use stackline_timeline::sampling_error::{count_bounds, share_bounds};
use std::collections::{BTreeMap, BTreeSet};

/// Time of a thread between the same two operators, summed over all steps. Before the first operator and after the last
/// one, the limit is a sample of a wait, and the gap has only waits.
#[derive(Debug, Default)]
pub(super) struct HostGap {
    pub(super) track: Option<TrackId>,
    /// True for one gap of the program, false for the sum of many short ones.
    pub(super) is_one: bool,
    /// Operators, or samples of waits, before and after each occurrence.
    pub(super) occurrences: Vec<(EventId, EventId)>,
    /// Total duration in ns.
    pub(super) ns: i64,
    pub(super) cpu: Samples,
    pub(super) wall: Samples,
    pub(super) waits: Samples,
    /// Usual weight of the thread's samples of CPU time, in ns; 0 without any.
    pub(super) cpu_sampling_ns: i64,
}

/// Samples of one metric (such as CPU time) in a gap, with their total weight.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub(super) events: Vec<EventId>,
    /// Total weight of the samples in ns.
    pub(super) ns: i64,
}

/// All host gaps of a trace.
#[derive(Debug, Default)]
pub(super) struct HostGaps {
    pub(super) all: Vec<HostGap>,
    /// Interval in ns at which the recorder samples blocked threads; none without samples of waits.
    pub(super) wait_sampling_ns: Option<f64>,
    /// Presence of CPU time samples and of wall time samples, by thread.
    pub(super) sampled: BTreeMap<TrackId, (bool, bool)>,
    /// Position in `all` of the gap of an occurrence, for gaps with `is_one`.
    of_occurrence: FxHashMap<(EventId, EventId), usize>,
}

/// Least expected number of samples in a gap that counts on its own. Shorter gaps of a thread are summed up.
const MIN_SAMPLES: i64 = 5;

/// Stack and name of an operator.
pub(super) type Caller = (usize, StrId);

impl HostGaps {
    /// Gaps that begin in a time window; none without samples.
    pub(super) fn from_trace(trace: &Trace, window: (i64, i64)) -> Self {
        let samples = samples(trace, window);
        // The recorder samples long waits only after each further tenth of their length, so the shortest samples have
        // the sampling interval.
        let wait_sampling_ns =
            Some(quantile(samples.values().flatten(), SampleMetric::WaitTime, 20) as f64).filter(|ns| *ns > 0.0);
        let mut found = Self { wait_sampling_ns, ..Self::default() };
        for (track, operators) in operators(trace, |track| samples.contains_key(&track)) {
            let Some(samples) = samples.get(&track) else { continue };
            let has = |of: SampleMetric| samples.iter().any(|sample| sample.of == of);
            found.sampled.insert(track, (has(SampleMetric::CpuTime), has(SampleMetric::WallTime)));
            found.all.extend(thread_gaps(trace, window, (track, &operators), samples));
            found.all.extend(waits_at_ends(trace, window, (track, &operators), samples));
        }
        for (at, host_gap) in found.all.iter().enumerate().filter(|(_, host_gap)| host_gap.is_one) {
            found.of_occurrence.extend(host_gap.occurrences.iter().map(|&occurrence| (occurrence, at)));
        }
        found
    }

    /// Gaps with any of these occurrences (operators before and after a gap), each once; no sums of short gaps.
    pub(super) fn containing(&self, occurrences: &[(EventId, EventId)]) -> impl Iterator<Item = &HostGap> {
        let found: BTreeSet<usize> =
            occurrences.iter().filter_map(|occurrence| self.of_occurrence.get(occurrence).copied()).collect();
        found.into_iter().map(|at| &self.all[at])
    }

    /// True if samples of blocked threads were recorded.
    pub(super) fn has_wait_samples(&self) -> bool {
        self.wait_sampling_ns.is_some()
    }

    /// Check if a thread has samples between its operators.
    pub(super) fn has_samples(&self, track: TrackId) -> bool {
        self.sampled.contains_key(&track)
    }
}

/// Sample of a thread: time, event, weight in ns, and metric.
struct Sample {
    at: i64,
    event: EventId,
    ns: i64,
    of: SampleMetric,
}

/// Index of spans by thread and time, without overlap within a thread.
pub(super) struct Spans(Vec<(TrackId, i64, i64)>);

impl Spans {
    /// Build the index of the spans of events.
    pub(super) fn from_trace(trace: &Trace, events: &[EventId]) -> Self {
        let span = |&e: &EventId| (trace.events.track[e.index()], trace.events.start[e.index()], trace.events.end(e));
        let mut spans: Vec<_> = events.iter().map(span).collect();
        spans.sort_unstable();
        Self(spans)
    }

    /// Check if an event begins in one of the spans.
    pub(super) fn contains(&self, trace: &Trace, event: EventId) -> bool {
        let (track, at) = (trace.events.track[event.index()], trace.events.start[event.index()]);
        let after = self.0.partition_point(|&(t, from, _)| (t, from) <= (track, at));
        after.checked_sub(1).is_some_and(|last| self.0[last].0 == track && at < self.0[last].2)
    }

    /// Check if one of the spans begins between two events of one thread.
    pub(super) fn begins_between(&self, trace: &Trace, before: EventId, after: EventId) -> bool {
        let (track, from) = (trace.events.track[before.index()], trace.events.end(before));
        let first = self.0.partition_point(|&(t, at, _)| (t, at) < (track, from));
        self.0.get(first).is_some_and(|&(t, at, _)| t == track && at < trace.events.start[after.index()])
    }
}

/// Samples of CPU time, wall time and waits in a time window, by thread, in time order.
fn samples(trace: &Trace, (from, to): (i64, i64)) -> BTreeMap<TrackId, Vec<Sample>> {
    let mut found: BTreeMap<TrackId, Vec<Sample>> = BTreeMap::new();
    for (series, rows) in trace.sample_events() {
        let Some(of) = series.metric.filter(|&of| of != SampleMetric::Count) else { continue };
        let inside = rows.filter(|(_, sample)| (from..to).contains(&sample.time));
        let sample = |(event, sample): (EventId, stackline_model::Sample)| Sample {
            at: sample.time,
            event,
            ns: sample.weight,
            of,
        };
        let mut inside = inside.map(sample).peekable();
        if inside.peek().is_some() {
            found.entry(series.track).or_default().extend(inside);
        }
    }
    found.values_mut().for_each(|of| of.sort_unstable_by_key(|sample| (sample.at, sample.event)));
    found
}

/// Outermost operators between which gaps are searched: those of threads that pass the test `counts`, in time order.
fn operators(trace: &Trace, counts: impl Fn(TrackId) -> bool) -> BTreeMap<TrackId, Vec<EventId>> {
    let mut found: BTreeMap<TrackId, Vec<EventId>> = BTreeMap::new();
    let is_operator = |event: EventId| trace.kind(event) == EventKind::Operator && trace.events.is_timed(event);
    for event in trace.events.ids().filter(|&event| is_operator(event)) {
        let track = trace.events.track[event.index()];
        if counts(track) && !trace.ancestors(event).any(is_operator) {
            found.entry(track).or_default().push(event);
        }
    }
    let time = |event: &EventId| (trace.events.start[event.index()], trace.events.end(*event), *event);
    found.values_mut().for_each(|of| of.sort_unstable_by_key(time));
    found
}

/// Gaps of a thread between consecutive operators that begin in a window, with their samples; short gaps as one sum.
fn thread_gaps(
    trace: &Trace,
    (from, to): (i64, i64),
    (track, operators): (TrackId, &[EventId]),
    samples: &[Sample],
) -> Vec<HostGap> {
    let mut by_callers: BTreeMap<(Caller, Caller), HostGap> = BTreeMap::new();
    for pair in operators.windows(2) {
        let (begin, end) = (trace.events.end(pair[0]), trace.events.start[pair[1].index()]);
        if begin >= end || !(from..to).contains(&begin) || trace.overlaps_unrecorded(track, (begin, end)) {
            continue;
        }
        let host_gap = by_callers.entry((caller(trace, pair[0]), caller(trace, pair[1]))).or_default();
        host_gap.occurrences.push((pair[0], pair[1]));
        host_gap.ns += end - begin;
        let first = samples.partition_point(|sample| sample.at < begin);
        for sample in samples[first..].iter().take_while(|sample| sample.at < end) {
            let of = match sample.of {
                SampleMetric::CpuTime => &mut host_gap.cpu,
                SampleMetric::WallTime => &mut host_gap.wall,
                _ => &mut host_gap.waits,
            };
            of.events.push(sample.event);
            of.ns += sample.ns;
        }
    }
    let cpu_sampling_ns = median_weight(samples, SampleMetric::CpuTime);
    let least = cpu_sampling_ns.max(median_weight(samples, SampleMetric::WallTime)).saturating_mul(MIN_SAMPLES);
    let (mut found, mut rest) = (Vec::new(), HostGap::default());
    for host_gap in by_callers.into_values() {
        if host_gap.ns >= least { found.push(HostGap { is_one: true, ..host_gap }) } else { rest.add(host_gap) }
    }
    found.push(rest);
    for host_gap in &mut found {
        (host_gap.track, host_gap.cpu_sampling_ns) = (Some(track), cpu_sampling_ns);
    }
    found
}

/// Sampled waits of a thread before its first operator and after its last one. The outermost sample is the limit of the
/// time, because no operator is.
fn waits_at_ends(
    trace: &Trace,
    (from, to): (i64, i64),
    (track, operators): (TrackId, &[EventId]),
    samples: &[Sample],
) -> Vec<HostGap> {
    let waits: Vec<&Sample> = samples.iter().filter(|sample| sample.of == SampleMetric::WaitTime).collect();
    let (Some(earliest), Some(latest)) = (waits.first(), waits.last()) else { return Vec::new() };
    let (Some(&first), Some(&last)) = (operators.first(), operators.last()) else { return Vec::new() };
    let host_gap = |(before, after): (EventId, EventId)| {
        let (begin, end) = (trace.events.end(before), trace.events.start[after.index()]);
        if begin >= end || !(from..to).contains(&begin) {
            return None;
        }
        let mut inside = Samples::default();
        // A sample represents the time before it.
        for sample in waits.iter().filter(|sample| begin < sample.at && sample.at <= end) {
            inside.events.push(sample.event);
            inside.ns += sample.ns;
        }
        let occurrences = vec![(before, after)];
        Some(HostGap { track: Some(track), occurrences, ns: end - begin, waits: inside, ..HostGap::default() })
    };
    [(earliest.event, first), (last, latest.event)].into_iter().filter_map(host_gap).collect()
}

/// Median weight of samples of one metric, in ns. Single samples weigh more on a busy machine.
fn median_weight(samples: &[Sample], of: SampleMetric) -> i64 {
    quantile(samples, of, 2)
}

/// Weight of samples of one metric at the quantile 1/`many`, in ns; 0 without samples.
fn quantile<'s>(samples: impl IntoIterator<Item = &'s Sample>, of: SampleMetric, many: usize) -> i64 {
    let mut lengths: Vec<i64> = samples.into_iter().filter(|sample| sample.of == of).map(|s| s.ns).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / many).copied().unwrap_or(0)
}

/// Key that equal calls of an operator share in all steps: recorded stack and name.
pub(super) fn caller(trace: &Trace, operator: EventId) -> Caller {
    let stack = trace.stacks.of_event(operator).map_or(usize::MAX, StackId::index);
    (stack, trace.events.name[operator.index()])
}

impl HostGap {
    /// Add the occurrences, time and samples of another gap.
    fn add(&mut self, other: Self) {
        self.occurrences.extend(other.occurrences);
        self.ns += other.ns;
        for (of, more) in [(&mut self.cpu, other.cpu), (&mut self.wall, other.wall), (&mut self.waits, other.waits)] {
            of.events.extend(more.events);
            of.ns += more.ns;
        }
    }

    /// Samples that divide the gap's time: wall time samples, which include waits, or else CPU time samples.
    pub(super) fn samples(&self) -> &[EventId] {
        if self.wall.events.is_empty() { &self.cpu.events } else { &self.wall.events }
    }

    /// Estimated computing time of the thread in the gap, from CPU time samples.
    pub(super) fn computing(&self) -> Estimate {
        let ((least, most), time) = (count_bounds(self.cpu.events.len()), self.ns as f64);
        let each = self.cpu.ns as f64 / self.cpu.events.len().max(1) as f64;
        let (low, high) = ((each * least).min(time), (each * most).min(time));
        // The samples are consistent with computing all of the time.
        let ns = if high < time { self.cpu.ns as f64 } else { time };
        Estimate { ns, low, high: high.max(ns) }
    }

    /// Upper bound of the gap's computing time in ns, from the number of CPU time samples; above 0 even without any.
    pub(super) fn most_computing_ns(&self) -> f64 {
        let (_, most) = count_bounds(self.cpu.events.len());
        self.computing().high.max(self.cpu_sampling_ns as f64 * most)
    }

    /// Time of the work that `seen` of the gap's samples show: their share of the gap's time.
    pub(super) fn time_of_samples(&self, seen: usize) -> Estimate {
        let (all, time) = (self.samples().len(), self.ns as f64);
        let (least, most) = share_bounds(seen, all);
        let share = seen as f64 / all.max(1) as f64;
        if !self.wall.events.is_empty() {
            return Estimate { ns: time * share, low: time * least, high: time * most };
        }
        let computing = self.computing();
        Estimate { ns: computing.ns * share, low: computing.low * least, high: self.upper_bound(most) }
    }

    /// Computing time of the work that `seen` of the CPU time samples show, in ns. The upper bound includes unsampled
    /// time: a thread that waits for a processor waits to do this work.
    pub(super) fn computing_time_of_samples(&self, seen: usize) -> Estimate {
        let ((least, most), all) = (share_bounds(seen, self.cpu.events.len()), self.computing());
        let share = seen as f64 / self.cpu.events.len().max(1) as f64;
        Estimate { ns: all.ns * share, low: all.low * least, high: self.upper_bound(most) }
    }

    /// Upper bound of the time of work with at most the share `most` of the computing, in ns. Adds waits that samples
    /// do not show.
    fn upper_bound(&self, most: f64) -> f64 {
        let (computing, time) = (self.computing(), self.ns as f64);
        // Waits without samples may belong to any of the work.
        let waiting = if computing.ns < time { time - computing.low } else { 0.0 };
        (time * most).max(computing.high * most + waiting).min(time)
    }
}
