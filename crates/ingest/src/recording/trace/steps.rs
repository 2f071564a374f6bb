//! Inference of training steps: a step ends with an optimizer step, as `record --steps` counts them. With several
//! optimizers, it ends with the last one before the first one repeats.

use super::calls::{Call, Calls, RecordingChange, ThreadCalls};
use super::frames::InferredFrame;
use crate::resolve::optimizer_cycles::{self, OptimizerHashes};
use crate::resolve::optimizer_steps::NEXT_BATCH;
use rustc_hash::{FxBuildHasher, FxHashSet};
use stackline_model::UNRECORDED;
use stackline_model::names::{COLLECTION, IMPORTS, STEP_PREFIX};
use stackline_recording::{FrameKey, OPTIMIZER_STEP};
use std::hash::BuildHasher;

/// A training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Number of earlier steps, recorded or not.
    pub(super) number: u64,
    pub(super) start: i64,
    pub(super) end: i64,
    /// Time at which the recording paused after this step, if it is the last one before the pause.
    pause: Option<i64>,
}

/// Infer the training steps of a process, and the index of their thread; `None` if the program itself marks steps.
pub(super) fn infer(calls: &Calls) -> Option<(usize, Vec<Step>)> {
    if calls.texts.iter().any(|text| text.starts_with(STEP_PREFIX)) {
        return None;
    }
    let spans = calls.threads.iter().map(|thread| optimizers(calls, thread));
    // Optimizers on several threads train several models: the thread with most optimizer steps is used.
    let (at, spans) = spans.enumerate().max_by_key(|(at, spans)| (spans.len(), std::cmp::Reverse(*at)))?;
    let thread = calls.threads.get(at)?;
    let names: Vec<u32> = spans.iter().map(|span| span.name).collect();
    let ends: Vec<i64> = spans.iter().map(|span| span.end).collect();
    let batches = batches(calls, thread);
    // If the recording paused, calls between two others may be missing, so only names are compared.
    let is_whole = calls.windows.is_empty();
    let places = || {
        OptimizerHashes::Places(
            spans.iter().filter(|_| is_whole).map(|span| location_hash(calls, thread, span.node)).collect(),
        )
    };
    let last = optimizer_cycles::ends(&names, places, &ends, if is_whole { &batches } else { &[] });
    let ends: Vec<i64> = last.into_iter().map(|at| ends[at]).collect();
    let ends = optimizer_cycles::extend_to_batches(&ends, &batches);
    let first = first_step_start(calls, thread, &ends)?;
    if calls.windows.is_empty() {
        return Some((at, steps(first, 0, &ends, None)));
    }
    // The recorder counts the steps of each optimizer.
    let names: FxHashSet<u32> = names.into_iter().collect();
    let mut found = Vec::new();
    for (window, opened) in calls.windows.iter().enumerate().filter(|(_, change)| change.open) {
        let pause = calls.windows.get(window + 1).map(|closed| closed.at);
        let next = calls.windows[window + 1..].iter().find(|change| change.open).map_or(i64::MAX, |next| next.at);
        // A step that began before a pause may end in it.
        let within = ends.partition_point(|&end| end <= opened.at)..ends.partition_point(|&end| end <= next);
        found.extend(in_window(opened, (window == 0).then_some(first), names.len() as u64, &ends[within], pause));
    }
    Some((at, found))
}

/// Metadata entry with the pauses between recorded parts, as time ranges in ns since the trace's base; `None` without
/// pauses. `offset` is added to the process's times.
pub(super) fn pauses_entry(calls: &Calls, offset: i64) -> Option<(String, String)> {
    let gaps = calls.windows.windows(2).filter(|pair| !pair[0].open && pair[1].open);
    let ranges: Vec<[i64; 2]> =
        gaps.map(|pair| [pair[0].at.saturating_add(offset), pair[1].at.saturating_add(offset)]).collect();
    (!ranges.is_empty()).then(|| (UNRECORDED.to_owned(), serde_json::json!(ranges).to_string()))
}

