//! GPU work grouped by the launching event.

use super::rank::lost;
use super::rule_context::RuleContext;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_critical_path::exact::what_if::module_class;
use stackline_model::names::STEP_PREFIX;
use stackline_model::{Device, EventId, EventKind, RECORDING, StrId, Trace, TrackId};
use stackline_timeline::intervals;
use stackline_timeline::source_location::{SourceLocation, launch_of};
use std::collections::BTreeMap;

/// A function whose loop takes this part of it, in percent, does little else.
const LITTLE_ELSE: i64 = 80;

/// GPU work in the order in which each thread launched it: thread, start of the launch, the work.
#[derive(Default)]
pub(super) struct Launches(Vec<(TrackId, i64, EventId)>);

impl Launches {
    pub(super) fn new(trace: &Trace) -> Self {
        let events = &trace.events;
        let row = |gpu: stackline_model::GpuId| {
            let launch = trace.gpu.launcher(gpu)?;
            Some((events.track[launch.index()], events.start[launch.index()], trace.gpu.event[gpu.index()]))
        };
        let mut rows: Vec<_> = trace.gpu.ids().filter_map(row).collect();
        rows.sort_unstable();
        Self(rows)
    }

    fn between(&self, track: TrackId, from: i64, to: i64) -> &[(TrackId, i64, EventId)] {
        let at = |time: i64| self.0.partition_point(|&(t, start, _)| (t, start) < (track, time));
        &self.0[at(from)..at(to).max(at(from))]
    }
}

/// What goes with loops of operators.
#[derive(Debug, Default)]
pub struct Loops {
    /// The functions that do little else, and elsewhere the operators.
    pub gone: Vec<EventId>,
    /// First and last operator of each run of those.
    pub runs: Vec<(EventId, EventId)>,
    /// How long all of it takes, in ns.
    pub ns: i64,
}

/// Operators that no other one interrupts.
#[derive(Debug, Default)]
pub struct Runs {
    /// First and last of each run.
    pub runs: Vec<(EventId, EventId)>,
    /// How long they take, with what is between them, in ns.
    pub ns: i64,
    /// The operators before and behind each run, where there is one on its thread.
    pub neighbours: Vec<(Option<EventId>, Option<EventId>)>,
}

/// When the GPUs are done with what was launched before a moment.
pub struct Done {
    /// Starts of launches, and the latest end of all work launched until then, in ns.
    ends: Vec<(i64, i64)>,
}

impl Done {
    /// The end of all GPU work launched before a moment, in ns; the moment itself if there is none.
    pub fn before(&self, moment: i64) -> i64 {
        let launched = self.ends.partition_point(|&(start, _)| start < moment);
        launched.checked_sub(1).map_or(moment, |last| self.ends[last].1)
    }
}

/// Whether what is recorded as an operator is one: traces of 2021 and before have steps among them.
pub(super) fn is_operators_name(name: &str) -> bool {
    !name.starts_with(STEP_PREFIX)
}

/// Whether a program uses a GPU, or may: profilers write its work last, so that traces that were cut off can hold its launches
/// only, or not even those. Our own recordings are written as things happen: what a killed process did not write tells nothing.
fn uses_gpu(trace: &Trace) -> bool {
    let calls = || trace.events.kind.iter().any(|kind| kind.is_api_call());
    !trace.gpu.is_empty() || calls() || (lost(trace) > 0 && trace.meta.entry(RECORDING).is_none())
}

/// Calls of functions that JAX compiled.
const JAX_CALL: &str = "PjitFunction(";

impl<'a> RuleContext<'a> {
    /// Whether the program uses JAX: it calls functions that JAX compiled.
    pub fn uses_jax(&self) -> bool {
        !self.named(&[EventKind::Operator], |name| name.starts_with(JAX_CALL)).is_empty()
    }

    /// When the GPUs are done with what was launched.
    pub fn done(&self) -> Done {
        let trace = self.trace();
        let (rows, events) = (&trace.gpu, &trace.events);
        let timed = rows.ids().filter(|gpu| events.is_timed(rows.event[gpu.index()]));
        let times = self.launch_times();
        let row = |gpu: stackline_model::GpuId| (times.launch_of(gpu).at, events.end(rows.event[gpu.index()]));
        let mut ends: Vec<(i64, i64)> = timed.map(row).collect();
        ends.sort_unstable();
        let mut latest = i64::MIN;
        for (_, end) in &mut ends {
            latest = latest.max(*end);
            *end = latest;
        }
        Done { ends }
    }

