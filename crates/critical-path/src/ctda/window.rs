//! Selection of the time window that method `ctda` analyzes: whole trace, steps or annotation.

use super::CtdaOptions;
use crate::nearest::nearest_annotations;
use crate::{CriticalPathError, Instances};
use stackline_model::names::STEP_PREFIX;
use stackline_model::{EventId, EventKind, Trace, TrackKind, flags};
use stackline_timeline::steps::host_window_of;

/// Time range in ns since the trace's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: i64,
    pub(super) end: i64,
}

/// Select the time window by options of method `ctda`, and count requested instances that do not exist.
pub(super) fn select_window(trace: &Trace, options: &CtdaOptions) -> Result<(Window, usize), CriticalPathError> {
    let whole = trace
        .events
        .ids()
        .filter(|&e| has_reliable_time(trace, e))
        .map(|e| (trace.events.start[e.index()], trace.events.end(e)));
    let whole = whole.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).ok_or(CriticalPathError::NoTimedEvents)?;
    let mut missing = 0;
    let mut window = whole;
    if let Some((first, last)) = options.steps {
        window = steps(trace, first, last)?;
    }
    if !options.annotation.is_empty() {
        let ((start, end), none) = annotation_window(trace, options, window)?;
        (window, missing) = ((start, end), none);
    }
    let window = Window { start: window.0.max(whole.0), end: window.1.min(whole.1) };
    if window.end <= window.start {
        let window_ns = window.end.saturating_sub(window.start).max(0);
        return Err(CriticalPathError::EmptyGraph { window_ns, rows: 0, whole_trace: is_whole(options) });
    }
    Ok((window, missing))
}

/// True if an event has a reliable start and duration on a thread or stream.
fn has_reliable_time(trace: &Trace, event: EventId) -> bool {
    let bits = trace.events.flags[event.index()] & (flags::HAS_DURATION | flags::NO_TIME | flags::IMPLAUSIBLE);
    let on_lane = |kind| matches!(kind, TrackKind::Thread | TrackKind::Stream);
    bits == flags::HAS_DURATION
        && trace.kind(event) != EventKind::Recording
        && on_lane(trace.tracks.get(trace.events.track[event.index()]).kind)
}

/// Host time range of the steps with numbers from `first` to `last`; an error with similar names if no step exists.
fn steps(trace: &Trace, first: i64, last: i64) -> Result<(i64, i64), CriticalPathError> {
    host_window_of(trace, (first, last)).ok_or_else(|| CriticalPathError::AnnotationNotFound {
        annotation: format!("{STEP_PREFIX}{first}"),
        nearest: nearest_annotations(trace, &format!("{STEP_PREFIX}{first}")),
    })
}

/// Window of the selected instances of an annotation on host threads: first start, last end, and number of missing
/// instances. Instances are counted in the order of the file.
fn annotation_window(
    trace: &Trace,
    options: &CtdaOptions,
    within: (i64, i64),
) -> Result<((i64, i64), usize), CriticalPathError> {
    let (from, to) = match options.instance {
        None => (0, 0),
        Some(Instances::One(n)) => (n, n),
        Some(Instances::Range(from, to)) if from <= to => (from, to),
        Some(Instances::Range(from, to)) => return Err(CriticalPathError::EmptyRange { from, to }),
    };
    let mut named: Vec<Option<bool>> = vec![None; trace.strings.len()];
    let mut has_name = |event: EventId| {
        let name = trace.events.name[event.index()];
        let known = named.get_mut(name.index());
        known.is_some_and(|k| *k.get_or_insert_with(|| trace.strings.get(name).contains(&options.annotation)))
    };
    let mut found: Option<(i64, i64)> = None;
    let mut count = 0;
    for event in trace.events.ids() {
        let on_host = trace.tracks.get(trace.events.track[event.index()]).kind == TrackKind::Thread;
        if !on_host || !has_name(event) || !has_reliable_time(trace, event) {
            continue;
        }
        let span = (trace.events.start[event.index()], trace.events.end(event));
        if span.0 < within.0 || span.0 > within.1 {
            continue;
        }
        if (from..=to).contains(&count) {
            found = Some(found.map_or(span, |f| (f.0.min(span.0), f.1.max(span.1))));
        }
        count += 1;
    }
    let annotation = options.annotation.clone();
    match found {
        Some(window) => Ok((window, (to + 1).saturating_sub(count))),
        None if count > 0 => Err(CriticalPathError::InstanceOutOfRange { annotation, instance: from, count }),
        None => {
            Err(CriticalPathError::AnnotationNotFound { nearest: nearest_annotations(trace, &annotation), annotation })
        }
    }
}

/// True if the options select the whole trace.
pub(super) fn is_whole(options: &CtdaOptions) -> bool {
    options.annotation.is_empty() && options.steps.is_none()
}