/// Complete steps of a recording window; a step in progress at its start is excluded. `first` is the start of the very
/// first step, if it is in this window.
fn in_window(
    opened: &RecordingChange,
    first: Option<i64>,
    optimizers: u64,
    ends: &[i64],
    pause: Option<i64>,
) -> Vec<Step> {
    let number = opened.step / optimizers.max(1);
    match ends {
        [cut, ends @ ..] if !opened.at_step => steps(*cut, number + 1, ends, pause),
        _ => steps(first.unwrap_or(opened.at), number, ends, pause),
    }
}

/// Create consecutive steps, from `start` to each of `ends` (ns); `first` is the number of the first one.
fn steps(mut start: i64, first: u64, ends: &[i64], pause: Option<i64>) -> Vec<Step> {
    let step = |(number, (at, &end))| {
        let pause = pause.filter(|_| at + 1 == ends.len());
        Step { number, start: std::mem::replace(&mut start, end), end, pause }
    };
    (first..).zip(ends.iter().enumerate()).map(step).collect()
}

/// Extend each step to the end of the outermost function that began in it and called the optimizer: later work of that
/// function belongs to the step. A step is not extended into the next optimizer step or beyond a pause of the
/// recording.
pub(super) fn extend(steps: &[Step], frames: &[InferredFrame]) -> Vec<Step> {
    let mut frames: Vec<&InferredFrame> = frames.iter().collect();
    frames.sort_by_key(|frame| frame.start);
    let mut extended: Vec<Step> = Vec::with_capacity(steps.len());
    for (at, step) in steps.iter().enumerate() {
        let start = extended.last().map_or(step.start, |last| step.start.max(last.end));
        let limit = match (step.pause, steps.get(at + 1)) {
            (Some(pause), _) => pause,
            (None, Some(next)) => next.end - 1,
            // The surroundings of a single step are unknown.
            (None, None) if at == 0 => step.end,
            (None, None) => i64::MAX,
        };
        let from = frames.partition_point(|frame| frame.start < start);
        let began = frames[from..].iter().take_while(|frame| frame.start < step.end);
        let around = began.map(|frame| frame.end).filter(|&last| last > step.end && last <= limit);
        extended.push(Step { start, end: around.max().unwrap_or(step.end), ..*step });
    }
    extended
}

/// Start of the first step: the first call that is repeated from the same location in the second step. Earlier calls
/// prepare the training. A single step starts at the first call outside of imports and garbage collection.
fn first_step_start(calls: &Calls, thread: &ThreadCalls, ends: &[i64]) -> Option<i64> {
    let works = |call: &&Call| {
        let is_collection = span_name(calls, thread, call).is_some_and(|name| calls.text(name) == COLLECTION);
        !is_collection && !is_import(calls, thread, call)
    };
    let first = thread.calls.iter().find(works).or(thread.calls.first())?.start;
    let &[one, two, ..] = ends else { return Some(first) };
    let within = |from: i64, to: i64| thread.calls.iter().filter(move |call| call.start >= from && call.end <= to);
    let again: FxHashSet<u32> = within(one, two).map(|call| call.node).collect();
    Some(within(first, one).find(|call| again.contains(&call.node)).map_or(first, |call| call.start))
}

/// Check if a call was made while Python imports a module.
fn is_import(calls: &Calls, thread: &ThreadCalls, call: &Call) -> bool {
    frames_to(thread, call.node).filter_map(|frame| calls.frames.get(frame as usize)).any(|frame| match *frame {
        FrameKey::Python { file, .. } => calls.text(file).starts_with(IMPORTS),
        _ => false,
    })
}

