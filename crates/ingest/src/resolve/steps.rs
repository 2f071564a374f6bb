//! Detection of steps from the marks that programs, frameworks and servers write for each iteration on CPU threads.
//!
//! Only the first kind of marks ([`steps_of_known_marks`]) that a trace contains is used, so marks of the user take
//! precedence over those of libraries. If no thread has marks, steps come from a device row: a profiler's row of steps,
//! or marks that Kineto projects onto a stream (`gpu_user_annotation`).

use super::optimizer_steps::steps_up_to_optimizers;
use crate::diagnostics;
use crate::sources::{device_rows, xprof};
use regex_lite::Regex;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::format::duration;
use stackline_model::vocabulary::{FRAMEWORKS, Framework, StepRole};
use stackline_model::{
    AttrValue, EventId, EventKind, Key, RECORDING_FORMAT, Step, StepIndex, StrId, Trace, TrackId, TrackKind, flags,
    names,
};
use stackline_recording::OPTIMIZER_STEP;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Meaning of a step mark, parsed from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// A step with this number.
    Numbered(i64),
    /// A step without a number; steps are numbered in their order.
    Step,
    /// End of a step and start of the next one.
    End,
}

/// Parse a step mark of torch.profiler, such as `ProfilerStep#5`; `None` for other names.
fn profiler_mark(name: &str) -> Option<Mark> {
    Some(Mark::Numbered(name.strip_prefix(names::STEP_PREFIX)?.parse().ok()?))
}

/// Parse a step mark of a training framework or inference engine, by the span's name; `None` for other names.
fn framework_mark(framework: &Framework, name: &str) -> Option<Mark> {
    Some(match framework.step_role(name)? {
        StepRole::Whole => Mark::Step,
        StepRole::End => Mark::End,
    })
}

/// Parse the span of a torch.optim optimizer as the end of a step, by the span's name; `None` for other names.
fn optimizer_mark(name: &str) -> Option<Mark> {
    (name == "Optimizer.step" || name.starts_with(OPTIMIZER_STEP)).then_some(Mark::End)
}

/// Fill `trace.steps` in time order, from marks whose names match `pattern`, or else from known marks. A numeric
/// capture group of the pattern is the step number.
pub(super) fn fill_steps(trace: &mut Trace, pattern: Option<&Regex>) {
    let requested = pattern.map(|pattern| marks(trace, |name| pattern_mark(pattern, name)));
    trace.steps = match &requested {
        Some(marks) => steps(trace, marks.clone()),
        None => steps_of_known_marks(trace),
    };
    if trace.steps.is_empty() {
        trace.steps = steps_of_device(trace, pattern);
    }
    set_lengths(trace);
    let within = requested.map(|marks| within_steps_of_other_threads(trace, &marks)).unwrap_or_default();
    for event in within {
        diagnostics::STEP_WITHIN_ANOTHER.count(
            &mut trace.report,
            None,
            trace.strings.get(trace.events.name[event.index()]),
        );
    }
    for event in marks_outside_their_steps(trace) {
        let name = trace.strings.get(trace.events.name[event.index()]);
        diagnostics::MARK_OF_OTHER_THREAD.count(&mut trace.report, None, name);
    }
    if let Some(pattern) = pattern.filter(|_| trace.steps.is_empty()) {
        diagnostics::NO_STEP_MATCHES.count(&mut trace.report, None, &format!("pattern '{pattern}'"));
    }
    for number in repeated_numbers(trace) {
        diagnostics::REPEATED_STEP.count(&mut trace.report, None, &format!("step {number}"));
    }
    for number in duplicated_numbers(trace) {
        diagnostics::REPEATED_MARK.count(&mut trace.report, None, &format!("step {number}"));
    }
    let pauses: Vec<_> = trace.pauses().iter().copied().filter(|pause| !pause.separates_processes).collect();
    for pause in pauses {
        let example =
            format!("a gap of {} between steps {} and {}", duration(pause.length_ns()), pause.before, pause.after);
        if trace.meta.format == RECORDING_FORMAT {
            let missing = pause.missing_steps().max(1);
            diagnostics::UNRECORDED_STEPS.count_many(&mut trace.report, missing, None, &example);
        } else {
            diagnostics::RECORDING_PAUSED.count(&mut trace.report, None, &example);
        }
    }
}

