//! Calling context tree (CCT) of a trace, built from its events.
//!
//! Spans of threads are below their enclosing spans. GPU operations are below the call that launched them, or at the
//! top if it is unknown. Backward work is below its forward operator. All steps share one frame.

use super::call_events::is_call;
use super::idle::Idle;
use super::line_attribution::LineAttribution;
use super::trace_contexts::TraceContexts;
use rustc_hash::FxHashMap;
use stackline_model::names::{MODULE_PREFIX, STEP_PREFIX};
use stackline_model::{
    AttrColumn, CallMetric, CallNodeId, CallProcess, CallStats, CallThread, CallThreadId, CallingContextTree,
    CallingContextTreeBuilder, EventId, EventKind, Frame, FrameId, INFERRED, StrId, Trace, TrackId, TrackKind,
};
use stackline_timeline::Scope;
use stackline_timeline::frame_names::frame;
use stackline_timeline::scope::runs_in;
use stackline_timeline::steps::{StepSelection, host_window_of};
use stackline_timeline::vocabulary::STALL_REASON;
use stackline_timeline::window_choice::WindowChoice;

/// Calling context tree (CCT) of a time range of a trace.
#[derive(Debug)]
pub struct TraceCallTree {
    /// The tree: time of threads at spans, GPU time at GPU operations, counter `STALLS` below kernels with samples.
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

/// Counter of stalled instruction samples by reason. The reasons are spans below their kernel.
pub(crate) const STALLS: &str = "stalls";

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

/// Time ranges in which thread events and GPU work count, in ns since the trace's base.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Range for thread events: from the start of the first step to the end of the last one.
    host: (i64, i64),
    /// Range for GPU work without a known launch, by execution time as in tables of GPUs.
    gpu: (i64, i64),
}

impl Window {
    /// Compute the time ranges of the selected steps for thread events and for GPU work without a launch.
    fn from_trace(trace: &Trace, selection: &StepSelection) -> Self {
        let host = match selection.choice {
            WindowChoice::From(start) => (start, i64::MAX),
            WindowChoice::StepsWithWork(from, to) | WindowChoice::Steps(from, to) => {
                host_window_of(trace, (from, to)).unwrap_or((i64::MIN, i64::MAX))
            }
            _ => (i64::MIN, i64::MAX),
        };
        Self { host, gpu: selection.window(trace).unwrap_or(host) }
    }

    /// True if a thread event starts in the time range.
    pub(super) fn has(&self, trace: &Trace, event: EventId) -> bool {
        (self.host.0..self.host.1).contains(&trace.events.start[event.index()])
    }

    /// True if a GPU operation counts: by the start of its launch, or by execution time if the launch is unknown.
    fn has_work(&self, trace: &Trace, event: EventId, launch: Option<EventId>) -> bool {
        launch.map_or_else(|| runs_in(trace, event, self.gpu), |launch| self.has(trace, launch))
    }
}

/// Name and kind of events, a flag for backward work, and the line if it is not the first.
type FrameKey = (StrId, EventKind, bool, Option<u32>);

/// Builder of the calling context tree of a trace, from its events.
pub(super) struct Builder<'a> {
    pub(super) trace: &'a Trace,
    pub(super) window: Window,
    pub(super) tree: CallingContextTreeBuilder,
    /// Thread of each track; empty if all events are on one thread.
    threads: Vec<CallThreadId>,
    thread: CallThreadId,
    stalls: CallMetric,
    stall_reasons: AttrColumn<'a>,
    /// `None` if no event has this attribute.
    inferred: Option<AttrColumn<'a>>,
    frames: FxHashMap<FrameKey, FrameId>,
    /// Last frame by name, as a cache: names usually map to one frame.
    last_frames: Vec<Option<(FrameKey, FrameId)>>,
    /// Parent node by event; [`CallNodeId::NONE`] if not known yet.
    bases: Vec<CallNodeId>,
    /// Node by event, if known and without a line. Events inside it look it up repeatedly.
    nodes: Vec<CallNodeId>,
    /// Calling context of each event.
    pub(super) callers: TraceContexts,
    pub(super) idle: Idle,
    /// Lines of Python functions, in trees by line.
    lines: Option<LineAttribution<'a>>,
    events: Vec<(CallNodeId, EventId)>,
    /// True to keep the event list. For millions of events it takes as long as the tree.
    keeps_events: bool,
    uncounted_calls: FxHashMap<(CallNodeId, CallThreadId), u64>,
}

