//! Attribution of Python functions' time to source lines.
//!
//! Events of functions are named by the line that they begin with; the stacks of what they call, where a trace has any
//! (recordings do), know the line that was running, and so do those of samples. Of its own time, half of what lies between two
//! calls or samples counts for the line of each.

use super::cct_from_trace::is_call;
use crate::frame_names::frame;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, Frame, FrameKind, Trace};
use std::ops::Range;

/// Source lines of functions, from stacks.
pub(super) struct LineAttribution<'a> {
    trace: &'a Trace,
    /// What functions call, and the samples that saw them, by function and time.
    called: Vec<(EventId, EventId)>,
    /// Where in it the calls of a function stand.
    places: FxHashMap<EventId, Range<usize>>,
}

impl<'a> LineAttribution<'a> {
    /// Those of a trace; none if it has no stacks.
    pub(super) fn from_trace(trace: &'a Trace) -> Option<Self> {
        if trace.stacks.event.is_empty() {
            return None;
        }
        let is_function = |event: &EventId| trace.kind(*event) == EventKind::PythonFunction;
        let caller = |event: EventId| trace.ancestors(event).find(|&up| is_call(trace, up)).filter(is_function);
        let tells = |event: EventId| {
            let kind = trace.kind(event);
            kind == EventKind::Sample || is_call(trace, event) && !kind.is_gpu_work() && trace.events.is_timed(event)
        };
        let host = trace.events.ids().filter(|&event| tells(event));
        let mut called: Vec<(EventId, EventId)> = host.filter_map(|event| Some((caller(event)?, event))).collect();
        called.sort_unstable_by_key(|&(function, event)| (function, trace.events.start[event.index()], event));
        let mut places: FxHashMap<EventId, Range<usize>> = FxHashMap::default();
        for (at, &(function, _)) in called.iter().enumerate() {
            places.entry(function).or_insert(at..at).end = at + 1;
        }
        Some(Self { trace, called, places })
    }

    /// The line that a function was at when it called something; none if that is not known, or it is no function.
    pub(super) fn of_call(&self, called: EventId, function: EventId) -> Option<u32> {
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

    /// The own time of a call, in ns, by the lines that it was at, in the order in which they first ran; `None` stands for a
    /// line that is not known.
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
            let line = self.of_call(inner, event);
            // A sample in native code, or of another function, says nothing of this one.
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