/// Steps of the first kind of marks in the trace: of torch.profiler, of spans numbered by an argument (which profiling
/// users name), of a framework, of an optimizer.
fn steps_of_known_marks(trace: &Trace) -> Vec<Step> {
    let mut found = steps(trace, marks(trace, profiler_mark));
    if found.is_empty() {
        found = steps(trace, numbered_by_argument(trace));
    }
    if found.is_empty() {
        let with_marks = FRAMEWORKS.iter().filter(|framework| !framework.steps.is_empty());
        let mut of_each =
            with_marks.map(|framework| steps(trace, marks(trace, |name| framework_mark(framework, name))));
        found = of_each.find(|steps| !steps.is_empty()).unwrap_or_default();
    }
    if found.is_empty() {
        found = steps(trace, marks(trace, optimizer_mark));
    }
    found
}

/// Steps of a device, if no thread marks any: of its row of steps, or else of the marks on one of its streams.
fn steps_of_device(trace: &mut Trace, pattern: Option<&Regex>) -> Vec<Step> {
    let row = if pattern.is_none() { device_step_row(trace) } else { None };
    let Some((device, marks)) = row.or_else(|| marks_on_stream(trace, pattern)) else { return Vec::new() };
    let found = steps(trace, marks);
    let device = device.map_or_else(|| "a device".to_owned(), |number| format!("device {number}"));
    diagnostics::STEPS_OF_DEVICE.count_many(&mut trace.report, found.len() as u64, None, &device);
    found
}

/// Marks of a device, and its number if known.
type DeviceMarks = (Option<i64>, Vec<(EventId, Mark)>);

/// Spans of a device's row of steps, as marks, with the device number. Their names are the step numbers.
fn device_step_row(trace: &Trace) -> Option<DeviceMarks> {
    let (row, device) = device_rows::step_row(trace)?;
    let is_mark = |event: &EventId| {
        trace.events.track[event.index()] == row && trace.events.is_timed(*event) && trace.events.dur[event.index()] > 0
    };
    let mark = |event: EventId| (event, trace.name(event).parse().map_or(Mark::Step, Mark::Numbered));
    Some((device, trace.events.ids().filter(is_mark).map(mark).collect()))
}

/// Spans that mark steps on one stream, the one with most of them; of several such streams, the one with the longest
/// total. Kineto projects each mark of the program onto every stream with work of the step, from the first to the last
/// operation there.
fn marks_on_stream(trace: &Trace, pattern: Option<&Regex>) -> Option<DeviceMarks> {
    let read = |name: &str| match pattern {
        Some(pattern) => pattern_mark(pattern, name),
        None => profiler_mark(name).or_else(|| FRAMEWORKS.iter().find_map(|framework| framework_mark(framework, name))),
    };
    let known: Vec<Option<Mark>> = trace.strings.iter().map(read).collect();
    let mut streams: BTreeMap<TrackId, (i64, Vec<(EventId, Mark)>)> = BTreeMap::new();
    for event in trace.events.ids() {
        let row = event.index();
        let is_span = trace.kind(event) == EventKind::GpuAnnotation && trace.events.is_timed(event);
        // Marks of a step's end in the program do not show when its GPU work ends.
        let mark = known.get(trace.events.name[row].index()).copied().flatten().filter(|mark| *mark != Mark::End);
        if let Some(mark) = mark.filter(|_| is_span && trace.events.dur[row] > 0) {
            let (length, marks) = streams.entry(trace.events.track[row]).or_default();
            *length = length.saturating_add(trace.events.dur[row]);
            marks.push((event, mark));
        }
    }
    let most = |(track, (length, marks)): &(TrackId, (i64, Vec<_>))| (marks.len(), *length, Reverse(*track));
    let (track, (_, marks)) = streams.into_iter().max_by_key(most)?;
    Some((Some(i64::from(trace.tracks.get(track).device)).filter(|&device| device >= 0), marks))
}

/// Limit on the gap between consecutive marks, in percent of a step.
const BETWEEN_PERCENT: i64 = 5;

