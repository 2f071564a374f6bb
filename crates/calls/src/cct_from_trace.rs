//! Calling context tree (CCT) of a trace, built from its events.
//!
//! Spans of threads are below their enclosing spans. GPU operations are below the call that launched them, or at the
//! top if it is unknown. Backward work is below its forward operator. All steps share one frame.

use super::call_events::is_call;
use super::cct_builder::{Builder, Window};
use super::idle::Idle;
use super::line_attribution::LineAttribution;
use stackline_model::{
    CallMetric, CallNodeId, CallStats, CallThreadId, CallingContextTree, EventId, EventKind, Frame, Trace,
};
use stackline_timeline::Scope;
use stackline_timeline::steps::StepSelection;
use stackline_timeline::window_choice::WindowChoice;

/// Calling context tree (CCT) of a time range of a trace.
#[derive(Debug)]
pub struct TraceCallTree {
    /// The tree: time of threads at spans, GPU time at GPU operations, counters of stalls and instruction samples below
    /// kernels with samples.
    pub tree: CallingContextTree,
    /// Events of each node, ascending. Empty for trees by line ([`calls_by_thread`]).
    pub events: Vec<(CallNodeId, EventId)>,
    /// Number of steps in the time range; 0 if the trace has none and is covered as a whole.
    pub steps: usize,
    /// Calls at a node that count at another line of their function, or that are only inferred.
    pub uncounted_calls: UncountedCalls,
}

/// Call counts to exclude: of Python calls that continued at another line, or whose number is only inferred. Sorted by
/// node and thread.
pub type UncountedCalls = Vec<(CallNodeId, CallThreadId, u64)>;

/// Build the calling context tree of the steps in `scope`, with all threads as one; by default, of all steps except
/// warm-up.
///
/// Without steps, the tree covers the whole trace. Calls that began earlier count nothing, but stay in the paths of
/// their callees.
pub fn trace_calls(trace: &Trace, scope: &Scope) -> TraceCallTree {
    let selection = StepSelection::select(trace, scope);
    let mut builder = Builder::new(trace, Window::from_trace(trace, &selection), Idle::default());
    builder.add_all();
    builder.finish(selection.steps)
}

/// Time range of a trace that a tree covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeRange {
    /// The whole trace.
    Whole,
    /// The steps that findings cover, or the whole trace without steps.
    Chosen,
    /// These steps, both ends included.
    Steps(i64, i64),
}

/// Numbers of the first and last step that findings cover: all except warm-up. `None` if the trace has no steps.
pub fn selected_steps(trace: &Trace) -> Option<(i64, i64)> {
    match StepSelection::select(trace, &Scope::default()).choice {
        WindowChoice::StepsWithWork(from, to) | WindowChoice::Steps(from, to) => Some((from, to)),
        _ => None,
    }
}

/// Build the calling context tree of a part of a trace, by thread and GPU stream. If stacks record lines, Python
/// functions are divided by line; events of functions only have the first line. Metrics include times, launches, copied
/// bytes, idle GPU time and memory.
pub fn calls_by_thread(trace: &Trace, part: TimeRange) -> TraceCallTree {
    let scope = match part {
        TimeRange::Steps(from, to) => Scope::from_steps(Some((from, to))),
        TimeRange::Chosen => Scope::default(),
        TimeRange::Whole => Scope { whole: true, ..Scope::default() },
    };
    let selection = StepSelection::select(trace, &scope);
    let window = Window::from_trace(trace, &selection);
    let idle = Idle::from_trace(trace, |event, launch| window.has_work(trace, event, launch));
    let mut builder = Builder::new(trace, window, idle);
    builder.add_threads();
    builder.lines = LineAttribution::from_trace(trace);
    builder.keeps_events = false;
    builder.add_all();
    builder.add_extra_metrics();
    builder.finish(selection.steps)
}

