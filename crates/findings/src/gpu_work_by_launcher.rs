//! Queries of rules on operators and GPU work: launches by thread, launching operators, loops of operators, use of a
//! GPU.

use super::missing_records::missing_record_count;
use super::rule_context::{RuleContext, is_operator_name};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_critical_path::exact::what_if::module_class;
use stackline_model::{Device, EventId, EventKind, RECORDING, StrId, Trace, TrackId};
use stackline_timeline::intervals;
use stackline_timeline::source_location::{SourceLocation, launch_of};
use std::collections::BTreeMap;

/// Least share of a loop in its function, in percent, from which the function is considered to consist of the loop.
const MIN_LOOP_PERCENT: i64 = 80;

/// Host work that disappears if loops of operators are removed: functions, operators, and Python between them.
#[derive(Debug, Default)]
pub(crate) struct LoopWork {
    /// Functions that consist of a loop, and otherwise the operators.
    pub(crate) removable: Vec<EventId>,
    /// First and last operator of each run of these operators.
    pub(crate) runs: Vec<(EventId, EventId)>,
    /// Total duration in ns.
    pub(crate) ns: i64,
}

/// Check if a program uses a GPU, by GPU work or runtime calls, or may use one, because records are missing.
///
/// Profilers write GPU work last, so truncated traces may contain only its launches, or not even these. Stackline's own
/// recordings are written in time order, so their missing end is no evidence.
fn uses_gpu(trace: &Trace) -> bool {
    let calls = || trace.events.kind.iter().any(|kind| kind.is_api_call());
    !trace.gpu.is_empty() || calls() || (missing_record_count(trace) > 0 && trace.meta.entry(RECORDING).is_none())
}

/// Name prefix of calls of functions that JAX compiled.
const JAX_CALL: &str = "PjitFunction(";

impl<'a> RuleContext<'a> {
    /// Check if the program uses JAX: it calls functions that JAX compiled.
    pub(crate) fn uses_jax(&self) -> bool {
        !self.named(&[EventKind::Operator], |name| name.starts_with(JAX_CALL)).is_empty()
    }

