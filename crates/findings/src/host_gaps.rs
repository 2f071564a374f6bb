//! Gaps of host threads between operators, with the samples that fall into them.
//!
//! A recording contains exact times of operators. Work between two operators is known only from samples, which are
//! rarer than steps: a function that runs for 3 ms in each step occurs in one of three steps. A program does the same
//! work between the same two operators in each step. So this module sums each gap over all steps, and divides the sum
//! by the samples in it.

use super::estimate::Estimate;
use super::finding::Fact;
use super::finding::GainEstimate;
use super::rule_context::RuleContext;
use super::sampled_waits::waits_at_ends;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_critical_path::exact::what_if::{Action, Chosen, Edit};
use stackline_model::{EventId, EventKind, SampleMetric, StackId, StrId, Trace, TrackId};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::sampling_error::count_bounds;
use stackline_timeline::sampling_error::share_bounds;
use stackline_timeline::source_location::SourceLocation;
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

/// Work between operators at one source location, with its sampled time.
#[derive(Debug, Default)]
pub(super) struct SampledWork {
    /// Time in the whole window, in ns.
    pub(super) time: Estimate,
    /// The same by thread, without bounds.
    pub(super) by_thread: BTreeMap<Option<TrackId>, f64>,
    /// Total duration of the gaps that contain it, in ns.
    pub(super) around_ns: i64,
    pub(super) occurrences: Vec<(EventId, EventId)>,
    /// Samples of the work.
    pub(super) samples: Vec<EventId>,
}

impl SampledWork {
    /// Add work of one gap: its time by thread, occurrences and samples.
    pub(super) fn add(&mut self, host_gap: &HostGap, time: Estimate, samples: Vec<EventId>) {
        *self.by_thread.entry(host_gap.track).or_default() += time.ns;
        self.around_ns += host_gap.ns;
        self.occurrences.extend(&host_gap.occurrences);
        self.samples.extend(samples);
    }

    /// Set the total time of the work to the sum of its times in all gaps.
    pub(super) fn with_total(self, times: Vec<Estimate>) -> Self {
        Self { time: Estimate::sum(times), ..self }
    }

    /// Facts of a finding on time between operators: samples, and time per step with bounds.
    pub(super) fn facts(&self, context: &RuleContext<'_>) -> Vec<Fact> {
        vec![
            Fact::count("samples", self.samples.len()),
            Fact::time("time between operators per step", context.per_step(self.time.ns as i64)),
            Fact::time("lower bound of the time between operators per step", context.per_step(self.time.low as i64)),
            Fact::time("upper bound of the time between operators per step", context.per_step(self.time.high as i64)),
        ]
    }

    /// Time of the work on the thread with the most of it, in ns.
    pub(super) fn max_thread_ns(&self) -> f64 {
        self.by_thread.values().copied().fold(0.0, f64::max)
    }

    /// Confidence by sampling error: low if the lower bound is less than half of the estimate.
    pub(super) fn confidence(&self) -> Confidence {
        if 2.0 * self.time.low < self.time.ns { Confidence::Low } else { Confidence::Medium }
    }

    /// Edit that shortens the gaps of the work by `ns` in total; `None` if the work has no gaps.
    fn shortening_edit(&self, context: &RuleContext<'_>, place: &SourceLocation, ns: f64) -> Option<Edit> {
        let left = (1.0 - ns / (self.around_ns as f64).max(1.0)).clamp(0.0, 1.0);
        let chosen = Chosen { between: self.occurrences.clone(), ..Chosen::default() };
        context.edit_of(Action::Scale(left), format!("time between operators at {}", place.text()), chosen)
    }

    /// Gain estimate if half of the work disappears; at most, all of it disappears and operators get faster.
    pub(super) fn speculative_gain(&self, context: &RuleContext<'_>, place: &SourceLocation) -> Option<GainEstimate> {
        let edit = |ns: f64| self.shortening_edit(context, place, ns);
        let most = edit(self.time.high).into_iter().chain(self.fast_operators_edit(context)).collect();
        Some(GainEstimate::SpeculativeRange(vec![edit(self.time.ns / 2.0)?], most))
    }

