//! Time of threads between operators, and what samples say of it.
//!
//! A recording knows exactly when operators ran. What a thread did between two of them only samples saw, which are rarer than
//! steps: a function that runs for 3 ms in each step is seen in one step of three. But the program does between the same two
//! operators the same in each step. So the times between them, which are known, are put together over all steps, and divided as
//! the samples that lie in any of them.

use super::estimate::{Estimate, counted, shared};
use super::finding::{Confidence, Fact, Worth};
use super::place::{Place, frame, is_own};
use super::subject::Subject;
use crate::critical_path::exact::what_if::{Action, Chosen, Edit};
use crate::recording::Recording;
use rustc_hash::FxHashSet;
use stackline_model::{EventId, EventKind, Key, StrId, Trace, TrackId};
use std::collections::BTreeMap;

/// What a thread does between two operators of the program, in all steps together.
#[derive(Debug, Default)]
pub(super) struct Interlude {
    track: Option<TrackId>,
    /// Whether it is one stretch of the program, rather than many short ones put together.
    is_one: bool,
    /// The operator before and the one behind, each time.
    pub(super) stretches: Vec<(EventId, EventId)>,
    /// How long all of it takes, in ns.
    pub(super) ns: i64,
    cpu: Samples,
    wall: Samples,
}

/// Samples of one kind.
#[derive(Debug, Default)]
struct Samples {
    events: Vec<EventId>,
    /// What all of them stand for, in ns.
    ns: i64,
}

/// All of a trace.
#[derive(Debug, Default)]
pub(super) struct Interludes {
    pub(super) all: Vec<Interlude>,
    /// Per thread of them whether samples of CPU time and of wall-clock time were taken on it.
    sampled: BTreeMap<TrackId, (bool, bool)>,
}

/// What is done between operators from one place of the program.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// How long it takes in the whole window, in ns.
    pub(super) time: Estimate,
    /// The same of each thread.
    by_thread: BTreeMap<Option<TrackId>, f64>,
    /// How long all takes that is done between those operators, in ns.
    pub(super) around_ns: i64,
    pub(super) stretches: Vec<(EventId, EventId)>,
    /// The samples that saw it.
    pub(super) samples: Vec<EventId>,
}

