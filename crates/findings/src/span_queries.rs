//! Queries of rules on the contents of spans, answered by the indexes of spans.

use super::nesting::Nesting;
use super::rule_context::RuleContext;
use super::span_index::{BackwardLinks, OperatorRuns, PathTimes};
use stackline_critical_path::value_reads::is_read;
use stackline_model::gpu_calls::{CallKind, kind_of_name};
use stackline_model::{EventId, EventKind, LinkKind, Trace};
use stackline_timeline::vocabulary::autograd;

/// Sort key of events by thread and time: track, start, event.
fn thread_order_key(trace: &Trace, event: EventId) -> (stackline_model::TrackId, i64, EventId) {
    (trace.events.track[event.index()], trace.events.start[event.index()], event)
}

impl<'a> RuleContext<'a> {
    /// Critical-path time in each span and its contents, in ns; a span nested in another given span gets 0.
    pub(crate) fn path_inside(&self, spans: &[EventId]) -> Vec<i64> {
        let PathTimes { nesting, before } = self.indexes().path.get_or_init(|| {
            let times = self.on_path();
            let nesting = Nesting::from_trace(self.trace(), times.keys().copied());
            let mut sum = 0;
            let add = |event: &EventId| {
                sum += times.get(event).copied().unwrap_or(0);
                sum
            };
            let before = std::iter::once(0).chain(nesting.events().iter().map(add)).collect();
            PathTimes { nesting, before }
        });
        nesting.ranges(spans).into_iter().map(|range| before[range.end] - before[range.start]).collect()
    }

    /// Operators of the window within spans, ascending, without the spans themselves.
    pub(crate) fn operators_in(&self, spans: &[EventId]) -> Vec<EventId> {
        let nesting = self.indexes().operators.get_or_init(|| Nesting::from_trace(self.trace(), self.operators()));
        let inside = nesting.ranges(spans).into_iter().zip(spans).flat_map(|(range, &span)| {
            nesting.events()[range].iter().copied().filter(move |&operator| operator != span)
        });
        let mut operators: Vec<EventId> = inside.collect();
        operators.sort_unstable();
        operators
    }

