//! Inference of training steps that end with optimizer spans.

use super::optimizer_cycles::{self, OptimizerHashes};
use super::steps::{is_span, span};
use rustc_hash::{FxBuildHasher, FxHashMap};
use stackline_model::{EventId, EventKind, Step, StrId, Trace, TrackId, names};
use std::cmp::Reverse;
use std::hash::BuildHasher;

/// Steps that end with an optimizer span; with several alternating optimizers, with the last one before the first one
/// repeats. The steps are those of the thread with most of them, per process. Each step begins at the end of the
/// previous one. The first one begins where the thread first runs the operations that begin the second step; it is
/// excluded if the recording begins in it.
pub(super) fn steps_up_to_optimizers(trace: &Trace, marks: &[EventId]) -> Vec<Step> {
    let track = |event: EventId| trace.events.track[event.index()];
    let mut counts: FxHashMap<TrackId, usize> = FxHashMap::default();
    marks.iter().for_each(|&event| *counts.entry(track(event)).or_default() += 1);
    let Some(busiest) =
        counts.into_iter().max_by_key(|&(thread, count)| (count, Reverse(thread))).map(|(thread, _)| thread)
    else {
        return Vec::new();
    };
    let mut spans: Vec<EventId> = Vec::new();
    for &event in marks.iter().filter(|&&event| track(event) == busiest) {
        // An optimizer may call another one.
        if spans.last().is_none_or(|&last| trace.events.start[event.index()] >= trace.events.end(last)) {
            spans.push(event);
        }
    }
    let names: Vec<StrId> = spans.iter().map(|event| trace.events.name[event.index()]).collect();
    let ends: Vec<i64> = spans.iter().map(|&event| trace.events.end(event)).collect();
    let batches = batches(trace, busiest);
    let last =
        optimizer_cycles::ends(&names, || OptimizerHashes::Contents(contents(trace, busiest, &spans)), &ends, &batches);
    let marks: Vec<EventId> = last.iter().map(|&at| spans[at]).collect();
    let ends = optimizer_cycles::extend_to_batches(&last.iter().map(|&at| ends[at]).collect::<Vec<_>>(), &batches);
    let [one, two, ..] = ends[..] else { return Vec::new() };
    let mut start = step_start(trace, &spans, one, two);
    let step = |(number, (event, end)): (i64, (EventId, i64))| {
        start.replace(end).map(|start| Step { number, event, start, end })
    };
    (0..).zip(marks.into_iter().zip(ends)).filter_map(step).collect()
}

/// Hash of each optimizer span, to distinguish optimizers of one class: names and shapes of its operators, and without
/// shapes the backward nodes that ran since the previous span.
fn contents(trace: &Trace, track: TrackId, spans: &[EventId]) -> Vec<u64> {
    let mut contents = operators(trace, track, spans);
    if trace.key("Input Dims").is_none() {
        let nodes = backward_nodes(trace, track, spans);
        contents.iter_mut().zip(nodes).for_each(|(content, nodes)| *content = content.wrapping_add(nodes));
    }
    contents
}

/// Hashes of the backward nodes of the thread's process between the start of the previous span and that of each span.
fn backward_nodes(trace: &Trace, track: TrackId, spans: &[EventId]) -> Vec<u64> {
    let process = trace.tracks.pid(track);
    let starts: Vec<i64> = spans.iter().map(|event| trace.events.start[event.index()]).collect();
    let is_node: Vec<bool> = trace.strings.iter().map(|name| name.starts_with(names::BACKWARD_NODE)).collect();
    let mut contents = vec![0_u64; spans.len()];
    for event in trace.events.ids() {
        let (row, name) = (event.index(), trace.events.name[event.index()]);
        if is_node[name.index()] && trace.tracks.pid(trace.events.track[row]) == process {
            let at = starts.partition_point(|&start| start <= trace.events.start[row]);
            if let Some(content) = contents.get_mut(at) {
                *content = content.wrapping_add(FxBuildHasher.hash_one(name));
            }
        }
    }
    contents
}

