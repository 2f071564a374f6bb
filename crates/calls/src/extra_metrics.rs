//! Non-time metrics of the calling context tree: launches, bytes copied, GPU idle time, memory, instruction samples.

use super::call_events::is_call;
use super::cct_builder::Builder;
use rustc_hash::FxHashMap;
use stackline_model::{
    CallMetric, CallNodeId, CallStats, CallingContextTree, EventId, EventKind, Frame, INSTRUCTION_SAMPLE, Key,
    ProcessId, StrId, Trace, TrackId, TrackKind, Unit,
};

/// Counter of samples of GPU instructions, below their kernel and source line.
const INSTRUCTION_SAMPLES: &str = "instruction_samples";

/// Tracks of threads whose number is text, by process and number. Memory events of traces of 2021 have the number as an
/// integer.
struct TextNumberThreads(FxHashMap<(ProcessId, i64), TrackId>);

impl TextNumberThreads {
    /// Index the thread tracks whose number is text, by process and number.
    fn from_trace(trace: &Trace) -> Self {
        let mut text_threads = FxHashMap::default();
        for id in trace.tracks.ids() {
            let track = trace.tracks.get(id);
            if let (TrackKind::Thread, Key::Str(text)) = (track.kind, track.tid)
                && let Ok(number) = trace.strings.get(text).parse()
            {
                text_threads.entry((track.process, number)).or_insert(id);
            }
        }
        Self(text_threads)
    }

    /// Innermost call on the thread of a memory event, at its time. `None` if that thread's number is not text, or no
    /// call runs then.
    fn call_at(&self, trace: &Trace, event: EventId) -> Option<EventId> {
        let (at, track) = (trace.events.start[event.index()], trace.tracks.get(trace.events.track[event.index()]));
        let Key::Int(number) = track.tid else { return None };
        let calls = trace.track_events(*self.0.get(&(track.process, number))?);
        let begun = calls.partition_point(|call| trace.events.start[call.index()] <= at);
        let last = *calls[..begun].last()?;
        let covers = |&call: &EventId| is_call(trace, call) && trace.events.end(call) >= at;
        std::iter::once(last).chain(trace.ancestors(last)).find(covers)
    }
}