    /// Edit that gives all operators of the threads the duration of their fastest tenth. Work between operators evicts
    /// their caches, and uses the scheduler's time slices.
    fn fast_operators_edit(&self, context: &RuleContext<'_>) -> Option<Edit> {
        let trace = context.trace();
        let is_on_thread = |e: &EventId| self.by_thread.contains_key(&Some(trace.events.track[e.index()]));
        let mut inside = context.outermost(&context.operators());
        inside.retain(is_on_thread);
        let mut by_caller: BTreeMap<Caller, Vec<i64>> = BTreeMap::new();
        inside.iter().for_each(|&e| by_caller.entry(caller(trace, e)).or_default().push(context.dur(e)));
        let (mut taken, mut quick) = (0, 0);
        for mut lengths in by_caller.into_values() {
            lengths.sort_unstable();
            taken += lengths.iter().sum::<i64>();
            quick += lengths[lengths.len() / 10] * lengths.len() as i64;
        }
        let left = (quick as f64 / taken.max(1) as f64).clamp(0.0, 1.0);
        (taken > quick).then(|| context.edit(Action::Scale(left), "concurrent operators".to_owned(), &inside)).flatten()
    }

    /// Gain estimate of removing all of the work, together with other edits; none if no edit applies.
    pub(super) fn gain_estimate(
        &self,
        context: &RuleContext<'_>,
        place: &SourceLocation,
        others: &[Edit],
    ) -> Option<GainEstimate> {
        let edits = |ns: f64| {
            let edit = self.shortening_edit(context, place, ns)?;
            Some(others.iter().cloned().chain([edit]).collect::<Vec<Edit>>())
        };
        let Estimate { ns, low, high } = self.time;
        Some(GainEstimate::Sampled { likely: edits(ns)?, least: edits(low)?, most: edits(high)? })
    }
}

/// Least expected number of samples in a gap that counts on its own. Shorter gaps of a thread are summed up.
const MIN_SAMPLES: i64 = 5;

/// Least share of samples of one kind of work, from which the gap is considered to consist of it.
const MIN_DOMINANT_SHARE: f64 = 0.8;