/// Hash of the names and input shapes of the thread's operators within each span.
fn operators(trace: &Trace, track: TrackId, spans: &[EventId]) -> Vec<u64> {
    let starts: Vec<i64> = spans.iter().map(|event| trace.events.start[event.index()]).collect();
    let shapes = trace.attr("Input Dims");
    let mut contents = vec![0_u64; spans.len()];
    let is_operator =
        |event: &EventId| trace.events.track[event.index()] == track && trace.kind(*event) == EventKind::Operator;
    for event in trace.events.ids().filter(is_operator) {
        let (start, end) = span(trace, event);
        if let Some(at) = starts.partition_point(|&from| from <= start).checked_sub(1)
            && end <= trace.events.end(spans[at])
        {
            let shape = shapes.get(event).map(|value| value.as_str(&trace.strings));
            contents[at] = contents[at].wrapping_add(FxBuildHasher.hash_one((trace.events.name[event.index()], shape)));
        }
    }
    contents
}

/// Times at which a thread requests batches from a data loader, ascending.
fn batches(trace: &Trace, track: TrackId) -> Vec<i64> {
    let is_batch = |event: &EventId| {
        trace.events.track[event.index()] == track
            && is_span(trace, *event)
            && trace.strings.get(trace.events.name[event.index()]).starts_with(NEXT_BATCH)
    };
    let mut starts: Vec<i64> = trace.events.ids().filter(is_batch).map(|e| trace.events.start[e.index()]).collect();
    starts.sort_unstable();
    starts
}

/// Prefix of span names in which a program waits for the next batch of a data loader.
pub(crate) const NEXT_BATCH: &str = "enumerate(DataLoader)#";
/// Number of consecutive events that identify a position in a step.
const EVENTS_OF_POSITION: usize = 3;
/// Limit on tried start events: the first events of a step may have no match in the previous one, such as those after
/// the optimizer of another step.
const MOST_TRIED: usize = 64;

/// Start of the step that ends at `one`: where its thread runs the operations that begin the step from `one` to `two`.
/// `None` if the recording begins later.
fn step_start(trace: &Trace, spans: &[EventId], one: i64, two: i64) -> Option<i64> {
    let events = operations(trace, spans, (one, two));
    let (before, step) = events.split_at(events.partition_point(|&(start, _)| start < one));
    let row = EVENTS_OF_POSITION.min(step.len()).max(1);
    let is_same_sequence = |one: &[(i64, StrId)], other: &[(i64, StrId)]| {
        one.iter().map(|(_, name)| name).eq(other.iter().map(|(_, name)| name))
    };
    // Of several matches (a step may take several batches), use the one whose distance from the end equals that in the
    // next step.
    let (found, at) = step.windows(row).take(MOST_TRIED).enumerate().find_map(|(at, window)| {
        let length = step.len() - at;
        let rows = before.windows(row).enumerate().filter(|(_, other)| is_same_sequence(window, other));
        let found = rows.map(|(found, _)| found).min_by_key(|found| (before.len() - found).abs_diff(length))?;
        Some((found, at))
    })?;
    // A first step may do less, because there are no gradients to zero yet.
    let is_whole = 4 * (before.len() - found) >= 3 * (step.len() - at);
    is_whole.then(|| before[found].0)
}

/// Starts and names of the operations of the optimizer spans' thread up to `two`, the end of a step that begins at
/// `one`, in time order. Work that only a first step does is excluded: creation of the optimizer's state, allocations,
/// and loading of kernels.
fn operations(trace: &Trace, spans: &[EventId], (one, two): (i64, i64)) -> Vec<(i64, StrId)> {
    let Some(track) = spans.first().map(|&first| trace.events.track[first.index()]) else { return Vec::new() };
    let start = |event: EventId| trace.events.start[event.index()];
    let events: Vec<EventId> =
        trace.track_events(track).iter().copied().filter(|&e| is_span(trace, e) && start(e) < two).collect();
    let has_operators = events.iter().any(|&event| trace.kind(event) == EventKind::Operator);
    let is_operation = |event: &EventId| match trace.kind(*event) {
        EventKind::PythonFunction => false,
        kind => !(has_operators && (kind.is_api_call() || kind == EventKind::Overhead)),
    };
    let is_outside = |event: &EventId| {
        let around = spans.partition_point(|&around| start(around) <= start(*event)).checked_sub(1);
        around.is_none_or(|at| spans[at] == *event || trace.events.end(*event) > trace.events.end(spans[at]))
    };
    let all: Vec<EventId> = events.into_iter().filter(is_operation).collect();
    let outside: Vec<EventId> = all.iter().copied().filter(is_outside).collect();
    // An optimizer with a closure runs the whole step.
    let is_enough = outside.iter().filter(|&&event| start(event) >= one).count() >= EVENTS_OF_POSITION;
    let chosen = if is_enough { outside } else { all };
    chosen.into_iter().map(|event| (start(event), trace.events.name[event.index()])).collect()
}
