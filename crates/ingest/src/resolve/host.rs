//! Detection of host records with impossible times, which would extend steps and totals.
//!
//! One damaged digit makes an operator last a year. The damaged record is unknown, so only records that others
//! contradict are marked. These are records outside the recording by its own marks, isolated records far from all
//! others, and calls that outlast their callers by far. Long waits, slow starts and pauses are none of these.

use crate::byte_offsets::{ByteOffsets, ProblemTally};
use crate::diagnostics;
use stackline_model::names::STEP_PREFIX;
use stackline_model::{EventId, EventKind, Phase, Trace, TrackId, TrackKind, flags};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Tolerance for clocks and rounding, in ns, at least a tenth of the recording.
const SLACK_NS: i64 = 100_000_000;
/// Tolerance for spans that users name, in ns, at least ten times the recording's length.
const NAMED_NS: i64 = 60_000_000_000;
/// Tolerance for the end of an isolated long record after all others, in ns, at least ten times their length.
const LONG_NS: i64 = 10_000_000_000;
/// Tolerance for an isolated short record, which a pause may explain, in ns, at least a hundred times that length.
const FAR_NS: i64 = 3_600_000_000_000;
/// Records that differ by at most this, in ns, confirm each other.
const AGREE_NS: i64 = 1_000_000_000;
/// Number of records at each end of the trace that are checked for isolation.
const OUTERMOST: usize = 8;
/// Percentage of records that begin closest together and thereby show the time of the recording.
const DENSEST: usize = 30;
/// Number of records that may contradict the recording's marks (or one in a hundred) without invalidating them.
const CONTRADICTIONS: usize = 4;

/// Mark host records with impossible times. Runs before open spans are closed, because they end with the last event.
pub(crate) fn mark(trace: &mut Trace, places: &ByteOffsets) {
    let mut wrong = isolated_starts(trace);
    exclude(trace, &wrong);
    let outer = outside_of_recording(trace).unwrap_or_else(|| isolated_spans(trace));
    exclude(trace, &outer);
    wrong.extend(outer);
    let torn = impossible_lengths(trace);
    exclude(trace, &torn);
    wrong.extend(torn);
    wrong.sort_unstable();
    let mut marked = ProblemTally::default();
    for event in wrong {
        marked.add(event, || format!("{}, {} ns long", trace.name(event), trace.events.dur[event.index()]));
    }
    marked.report(diagnostics::IMPLAUSIBLE_HOST_TIME, places, &mut trace.report);
}

/// Mark events as implausible, which excludes them from all totals.
fn exclude(trace: &mut Trace, events: &[EventId]) {
    for event in events {
        trace.events.flags[event.index()] |= flags::IMPLAUSIBLE;
    }
}

/// Check if an event is a span of a CPU thread with a known kind.
fn is_on_host(trace: &Trace, event: EventId) -> bool {
    trace.events.is_timed(event)
        && !matches!(trace.kind(event), EventKind::Recording | EventKind::Other)
        && trace.tracks.get(trace.events.track[event.index()]).kind == TrackKind::Thread
}

/// Spans of CPU threads with a known kind.
fn host(trace: &Trace) -> impl Iterator<Item = EventId> {
    trace.events.ids().filter(|&event| is_on_host(trace, event))
}