/// Set the length of steps whose marks have no duration. If marks are consecutive, such a step lasts until the next one
/// of its process begins. Otherwise, and at the end, its length is unknown and it is removed.
fn set_lengths(trace: &mut Trace) {
    let is_empty = |step: &Step| step.end <= step.start;
    if !trace.steps.iter().any(is_empty) {
        return;
    }
    let process = |step: &Step| trace.tracks.pid(trace.events.track[step.event.index()]);
    let mut next: FxHashMap<Key, i64> = FxHashMap::default();
    let begins: Vec<Option<i64>> =
        trace.steps.iter().rev().map(|step| next.insert(process(step), step.start)).collect();
    let pairs: Vec<(&Step, Option<i64>)> = trace.steps.iter().zip(begins.into_iter().rev()).collect();
    let follows = |step: &Step, next: i64| {
        next.saturating_sub(step.end).saturating_mul(100) <= BETWEEN_PERCENT.saturating_mul(step.end - step.start)
    };
    let mut whole = pairs.iter().filter(|(step, _)| !is_empty(step)).filter_map(|(step, next)| Some((step, (*next)?)));
    let are_adjacent = whole.all(|(step, next)| follows(step, next));
    let new_end = |&(step, next): &(&Step, Option<i64>)| match next.filter(|_| are_adjacent) {
        _ if !is_empty(step) => Some(*step),
        Some(next) => Some(Step { end: next, ..*step }),
        None => None,
    };
    let steps: Vec<Step> = pairs.iter().filter_map(new_end).collect();
    for step in trace.steps.iter().filter(|step| is_empty(step)) {
        trace.events.flags[step.event.index()] |= flags::IMPLAUSIBLE;
        let name = trace.strings.get(trace.events.name[step.event.index()]);
        diagnostics::ZERO_STEP.count(&mut trace.report, None, name);
    }
    trace.steps = steps;
}

/// Step mark for a name that matches the user's pattern, numbered by the first numeric group; `None` without a match.
fn pattern_mark(pattern: &Regex, name: &str) -> Option<Mark> {
    let groups = pattern.captures(name)?;
    let number = groups.iter().skip(1).flatten().find_map(|group| group.as_str().parse().ok());
    Some(number.map_or(Mark::Step, Mark::Numbered))
}

/// Check if an event may be a mark: a span with a duration on a CPU thread.
pub(super) fn is_span(trace: &Trace, event: EventId) -> bool {
    trace.tracks.get(trace.events.track[event.index()]).kind == TrackKind::Thread
        && trace.events.has(event, flags::HAS_DURATION)
        && trace.events.is_plausible(event)
}

/// Collect the spans of CPU threads that mark steps by their names. Python functions are excluded, because they may
/// have any name.
fn marks(trace: &Trace, reading: impl Fn(&str) -> Option<Mark>) -> Vec<(EventId, Mark)> {
    let read = |(i, name): (usize, &str)| Some((StrId::new(i), reading(name)?));
    let known: Vec<(StrId, Mark)> = trace.strings.iter().enumerate().filter_map(read).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let mark_of = |event: EventId| {
        let name = trace.events.name[event.index()];
        known.binary_search_by_key(&name, |&(id, _)| id).ok().map(|i| known[i].1)
    };
    let all = trace.events.ids().filter_map(|event| Some((event, mark_of(event)?)));
    all.filter(|&(event, _)| is_span(trace, event) && trace.kind(event) != EventKind::PythonFunction).collect()
}

/// Spans of CPU threads with a step number as argument (`step_num`), as marks.
fn numbered_by_argument(trace: &Trace) -> Vec<(EventId, Mark)> {
    let column = trace.attr(xprof::STEP_NUMBER);
    let number = |event| match column.get(event)? {
        AttrValue::Int(number) => Some(number),
        AttrValue::Uint(number) => i64::try_from(number).ok(),
        AttrValue::Str(text) => trace.strings.get(text).parse().ok(),
        _ => None,
    };
    let all = trace.events.ids().filter_map(|event| Some((event, Mark::Numbered(number(event)?))));
    all.filter(|&(event, _)| is_span(trace, event)).collect()
}

/// Marks of one process.
type ProcessMarks = Vec<(EventId, Mark)>;

/// Create the steps of all processes from marks, in time order.
fn steps(trace: &Trace, mut marks: Vec<(EventId, Mark)>) -> Vec<Step> {
    marks.sort_by_key(|&(event, _)| (span(trace, event).0, Reverse(span(trace, event).1), event));
    let mut processes: Vec<(Key, ProcessMarks)> = Vec::new();
    let mut places: FxHashMap<Key, usize> = FxHashMap::default();
    for mark in marks {
        let process = trace.tracks.pid(trace.events.track[mark.0.index()]);
        let at = *places.entry(process).or_insert(processes.len());
        match processes.get_mut(at) {
            Some((_, marks)) => marks.push(mark),
            None => processes.push((process, vec![mark])),
        }
    }
    let of_process = |marks: ProcessMarks| match marks.iter().any(|(_, mark)| *mark == Mark::End) {
        true => steps_up_to_optimizers(trace, &marks.iter().map(|&(event, _)| event).collect::<Vec<_>>()),
        false => steps_of_marks(trace, marks),
    };
    let mut steps: Vec<Step> = processes.into_iter().flat_map(|(_, marks)| of_process(marks)).collect();
    steps.sort_by_key(|step| (step.start, step.event));
    steps
}

