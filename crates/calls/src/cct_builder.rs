//! Builder of the calling context tree (CCT) of a trace: nodes and frames of events, and the events that count.

use super::idle::Idle;
use super::line_attribution::LineAttribution;
use super::trace_contexts::TraceContexts;
use rustc_hash::FxHashMap;
use stackline_model::names::{MODULE_PREFIX, STEP_PREFIX};
use stackline_model::{
    AttrColumn, CallMetric, CallNodeId, CallProcess, CallThread, CallThreadId, CallingContextTree,
    CallingContextTreeBuilder, EventId, EventKind, Frame, FrameId, INFERRED, StrId, Trace, TrackId, TrackKind, Unit,
};
use stackline_timeline::frame_names::frame;
use stackline_timeline::scope::runs_in;
use stackline_timeline::steps::{StepSelection, host_window_of};
use stackline_timeline::vocabulary::STALL_REASON;
use stackline_timeline::window_choice::WindowChoice;

/// Counter of stalled instruction samples by reason. The reasons are spans below their kernel.
pub(crate) const STALLS: &str = "stalls";

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
    pub(super) fn from_trace(trace: &Trace, selection: &StepSelection) -> Self {
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
    pub(super) fn has_work(&self, trace: &Trace, event: EventId, launch: Option<EventId>) -> bool {
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
    pub(super) stalls: CallMetric,
    pub(super) stall_reasons: AttrColumn<'a>,
    /// `None` if no event has this attribute.
    pub(super) inferred: Option<AttrColumn<'a>>,
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
    pub(super) lines: Option<LineAttribution<'a>>,
    pub(super) events: Vec<(CallNodeId, EventId)>,
    /// True to keep the event list. For millions of events it takes as long as the tree.
    pub(super) keeps_events: bool,
    pub(super) uncounted_calls: FxHashMap<(CallNodeId, CallThreadId), u64>,
}

impl<'a> Builder<'a> {
    /// Create a builder with one process and one thread, in which all events count until threads are added.
    pub(super) fn new(trace: &'a Trace, window: Window, idle: Idle) -> Self {
        let mut tree = CallingContextTreeBuilder::new();
        let process = tree.process(CallProcess::default());
        let name = tree.text("");
        // Rules do not distinguish threads.
        let thread = tree.thread(CallThread { process, tid: 0, torch_id: 0, name });
        let stalls = CallMetric::Counter(tree.text(STALLS), Unit::None);
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

    /// Add one thread to the calling context tree per track of the trace.
    pub(super) fn add_threads(&mut self) {
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

    /// True if an event counts in the time range. GPU operations count by their launch, or by execution time without a
    /// known launch.
    pub(super) fn is_counted(&self, event: EventId) -> bool {
        if !self.trace.kind(event).is_gpu_work() {
            return self.window.has(self.trace, event);
        }
        self.window.has_work(self.trace, event, self.callers.of_event(event))
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
