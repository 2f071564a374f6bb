//! Gaps of host threads between operators, with the samples that fall into them.
//!
//! A recording knows exactly when operators ran. What a thread did between two of them only samples saw, which are rarer than
//! steps: a function that runs for 3 ms in each step is seen in one step of three. But the program does between the same two
//! operators the same in each step. So the times between them, which are known, are put together over all steps, and divided as
//! the samples that lie in any of them.

use super::estimate::{Estimate, counted, shared};
use super::finding::{Confidence, Fact, GainEstimate};
use super::rule_context::RuleContext;
use super::source_location::SourceLocation;
use crate::critical_path::exact::what_if::{Action, Chosen, Edit};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{EventId, EventKind, SampleMetric, StackId, StrId, Trace, TrackId};
use std::collections::{BTreeMap, BTreeSet};

/// Gap of a thread between two operators of the program, summed over all steps.
#[derive(Debug, Default)]
pub(super) struct HostGap {
    pub(super) track: Option<TrackId>,
    /// Whether it is one stretch of the program, rather than many short ones put together.
    pub(super) is_one: bool,
    /// The operator before and the one behind, each time.
    pub(super) stretches: Vec<(EventId, EventId)>,
    /// How long all of it takes, in ns.
    pub(super) ns: i64,
    pub(super) cpu: Samples,
    pub(super) wall: Samples,
    pub(super) waits: Samples,
}

/// Samples of one kind.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub(super) events: Vec<EventId>,
    /// What all of them stand for, in ns.
    ns: i64,
}

/// All host gaps of a trace.
#[derive(Debug, Default)]
pub(super) struct HostGaps {
    pub(super) all: Vec<HostGap>,
    /// How often threads were looked at, whether they wait, in ns; none if none was found waiting.
    pub(super) looks_ns: Option<f64>,
    /// Per thread of them whether samples of CPU time and of wall-clock time were taken on it.
    pub(super) sampled: BTreeMap<TrackId, (bool, bool)>,
    /// Of stretches of those that are one, the position in `all`.
    of_stretch: FxHashMap<(EventId, EventId), usize>,
}

/// What is done between operators from one place of the program.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// How long it takes in the whole window, in ns.
    pub(super) time: Estimate,
    /// The same of each thread.
    pub(super) by_thread: BTreeMap<Option<TrackId>, f64>,
    /// How long all takes that is done between those operators, in ns.
    pub(super) around_ns: i64,
    pub(super) stretches: Vec<(EventId, EventId)>,
    /// The samples that saw it.
    pub(super) samples: Vec<EventId>,
}

impl Seen {
    /// Takes over what some samples saw between two operators.
    pub(super) fn add(&mut self, host_gap: &HostGap, time: Estimate, samples: Vec<EventId>) {
        *self.by_thread.entry(host_gap.track).or_default() += time.ns;
        self.around_ns += host_gap.ns;
        self.stretches.extend(&host_gap.stretches);
        self.samples.extend(samples);
    }

    /// The same, of what took so long between those operators each.
    pub(super) fn in_all(self, times: Vec<Estimate>) -> Self {
        Self { time: Estimate::sum(times), ..self }
    }

    /// What it rests on.
    pub(super) fn facts(&self, context: &RuleContext<'_>) -> Vec<Fact> {
        vec![
            Fact::count("samples", self.samples.len()),
            Fact::time("time between operators per step", context.per_step(self.time.ns as i64)),
            Fact::time("lower bound per step", context.per_step(self.time.low as i64)),
            Fact::time("upper bound per step", context.per_step(self.time.high as i64)),
        ]
    }

    /// How long it takes on the thread that does most of it, in ns.
    pub(super) fn of_one_thread(&self) -> f64 {
        self.by_thread.values().copied().fold(0.0, f64::max)
    }

    /// Less where the count of samples leaves half of it open.
    pub(super) fn confidence(&self) -> Confidence {
        if 2.0 * self.time.low < self.time.ns { Confidence::Low } else { Confidence::Medium }
    }