impl<'a> Builder<'a> {
    /// Create a builder with one process and one thread, in which all events count until threads are added.
    fn new(trace: &'a Trace, window: Window, idle: Idle) -> Self {
        let mut tree = CallingContextTreeBuilder::new();
        let process = tree.process(CallProcess::default());
        let name = tree.text("");
        // Rules do not distinguish threads.
        let thread = tree.thread(CallThread { process, tid: 0, torch_id: 0, name });
        let stalls = CallMetric::Counter(tree.text(STALLS));
        Self {
            trace,
            window,
            tree,
            threads: Vec::new(),
            thread,
            stalls,
            stall_reasons: trace.attr(STALL_REASON),
            inferred: Some(trace.attr(INFERRED)).filter(AttrColumn::exists),
            frames: FxHashMap::default(),
            last_frames: vec![None; trace.strings.len()],
            bases: vec![CallNodeId::NONE; trace.events.len()],
            nodes: vec![CallNodeId::NONE; trace.events.len()],
            callers: TraceContexts::from_trace(trace, &idle),
            idle,
            lines: None,
            events: Vec::new(),
            keeps_events: true,
            uncounted_calls: FxHashMap::default(),
        }
    }

    /// Sort the collected events and uncounted calls, and finish the tree of `steps` steps.
    fn finish(self, steps: usize) -> TraceCallTree {
        let mut events = self.events;
        events.sort_unstable();
        let mut uncounted_calls: UncountedCalls =
            self.uncounted_calls.into_iter().map(|((node, thread), count)| (node, thread, count)).collect();
        uncounted_calls.sort_unstable();
        TraceCallTree { tree: self.tree.finish(), events, steps, uncounted_calls }
    }

    /// Add one thread to the calling context tree per track of the trace.
    fn add_threads(&mut self) {
        let trace = self.trace;
        let process = self.tree.process(CallProcess::default());
        for track in trace.tracks.ids() {
            let name = self.tree.text(&track_title(trace, track));
            let thread = self.tree.thread(CallThread { process, tid: 0, torch_id: 0, name });
            self.threads.push(thread);
        }
    }

    /// Thread in the call tree that gets an event's values: that of the event's track, or the only one.
    pub(super) fn thread_of(&self, event: EventId) -> CallThreadId {
        let track = self.trace.events.track[event.index()];
        self.threads.get(track.index()).copied().unwrap_or(self.thread)
    }

    /// Add the times of all calls and GPU operations that count: GPU time, or self time of threads with their GPU idle
    /// time.
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