/// Start and end of an event, in ns.
pub(super) fn span(trace: &Trace, event: EventId) -> (i64, i64) {
    (trace.events.start[event.index()], trace.events.end(event))
}

/// Maximum distance of the starts and ends of two marks of one step, in percent of the step.
const REPEAT_PERCENT: u64 = 1;

/// Test if a mark repeats the mark of a step: same name and thread, and the same or nearly the same times.
fn repeats(trace: &Trace, event: EventId, step: &Step) -> bool {
    let events = &trace.events;
    let row = |event: EventId| (events.name[event.index()], events.track[event.index()]);
    let ((start, end), (step_start, step_end)) = (span(trace, event), span(trace, step.event));
    let is_near = |a: i64, b: i64| {
        a.abs_diff(b).saturating_mul(100) <= step_start.abs_diff(step_end).saturating_mul(REPEAT_PERCENT)
    };
    event != step.event && row(event) == row(step.event) && is_near(start, step_start) && is_near(end, step_end)
}

/// One step per mark, in time order. A mark within another one is excluded: it belongs to another thread in the same
/// step, or to an inner loop. Overlapping marks with one number are one step, that of the thread with the most events:
/// threads that a step starts may repeat its mark slightly later.
fn steps_of_marks(trace: &Trace, marks: ProcessMarks) -> Vec<Step> {
    let event_count = |mark: EventId| trace.track_events(trace.events.track[mark.index()]).len();
    let mut steps: Vec<Step> = Vec::with_capacity(marks.len());
    for (event, mark) in marks {
        let (start, end) = span(trace, event);
        if let Some(around) = steps.last_mut() {
            if end <= around.end || repeats(trace, event, around) {
                continue;
            }
            if mark == Mark::Numbered(around.number) && start < around.end {
                if event_count(event) > event_count(around.event) {
                    *around = Step { event, start, end, ..*around };
                }
                continue;
            }
        }
        let number = match mark {
            Mark::Numbered(number) => number,
            _ => i64::try_from(steps.len()).unwrap_or(i64::MAX),
        };
        steps.push(Step { number, event, start, end });
    }
    steps
}

/// Marks within a step of another thread of their process, which are not steps.
fn within_steps_of_other_threads(trace: &Trace, marks: &[(EventId, Mark)]) -> Vec<EventId> {
    let track = |event: EventId| trace.events.track[event.index()];
    let index = StepIndex::new(trace);
    let is_step: FxHashSet<EventId> = trace.steps.iter().map(|step| step.event).collect();
    let is_within = |&event: &EventId| {
        let (start, end) = span(trace, event);
        // Among the steps of a process, those that begin later end later.
        let around = || index.last_begun(start, trace.tracks.pid(track(event))).map(|at| &trace.steps[at as usize]);
        let is_around = |step: &Step| end <= step.end && track(step.event) != track(event);
        !is_step.contains(&event) && around().is_some_and(is_around)
    };
    marks.iter().filter(|(_, mark)| *mark != Mark::End).map(|&(event, _)| event).filter(is_within).collect()
}

/// Least part of a step, in percent, by which a mark of another thread exceeds the step. Threads that a step starts may
/// repeat its mark slightly later.
const OUTSIDE_PERCENT: i64 = 5;