    /// As if so much of it went, in ns.
    fn without(&self, context: &RuleContext<'_>, place: &SourceLocation, ns: f64) -> Option<Edit> {
        let left = (1.0 - ns / (self.around_ns as f64).max(1.0)).clamp(0.0, 1.0);
        let chosen = Chosen { between: self.stretches.clone(), ..Chosen::default() };
        context.edit_of(Action::Scale(left), format!("time between operators at {}", place.text()), chosen)
    }

    /// What it is worth if half of it goes, and at most all of it, with operators as quick as the quickest of them are: a hope.
    pub(super) fn speculative(&self, context: &RuleContext<'_>, place: &SourceLocation) -> Option<GainEstimate> {
        let edit = |ns: f64| self.without(context, place, ns);
        let most = edit(self.time.high).into_iter().chain(self.quick_operators(context)).collect();
        Some(GainEstimate::SpeculativeRange(vec![edit(self.time.ns / 2.0)?], most))
    }

    /// As if the operators of its threads were all as quick as the quickest tenth of their calls are: what runs between them takes their
    /// caches, and uses up the time in which a thread may keep its processor.
    fn quick_operators(&self, context: &RuleContext<'_>) -> Option<Edit> {
        let trace = context.trace();
        let is_beside = |e: &EventId| self.by_thread.contains_key(&Some(trace.events.track[e.index()]));
        let mut inside = context.outermost(&context.operators());
        inside.retain(is_beside);
        let mut by_caller: BTreeMap<Caller, Vec<i64>> = BTreeMap::new();
        inside.iter().for_each(|&e| by_caller.entry(caller(trace, e)).or_default().push(context.dur(e)));
        let (mut taken, mut quick) = (0, 0);
        for mut lengths in by_caller.into_values() {
            lengths.sort_unstable();
            taken += lengths.iter().sum::<i64>();
            quick += lengths[lengths.len() / 10] * lengths.len() as i64;
        }
        let left = (quick as f64 / taken.max(1) as f64).clamp(0.0, 1.0);
        (taken > quick).then(|| context.edit(Action::Scale(left), "operators beside it".to_owned(), &inside)).flatten()
    }

    /// What it is worth if all of it goes, together with other edits; none if nothing can be done to it.
    pub(super) fn gain_estimate(
        &self,
        context: &RuleContext<'_>,
        place: &SourceLocation,
        others: &[Edit],
    ) -> Option<GainEstimate> {
        let edits = |ns: f64| {
            let edit = self.without(context, place, ns)?;
            Some(others.iter().cloned().chain([edit]).collect::<Vec<Edit>>())
        };
        let Estimate { ns, low, high } = self.time;
        Some(GainEstimate::Sampled { likely: edits(ns)?, least: edits(low)?, most: edits(high)? })
    }
}

/// What lies between operators from one place to another counts as a stretch of the program of its own if so many samples are to
/// be expected in it; all others of a thread are put together.
const SAMPLES: i64 = 5;

/// Hardly anything else is done where this part of the samples, at least, sees one thing.
const HARDLY_ELSE: f64 = 0.8;

/// From where an operator is called, and its name.
type Caller = (usize, StrId);

impl HostGaps {
    /// Those that begin in a stretch of time; none where there are no samples.
    pub(super) fn from_trace(trace: &Trace, window: (i64, i64)) -> Self {
        let samples = samples(trace, window);
        // Of waits that last only every tenth part is sampled: the shortest samples are of single looks.
        let looks_ns =
            Some(quantile(samples.values().flatten(), SampleMetric::WaitTime, 20) as f64).filter(|ns| *ns > 0.0);
        let mut found = Self { looks_ns, ..Self::default() };
        for (track, operators) in operators(trace, |track| samples.contains_key(&track)) {
            let Some(samples) = samples.get(&track) else { continue };
            let has = |of: SampleMetric| samples.iter().any(|sample| sample.of == of);
            found.sampled.insert(track, (has(SampleMetric::CpuTime), has(SampleMetric::WallTime)));
            found.all.extend(of_thread(trace, window, (track, &operators), samples));
        }
        for (at, host_gap) in found.all.iter().enumerate().filter(|(_, host_gap)| host_gap.is_one) {
            found.of_stretch.extend(host_gap.stretches.iter().map(|&stretch| (stretch, at)));
        }
        found
    }