/// Times at which a thread requests batches from a data loader, ascending.
fn batches(calls: &Calls, thread: &ThreadCalls) -> Vec<i64> {
    let is_batch =
        |call: &&Call| span_name(calls, thread, call).is_some_and(|name| calls.text(name).starts_with(NEXT_BATCH));
    thread.calls.iter().filter(is_batch).map(|call| call.start).collect()
}

/// Number of optimizer spans of a recorded process.
pub(super) fn count_optimizer_spans(calls: &Calls) -> usize {
    let is_optimizer = |thread: &ThreadCalls, call: &Call| {
        span_name(calls, thread, call).is_some_and(|name| is_optimizer(calls, name))
    };
    let optimizer_calls = |thread: &ThreadCalls| thread.calls.iter().filter(|call| is_optimizer(thread, call)).count();
    calls.threads.iter().map(optimizer_calls).sum()
}

/// Text ID of the name of a call that is a span; `None` for other calls.
fn span_name(calls: &Calls, thread: &ThreadCalls, call: &Call) -> Option<u32> {
    let &(_, frame) = thread.nodes.get(call.node as usize)?;
    match calls.frames.get(frame as usize) {
        Some(&FrameKey::Span { name }) => Some(name),
        _ => None,
    }
}

/// Check if the text with this ID is the name of an optimizer step.
fn is_optimizer(calls: &Calls, name: u32) -> bool {
    calls.text(name).starts_with(OPTIMIZER_STEP)
}

/// Hash of the functions and lines that lead to a node, without spans, whose names may contain numbers.
fn location_hash(calls: &Calls, thread: &ThreadCalls, node: u32) -> u64 {
    let is_span = |frame: u32| matches!(calls.frames.get(frame as usize), Some(FrameKey::Span { .. }));
    FxBuildHasher.hash_one(frames_to(thread, node).filter(|&frame| !is_span(frame)).collect::<Vec<u32>>())
}

/// Frames of a node and its ancestors, innermost first.
fn frames_to(thread: &ThreadCalls, node: u32) -> impl Iterator<Item = u32> {
    let around =
        |&node: &u32| thread.nodes.get(node as usize).map(|&(parent, _)| parent).filter(|&parent| parent < node);
    let nodes = std::iter::successors(Some(node), around).filter_map(|node| thread.nodes.get(node as usize));
    nodes.map(|&(_, frame)| frame)
}

/// A span of an optimizer with its enclosing spans, outermost first.
struct Optimizer {
    name: u32,
    node: u32,
    end: i64,
    around: Vec<(i64, i64)>,
}

/// Outermost optimizer spans in their order. An optimizer span ends with a user's span around it, if that span contains
/// no other optimizer span of the same name and began after the last optimizer. Calls are sorted by start.
fn optimizers(calls: &Calls, thread: &ThreadCalls) -> Vec<Optimizer> {
    let mut all: Vec<Optimizer> = Vec::new();
    let mut running: Vec<(i64, i64)> = Vec::new();
    for call in &thread.calls {
        let Some(name) = span_name(calls, thread, call) else { continue };
        while running.last().is_some_and(|&(_, end)| end < call.end || end <= call.start) {
            running.pop();
        }
        let inside = all.last().is_some_and(|last| call.end <= last.end);
        if !inside && is_optimizer(calls, name) {
            all.push(Optimizer { name, node: call.node, end: call.end, around: running.clone() });
        }
        running.push((call.start, call.end));
    }
    let mut found: Vec<Optimizer> = Vec::new();
    for (at, optimizer) in all.iter().enumerate() {
        let last = found.last().map_or(i64::MIN, |last| last.end);
        if optimizer.end <= last {
            continue;
        }
        let again = all[at + 1..].iter().find(|other| other.name == optimizer.name).map_or(i64::MAX, |other| other.end);
        let own = optimizer.around.iter().find(|&&(start, end)| start >= last && end < again);
        let end = own.map_or(optimizer.end, |&(_, end)| end);
        found.push(Optimizer { end, around: Vec::new(), ..*optimizer });
    }
    found
}