/// Records outside the time range of Kineto's recording marks; `None` without marks. If there are more than a few, only
/// those that are hours away.
fn outside_of_recording(trace: &Trace) -> Option<Vec<EventId>> {
    let (mut begin, mut end): (Option<i64>, Option<i64>) = (None, None);
    for event in trace.events.ids() {
        if trace.events.phase[event.index()] != Phase::Instant || !trace.events.is_plausible(event) {
            continue;
        }
        let at = trace.events.start[event.index()];
        match trace.name(event) {
            "Record Window End" => end = end.max(Some(at)),
            name if name.starts_with("Iteration Start: ") => begin = Some(begin.map_or(at, |begin| begin.min(at))),
            _ => {}
        }
    }
    let end = end?;
    let begin = begin.or_else(|| host(trace).map(|event| trace.events.start[event.index()]).min())?;
    let mut outside = outside_recording_range(trace, (begin, end));
    if begin <= end && outside.is_empty() {
        return Some(outside);
    }
    let all = host(trace).count();
    if begin > end || outside.len() == all {
        return None;
    }
    let most = CONTRADICTIONS.max(all / 100);
    if outside.len() > most || 2 * outside.len() >= all {
        // Marks of another recording would contradict many records by a little, but none by years.
        let far = FAR_NS.max(end.saturating_sub(begin).saturating_mul(100));
        let is_far = |event: &EventId| {
            let (start, stop) = (trace.events.start[event.index()], trace.events.end(*event));
            begin.saturating_sub(start) > far || stop.saturating_sub(end) > far
        };
        outside.retain(is_far);
        return (!outside.is_empty()).then_some(outside);
    }
    Some(outside)
}

/// Host records that begin before or end after a recording by more than the tolerance for their kind.
fn outside_recording_range(trace: &Trace, (begin, end): (i64, i64)) -> Vec<EventId> {
    let length = end.saturating_sub(begin);
    let is_outside = |event: &EventId| {
        let slack = match trace.kind(*event) {
            EventKind::Annotation => NAMED_NS.max(length.saturating_mul(10)),
            _ => SLACK_NS.max(length / 10),
        };
        let (start, stop) = (trace.events.start[event.index()], trace.events.end(*event));
        begin.saturating_sub(start) > slack || stop.saturating_sub(end) > slack
    };
    host(trace).filter(is_outside).collect()
}

/// Records that begin alone, absurdly far from the densest group of starts, independent of their share. Records that
/// agree with another one may be a second part of the recording and are kept.
fn isolated_starts(trace: &Trace) -> Vec<EventId> {
    let all = host(trace).map(|event| trace.events.start[event.index()]);
    let (first, last) = all.fold((i64::MAX, i64::MIN), |(first, last), at| (first.min(at), last.max(at)));
    // Most traces need no copy of their times.
    if last.saturating_sub(first) <= FAR_NS {
        return Vec::new();
    }
    let mut starts: Vec<(i64, EventId)> = host(trace).map(|e| (trace.events.start[e.index()], e)).collect();
    let span = |times: &[(i64, EventId)]| {
        let (first, last) = (times.iter().map(|t| t.0).min(), times.iter().map(|t| t.0).max());
        last.unwrap_or(0).saturating_sub(first.unwrap_or(0))
    };
    if starts.len() < OUTERMOST {
        return Vec::new();
    }
    starts.sort_unstable();
    let held = (starts.len() * DENSEST).div_ceil(100).max(2);
    let Some(dense) = starts.windows(held).min_by_key(|window| window[held - 1].0.saturating_sub(window[0].0)) else {
        return Vec::new();
    };
    let far = FAR_NS.max(span(dense).saturating_mul(100));
    let (low, high) = (dense[0].0.saturating_sub(far), dense[held - 1].0.saturating_add(far));
    let near = |at: usize, other: Option<usize>| {
        let other = other.and_then(|i| starts.get(i));
        other.is_some_and(|other| other.0.saturating_sub(starts[at].0).saturating_abs() <= AGREE_NS)
    };
    let is_wrong = |at: &usize| {
        let start = starts[*at].0;
        (start < low || start > high) && !near(*at, at.checked_sub(1)) && !near(*at, Some(at + 1))
    };
    (0..starts.len()).filter(is_wrong).map(|at| starts[at].1).collect()
}