    /// Those that are one and have any of some stretches, each once.
    pub(super) fn with_any_of(&self, stretches: &[(EventId, EventId)]) -> impl Iterator<Item = &HostGap> {
        let found: BTreeSet<usize> =
            stretches.iter().filter_map(|stretch| self.of_stretch.get(stretch).copied()).collect();
        found.into_iter().map(|at| &self.all[at])
    }

    /// Whether threads were looked at that wait.
    pub(super) fn tell_waits(&self) -> bool {
        self.looks_ns.is_some()
    }

    /// Whether it is known of a thread what it did between operators.
    pub(super) fn know(&self, track: TrackId) -> bool {
        self.sampled.contains_key(&track)
    }
}

/// A sample of a thread's time.
struct Sample {
    at: i64,
    event: EventId,
    ns: i64,
    of: SampleMetric,
}

/// Spans of threads that do not overlap.
pub(super) struct Spans(Vec<(TrackId, i64, i64)>);

impl Spans {
    pub(super) fn from_trace(trace: &Trace, events: &[EventId]) -> Self {
        let span = |&e: &EventId| (trace.events.track[e.index()], trace.events.start[e.index()], trace.events.end(e));
        let mut spans: Vec<_> = events.iter().map(span).collect();
        spans.sort_unstable();
        Self(spans)
    }

    /// Whether an event begins in one of them.
    pub(super) fn hold(&self, trace: &Trace, event: EventId) -> bool {
        let (track, at) = (trace.events.track[event.index()], trace.events.start[event.index()]);
        let behind = self.0.partition_point(|&(t, from, _)| (t, from) <= (track, at));
        behind.checked_sub(1).is_some_and(|last| self.0[last].0 == track && at < self.0[last].2)
    }

    /// Whether one of them begins between two events of one thread.
    pub(super) fn begin_between(&self, trace: &Trace, before: EventId, behind: EventId) -> bool {
        let (track, from) = (trace.events.track[before.index()], trace.events.end(before));
        let first = self.0.partition_point(|&(t, at, _)| (t, at) < (track, from));
        self.0.get(first).is_some_and(|&(t, at, _)| t == track && at < trace.events.start[behind.index()])
    }
}

/// Samples of each thread, by time.
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

/// Outermost operators of each thread that counts, by time.
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

fn of_thread(
    trace: &Trace,
    (from, to): (i64, i64),
    (track, operators): (TrackId, &[EventId]),
    samples: &[Sample],
) -> Vec<HostGap> {
    let mut by_callers: BTreeMap<(Caller, Caller), HostGap> = BTreeMap::new();
    for pair in operators.windows(2) {
        let (begin, end) = (trace.events.end(pair[0]), trace.events.start[pair[1].index()]);
        if begin >= end || !(from..to).contains(&begin) {
            continue;
        }
        let host_gap = by_callers.entry((caller(trace, pair[0]), caller(trace, pair[1]))).or_default();
        host_gap.stretches.push((pair[0], pair[1]));
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
    let least =
        usual(samples, SampleMetric::CpuTime).max(usual(samples, SampleMetric::WallTime)).saturating_mul(SAMPLES);
    let (mut found, mut rest) = (Vec::new(), HostGap::default());
    for host_gap in by_callers.into_values() {
        if host_gap.ns >= least { found.push(HostGap { is_one: true, ..host_gap }) } else { rest.add(host_gap) }
    }
    found.push(rest);
    found.iter_mut().for_each(|host_gap| host_gap.track = Some(track));
    found
}

/// The median of what samples of one kind stand for, in ns: single ones stand for more, where the machine was busy.
fn usual(samples: &[Sample], of: SampleMetric) -> i64 {
    quantile(samples, of, 2)
}

/// What one of so many samples of one kind stands for less than, in ns; 0 without any.
fn quantile<'s>(samples: impl IntoIterator<Item = &'s Sample>, of: SampleMetric, many: usize) -> i64 {
    let mut lengths: Vec<i64> = samples.into_iter().filter(|sample| sample.of == of).map(|s| s.ns).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / many).copied().unwrap_or(0)
}