/// Marks of other threads with the name of a step that they overlap, and with time outside of this step. Only of steps
/// whose name is unique in their process.
fn marks_outside_their_steps(trace: &Trace) -> Vec<EventId> {
    let events = &trace.events;
    let mut is_step_name = vec![false; trace.strings.len()];
    let mut by_name: FxHashMap<(Key, StrId), Option<&Step>> = FxHashMap::default();
    for step in &trace.steps {
        let name = events.name[step.event.index()];
        if let Some(known) = is_step_name.get_mut(name.index()) {
            *known = true;
        }
        let process = trace.tracks.pid(events.track[step.event.index()]);
        by_name.entry((process, name)).and_modify(|known| *known = None).or_insert(Some(step));
    }
    let is_outside = |&event: &EventId| {
        let (name, track) = (events.name[event.index()], events.track[event.index()]);
        if !is_step_name.get(name.index()).copied().unwrap_or(false) || !is_span(trace, event) {
            return false;
        }
        let Some(Some(step)) = by_name.get(&(trace.tracks.pid(track), name)) else { return false };
        let (start, end) = span(trace, event);
        let outside = step.start.saturating_sub(start).max(0).saturating_add(end.saturating_sub(step.end).max(0));
        let overlaps = start < step.end && end > step.start;
        let is_large = outside > step.end.saturating_sub(step.start) / 100 * OUTSIDE_PERCENT;
        track != events.track[step.event.index()] && overlaps && is_large
    };
    events.ids().filter(is_outside).collect()
}

/// Numbers that several steps of a process share.
fn repeated_numbers(trace: &Trace) -> Vec<i64> {
    let mut seen: FxHashMap<(Key, i64), u32> = FxHashMap::default();
    for step in &trace.steps {
        *seen.entry((trace.tracks.pid(trace.events.track[step.event.index()]), step.number)).or_default() += 1;
    }
    let mut repeated: Vec<i64> =
        seen.into_iter().filter(|(_, count)| *count > 1).map(|((_, number), _)| number).collect();
    repeated.sort_unstable();
    repeated
}

/// Numbers of steps whose mark occurs several times in the file, with the same or nearly the same times.
fn duplicated_numbers(trace: &Trace) -> Vec<i64> {
    let events = &trace.events;
    let row = |event: EventId| (events.name[event.index()], events.track[event.index()]);
    let mut steps: FxHashMap<(StrId, TrackId), Vec<&Step>> = FxHashMap::default();
    for step in &trace.steps {
        steps.entry(row(step.event)).or_default().push(step);
    }
    let marks: FxHashSet<EventId> = trace.steps.iter().map(|step| step.event).collect();
    let repeated = |event: EventId| {
        let of_mark = steps.get(&row(event))?;
        let start = events.start[event.index()];
        let next = of_mark.partition_point(|step| events.start[step.event.index()] <= start);
        // The step that has begun last, or the one that begins next.
        let mut near = of_mark[next.saturating_sub(1)..].iter().take(2);
        near.find(|step| repeats(trace, event, step)).map(|step| step.number)
    };
    events.ids().filter(|event| !marks.contains(event)).filter_map(repeated).collect()
}

#[cfg(test)]
mod tests {
    use super::{Mark, framework_mark, optimizer_mark, pattern_mark, profiler_mark};
    use regex_lite::Regex;
    use stackline_model::vocabulary::FRAMEWORKS;

    #[test]
    fn step_names_of_all_producers_are_recognized() {
        let of_any = |name: &str| FRAMEWORKS.iter().find_map(|framework| framework_mark(framework, name));
        let read = |name: &str| profiler_mark(name).or_else(|| of_any(name)).or_else(|| optimizer_mark(name));
        for (name, mark) in [
            ("ProfilerStep#12", Some(Mark::Numbered(12))),
            ("ProfilerStep", None),
            ("[pl][profile]run_training_batch", Some(Mark::Step)),
            ("step[DECODE bs=31]", Some(Mark::Step)),
            ("step[", None),
            ("execute_4_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk28sqsq4sqsk28)", Some(Mark::Step)),
            ("execute_context_2(512)_generation_3(3)", Some(Mark::Step)),
            ("execute_diffusion_1_1024x1024", None),
            ("DeepSpeedZeroOptimizer_Stage3.step", Some(Mark::End)),
            ("DeepSpeedEngine.forward", None),
            ("Optimizer.step#AdamW.step", Some(Mark::End)),
            ("Optimizer.step", Some(Mark::End)),
            ("Optimizer.steps", None),
            ("Optimizer.zero_grad#AdamW.zero_grad", None),
        ] {
            assert_eq!(read(name), mark, "{name}");
        }
    }

    #[test]
    fn patterns_may_capture_the_step_number() {
        let pattern = Regex::new(r"^iter(?:ation)? (\d+)?").unwrap();
        let read = |name: &str| pattern_mark(&pattern, name);
        assert_eq!(
            [read("iteration 17"), read("iter x"), read("epoch 1")],
            [Some(Mark::Numbered(17)), Some(Mark::Step), None]
        );
    }
}