    /// An event and what is around it, innermost first; of GPU work its launch and what is around that.
    pub fn stack(&self, event: EventId) -> impl Iterator<Item = EventId> + use<'a> {
        let trace = self.trace();
        let first = launch_of(trace, event);
        std::iter::once(first).chain(trace.ancestors(first))
    }

    /// Whether an event is an operator.
    pub(super) fn is_operator(&self, event: EventId) -> bool {
        self.trace().kind(event) == EventKind::Operator && is_operators_name(self.trace().name(event))
    }

    /// The outermost operator around the launch of GPU work.
    pub fn outermost_operator(&self, work: EventId) -> Option<EventId> {
        self.stack(work).filter(|&e| self.is_operator(e)).last()
    }

    /// GPU work that the thread of a span launched within it, in the order of the launches.
    pub fn launched_in(&self, span: EventId) -> impl Iterator<Item = EventId> + use<'a> {
        let events = &self.trace().events;
        let (from, to) = (events.start[span.index()], events.end(span));
        let launched = self.launches().between(events.track[span.index()], from, to).iter().map(|&(.., work)| work);
        launched.filter(move |&work| events.is_timed(work))
    }

    /// Whether the thread of an event launched GPU work in the window.
    pub fn is_on_launching_thread(&self, event: EventId) -> bool {
        let (from, to) = self.window();
        !self.launches().between(self.trace().events.track[event.index()], from, to).is_empty()
    }

    /// GPU work of the window, per thread in the order in which that launched it.
    pub fn launch_order(&self) -> Vec<Vec<EventId>> {
        let threads = self.launches().0.chunk_by(|a, b| a.0 == b.0);
        let of_window =
            |thread: &[(TrackId, i64, EventId)]| thread.iter().map(|&(.., e)| e).filter(|&e| self.counts(e)).collect();
        threads.map(of_window).collect()
    }

    /// How long any GPU work ran in the window, in ns.
    pub fn gpu_busy_ns(&self) -> i64 {
        let trace = self.trace();
        let (from, to) = self.window();
        let span = |&e: &EventId| (trace.events.start[e.index()].max(from), trace.events.end(e).min(to));
        let spans =
            trace.gpu.event.iter().filter(|&&e| trace.events.is_timed(e)).map(span).filter(|(start, end)| start < end);
        intervals::total(&intervals::union(spans))
    }

    /// A time of GPU work in percent of that of all GPU work of the window.
    pub fn percent_of_gpu(&self, ns: i64) -> f64 {
        100.0 * ns as f64 / self.gpu_ns().max(1) as f64
    }

    /// The frames of the stack that was recorded with an event, innermost first; empty if there is none.
    pub fn stack_frames(&self, event: EventId) -> Vec<StrId> {
        let stacks = &self.trace().stacks;
        stacks.names(stacks.of_event(event)).collect()
    }

    /// What would go with loops that call these operators. Calls that begin within `gap` ns of the end of the one before
    /// are one run of a loop, with what Python does between them.
    pub fn loops_of(&self, operators: &[EventId], gap: i64) -> Loops {
        let trace = self.trace();
        let mut by_function: BTreeMap<(TrackId, Option<EventId>), Vec<EventId>> = BTreeMap::new();
        for &operator in operators {
            let functions = || trace.ancestors(operator).filter(|&e| trace.kind(e) == EventKind::PythonFunction);
            let function = functions().find(|&e| self.is_own_frame(e)).or_else(|| functions().next());
            by_function.entry((trace.events.track[operator.index()], function)).or_default().push(operator);
        }
        let mut loops = Loops::default();
        for ((_, function), mut of) in by_function {
            of.sort_unstable_by_key(|&e| (trace.events.start[e.index()], e));
            let is_run = |a: &EventId, b: &EventId| trace.events.start[b.index()] - trace.events.end(*a) <= gap;
            let runs: Vec<(EventId, EventId)> =
                of.chunk_by(is_run).filter_map(|run| Some((*run.first()?, *run.last()?))).collect();
            let ns: i64 = runs.iter().map(|&(a, b)| trace.events.end(b) - trace.events.start[a.index()]).sum();
            match function.filter(|&function| 100 * ns >= LITTLE_ELSE * self.dur(function)) {
                Some(function) => {
                    loops.ns += self.dur(function);
                    loops.gone.push(function);
                }
                None => {
                    loops.ns += ns;
                    loops.gone.extend(of);
                    loops.runs.extend(runs);
                }
            }
        }
        loops
    }

    /// The forward operator whose backward an event belongs to.
    pub fn forward_of(&self, event: EventId) -> Option<EventId> {
        self.stack(event).find_map(|e| self.trace().forward_of(e)).map(|(forward, _)| forward)
    }

    /// Innermost framework operator that launched GPU work; empty if none did.
    pub fn operator(&self, work: EventId) -> &'a str {
        let trace = self.trace();
        let operator = trace.gpu.of_event(work).and_then(|gpu| trace.gpu.operator[gpu.index()].some());
        operator.map_or("", |operator| trace.name(operator))
    }

    /// Events by the code that they come from: calls of one function in modules of one class, such as all layers of a
    /// network, count as one place; most time first.
    pub fn by_code(&self, events: &[EventId]) -> Vec<(SourceLocation, Vec<EventId>)> {
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

    /// Whether the program has a GPU, whose work may have been lost.
    pub fn uses_gpu(&self) -> bool {
        self.indexes().uses_gpu(|| uses_gpu(self.trace()))
    }

    /// Devices that the trace describes.
    pub fn devices(&self) -> Vec<Device> {
        self.trace().meta.devices()
    }

    /// An argument that holds JSON, such as shapes.
    pub fn json(&self, key: &str, event: EventId) -> Option<serde_json::Value> {
        let trace = self.trace();
        let value = trace.attr(key).get(event)?;
        serde_json::from_str(value.as_str(&trace.strings)?).ok()
    }

    /// The outermost operators that launch nothing but this GPU work: they go with it.
    pub fn operators_of_nothing_else(&self, work: &[EventId]) -> Vec<EventId> {
        let wanted: FxHashSet<EventId> = work.iter().copied().collect();
        let mut known: FxHashMap<EventId, bool> = FxHashMap::default();
        let mut found = Vec::new();
        for &event in work {
            let operators = self.stack(event).filter(|&e| self.is_operator(e));
            let mut is_whole = |operator: &EventId| {
                *known
                    .entry(*operator)
                    .or_insert_with(|| self.launched_in(*operator).all(|other| wanted.contains(&other)))
            };
            found.extend(operators.take_while(|operator| is_whole(operator)).last());
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