fn caller(trace: &Trace, operator: EventId) -> Caller {
    let stack = trace.stacks.of_event(operator).map_or(usize::MAX, StackId::index);
    (stack, trace.events.name[operator.index()])
}

impl HostGap {
    fn add(&mut self, other: Self) {
        self.stretches.extend(other.stretches);
        self.ns += other.ns;
        for (of, more) in [(&mut self.cpu, other.cpu), (&mut self.wall, other.wall), (&mut self.waits, other.waits)] {
            of.events.extend(more.events);
            of.ns += more.ns;
        }
    }

    /// The samples that say how its time divides: those of wall-clock time see waiting, too.
    pub(super) fn samples(&self) -> &[EventId] {
        if self.wall.events.is_empty() { &self.cpu.events } else { &self.wall.events }
    }

    /// How long the thread computes in it, in ns.
    pub(super) fn computing(&self) -> Estimate {
        let ((least, most), time) = (counted(self.cpu.events.len()), self.ns as f64);
        let each = self.cpu.ns as f64 / self.cpu.events.len().max(1) as f64;
        let (low, high) = ((each * least).min(time), (each * most).min(time));
        // It may be all of it: the samples do not say otherwise.
        let ns = if high < time { self.cpu.ns as f64 } else { time };
        Estimate { ns, low, high: high.max(ns) }
    }

    /// How long that takes which so many of its samples saw, in ns.
    fn part(&self, seen: usize) -> Estimate {
        let (all, time) = (self.samples().len(), self.ns as f64);
        let (least, most) = shared(seen, all);
        let share = seen as f64 / all.max(1) as f64;
        if !self.wall.events.is_empty() {
            return Estimate { ns: time * share, low: time * least, high: time * most };
        }
        let computing = self.computing();
        Estimate { ns: computing.ns * share, low: computing.low * least, high: self.at_most(most) }
    }

    /// How long it computes where so many of the samples of CPU time saw it, in ns. At most also what they do not see: the thread that
    /// waits for a processor does so because it has that to do.
    fn computing_part(&self, seen: usize) -> Estimate {
        let ((least, most), all) = (shared(seen, self.cpu.events.len()), self.computing());
        let share = seen as f64 / self.cpu.events.len().max(1) as f64;
        Estimate { ns: all.ns * share, low: all.low * least, high: self.at_most(most) }
    }

    /// How long that takes at most which makes up so much of the computing: no sample of CPU time says what the rest is.
    fn at_most(&self, most: f64) -> f64 {
        let (computing, time) = (self.computing(), self.ns as f64);
        // Whose waiting it is that samples of CPU time do not see is not known.
        let waiting = if computing.ns < time { time - computing.low } else { 0.0 };
        (time * most).max(computing.high * most + waiting).min(time)
    }
}

