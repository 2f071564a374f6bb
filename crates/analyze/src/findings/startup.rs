//! What a program does once, in traces without steps of which a first one could be left out.

use crate::critical_path::exact::WindowChoice;
use rustc_hash::FxHashMap;
use stackline_model::names::IMPORTS;
use stackline_model::words::duration;
use stackline_model::{EventId, EventKind, RECORDING, StrId, Trace};

/// An operator is called so often before its first calls are compared with the others.
const CALLS: usize = 8;
/// A first call is a start if it takes so many times as long as the middle one of the others.
const TIMES: i64 = 4;
/// The least part of the trace that is told, in percent.
const SHARE: i64 = 5;

/// What is looked at of a trace without steps, and what is to be said of it: all of it, but for the imports with which a recorded
/// program begins.
pub(super) fn window(trace: &Trace) -> (WindowChoice, Vec<String>) {
    let (Some(end), Some((start, _))) = (end_of_imports(trace), trace.span()) else {
        return (WindowChoice::Whole, Vec::new());
    };
    if end <= start {
        return (WindowChoice::Whole, Vec::new());
    }
    let note = format!("the first {} are left out: the program imports modules until then", duration(end - start));
    (WindowChoice::From(end), vec![note])
}

/// When the last import that begins before the first operator of the program's own is done; none if a recording does not show it.
fn end_of_imports(trace: &Trace) -> Option<i64> {
    trace.meta.entry(RECORDING)?;
    let is_import: Vec<bool> = trace.strings.iter().map(|name| name.starts_with(IMPORTS)).collect();
    let imports = |name: StrId| is_import.get(name.index()).copied().unwrap_or(false);
    let is_frame = |e: EventId| {
        trace.kind(e) == EventKind::PythonFunction && imports(trace.events.name[e.index()]) && trace.events.is_timed(e)
    };
    let stacks = &trace.stacks;
    let in_stack = |e: EventId| {
        let stack = stacks.event.binary_search(&e).ok().and_then(|at| stacks.stack[at].some());
        let mut frames = std::iter::successors(stack, |s| stacks.parent[s.index()].some());
        frames.any(|s| imports(stacks.frame[s.index()]))
    };
    let is_own = |e: &EventId| !in_stack(*e) && !trace.ancestors(*e).any(is_frame);
    let operators = trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Operator && trace.events.is_timed(e));
    let first = operators.filter(is_own).map(|e| trace.events.start[e.index()]).min()?;
    let frames = trace.events.ids().filter(|&e| is_frame(e) && trace.events.start[e.index()] < first);
    frames.map(|e| trace.events.end(e).min(first)).max()
}

/// What first calls of operators take beyond later ones, in a sentence; none if that is little of a window of `length` ns.
pub(super) fn note(trace: &Trace, length: i64) -> Option<String> {
    let mut by_name: FxHashMap<StrId, Vec<EventId>> = FxHashMap::default();
    let is_operator = |e: EventId| trace.kind(e) == EventKind::Operator && trace.events.is_timed(e);
    // Those within others are part of them.
    let outermost = |&e: &EventId| is_operator(e) && !trace.ancestors(e).any(is_operator);
    for event in trace.events.ids().filter(outermost) {
        by_name.entry(trace.events.name[event.index()]).or_default().push(event);
    }
    let mut starts: Vec<(i64, StrId)> =
        by_name.into_iter().filter_map(|(name, calls)| Some((beyond(trace, calls)?, name))).collect();
    starts.sort_unstable_by_key(|&(ns, name)| (std::cmp::Reverse(ns), name));
    let total: i64 = starts.iter().map(|(ns, _)| ns).sum();
    let (_, most) = *starts.first().filter(|_| total * 100 >= length * SHARE)?;
    Some(format!(
        "first calls of operators take {} longer than later ones ({:.0} % of the trace; most of it {}): that is start-up, which \
         gains count, too, as there are no steps of which the first could be left out",
        duration(total),
        100.0 * total as f64 / length.max(1) as f64,
        trace.strings.get(most)
    ))
}

/// What the first of some calls takes beyond the middle one of the others, in ns.
fn beyond(trace: &Trace, mut calls: Vec<EventId>) -> Option<i64> {
    if calls.len() < CALLS {
        return None;
    }
    calls.sort_unstable_by_key(|&e| (trace.events.start[e.index()], e));
    let length = |e: &EventId| trace.events.dur[e.index()];
    let mut others: Vec<i64> = calls[1..].iter().map(length).collect();
    others.sort_unstable();
    let (first, middle) = (length(&calls[0]), others[others.len() / 2]);
    (first > TIMES * middle).then_some(first - middle)
}
