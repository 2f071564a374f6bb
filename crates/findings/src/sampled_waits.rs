//! Waiting time of threads outside of operators, from samples of waiting threads or of CPU time.

use super::estimate::Estimate;
use super::host_gaps::{HostGap, Spans};
use super::rule_context::RuleContext;
use super::sampled_work::SampledWork;
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::{Category, PathSegment};
use stackline_model::vocabulary::is_own_code;
use stackline_model::{EventId, Key, SampleWeights, StrId, Trace, TrackId};
use stackline_timeline::frame_names::frame;
use stackline_timeline::recording::Recording;
use stackline_timeline::sampling_error::share_bounds;
use stackline_timeline::source_location::SourceLocation;
use std::collections::BTreeMap;

/// Common part (line, function or file) of two source locations, which contains code between them.
fn common_location(before: SourceLocation, after: &SourceLocation) -> SourceLocation {
    if before == *after {
        before
    } else if before.file != after.file {
        SourceLocation::default()
    } else {
        let function = before.function.filter(|function| Some(function) == after.function.as_ref());
        SourceLocation { file: before.file, function, ..SourceLocation::default() }
    }
}

/// Largest share of a wait after its last sample: the recorder samples a continuing wait after each further tenth of
/// its length.
const MAX_UNSAMPLED_SHARE: f64 = 0.1;

impl HostGap {
    /// Waiting time from `samples` samples with the total weight `ns`, at the sampling interval `wait_sampling_ns`. An
    /// interval without a sample means that the thread ran.
    fn waiting_time(&self, samples: usize, ns: i64, wait_sampling_ns: f64) -> Estimate {
        let time = self.ns as f64;
        let checks = (time / wait_sampling_ns).round().max(samples as f64);
        let share = (ns as f64 / time.max(1.0)).min(1.0);
        let (least, most) = share_bounds((share * checks).round() as usize, checks as usize);
        let high = (time * most.max(share) * (1.0 + MAX_UNSAMPLED_SHARE)).min(time);
        Estimate { ns: time * share, low: time * least.min(share), high }
    }

    /// Time in which the thread neither computes nor is runnable, in ns; none if unknown.
    fn waiting(&self, recording: Option<&Recording>, trace: &Trace) -> Option<Estimate> {
        let (computing, time) = (self.computing(), self.ns as f64);
        let Key::Int(pid) = trace.tracks.pid(self.track?) else { return None };
        let (first, last) = (self.occurrences.first()?, self.occurrences.last()?);
        let (from, to) = (trace.events.end(first.0), trace.events.start[last.1.index()]);
        let delayed = recording.map_or(0.0, |recording| recording.processor_wait_ns(pid, from, to));
        // The gap's share of the time in which all threads of the process were runnable without a processor; at most
        // all of it.
        let part = delayed * time / ((to - from) as f64).max(1.0);
        let waits = |computing: f64, delayed: f64| (time - computing - delayed).max(0.0);
        let low = waits(computing.high, delayed);
        Some(Estimate { ns: waits(computing.ns, part).max(low), low, high: waits(computing.low, 0.0) })
    }
}