impl RuleContext<'_> {
    /// What threads do between operators that is called from each place, as far as samples of it saw a function whose name (or
    /// that of one that called it) passes a test; samples that lie in some spans do not count. Where hardly anything else is done, they are
    /// also what is waited for, as far as `unexplained` tells of such waits.
    pub(super) fn seen_between(
        &self,
        test: impl Fn(&str) -> bool,
        without: &[EventId],
        unexplained: impl Fn(&HostGap) -> Option<Estimate>,
    ) -> Vec<(SourceLocation, Seen)> {
        let fits: Vec<bool> = self.trace().strings.iter().map(test).collect();
        let spans = Spans::from_trace(self.trace(), without);
        let mut found: BTreeMap<SourceLocation, (Seen, Vec<Estimate>)> = BTreeMap::new();
        for host_gap in &self.host_gaps().all {
            let mut by_place: BTreeMap<SourceLocation, Vec<EventId>> = BTreeMap::new();
            let seen = host_gap.samples().iter().copied();
            for sample in
                seen.filter(|&e| self.frames_of_sample(e).any(|f| fits[f.index()]) && !spans.hold(self.trace(), e))
            {
                by_place.entry(self.line_of(sample)).or_default().push(sample);
            }
            let own = self.nearly_all(host_gap, |name| fits[name.index()]);
            let waits = own.and_then(|seen| Some(unexplained(host_gap)?.ns / seen as f64)).unwrap_or(0.0);
            for (place, samples) in by_place {
                let (seen, times) = found.entry(place).or_default();
                let time = host_gap.part(samples.len()).with_waits(waits * samples.len() as f64);
                seen.add(host_gap, time, samples);
                times.push(time);
            }
        }
        found.into_iter().map(|(place, (seen, times))| (place, seen.in_all(times))).collect()
    }

    /// How many samples of CPU time saw functions whose name passes a test, if hardly any saw something else, and these are enough to say so.
    /// None where samples of wall-clock time say themselves what waits.
    pub(super) fn nearly_all(&self, host_gap: &HostGap, fits: impl Fn(StrId) -> bool) -> Option<usize> {
        let samples = &host_gap.cpu.events;
        if !host_gap.wall.events.is_empty() {
            return None;
        }
        let seen = samples.iter().filter(|&&sample| self.frames_of_sample(sample).any(&fits)).count();
        let (least, _) = shared(seen, samples.len());
        (least > HARDLY_ELSE || (seen == samples.len() && least > 0.5)).then_some(seen)
    }

    /// Those of some functions of which stretches between operators do not tell more: that hold operators, or ran where there are none.
    pub(super) fn not_between(&self, frames: Vec<EventId>) -> Vec<EventId> {
        let (trace, host_gaps) = (self.trace(), self.host_gaps());
        if host_gaps.all.is_empty() {
            return frames;
        }
        let all: FxHashSet<EventId> = frames.iter().copied().collect();
        let around = |operator: EventId| trace.ancestors(operator).filter(|e| all.contains(e));
        let holds: FxHashSet<EventId> = self.operators().into_iter().flat_map(around).collect();
        let counts = |e: &EventId| holds.contains(e) || !host_gaps.know(trace.events.track[e.index()]);
        frames.into_iter().filter(counts).collect()
    }

    /// What threads compute between two operators where that takes so long in the mean, by the function of the user's own code that has
    /// it done, as far as samples pass a test. The place is the line of it that most of them saw.
    pub(super) fn computing_between(
        &self,
        least_ns: i64,
        test: impl Fn(EventId) -> bool,
    ) -> Vec<(SourceLocation, Seen)> {
        let mut found: BTreeMap<SourceLocation, (Seen, Vec<Estimate>)> = BTreeMap::new();
        let is_long = |of: &&HostGap| of.is_one && of.ns >= least_ns.saturating_mul(of.stretches.len() as i64);
        for host_gap in self.host_gaps().all.iter().filter(is_long) {
            let mut by_function: BTreeMap<SourceLocation, Vec<EventId>> = BTreeMap::new();
            for &sample in host_gap.cpu.events.iter().filter(|&&sample| test(sample)) {
                let function = SourceLocation { line: None, ..self.line_of(sample) };
                by_function.entry(function).or_default().push(sample);
            }
            for (function, samples) in by_function {
                let (seen, times) = found.entry(function).or_default();
                let time = host_gap.computing_part(samples.len());
                seen.add(host_gap, time, samples);
                times.push(time);
            }
        }
        let seen = found.into_values().map(|(seen, times)| seen.in_all(times));
        seen.map(|seen| (self.line_of_most(&seen.samples).unwrap_or_default(), seen)).collect()
    }

    /// The line that most of some samples saw; of several the first one.
    pub(super) fn line_of_most(&self, samples: &[EventId]) -> Option<SourceLocation> {
        let mut lines: BTreeMap<SourceLocation, usize> = BTreeMap::new();
        samples.iter().for_each(|&sample| *lines.entry(self.line_of(sample)).or_default() += 1);
        let most = lines.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)));
        most.map(|(place, _)| place)
    }

    /// Names of the function that a sample saw and of those that called it.
    pub(super) fn frames_of_sample(&self, sample: EventId) -> impl Iterator<Item = StrId> {
        std::iter::once(self.trace().events.name[sample.index()]).chain(self.stack_frames(sample))
    }

    /// The place of an event, whatever module or operator it is in: of a sample the line that ran.
    pub(super) fn line_of(&self, event: EventId) -> SourceLocation {
        let place = self.line_of_sample(event).unwrap_or_else(|| self.place(event));
        SourceLocation { module: None, operator: None, ..place }
    }
}