/// Records whose begin or end is far outside of all other records.
fn isolated_spans(trace: &Trace) -> Vec<EventId> {
    let events = &trace.events;
    let timed = || events.ids().filter(|&e| events.is_timed(e) && trace.kind(e) != EventKind::Recording);
    let count = timed().count();
    let ends = largest_times(timed().map(|e| events.end(e)), count);
    // The first starts are the last ones of a reversed clock.
    let starts = largest_times(timed().map(|e| events.start[e.index()].saturating_neg()), count);
    let (Some(&last), Some(&first)) = (ends.first(), starts.first()) else { return Vec::new() };
    let length = last.saturating_add(first).max(0);
    let (long, far) = (LONG_NS.max(length.saturating_mul(10)), FAR_NS.max(length.saturating_mul(100)));
    let (early, late, later) = (last_plausible(&starts, far), last_plausible(&ends, long), last_plausible(&ends, far));
    let is_wrong = |event: &EventId| {
        let (start, end) = (events.start[event.index()], events.end(*event));
        start.saturating_neg() > early || end > later || end > late && events.dur[event.index()] > long
    };
    host(trace).filter(is_wrong).collect()
}

/// Select the largest of these times, ascending. At least half of all times are no greater than the first selected one.
fn largest_times(times: impl Iterator<Item = i64>, count: usize) -> Vec<i64> {
    let kept = OUTERMOST.min(count.saturating_sub(1) / 2) + 1;
    let mut found: Vec<i64> = Vec::with_capacity(kept + 1);
    for time in times {
        if found.len() < kept || found.first().is_some_and(|&least| time > least) {
            found.insert(found.partition_point(|&known| known < time), time);
            if found.len() > kept {
                found.remove(0);
            }
        }
    }
    found
}

/// Largest accepted one of ascending times: each is within `limit` ns of the last accepted one, or agrees with the next
/// one.
fn last_plausible(times: &[i64], limit: i64) -> i64 {
    let mut last = times.first().copied().unwrap_or(i64::MAX);
    for (at, &time) in times.iter().enumerate() {
        let agrees = times.get(at + 1).is_some_and(|next| next.saturating_sub(time) <= AGREE_NS);
        if time <= last.saturating_add(limit) || agrees {
            last = last.max(time);
        }
    }
    last
}

/// Long host calls whose recorded length is impossible ([`LengthCheck`]).
fn impossible_lengths(trace: &Trace) -> Vec<EventId> {
    let events = &trace.events;
    let is_long = |event: &EventId| events.dur[event.index()] > SLACK_NS && is_call(trace.kind(*event));
    let track = |event: EventId| events.track[event.index()];
    let mut threads: BTreeMap<TrackId, Vec<EventId>> =
        host(trace).filter(is_long).map(|event| (track(event), Vec::new())).collect();
    if threads.is_empty() {
        return Vec::new();
    }
    for event in host(trace) {
        if let Some(spans) = threads.get_mut(&track(event)) {
            spans.push(event);
        }
    }
    let mut found = Vec::new();
    for mut spans in threads.into_values() {
        // A stable sort is fast here: each table of a source is mostly in order.
        spans.sort_by_key(|&e| (events.start[e.index()], Reverse(events.end(e)), e));
        let mut torn = LengthCheck { trace, open: Vec::new(), gpu_calls: Vec::new(), found: Vec::new() };
        spans.into_iter().for_each(|event| torn.check_next(event));
        found.extend(torn.found);
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Search for calls on a thread with impossible lengths, such as calls that outlast their callers. Operators and calls
/// return before their callers do, except spans that Python code names. If one crosses the end of its caller, the
/// caller may be too short; two such callers rule that out. A step never begins within a call, nor an operator within a
/// call of a GPU runtime.
struct LengthCheck<'t> {
    trace: &'t Trace,
    open: Vec<EventId>,
    /// Long calls of a GPU runtime among them, usually none.
    gpu_calls: Vec<EventId>,
    found: Vec<EventId>,
}

/// Check if a kind is that of an operator or GPU API call, which return before their callers do.
fn is_call(kind: EventKind) -> bool {
    kind == EventKind::Operator || kind.is_api_call()
}

impl LengthCheck<'_> {
    /// Check the next span of the thread. Spans come sorted by start, with the longest first among equal starts.
    fn check_next(&mut self, event: EventId) {
        let (trace, events) = (self.trace, &self.trace.events);
        let (start, end) = (events.start[event.index()], events.end(event));
        while self.open.last().is_some_and(|&open| events.end(open) <= start) {
            self.open.pop();
        }
        self.gpu_calls.retain(|&call| events.end(call) > start);
        let ends_within = |open: &&EventId| end.saturating_sub(events.end(**open)) > SLACK_NS;
        let is_open = |open: &&EventId| events.end(**open) > start;
        // Callers end one after another, innermost first. Stacks may be deep.
        let callers = || self.open.iter().rev().take_while(ends_within).filter(is_open);
        if is_call(trace.kind(event)) && callers().nth(1).is_some() && !is_left_open(trace, event, callers()) {
            self.found.push(event);
            return;
        }
        let is_too_long = |open: &&EventId| events.end(**open).saturating_sub(start) > SLACK_NS;
        let wrong: Vec<EventId> = match () {
            () if is_step(trace, event) => {
                let calls = self.open.iter().filter(|open| is_call(trace.kind(**open)));
                calls.filter(is_too_long).copied().collect()
            }
            () if is_code(trace, event) => self.gpu_calls.iter().filter(is_too_long).copied().collect(),
            () => Vec::new(),
        };
        if !wrong.is_empty() {
            self.open.retain(|open| !wrong.contains(open));
            self.gpu_calls.retain(|call| !wrong.contains(call));
            self.found.extend(wrong);
        }
        if end.saturating_sub(start) > SLACK_NS && is_of_gpu(trace, event) {
            self.gpu_calls.push(event);
        }
        if end > start {
            self.open.push(event);
        }
    }
}