    /// True if an event counts in the time range. GPU operations count by their launch, or by execution time without a
    /// known launch.
    pub(super) fn is_counted(&self, event: EventId) -> bool {
        if !self.trace.kind(event).is_gpu_work() {
            return self.window.has(self.trace, event);
        }
        self.window.has_work(self.trace, event, self.callers.of_event(event))
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

    /// Tree node of an event's caller, below which the event's own node belongs.
    pub(super) fn base(&mut self, event: EventId) -> CallNodeId {
        if !self.bases[event.index()].is_none() {
            return self.bases[event.index()];
        }
        match self.callers.of_event(event) {
            // The caller usually precedes the call.
            Some(caller) if !self.bases[caller.index()].is_none() => {
                self.bases[event.index()] = self.caller_node(event, caller);
                return self.bases[event.index()];
            }
            _ => {}
        }
        // Path from the event to the nearest caller with a known node, or to the outermost one.
        let mut chain = vec![event];
        let mut at = event;
        while self.bases[at.index()].is_none()
            && let Some(caller) = self.callers.of_event(at)
        {
            chain.push(caller);
            at = caller;
        }
        if self.bases[at.index()].is_none() {
            self.bases[at.index()] = CallingContextTree::ROOT;
        }
        for pair in chain.windows(2).rev() {
            let &[called, caller] = pair else { continue };
            self.bases[called.index()] = self.caller_node(called, caller);
        }
        self.bases[event.index()]
    }

    /// Node of a caller with a known parent, at its line when it made this call.
    fn caller_node(&mut self, called: EventId, caller: EventId) -> CallNodeId {
        let line = self.lines.as_ref().and_then(|lines| lines.line_of_call(called, caller));
        self.node(self.bases[caller.index()], caller, line)
    }

    /// Find or add the tree node of an event below the node `base`, at a source line if `line` is known.
    pub(super) fn node(&mut self, base: CallNodeId, event: EventId, line: Option<u32>) -> CallNodeId {
        let known = self.nodes[event.index()];
        if line.is_none() && !known.is_none() {
            return known;
        }
        let frame = self.frame(event, line);
        let node = self.tree.child(base, frame);
        if line.is_none() {
            self.nodes[event.index()] = node;
        }
        node
    }

    /// Frame of an event, at a source line if known; looked up in a cache by name first.
    fn frame(&mut self, event: EventId, line: Option<u32>) -> FrameId {
        let (name, kind) = (self.trace.events.name[event.index()], self.trace.kind(event));
        let key = (name, kind, self.callers.is_backward[event.index()], line);
        if let Some(&Some((of, frame))) = self.last_frames.get(name.index())
            && of == key
        {
            return frame;
        }
        let frame = self.frame_of(key);
        if let Some(last) = self.last_frames.get_mut(name.index()) {
            *last = Some((key, frame));
        }
        frame
    }

    /// Frame of a name, kind, backward flag and line, created if it is new.
    fn frame_of(&mut self, key: FrameKey) -> FrameId {
        if let Some(&known) = self.frames.get(&key) {
            return known;
        }
        let (name, kind, _, line) = key;
        let text = self.trace.strings.get(name);
        let mut frame = call_frame(&mut self.tree, text, kind, key.2);
        if let (Frame::Python { line, .. }, Some(running)) = (&mut frame, line) {
            *line = running;
        }
        let frame = self.tree.frame(frame);
        self.frames.insert(key, frame);
        frame
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

/// Unique title of a thread or GPU stream of a trace.
fn track_title(trace: &Trace, track: TrackId) -> String {
    let data = trace.tracks.get(track);
    let process = &trace.tracks.processes[data.process.index()];
    let (pid, tid) = (trace.key_text(process.pid), unsigned_thread_id(&trace.key_text(data.tid)));
    if data.kind == TrackKind::Stream && (data.stream == -1 || data.stream == i64::from(u32::MAX)) {
        return format!("GPU {} without a stream (pid {pid}, tid {tid} of the trace)", data.device);
    }
    if data.kind == TrackKind::Stream {
        return format!("stream {} of GPU {} (pid {pid}, tid {tid} of the trace)", data.stream, data.device);
    }
    let (name, numbered) = (trace.strings.get(data.name), format!("{} {tid}", data.kind.name()));
    // PyTorch's own names already contain this information.
    let rest = name.strip_prefix(&numbered);
    let title = if rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric())) {
        name.to_owned()
    } else {
        format!("{numbered} {name}")
    };
    format!("{title} of process {pid}").replace("  ", " ")
}

/// Thread number as users know it: 32-bit handles that were written as signed become unsigned.
fn unsigned_thread_id(tid: &str) -> String {
    let handle = tid.parse::<i32>().ok().filter(|&number| number < -1);
    handle.map_or_else(|| tid.to_owned(), |number| number.cast_unsigned().to_string())
}

/// Frame of an event from its name and kind; all steps share one frame, and backward operators get a frame of their
/// own.
fn call_frame(tree: &mut CallingContextTreeBuilder, name: &str, kind: EventKind, is_backward: bool) -> Frame {
    if name.starts_with(STEP_PREFIX) {
        // In traces of 2021, steps are operators.
        return Frame::Span { name: tree.text(STEP_PREFIX.trim_end_matches('#')) };
    }
    match kind {
        EventKind::Operator if is_backward => Frame::backward(tree.text(name)),
        EventKind::Operator => Frame::operator(tree.text(name)),
        EventKind::Annotation => Frame::Span { name: tree.text(name) },
        EventKind::PythonFunction => python_frame(tree, name),
        kind if kind.is_gpu_work() => Frame::Kernel { name: tree.text(name) },
        _ => Frame::Runtime { name: tree.text(name) },
    }
}

/// Frame of a Python event: a module for `nn.Module: …`, a function with file and first line, or a built-in function
/// without its address.
fn python_frame(tree: &mut CallingContextTreeBuilder, name: &str) -> Frame {
    if let Some(class) = name.strip_prefix(MODULE_PREFIX) {
        return Frame::Module { path: StrId::NONE, class: tree.text(class.trim_start()) };
    }
    match frame(name) {
        Some((file, line, function)) => {
            Frame::Python { function: tree.text(function), file: tree.text(file), line, first_line: line }
        }
        None => {
            // `<built-in method item of Tensor object at 0x7f64>`: drop the address, because many objects share one
            // method.
            let (function, end) = name.split_once(" at 0x").map_or((name, ""), |(function, _)| (function, ">"));
            let function = tree.text(&format!("{function}{end}"));
            Frame::Python { function, file: StrId::NONE, line: 0, first_line: 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unsigned_thread_id;

    #[test]
    fn thread_handles_are_unsigned() {
        let titles = ["-549452224", "7", "-1", "-3000000000", "main"].map(unsigned_thread_id);
        assert_eq!(titles, ["3745515072", "7", "-1", "-3000000000", "main"]);
    }
}