/// Stack and name of an operator.
type Caller = (usize, StrId);

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
pub(super) struct Sample {
    pub(super) at: i64,
    pub(super) event: EventId,
    pub(super) ns: i64,
    pub(super) of: SampleMetric,
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
fn caller(trace: &Trace, operator: EventId) -> Caller {
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
    fn time_of_samples(&self, seen: usize) -> Estimate {
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
    fn computing_time_of_samples(&self, seen: usize) -> Estimate {
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

impl RuleContext<'_> {
    /// Work between operators by source location, from samples whose function, or one of its callers, passes a test.
    /// Excludes samples within the spans `without`. If nearly all samples of a gap pass the test, the work includes the
    /// waits that `unexplained` returns.
    pub(super) fn sampled_work(
        &self,
        test: impl Fn(&str) -> bool,
        without: &[EventId],
        unexplained: impl Fn(&HostGap) -> Option<Estimate>,
    ) -> Vec<(SourceLocation, SampledWork)> {
        let matches: Vec<bool> = self.trace().strings.iter().map(test).collect();
        let spans = Spans::from_trace(self.trace(), without);
        let mut found: BTreeMap<SourceLocation, (SampledWork, Vec<Estimate>)> = BTreeMap::new();
        for host_gap in &self.host_gaps().all {
            let mut by_place: BTreeMap<SourceLocation, Vec<EventId>> = BTreeMap::new();
            let seen = host_gap.samples().iter().copied();
            for sample in seen
                .filter(|&e| self.frames_of_sample(e).any(|f| matches[f.index()]) && !spans.contains(self.trace(), e))
            {
                by_place.entry(self.line_of(sample)).or_default().push(sample);
            }
            let own = self.dominant_samples(host_gap, |name| matches[name.index()]);
            let waits = own.and_then(|seen| Some(unexplained(host_gap)?.ns / seen as f64)).unwrap_or(0.0);
            for (place, samples) in by_place {
                let (seen, times) = found.entry(place).or_default();
                let time = host_gap.time_of_samples(samples.len()).with_waits(waits * samples.len() as f64);
                seen.add(host_gap, time, samples);
                times.push(time);
            }
        }
        found.into_iter().map(|(place, (seen, times))| (place, seen.with_total(times))).collect()
    }

    /// Number of the gap's CPU time samples that pass a test; `None` if samples are few, or not nearly all pass. None
    /// with wall time samples, which include waits.
    pub(super) fn dominant_samples(&self, host_gap: &HostGap, matches: impl Fn(StrId) -> bool) -> Option<usize> {
        let samples = &host_gap.cpu.events;
        if !host_gap.wall.events.is_empty() {
            return None;
        }
        let seen = samples.iter().filter(|&&sample| self.frames_of_sample(sample).any(&matches)).count();
        let (least, _) = share_bounds(seen, samples.len());
        (least > MIN_DOMINANT_SHARE || (seen == samples.len() && least > 0.5)).then_some(seen)
    }

    /// Select functions to examine by their own spans: they contain operators or ran on threads without samples. Gaps
    /// cover all other functions better.
    pub(super) fn not_covered_by_gaps(&self, frames: Vec<EventId>) -> Vec<EventId> {
        let (trace, host_gaps) = (self.trace(), self.host_gaps());
        if host_gaps.all.is_empty() {
            return frames;
        }
        let all: FxHashSet<EventId> = frames.iter().copied().collect();
        let around = |operator: EventId| trace.ancestors(operator).filter(|e| all.contains(e));
        let holds: FxHashSet<EventId> = self.operators().into_iter().flat_map(around).collect();
        let counts = |e: &EventId| holds.contains(e) || !host_gaps.has_samples(trace.events.track[e.index()]);
        frames.into_iter().filter(counts).collect()
    }

    /// Computation in gaps with a mean of at least `least_ns`, by the user's function, from samples that pass a test.
    /// The source location is the line with most samples.
    pub(super) fn sampled_computation(
        &self,
        least_ns: i64,
        test: impl Fn(EventId) -> bool,
    ) -> Vec<(SourceLocation, SampledWork)> {
        let mut found: BTreeMap<SourceLocation, (SampledWork, Vec<Estimate>)> = BTreeMap::new();
        let is_long = |of: &&HostGap| of.is_one && of.ns >= least_ns.saturating_mul(of.occurrences.len() as i64);
        for host_gap in self.host_gaps().all.iter().filter(is_long) {
            let mut by_function: BTreeMap<SourceLocation, Vec<EventId>> = BTreeMap::new();
            for &sample in host_gap.cpu.events.iter().filter(|&&sample| test(sample)) {
                let function = SourceLocation { line: None, ..self.line_of(sample) };
                by_function.entry(function).or_default().push(sample);
            }
            for (function, samples) in by_function {
                let (seen, times) = found.entry(function).or_default();
                let time = host_gap.computing_time_of_samples(samples.len());
                seen.add(host_gap, time, samples);
                times.push(time);
            }
        }
        let seen = found.into_values().map(|(seen, times)| seen.with_total(times));
        seen.map(|seen| (self.most_sampled_line(&seen.samples).unwrap_or_default(), seen)).collect()
    }

    /// Source location of the line with most samples; the first one of several.
    pub(super) fn most_sampled_line(&self, samples: &[EventId]) -> Option<SourceLocation> {
        let mut lines: BTreeMap<SourceLocation, usize> = BTreeMap::new();
        samples.iter().for_each(|&sample| *lines.entry(self.line_of(sample)).or_default() += 1);
        let most = lines.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)));
        most.map(|(place, _)| place)
    }

    /// Names of the function in which a sample was taken, and of its callers.
    pub(super) fn frames_of_sample(&self, sample: EventId) -> impl Iterator<Item = StrId> {
        std::iter::once(self.trace().events.name[sample.index()]).chain(self.stack_frames(sample))
    }

    /// Source location of an event, without module and operator; for a sample the line that ran.
    pub(super) fn line_of(&self, event: EventId) -> SourceLocation {
        let place = self.line_of_sample(event).unwrap_or_else(|| self.place(event));
        SourceLocation { module: None, operator: None, ..place }
    }
}