impl Builder<'_> {
    /// Idle GPU time in ns during a thread's call, without the idle time during its direct callees; 0 if not computed.
    pub(super) fn own_idle(&self, event: EventId) -> i64 {
        self.callers.own_idle.get(event.index()).copied().unwrap_or(0)
    }

    /// Divide a call's idle GPU time among the source lines of its function, in proportion to their self time.
    pub(super) fn add_line_idle(&mut self, event: EventId, parts: &[(CallNodeId, i64)]) {
        let (mut left, mut time) = (self.own_idle(event), parts.iter().map(|part| part.1).sum::<i64>());
        for &(node, ns) in parts {
            let share = if time > 0 { i128::from(left) * i128::from(ns) / i128::from(time) } else { i128::from(left) };
            let share = i64::try_from(share).unwrap_or(left);
            self.add_value(node, event, CallMetric::GpuIdle, share);
            (left, time) = (left - share, time - ns);
        }
    }

    /// Add all metrics other than time (launches, bytes, idle time, memory) to the calling context tree.
    pub(super) fn add_extra_metrics(&mut self) {
        self.add_launches();
        self.add_copies();
        self.add_memory();
        for (event, ns) in std::mem::take(&mut self.idle.waited) {
            let node = self.node_of(event);
            self.add_value(node, event, CallMetric::GpuIdle, ns);
        }
        for (launch, ns) in std::mem::take(&mut self.idle.outside) {
            self.add_value(CallingContextTree::ROOT, launch, CallMetric::GpuIdle, ns);
        }
    }

    /// Add one launch per launch call of GPU operations in the time range, at the call's node.
    fn add_launches(&mut self) {
        let trace = self.trace;
        let mut launches: Vec<EventId> = trace.gpu.launch.iter().filter_map(|launch| launch.some()).collect();
        launches.sort_unstable();
        launches.dedup();
        launches.retain(|&launch| trace.events.is_timed(launch) && self.window.has(trace, launch));
        for launch in launches {
            let node = self.node_of(launch);
            self.add_value(node, launch, CallMetric::Launches, 1);
        }
    }

    /// Add the bytes of copies and fills in the time range, at the node of the operation.
    fn add_copies(&mut self) {
        let trace = self.trace;
        let bytes = trace.attr("bytes");
        let is_copy = |event: EventId| matches!(trace.kind(event), EventKind::Memcpy | EventKind::Memset);
        for &event in trace.gpu.event.iter().filter(|&&event| is_copy(event)) {
            if trace.events.is_timed(event) && self.is_counted(event) {
                let node = self.node_of(event);
                self.add_value(node, event, CallMetric::Copied, bytes.i64(event).unwrap_or(0));
            }
        }
    }

    /// Add the bytes of allocations and frees in the time range, at the node of the enclosing call.
    fn add_memory(&mut self) {
        let trace = self.trace;
        let (bytes, text_threads) = (trace.attr("Bytes"), TextNumberThreads::from_trace(trace));
        let is_in = |event: EventId| trace.events.is_plausible(event) && self.window.has(trace, event);
        let is_memory = |event: &EventId| trace.kind(*event) == EventKind::Memory && is_in(*event);
        let events: Vec<EventId> = trace.events.ids().filter(is_memory).collect();
        for event in events {
            let Some(bytes) = bytes.i64(event) else { continue };
            let metric = if bytes < 0 { CallMetric::Freed } else { CallMetric::Allocated };
            let call_on_thread =
                if self.callers.of_event(event).is_none() { text_threads.call_at(trace, event) } else { None };
            let node = match call_on_thread {
                Some(call) => self.node_of(call),
                None => self.base(event),
            };
            self.add_value(node, event, metric, bytes.saturating_abs());
        }
    }

    /// Add one per sample of a GPU instruction, at its instruction below the source line and the kernel.
    pub(super) fn add_instruction_samples(&mut self) {
        let trace = self.trace;
        let Some(category) = trace.key(INSTRUCTION_SAMPLE) else { return };
        let metric = CallMetric::Counter(self.tree.text(INSTRUCTION_SAMPLES), Unit::None);
        let is_sample = |event: EventId| {
            trace.kind(event) == EventKind::Sample
                && trace.events.category[event.index()] == category
                && trace.events.is_plausible(event)
        };
        for event in trace.events.ids().filter(|&event| is_sample(event)) {
            let kernel = self.callers.of_event(event);
            let is_in = match kernel {
                Some(kernel) => self.is_counted(kernel),
                None => self.window.has_work(trace, event, None),
            };
            if !is_in {
                continue;
            }
            // Outermost first: the kernel, and the line if it is known.
            let mut path: Vec<StrId> = trace.stacks.names(trace.stacks.of_event(event)).collect();
            path.reverse();
            let mut node = match (kernel, path.first()) {
                (Some(_), _) => self.base(event),
                (None, Some(&name)) => self.kernel_node(name),
                (None, None) => CallingContextTree::ROOT,
            };
            for &line in path.get(1..).unwrap_or_default() {
                node = self.source_line_node(node, line);
            }
            let function = self.tree.text(trace.name(event));
            let frame = self.tree.frame(Frame::DeviceFunction { function, file: StrId::NONE, line: 0 });
            let node = self.tree.child(node, frame);
            self.add_value(node, event, metric, 1);
        }
    }

    /// Node of a kernel without a record, at the top of the tree.
    fn kernel_node(&mut self, name: StrId) -> CallNodeId {
        let name = self.tree.text(self.trace.strings.get(name));
        let frame = self.tree.frame(Frame::Kernel { name });
        self.tree.child(CallingContextTree::ROOT, frame)
    }

    /// Node of a source line (`path/file.hip:12`) of device code below a node, named by the file and line.
    fn source_line_node(&mut self, parent: CallNodeId, line: StrId) -> CallNodeId {
        let text = self.trace.strings.get(line);
        let location = text.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?)));
        let (file, line) = location.map_or((StrId::NONE, 0), |(file, line)| (self.tree.text(file), line));
        let function = self.tree.text(text.rsplit(['/', '\\']).next().unwrap_or(text));
        let frame = self.tree.frame(Frame::DeviceFunction { function, file, line });
        self.tree.child(parent, frame)
    }

    /// Node of an event without a line, created below its caller's node if missing.
    fn node_of(&mut self, event: EventId) -> CallNodeId {
        let base = self.base(event);
        self.node(base, event, None)
    }

    /// Add a metric value of an event to a call tree node, if it is positive.
    pub(super) fn add_value(&mut self, node: CallNodeId, event: EventId, metric: CallMetric, value: i64) {
        if let Ok(value @ 1..) = u64::try_from(value) {
            self.tree.add(node, self.thread_of(event), metric, &CallStats::from_value(value));
        }
    }
}