impl RuleContext<'_> {
    /// Waits between two operators for unrecorded causes, by source location. Excludes gaps with known waits, gaps in
    /// spans that pass the test `is_other`, and waits of other work, by the test `has_waits`.
    pub(super) fn waits_between(
        &self,
        known: &[EventId],
        is_other: impl Fn(StrId) -> bool,
        has_waits: impl Fn(&str) -> bool,
    ) -> Vec<(SourceLocation, SampledWork)> {
        let left_over = self.unexplained_waits(known, &is_other, &has_waits);
        let Some(wait_sampling_ns) = self.host_gaps().wait_sampling_ns else { return left_over };
        self.sampled_waits(wait_sampling_ns, known, &is_other).into_iter().chain(left_over).collect()
    }

    /// Critical-path time during each waiting call, in ns. For a thread with steps that the path returns to after the
    /// call, this includes the path in other threads meanwhile. Excludes their operators, which are necessary work.
    pub(super) fn path_during(&self, calls: &[EventId]) -> Vec<i64> {
        let trace = self.trace();
        let inside = self.path_inside(calls);
        let with_steps: FxHashSet<TrackId> =
            trace.steps.iter().map(|step| trace.events.track[step.event.index()]).collect();
        let track = |call: EventId| trace.events.track[call.index()];
        if !calls.iter().any(|&call| with_steps.contains(&track(call))) {
            return inside;
        }
        let segments: Vec<PathSegment> = self.path().segments.iter().collect();
        let of = |(&call, inside): (&EventId, i64)| {
            let (start, end) = (trace.events.start[call.index()], trace.events.end(call));
            let after = segments.get(segments.partition_point(|segment| segment.end <= end)).or(segments.last());
            let continues_on_thread = after.is_some_and(|segment| segment.track == track(call));
            if !continues_on_thread || !with_steps.contains(&track(call)) {
                return inside;
            }
            let during = segments[segments.partition_point(|segment| segment.end <= start)..]
                .iter()
                .take_while(|segment| segment.start < end);
            let is_waited_for = |segment: &&PathSegment| match segment.category {
                Category::ThreadHandover => true,
                Category::HostPython | Category::HostBlocked => segment.event.is_some(),
                _ => false,
            };
            let others = during.filter(|segment| segment.track != track(call)).filter(is_waited_for);
            inside + others.map(|segment| segment.end.min(end) - segment.start.max(start)).sum::<i64>()
        };
        calls.iter().zip(inside).map(of).collect()
    }

    /// Waits by source location, from samples of blocked threads.
    fn sampled_waits(
        &self,
        wait_sampling_ns: f64,
        known: &[EventId],
        is_other: &impl Fn(StrId) -> bool,
    ) -> Vec<(SourceLocation, SampledWork)> {
        let trace = self.trace();
        let (known, weights) = (Spans::from_trace(trace, known), SampleWeights::new(trace));
        let is_others = |sample| self.frames_of_sample(sample).any(is_other);
        let mut found: BTreeMap<SourceLocation, (SampledWork, Vec<Estimate>)> = BTreeMap::new();
        for host_gap in &self.host_gaps().all {
            let mut by_place: BTreeMap<SourceLocation, Vec<EventId>> = BTreeMap::new();
            let own = host_gap.waits.events.iter().filter(|&&e| !known.contains(trace, e) && !is_others(e));
            own.for_each(|&sample| by_place.entry(self.line_of(sample)).or_default().push(sample));
            for (place, samples) in by_place {
                let ns = samples.iter().filter_map(|&sample| weights.get(sample)).map(|(_, ns)| ns).sum();
                let mut time = host_gap.waiting_time(samples.len(), ns, wait_sampling_ns);
                if samples.len() == host_gap.waits.events.len() {
                    time = self.with_missed_waits(host_gap, time, (&known, is_other));
                }
                let (seen, all) = found.entry(place).or_default();
                seen.add(host_gap, time, samples);
                all.push(time);
            }
        }
        found.into_iter().map(|(place, (seen, times))| (place, seen.with_total(times))).collect()
    }

    /// Waiting time of a gap whose waits are all of one kind. Checks at fixed times miss most waits of a program with
    /// the same period. So if samples of CPU time exclude that the thread computed for the rest, it waited.
    fn with_missed_waits(
        &self,
        host_gap: &HostGap,
        time: Estimate,
        (known, is_other): (&Spans, &impl Fn(StrId) -> bool),
    ) -> Estimate {
        if !self.is_computing_sampled(host_gap) || self.has_known_work(host_gap, known, is_other) {
            return time;
        }
        let Some(waiting) = host_gap.waiting(self.recording(), self.trace()) else { return time };
        let least = waiting.low - (host_gap.most_computing_ns() - host_gap.computing().high);
        match least > time.high {
            true => Estimate { ns: waiting.ns.max(time.ns), low: time.low, high: waiting.high.max(time.high) },
            false => time,
        }
    }

    /// Check if CPU time samples show the computing in a gap: it is not a sum of short gaps, and its thread has such
    /// samples.
    fn is_computing_sampled(&self, host_gap: &HostGap) -> bool {
        let of_track = host_gap.track.and_then(|track| self.host_gaps().sampled.get(&track));
        host_gap.is_one && of_track.is_some_and(|&(has_cpu, _)| has_cpu)
    }

    /// Check if a gap contains known waits, or if a span around its operators has a name that passes a test.
    fn has_known_work(&self, host_gap: &HostGap, known: &Spans, is_other: impl Fn(StrId) -> bool) -> bool {
        let trace = self.trace();
        let in_other = |event: EventId| trace.ancestors(event).any(|e| is_other(trace.events.name[e.index()]));
        host_gap
            .occurrences
            .iter()
            .any(|&(before, after)| known.begins_between(trace, before, after) || in_other(before) || in_other(after))
    }

    /// Unexplained waiting time in a gap, from the time without CPU samples. None if the gap has samples of waits or
    /// known waits, or is in a span whose name passes a test.
    pub(super) fn unexplained(
        &self,
        host_gap: &HostGap,
        known: &Spans,
        is_other: impl Fn(StrId) -> bool,
    ) -> Option<Estimate> {
        if !self.is_computing_sampled(host_gap)
            || !host_gap.waits.events.is_empty()
            || self.has_known_work(host_gap, known, is_other)
        {
            return None;
        }
        let time = host_gap.waiting(self.recording(), self.trace())?;
        // If the recorder samples blocked threads, waits that it cannot interrupt are known only from this time: then
        // uncertain waits do not count.
        let is_sure = time.low > 0.0 || !self.host_gaps().has_wait_samples();
        Some(time).filter(|time| time.ns > 0.0 && is_sure)
    }

    /// Unexplained waits in host gaps, by source location, except for waits within other work of the gap.
    fn unexplained_waits(
        &self,
        known: &[EventId],
        is_other: &impl Fn(StrId) -> bool,
        has_waits: &impl Fn(&str) -> bool,
    ) -> Vec<(SourceLocation, SampledWork)> {
        let trace = self.trace();
        let known = Spans::from_trace(trace, known);
        let wait = |host_gap: &HostGap| {
            let time = self.unexplained(host_gap, &known, is_other)?;
            if self.dominant_samples(host_gap, |name| has_waits(trace.strings.get(name))).is_some() {
                return None;
            }
            let (before, after) = host_gap.occurrences[0];
            // CPU time samples show the location of computation, not of waits.
            let place = self.most_sampled_line(&host_gap.wall.events);
            let place = place.unwrap_or_else(|| self.place_between(before, after));
            let mut seen = SampledWork { time, ..SampledWork::default() };
            seen.add(host_gap, time, host_gap.samples().to_vec());
            Some((place, seen))
        };
        self.host_gaps().all.iter().filter_map(wait).collect()
    }

    /// Common source location of two operators. For operators of one line in two steps, it is unknown if code between
    /// them is in the same function.
    fn place_between(&self, before: EventId, after: EventId) -> SourceLocation {
        let place = common_location(self.line_of(before), &self.line_of(after));
        let step = |operator: EventId| self.step_of(&self.trace().steps, operator);
        if step(before) != step(after) {
            return SourceLocation { line: None, function: None, ..place };
        }
        if place.line.is_some() { place } else { self.last_common_line(before, after).unwrap_or(place) }
    }

    /// Last common caller of two operators, with the line that leads to the first one. Code between the operators is
    /// there or in its callees.
    fn last_common_line(&self, before: EventId, after: EventId) -> Option<SourceLocation> {
        let frames =
            |operator| self.stack_frames(operator).into_iter().rev().map(|name| self.trace().strings.get(name));
        let (mut own, mut found) = (frames(before).collect::<Vec<_>>().into_iter(), None);
        for other in frames(after) {
            let name = own.next()?;
            let ((file, line, function), its) = (frame(name)?, frame(other)?);
            if (file, function) != (its.0, its.2) {
                break;
            }
            if is_own_code(file) {
                found = Some((file, line, function));
            }
            if line != its.1 {
                break;
            }
        }
        let (file, line, function) = found?;
        let (file, function) = (Some(file.to_owned()), Some(function.to_owned()));
        Some(SourceLocation { file, line: Some(line), function, ..SourceLocation::default() })
    }
}