impl Seen {
    /// What it rests on.
    pub(super) fn facts(&self, subject: &Subject<'_>) -> Vec<Fact> {
        vec![
            Fact::count("samples of it", self.samples.len()),
            Fact::time("of it between operators, a step", subject.per_step(self.time.ns as i64)),
            Fact::time("at least", subject.per_step(self.time.low as i64)),
            Fact::time("at most", subject.per_step(self.time.high as i64)),
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
    fn without(&self, subject: &Subject<'_>, place: &Place, ns: f64) -> Option<Edit> {
        let left = (1.0 - ns / (self.around_ns as f64).max(1.0)).clamp(0.0, 1.0);
        let chosen = Chosen { between: self.stretches.clone(), ..Chosen::default() };
        subject.edit_of(Action::Scale(left), format!("time between operators at {}", place.text()), chosen)
    }

    /// What it is worth if half of it goes, and at most all of it, with operators as quick as the quickest of them are: a hope.
    pub(super) fn hope(&self, subject: &Subject<'_>, place: &Place) -> Option<Worth> {
        let edit = |ns: f64| self.without(subject, place, ns);
        let most = edit(self.time.high).into_iter().chain(self.quick_operators(subject)).collect();
        Some(Worth::HopeTo(vec![edit(self.time.ns / 2.0)?], most))
    }

    /// As if the operators of its threads were all as quick as the quickest tenth of their calls are: what runs between them takes their
    /// caches, and uses up the time in which a thread may keep its processor.
    fn quick_operators(&self, subject: &Subject<'_>) -> Option<Edit> {
        let trace = subject.trace();
        let is_beside = |e: &EventId| self.by_thread.contains_key(&Some(trace.events.track[e.index()]));
        let mut inside = subject.outermost(&subject.operators());
        inside.retain(is_beside);
        let mut by_caller: BTreeMap<Caller, Vec<i64>> = BTreeMap::new();
        inside.iter().for_each(|&e| by_caller.entry(caller(trace, e)).or_default().push(subject.dur(e)));
        let (mut taken, mut quick) = (0, 0);
        for mut lengths in by_caller.into_values() {
            lengths.sort_unstable();
            taken += lengths.iter().sum::<i64>();
            quick += lengths[lengths.len() / 10] * lengths.len() as i64;
        }
        let left = (quick as f64 / taken.max(1) as f64).clamp(0.0, 1.0);
        (taken > quick).then(|| subject.edit(Action::Scale(left), "operators beside it".to_owned(), &inside)).flatten()
    }

    /// What it is worth if all of it goes, together with other edits; none if nothing can be done to it.
    pub(super) fn worth(&self, subject: &Subject<'_>, place: &Place, others: &[Edit]) -> Option<Worth> {
        let edits = |ns: f64| {
            let edit = self.without(subject, place, ns)?;
            Some(others.iter().cloned().chain([edit]).collect::<Vec<Edit>>())
        };
        let Estimate { ns, low, high } = self.time;
        Some(Worth::Sampled { likely: edits(ns)?, least: edits(low)?, most: edits(high)? })
    }
}

/// What lies between operators from one place to another counts as a stretch of the program of its own if so many samples are to
/// be expected in it; all others of a thread are put together.
const SAMPLES: i64 = 5;

/// From where an operator is called, and its name.
type Caller = (usize, StrId);

impl Interludes {
    /// Those that begin in a stretch of time; none where there are no samples.
    pub(super) fn of(trace: &Trace, window: (i64, i64)) -> Self {
        let samples = samples(trace, window);
        let mut found = Self::default();
        for (track, operators) in operators(trace, |track| samples.contains_key(&track)) {
            let Some(samples) = samples.get(&track) else { continue };
            let has = |is_wall: bool| samples.iter().any(|sample| sample.is_wall == is_wall);
            found.sampled.insert(track, (has(false), has(true)));
            found.all.extend(of_thread(trace, window, (track, &operators), samples));
        }
        found
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
    is_wall: bool,
}

/// Samples of each thread, by time.
fn samples(trace: &Trace, (from, to): (i64, i64)) -> BTreeMap<TrackId, Vec<Sample>> {
    let (cpu, wall) = (trace.attr("cpu_time_ns"), trace.attr("real_time_ns"));
    let mut found: BTreeMap<TrackId, Vec<Sample>> = BTreeMap::new();
    for event in trace.events.ids().filter(|&event| trace.kind(event) == EventKind::Sample) {
        let at = trace.events.start[event.index()];
        let ns = cpu.i64(event).map(|ns| (ns, false)).or_else(|| Some((wall.i64(event)?, true)));
        if let Some((ns, is_wall)) = ns.filter(|_| (from..to).contains(&at)) {
            found.entry(trace.events.track[event.index()]).or_default().push(Sample { at, event, ns, is_wall });
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
) -> Vec<Interlude> {
    let mut by_callers: BTreeMap<(Caller, Caller), Interlude> = BTreeMap::new();
    for pair in operators.windows(2) {
        let (begin, end) = (trace.events.end(pair[0]), trace.events.start[pair[1].index()]);
        if begin >= end || !(from..to).contains(&begin) {
            continue;
        }
        let interlude = by_callers.entry((caller(trace, pair[0]), caller(trace, pair[1]))).or_default();
        interlude.stretches.push((pair[0], pair[1]));
        interlude.ns += end - begin;
        let first = samples.partition_point(|sample| sample.at < begin);
        for sample in samples[first..].iter().take_while(|sample| sample.at < end) {
            let of = if sample.is_wall { &mut interlude.wall } else { &mut interlude.cpu };
            of.events.push(sample.event);
            of.ns += sample.ns;
        }
    }
    let least = usual(samples, false).max(usual(samples, true)).saturating_mul(SAMPLES);
    let (mut found, mut rest) = (Vec::new(), Interlude::default());
    for interlude in by_callers.into_values() {
        if interlude.ns >= least { found.push(Interlude { is_one: true, ..interlude }) } else { rest.add(interlude) }
    }
    found.push(rest);
    found.iter_mut().for_each(|interlude| interlude.track = Some(track));
    found
}

/// The median of what samples of one kind stand for, in ns: single ones stand for more, where the machine was busy.
fn usual(samples: &[Sample], is_wall: bool) -> i64 {
    let mut lengths: Vec<i64> = samples.iter().filter(|sample| sample.is_wall == is_wall).map(|s| s.ns).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied().unwrap_or(0)
}

/// What two places have in common: something between them is somewhere there.
fn between(before: Place, behind: &Place) -> Place {
    if before == *behind {
        before
    } else if before.file != behind.file {
        Place::default()
    } else {
        let function = before.function.filter(|function| Some(function) == behind.function.as_ref());
        Place { file: before.file, function, ..Place::default() }
    }
}

fn caller(trace: &Trace, operator: EventId) -> Caller {
    let stacks = &trace.stacks;
    let stack = stacks.event.binary_search(&operator).ok().map_or(usize::MAX, |at| stacks.stack[at].index());
    (stack, trace.events.name[operator.index()])
}

impl Interlude {
    fn add(&mut self, other: Self) {
        self.stretches.extend(other.stretches);
        self.ns += other.ns;
        for (of, more) in [(&mut self.cpu, other.cpu), (&mut self.wall, other.wall)] {
            of.events.extend(more.events);
            of.ns += more.ns;
        }
    }

    /// The samples that say how its time divides: those of wall-clock time see waiting, too.
    fn samples(&self) -> &[EventId] {
        if self.wall.events.is_empty() { &self.cpu.events } else { &self.wall.events }
    }

    /// How long the thread computes in it, in ns.
    fn computing(&self) -> Estimate {
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

    /// How long the thread neither computes nor is ready to, in ns; none if that cannot be told.
    fn waiting(&self, recording: Option<&Recording>, trace: &Trace) -> Option<Estimate> {
        let (computing, time) = (self.computing(), self.ns as f64);
        let Key::Int(pid) = trace.tracks.pid(self.track?) else { return None };
        let (first, last) = (self.stretches.first()?, self.stretches.last()?);
        let (from, to) = (trace.events.end(first.0), trace.events.start[last.1.index()]);
        let delayed = recording.map_or(0.0, |recording| recording.delayed(pid, from, to));
        // Its part of what all threads of the process waited for processors; all of that at most.
        let part = delayed * time / ((to - from) as f64).max(1.0);
        let waits = |computing: f64, delayed: f64| (time - computing - delayed).max(0.0);
        let low = waits(computing.high, delayed);
        Some(Estimate { ns: waits(computing.ns, part).max(low), low, high: waits(computing.low, 0.0) })
    }
}

impl Subject<'_> {
    /// What threads do between operators that is called from each place, as far as samples of it saw a function whose name (or
    /// that of one that called it) passes a test; samples that lie in some spans do not count.
    pub(super) fn seen_between(&self, test: impl Fn(&str) -> bool, without: &[EventId]) -> Vec<(Place, Seen)> {
        let fits: Vec<bool> = self.trace().strings.iter().map(test).collect();
        let events = &self.trace().events;
        let mut spans: Vec<(TrackId, i64, i64)> =
            without.iter().map(|&e| (events.track[e.index()], events.start[e.index()], events.end(e))).collect();
        spans.sort_unstable();
        let is_in_span = |sample: EventId| {
            let (track, at) = (events.track[sample.index()], events.start[sample.index()]);
            let behind = spans.partition_point(|&(t, from, _)| (t, from) <= (track, at));
            behind.checked_sub(1).is_some_and(|last| spans[last].0 == track && at < spans[last].2)
        };
        let mut found: BTreeMap<Place, (Seen, Vec<Estimate>)> = BTreeMap::new();
        for interlude in &self.interludes().all {
            let mut by_place: BTreeMap<Place, Vec<EventId>> = BTreeMap::new();
            let seen = interlude.samples().iter().copied();
            for sample in seen.filter(|&e| self.frames_of_sample(e).any(|f| fits[f.index()]) && !is_in_span(e)) {
                by_place.entry(self.line_of(sample)).or_default().push(sample);
            }
            for (place, samples) in by_place {
                let (seen, times) = found.entry(place).or_default();
                times.push(interlude.part(samples.len()));
                seen.around_ns += interlude.ns;
                seen.stretches.extend(&interlude.stretches);
                seen.samples.extend(samples);
            }
        }
        let summed = |(place, (seen, times)): (Place, (Seen, Vec<Estimate>))| {
            (place, Seen { time: Estimate::sum(times), ..seen })
        };
        found.into_iter().map(summed).collect()
    }

    /// Those of some functions of which stretches between operators do not tell more: that hold operators, or ran where there are none.
    pub(super) fn not_between(&self, frames: Vec<EventId>) -> Vec<EventId> {
        let (trace, interludes) = (self.trace(), self.interludes());
        if interludes.all.is_empty() {
            return frames;
        }
        let all: FxHashSet<EventId> = frames.iter().copied().collect();
        let around = |operator: EventId| trace.ancestors(operator).filter(|e| all.contains(e));
        let holds: FxHashSet<EventId> = self.operators().into_iter().flat_map(around).collect();
        let counts = |e: &EventId| holds.contains(e) || !interludes.know(trace.events.track[e.index()]);
        frames.into_iter().filter(counts).collect()
    }

    /// What threads compute between two operators where that takes so long in the mean, by the function of the user's own code that has
    /// it done, as far as samples pass a test. The place is the line of it that most of them saw.
    pub(super) fn computing_between(&self, least_ns: i64, test: impl Fn(EventId) -> bool) -> Vec<(Place, Seen)> {
        let mut found: BTreeMap<Place, (Seen, Vec<Estimate>)> = BTreeMap::new();
        let is_long = |of: &&Interlude| of.is_one && of.ns >= least_ns.saturating_mul(of.stretches.len() as i64);
        for interlude in self.interludes().all.iter().filter(is_long) {
            let mut by_function: BTreeMap<Place, Vec<EventId>> = BTreeMap::new();
            for &sample in interlude.cpu.events.iter().filter(|&&sample| test(sample)) {
                let function = Place { line: None, ..self.line_of(sample) };
                by_function.entry(function).or_default().push(sample);
            }
            for (function, samples) in by_function {
                let (seen, times) = found.entry(function).or_default();
                let time = interlude.computing_part(samples.len());
                *seen.by_thread.entry(interlude.track).or_default() += time.ns;
                times.push(time);
                seen.around_ns += interlude.ns;
                seen.stretches.extend(&interlude.stretches);
                seen.samples.extend(samples);
            }
        }
        let seen = found.into_values().map(|(seen, times)| Seen { time: Estimate::sum(times), ..seen });
        seen.map(|seen| (self.line_of_most(&seen.samples).unwrap_or_default(), seen)).collect()
    }

    /// The line that most of some samples saw; of several the first one.
    fn line_of_most(&self, samples: &[EventId]) -> Option<Place> {
        let mut lines: BTreeMap<Place, usize> = BTreeMap::new();
        samples.iter().for_each(|&sample| *lines.entry(self.line_of(sample)).or_default() += 1);
        let most = lines.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)));
        most.map(|(place, _)| place)
    }

    /// Names of the function that a sample saw and of those that called it.
    pub(super) fn frames_of_sample(&self, sample: EventId) -> impl Iterator<Item = StrId> {
        std::iter::once(self.trace().events.name[sample.index()]).chain(self.stack_frames(sample))
    }

    /// The place of an event, whatever module or operator it is in: of a sample the line that ran.
    pub(super) fn line_of(&self, event: EventId) -> Place {
        let place = self.line_of_sample(event).unwrap_or_else(|| self.place(event));
        Place { module: None, operator: None, ..place }
    }

    /// What the lines of two operators have in common. Operators of one line in two steps are those of two calls: that something between
    /// them is in the function that they are in is not known.
    fn place_between(&self, before: EventId, behind: EventId) -> Place {
        let place = between(self.line_of(before), &self.line_of(behind));
        let step = |operator: EventId| self.step_of(&self.trace().steps, operator);
        if step(before) != step(behind) {
            return Place { line: None, function: None, ..place };
        }
        if place.line.is_some() { place } else { self.last_line_of_both(before, behind).unwrap_or(place) }
    }

    /// Where the ways to two operators part: the function that calls both, and its line behind which one comes before the other. What is
    /// between them is there, or in what is called from there on.
    fn last_line_of_both(&self, before: EventId, behind: EventId) -> Option<Place> {
        let frames =
            |operator| self.stack_frames(operator).into_iter().rev().map(|name| self.trace().strings.get(name));
        let (mut own, mut found) = (frames(before).collect::<Vec<_>>().into_iter(), None);
        for other in frames(behind) {
            let name = own.next()?;
            let ((file, line, function), its) = (frame(name)?, frame(other)?);
            if (file, function) != (its.0, its.2) {
                break;
            }
            if is_own(file) {
                found = Some((file, line, function));
            }
            if line != its.1 {
                break;
            }
        }
        let (file, line, function) = found?;
        let (file, function) = (Some(file.to_owned()), Some(function.to_owned()));
        Some(Place { file, line: Some(line), function, ..Place::default() })
    }

    /// Where threads wait between two operators for what is not in the trace; what holds one of some waits that are known, or lies
    /// in spans whose name passes a test, does not count.
    pub(super) fn waits_between(&self, known: &[EventId], is_other: impl Fn(&str) -> bool) -> Vec<(Place, Seen)> {
        let (trace, interludes) = (self.trace(), self.interludes());
        let knows = |interlude: &&Interlude| {
            let sampled = interlude.track.and_then(|track| interludes.sampled.get(&track));
            interlude.is_one && sampled.is_some_and(|&(has_cpu, _)| has_cpu)
        };
        let events = &trace.events;
        let mut waits: Vec<(TrackId, i64)> =
            known.iter().map(|e| (events.track[e.index()], events.start[e.index()])).collect();
        waits.sort_unstable();
        let is_within = |&(before, behind): &(EventId, EventId)| {
            let (track, from, to) = (events.track[before.index()], events.end(before), events.start[behind.index()]);
            let first = waits.partition_point(|&wait| wait < (track, from));
            waits.get(first).is_some_and(|&wait| wait < (track, to))
                || trace.ancestors(before).any(|e| is_other(trace.name(e)))
                || trace.ancestors(behind).any(|e| is_other(trace.name(e)))
        };
        let wait = |interlude: &Interlude| {
            let time = interlude.waiting(self.recording(), trace).filter(|time| time.ns > 0.0)?;
            let (before, behind) = interlude.stretches[0];
            // Samples of CPU time are where it computes.
            let seen = self.line_of_most(&interlude.wall.events);
            let place = seen.unwrap_or_else(|| self.place_between(before, behind));
            let (around_ns, stretches) = (interlude.ns, interlude.stretches.clone());
            let by_thread = BTreeMap::from([(interlude.track, time.ns)]);
            Some((place, Seen { time, by_thread, around_ns, stretches, samples: interlude.samples().to_vec() }))
        };
        let counts = |interlude: &&Interlude| knows(interlude) && !interlude.stretches.iter().any(is_within);
        interludes.all.iter().filter(counts).filter_map(wait).collect()
    }
}
