//! Attribution of Python functions' time to source lines.
//!
//! Events of functions have only their first line. Stacks of their callees and of samples, if a trace has any
//! (recordings do), have the line that was running. The self time between two calls or samples is divided in half
//! between their lines.

use super::call_events::is_call;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, Frame, FrameKind, Trace};
use stackline_timeline::frame_names::frame;
use std::ops::Range;

/// Data to divide the time of Python functions among source lines, from the stacks of a trace.
pub(super) struct LineAttribution<'a> {
    trace: &'a Trace,
    /// Callees and samples by function and time.
    called: Vec<(EventId, EventId)>,
    /// Range in `called` per function.
    places: FxHashMap<EventId, Range<usize>>,
}

impl<'a> LineAttribution<'a> {
    /// Index callees and samples by the Python function that was running, with their stacks; `None` if the trace has no
    /// stacks.
    pub(super) fn from_trace(trace: &'a Trace) -> Option<Self> {
        if trace.stacks.event.is_empty() {
            return None;
        }
        let is_function = |event: &EventId| trace.kind(*event) == EventKind::PythonFunction;
        let caller = |event: EventId| trace.ancestors(event).find(|&up| is_call(trace, up)).filter(is_function);
        let has_location = |event: EventId| {
            let kind = trace.kind(event);
            kind == EventKind::Sample || is_call(trace, event) && !kind.is_gpu_work() && trace.events.is_timed(event)
        };
        let host = trace.events.ids().filter(|&event| has_location(event));
        let mut called: Vec<(EventId, EventId)> = host.filter_map(|event| Some((caller(event)?, event))).collect();
        called.sort_unstable_by_key(|&(function, event)| (function, trace.events.start[event.index()], event));
        let mut places: FxHashMap<EventId, Range<usize>> = FxHashMap::default();
        for (at, &(function, _)) in called.iter().enumerate() {
            places.entry(function).or_insert(at..at).end = at + 1;
        }
        Some(Self { trace, called, places })
    }

    /// Line of the Python function `function` at which it made the call (or sample) `called`, by its stack. `None` if
    /// unknown, or for other functions.
    pub(super) fn line_of_call(&self, called: EventId, function: EventId) -> Option<u32> {
        let trace = self.trace;
        if trace.kind(function) != EventKind::PythonFunction {
            return None;
        }
        let (file, _, name) = frame(trace.name(function))?;
        let stacks = &trace.stacks;
        let is_it = |frame: &&Frame| {
            frame.kind() == FrameKind::Python
                && frame.line().is_some()
                && (frame.file_text(&stacks.strings), frame.function_text(&stacks.strings)) == (file, name)
        };
        stacks.frames_of(stacks.of_event(called)).find(is_it)?.line()
    }

    /// Self time of a call in ns, divided by source line, in order of first use. `None` stands for an unknown line.
    pub(super) fn parts(&self, event: EventId, own_ns: i64) -> Vec<(Option<u32>, i64)> {
        let events = &self.trace.events;
        let called = self.places.get(&event).map_or(&[][..], |place| &self.called[place.clone()]);
        let mut parts: Vec<(Option<u32>, i64)> = Vec::new();
        let mut add = |line: Option<u32>, ns: i64| match parts.iter_mut().find(|(known, _)| *known == line) {
            Some((_, sum)) => *sum += ns,
            None => parts.push((line, ns)),
        };
        let (mut at, mut left, mut last) = (events.start[event.index()], own_ns.max(0), None);
        for &(_, inner) in called {
            let line = self.line_of_call(inner, event);
            // A sample in native code, or of another function, has no line of this function.
            if line.is_none() && self.trace.kind(inner) == EventKind::Sample {
                continue;
            }
            let gap = events.start[inner.index()].saturating_sub(at).clamp(0, left);
            let before = if last.is_some() { gap / 2 } else { 0 };
            add(last.unwrap_or(line), before);
            add(line, gap - before);
            (at, left, last) = (at.max(events.end(inner)), left - gap, Some(line));
        }
        add(last.flatten(), left);
        parts
    }
}