    /// Calls of the window that wait for the GPU. Such calls are synchronizations, copies to pageable memory (which
    /// return when they end), and spans in which JAX reads a value.
    pub(crate) fn waiting_calls(&self) -> &'a [EventId] {
        &self.waiting().0
    }

    /// Waiting calls of the window, ascending, with an index by enclosing span; built on first use.
    fn waiting(&self) -> &'a (Vec<EventId>, Nesting) {
        self.indexes().waiting.get_or_init(|| {
            let trace = self.trace();
            let waits = |name: &str| kind_of_name(name).is_some_and(CallKind::is_wait);
            let mut calls = self.named(&[EventKind::Runtime, EventKind::Driver], waits);
            let to_pageable = self.named(&[EventKind::Memcpy], |name| name.contains("Device -> Pageable"));
            let call = |copy: &EventId| {
                let launch = trace.gpu.of_event(*copy).and_then(|gpu| trace.gpu.launch[gpu.index()].some())?;
                (trace.events.end(launch) >= trace.events.end(*copy)).then_some(launch)
            };
            calls.extend(to_pageable.iter().filter_map(call));
            calls.extend(self.named(&[EventKind::Other, EventKind::PythonFunction], is_read));
            calls.sort_unstable();
            calls.dedup();
            let nesting = Nesting::from_trace(trace, calls.iter().copied());
            (calls, nesting)
        })
    }

    /// Calls that wait for the GPU and are in one of the spans, or are one of the spans.
    pub(super) fn waiting_calls_in(&self, spans: &[EventId]) -> Vec<EventId> {
        self.waiting().1.inside(spans)
    }

    /// Spans with the waiting calls inside them, and the copies to the host that they read: the events that vanish with
    /// the spans.
    pub(crate) fn with_waits(&self, spans: &[EventId]) -> Vec<EventId> {
        let inside = self.waiting_calls_in(spans);
        let read = spans.iter().flat_map(|&span| self.launched_in(span)).filter(|&work| self.is_copy_to_host(work));
        let mut found: Vec<EventId> = spans.iter().copied().chain(inside).chain(read).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Backward operators of forward operators, with the enclosing work of the autograd engine.
    pub(crate) fn backward_of(&self, operators: &[EventId]) -> Vec<EventId> {
        let trace = self.trace();
        let BackwardLinks { starts, links } = self.indexes().backward.get_or_init(|| {
            let mut links: Vec<_> = trace.links.of_kind(LinkKind::Backward).map(|(from, to, _)| (from, to)).collect();
            links.sort_unstable();
            BackwardLinks { starts: Nesting::from_trace(trace, links.iter().map(|&(from, _)| from)), links }
        });
        let ends = |start: EventId| {
            let first = links.partition_point(|&(from, _)| from < start);
            links[first..].iter().take_while(move |&&(from, _)| from == start).map(|&(_, to)| to)
        };
        let around = |to: EventId| trace.ancestors(to).take_while(|&e| self.is_operator(e)).last().unwrap_or(to);
        let mut found: Vec<EventId> = starts.inside(operators).into_iter().flat_map(ends).map(around).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Outermost operators of the window, by thread and start.
    fn outermost_in_order(&self) -> &'a [EventId] {
        self.indexes().outermost.get_or_init(|| {
            let mut operators = self.outermost(&self.operators());
            operators.sort_unstable_by_key(|&e| thread_order_key(self.trace(), e));
            operators
        })
    }

    /// Group the given outermost operators into runs without other operators between, per thread; nested ones are
    /// ignored.
    pub(crate) fn consecutive_runs(&self, some: &[EventId]) -> OperatorRuns {
        let (trace, operators) = (self.trace(), self.outermost_in_order());
        let position = |&e: &EventId| {
            operators.binary_search_by_key(&thread_order_key(trace, e), |&of| thread_order_key(trace, of)).ok()
        };
        let mut positions: Vec<usize> = some.iter().filter_map(position).collect();
        positions.sort_unstable();
        positions.dedup();
        let track = |at: usize| operators.get(at).map(|e| trace.events.track[e.index()]);
        let is_adjacent = |&a: &usize, &b: &usize| a + 1 == b && track(a) == track(b);
        let mut found = OperatorRuns::default();
        for run in positions.chunk_by(is_adjacent) {
            let (from, to) = (run[0], run[run.len() - 1]);
            let (first, last) = (operators[from], operators[to]);
            let neighbor = |at: usize| operators.get(at).copied().filter(|_| track(at) == track(from));
            found.ns += trace.events.end(last) - trace.events.start[first.index()];
            found.runs.push((first, last));
            found.neighbors.push((from.checked_sub(1).and_then(neighbor), neighbor(to + 1)));
        }
        found
    }

    /// Gaps after the backward passes of the given operators, in which autograd frees its graph. Each is the pass's
    /// last operator and the thread's next one.
    pub(crate) fn gaps_after_backward(&self, some: &[EventId]) -> Vec<(EventId, EventId)> {
        let trace = self.trace();
        let engine = self.indexes().engine.get_or_init(|| {
            let is_engine = |&e: &EventId| autograd::is_node(trace.name(e));
            self.consecutive_runs(&self.outermost_in_order().iter().copied().filter(is_engine).collect::<Vec<_>>())
        });
        let run_of = |&e: &EventId| {
            let gap_after =
                engine.runs.partition_point(|&(first, _)| thread_order_key(trace, first) <= thread_order_key(trace, e));
            gap_after
                .checked_sub(1)
                .filter(|&run| thread_order_key(trace, e) <= thread_order_key(trace, engine.runs[run].1))
        };
        let mut runs: Vec<usize> = some.iter().filter_map(run_of).collect();
        runs.sort_unstable();
        runs.dedup();
        let end = |run: usize| Some((engine.runs[run].1, engine.neighbors[run].1?));
        runs.into_iter().filter_map(end).collect()
    }
}
