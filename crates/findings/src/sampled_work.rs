//! Work between operators that samples show, by source location, with its gain.

use super::estimate::Estimate;
use super::finding::Fact;
use super::gain_estimate::GainEstimate;
use super::host_gaps::{Caller, HostGap, Spans, caller};
use super::rule_context::RuleContext;
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::what_if::{Action, Chosen, Edit};
use stackline_model::{EventId, StrId, TrackId};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::sampling_error::share_bounds;
use stackline_timeline::source_location::SourceLocation;
use std::collections::BTreeMap;

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
        Some(GainEstimate::speculative_range(vec![edit(self.time.ns / 2.0)?], most))
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
        Some(GainEstimate::sampled(edits(ns)?, edits(low)?, edits(high)?))
    }
}

/// Least share of samples of one kind of work, from which the gap is considered to consist of it.
const MIN_DOMINANT_SHARE: f64 = 0.8;

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