    /// Event and its ancestors, innermost first; for GPU work instead its launch and the launch's ancestors.
    pub(crate) fn stack(&self, event: EventId) -> impl Iterator<Item = EventId> + use<'a> {
        let trace = self.trace();
        let first = launch_of(trace, event);
        std::iter::once(first).chain(trace.ancestors(first))
    }

    /// Check if an event is an operator, not a step marker that an old trace records as operator.
    pub(super) fn is_operator(&self, event: EventId) -> bool {
        self.trace().kind(event) == EventKind::Operator && is_operator_name(self.trace().name(event))
    }

    /// Outermost operator around the launch of GPU work, or around an event on the host; `None` without operators.
    pub(crate) fn outermost_operator(&self, work: EventId) -> Option<EventId> {
        self.stack(work).filter(|&e| self.is_operator(e)).last()
    }

    /// GPU work that a span's own thread launched within the span, in launch order.
    pub(crate) fn launched_in(&self, span: EventId) -> impl Iterator<Item = EventId> + use<'a> {
        let events = &self.trace().events;
        let (from, to) = (events.start[span.index()], events.end(span));
        let launched = self.launches().between(events.track[span.index()], from, to).iter().map(|&(.., work)| work);
        launched.filter(move |&work| events.is_timed(work))
    }

    /// Check if the thread of an event launched GPU work in the window.
    pub(crate) fn is_on_launching_thread(&self, event: EventId) -> bool {
        let (from, to) = self.window();
        !self.launches().between(self.trace().events.track[event.index()], from, to).is_empty()
    }

    /// GPU work of the window per launching thread, in launch order.
    pub(crate) fn launch_order(&self) -> Vec<Vec<EventId>> {
        let of_window = |thread: &[(TrackId, i64, EventId)]| {
            thread.iter().map(|&(.., e)| e).filter(|&e| self.is_in_window(e)).collect()
        };
        self.launches().by_thread().map(of_window).collect()
    }

    /// Time in the window during which at least one GPU is busy, in ns.
    pub(crate) fn gpu_busy_ns(&self) -> i64 {
        let trace = self.trace();
        let (from, to) = self.window();
        let span = |&e: &EventId| (trace.events.start[e.index()].max(from), trace.events.end(e).min(to));
        let spans =
            trace.gpu.event.iter().filter(|&&e| trace.events.is_timed(e)).map(span).filter(|(start, end)| start < end);
        intervals::total(&intervals::union(spans))
    }

    /// A GPU time in ns, in percent of the total GPU time of the window.
    pub(crate) fn percent_of_gpu(&self, ns: i64) -> f64 {
        100.0 * ns as f64 / self.gpu_ns().max(1) as f64
    }

    /// Recorded stack frames of an event, innermost first; empty if there are none.
    pub(crate) fn stack_frames(&self, event: EventId) -> Vec<StrId> {
        let stacks = &self.trace().stacks;
        stacks.names(stacks.of_event(event)).collect()
    }

    /// Work that would disappear if the loops that call these operators were removed. Calls with gaps of at most `gap`
    /// ns form one run of a loop, including Python between them.
    pub(crate) fn work_of_loops(&self, operators: &[EventId], gap: i64) -> LoopWork {
        let trace = self.trace();
        let mut by_function: BTreeMap<(TrackId, Option<EventId>), Vec<EventId>> = BTreeMap::new();
        for &operator in operators {
            let functions = || trace.ancestors(operator).filter(|&e| trace.kind(e) == EventKind::PythonFunction);
            let function = functions().find(|&e| self.is_own_frame(e)).or_else(|| functions().next());
            by_function.entry((trace.events.track[operator.index()], function)).or_default().push(operator);
        }
        let mut loops = LoopWork::default();
        for ((_, function), mut of) in by_function {
            of.sort_unstable_by_key(|&e| (trace.events.start[e.index()], e));
            let is_run = |a: &EventId, b: &EventId| trace.events.start[b.index()] - trace.events.end(*a) <= gap;
            let runs: Vec<(EventId, EventId)> =
                of.chunk_by(is_run).filter_map(|run| Some((*run.first()?, *run.last()?))).collect();
            let ns: i64 = runs.iter().map(|&(a, b)| trace.events.end(b) - trace.events.start[a.index()]).sum();
            match function.filter(|&function| 100 * ns >= MIN_LOOP_PERCENT * self.dur(function)) {
                Some(function) => {
                    loops.ns += self.dur(function);
                    loops.removable.push(function);
                }
                None => {
                    loops.ns += ns;
                    loops.removable.extend(of);
                    loops.runs.extend(runs);
                }
            }
        }
        loops
    }

    /// Forward operator whose backward an event belongs to; `None` outside of the backward pass.
    pub(crate) fn forward_of(&self, event: EventId) -> Option<EventId> {
        self.stack(event).find_map(|e| self.trace().forward_of(e)).map(|(forward, _)| forward)
    }

    /// Name of the innermost framework operator that launched GPU work; empty if no operator launched it.
    pub(crate) fn operator_name(&self, work: EventId) -> &'a str {
        let trace = self.trace();
        let operator = trace.gpu.of_event(work).and_then(|gpu| trace.gpu.operator[gpu.index()].some());
        operator.map_or("", |operator| trace.name(operator))
    }

    /// Group events by source location, in order of descending time. Calls of one function in modules of one class
    /// count as one location, such as all layers of a network.
    pub(crate) fn by_code(&self, events: &[EventId]) -> Vec<(SourceLocation, Vec<EventId>)> {
        let mut groups: BTreeMap<SourceLocation, Vec<EventId>> = BTreeMap::new();
        for (mut place, events) in self.by_place(events) {
            place.module = place.module.map(|module| module_class(&module).to_owned());
            groups.entry(place).or_default().extend(events);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.iter_mut().for_each(|(_, events)| events.sort_unstable());
        groups.sort_by_key(|(_, events)| std::cmp::Reverse(self.total(events)));
        groups
    }

    /// Check if the program uses a GPU, even if the trace lacks the GPU's work.
    pub(crate) fn uses_gpu(&self) -> bool {
        self.indexes().uses_gpu(|| uses_gpu(self.trace()))
    }

    /// GPUs that the trace's metadata describe.
    pub(crate) fn devices(&self) -> Vec<Device> {
        self.trace().meta.devices()
    }

    /// Parse an attribute of an event as JSON, such as the shapes of its inputs; `None` if it is missing or invalid.
    pub(crate) fn json(&self, key: &str, event: EventId) -> Option<serde_json::Value> {
        let trace = self.trace();
        let value = trace.attr(key).get(event)?;
        serde_json::from_str(value.as_str(&trace.strings)?).ok()
    }

    /// Outermost operators whose launched GPU work is all among `work`, so that they vanish with it.
    pub(crate) fn operators_launching_only(&self, work: &[EventId]) -> Vec<EventId> {
        let selected: FxHashSet<EventId> = work.iter().copied().collect();
        let mut known: FxHashMap<EventId, bool> = FxHashMap::default();
        let mut found = Vec::new();
        for &event in work {
            let operators = self.stack(event).filter(|&e| self.is_operator(e));
            let mut is_whole = |operator: &EventId| {
                *known
                    .entry(*operator)
                    .or_insert_with(|| self.launched_in(*operator).all(|other| selected.contains(&other)))
            };
            found.extend(operators.take_while(|operator| is_whole(operator)).last());
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