/// Check if a span may outlast its callers: Python code that names a span (`RecordFunctionFast` in a context manager, as
/// in torch.compile) returns while the span is open. Operators have a namespace in their name, and return first.
fn is_left_open<'e>(trace: &Trace, event: EventId, mut callers: impl Iterator<Item = &'e EventId>) -> bool {
    trace.kind(event) == EventKind::Operator
        // The spans of torch.optim and of data loaders close within the function that opens them.
        && !trace.name(event).contains('#')
        && !trace.name(event).contains("::")
        && callers.all(|caller| trace.kind(*caller) == EventKind::PythonFunction)
}

/// Check if a span is a profiler step.
fn is_step(trace: &Trace, event: EventId) -> bool {
    trace.kind(event) == EventKind::Annotation && trace.name(event).starts_with(STEP_PREFIX)
}

/// Check if a call belongs to CUDA or HIP, which call no Python.
fn is_of_gpu(trace: &Trace, event: EventId) -> bool {
    let name = trace.name(event);
    trace.kind(event).is_api_call() && (name.starts_with("cu") || name.starts_with("hip"))
}

/// Check if a span is an operator, Python function or annotation, which no GPU runtime calls.
fn is_code(trace: &Trace, event: EventId) -> bool {
    matches!(trace.kind(event), EventKind::Operator | EventKind::PythonFunction | EventKind::Annotation)
}

#[cfg(test)]
mod tests {
    use super::{AGREE_NS, LONG_NS, largest_times, last_plausible};

    #[test]
    fn times_that_agree_are_plausible() {
        let far = 1000 * LONG_NS;
        assert_eq!(last_plausible(&[5, 10, far], LONG_NS), 10);
        assert_eq!(last_plausible(&[5, 10, far, far + AGREE_NS], LONG_NS), far + AGREE_NS);
        assert_eq!(last_plausible(&[5, 10, far, 3 * far], LONG_NS), 10);
        assert_eq!(last_plausible(&[5, LONG_NS, 2 * LONG_NS], LONG_NS), 2 * LONG_NS);
        assert_eq!(last_plausible(&[], LONG_NS), i64::MAX);
    }

    #[test]
    fn first_kept_time_is_at_least_the_median() {
        assert_eq!(largest_times([3, 1, 2].into_iter(), 3), [2, 3]);
        assert_eq!(largest_times([1].into_iter(), 1), [1]);
        assert_eq!(largest_times([9, 1].into_iter(), 2), [9]);
        assert_eq!(largest_times((0..100).rev(), 100), [91, 92, 93, 94, 95, 96, 97, 98, 99]);
    }
}