impl Builder<'_> {
    /// Sort the collected events and uncounted calls, and finish the tree of `steps` steps.
    fn finish(self, steps: usize) -> TraceCallTree {
        let mut events = self.events;
        events.sort_unstable();
        let mut uncounted_calls: UncountedCalls =
            self.uncounted_calls.into_iter().map(|((node, thread), count)| (node, thread, count)).collect();
        uncounted_calls.sort_unstable();
        TraceCallTree { tree: self.tree.finish(), events, steps, uncounted_calls }
    }

    /// Add the times of all calls and GPU operations that count (GPU time, or self time of threads with their GPU idle
    /// time), and the samples of GPU instructions.
    fn add_all(&mut self) {
        let trace = self.trace;
        let inside = std::mem::take(&mut self.callers.inside);
        for event in trace.events.ids().filter(|&event| is_call(trace, event)) {
            let is_gpu = trace.kind(event).is_gpu_work();
            if !trace.events.is_timed(event) || !self.is_counted(event) {
                continue;
            }
            let base = self.base(event);
            let (metric, ns) = match is_gpu {
                true => (CallMetric::GpuTime, trace.events.dur[event.index()]),
                false => (CallMetric::HostTime, trace.events.dur[event.index()] - inside[event.index()]),
            };
            match self.lines.as_ref().map(|lines| lines.parts(event, ns)) {
                None => {
                    let node = self.add_call((base, event, None), metric, ns);
                    self.note_uncounted(node, event, false);
                    if !is_gpu {
                        self.add_value(node, event, CallMetric::GpuIdle, self.own_idle(event));
                    }
                }
                Some(parts) => self.add_lines((base, event), metric, parts),
            }
        }
        self.add_instruction_samples();
    }

    /// Add the time of a call to the tree, divided by source line. `parts` has pairs of line and self time in ns.
    fn add_lines(&mut self, (base, event): (CallNodeId, EventId), metric: CallMetric, parts: Vec<(Option<u32>, i64)>) {
        let mut nodes = Vec::with_capacity(parts.len());
        for (line, ns) in parts {
            let node = self.add_call((base, event, line), metric, ns);
            self.note_uncounted(node, event, !nodes.is_empty());
            nodes.push((node, ns));
        }
        if metric == CallMetric::HostTime {
            self.add_line_idle(event, &nodes);
        }
    }

    /// Record that an event is not one call of a node: a continuation at another line, or an inferred call that may
    /// stand for several.
    fn note_uncounted(&mut self, node: CallNodeId, event: EventId, continued: bool) {
        let is_function = || self.trace.kind(event) == EventKind::PythonFunction;
        let is_inferred = || self.inferred.as_ref().is_some_and(|column| is_function() && column.get(event).is_some());
        if continued || is_inferred() {
            *self.uncounted_calls.entry((node, self.thread_of(event))).or_default() += 1;
        }
    }

    /// Add the time of a call in ns to its node, at one source line or at none. Returns the node.
    fn add_call(
        &mut self,
        (base, event, line): (CallNodeId, EventId, Option<u32>),
        metric: CallMetric,
        ns: i64,
    ) -> CallNodeId {
        let (node, thread) = (self.node(base, event, line), self.thread_of(event));
        self.tree.add(node, thread, metric, &CallStats::from_value(u64::try_from(ns).unwrap_or(0)));
        if self.keeps_events {
            self.events.push((node, event));
        }
        if metric == CallMetric::GpuTime {
            self.add_stalls(node, event);
        }
        node
    }

    /// Add the stalled instruction samples of a kernel event by reason, each as a span below the kernel's node.
    fn add_stalls(&mut self, kernel: CallNodeId, event: EventId) {
        let value = self.stall_reasons.get(event);
        let text = value.as_ref().and_then(|value| value.as_str(&self.trace.strings));
        let Some(reasons) = text.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok()) else { return };
        for (reason, count) in reasons.as_object().into_iter().flatten() {
            let Some(count) = count.as_u64().filter(|&count| count > 0) else { continue };
            let name = self.tree.text(reason);
            let frame = self.tree.frame(Frame::Span { name });
            let node = self.tree.child(kernel, frame);
            self.tree.add(node, self.thread_of(event), self.stalls, &CallStats::from_value(count));
        }
    }
}
