//! Conversion of a process's calls into rows of a trace.

use super::calls::{Call, Calls, Sample, ThreadCalls};
use super::files::Files;
use super::frames;
use super::frames::{InferredFrame, Place};
use super::inputs::Inputs;
use super::sampled_python_spans::{sampled_spans, shown_threads};
use super::steps::{self, Step};
use rustc_hash::FxHashMap;
use stackline_model::names::{MODULE_PREFIX, STEP_PREFIX};
use stackline_model::{
    AttrValue, EventId, EventKind, INFERRED, Key, LINE, NewEvent, Phase, SampleMetric, StackId, StrId, Trace, TrackId,
    TrackKind, flags,
};
use stackline_recording::{FrameKey, Metric};
use std::cmp::Reverse;

/// Builder that adds a process to a trace.
pub(super) struct Rows<'a> {
    pub(super) trace: &'a mut Trace,
    /// Offset of the process's times.
    offset: i64,
    /// Largest correlation ID of earlier processes of the trace: each process counts from the start.
    correlation_base: i64,
    /// Name of each frame ID.
    names: Vec<Option<StrId>>,
    /// Input attributes of each frame ID, computed on demand.
    inputs: Vec<Option<Option<Inputs>>>,
    /// Root folder of the program's files, with a final slash; empty if unknown.
    files: Files,
    /// Stack of each node of each tree.
    stacks: Vec<Vec<Option<StackId>>>,
    /// Trees whose samples show the thread, per tree.
    shown: Vec<Vec<usize>>,
    /// Last forward operator with each sequence number, by torch's thread ID and number.
    forward: FxHashMap<(i64, i64), EventId>,
    /// Backward nodes with the thread ID and sequence number of their forward operator.
    backward_nodes: Vec<((i64, i64), EventId)>,
}

/// A span of a thread, before it becomes a row.
enum Span<'a> {
    Step(u64),
    Frame(&'a InferredFrame),
    Call(&'a Call),
}

/// Fields of a row except its time and track.
pub(super) struct Row {
    pub(super) name: StrId,
    pub(super) category: &'static str,
    pub(super) kind: EventKind,
    pub(super) phase: Phase,
    pub(super) flags: u8,
}

impl<'a> Rows<'a> {
    /// New builder. `offset` is added to the process's times to get ns since the trace's base, and `correlation_base`
    /// to its correlation IDs.
    pub(super) fn new(trace: &'a mut Trace, offset: i64, correlation_base: i64) -> Self {
        Self {
            trace,
            offset,
            correlation_base,
            names: Vec::new(),
            inputs: Vec::new(),
            files: Files::default(),
            stacks: Vec::new(),
            shown: Vec::new(),
            forward: FxHashMap::default(),
            backward_nodes: Vec::new(),
        }
    }

    /// Links from forward operators to their backward nodes, as pairs of events.
    pub(super) fn backward_links(&self) -> Vec<(EventId, EventId)> {
        let pair = |(forward_key, to): &((i64, i64), EventId)| Some((*self.forward.get(forward_key)?, *to));
        let mut pairs: Vec<(EventId, EventId)> = self.backward_nodes.iter().filter_map(pair).collect();
        pairs.sort_unstable_by_key(|&(from, to)| (to, from));
        pairs
    }

    /// Check if any call of the process has an autograd sequence number.
    pub(super) fn has_sequence_numbers(&self) -> bool {
        !self.forward.is_empty() || !self.backward_nodes.is_empty()
    }

    /// Correlation ID in the trace of one of the process; `None` for 0.
    pub(super) fn correlation(&self, id: i64) -> Option<i64> {
        (id > 0).then(|| self.correlation_base.saturating_add(id))
    }

    /// Time of the process whose time in the trace is within a limit from the base, in ns.
    pub(super) fn limited(&self, at: i64, limit: i64) -> i64 {
        at.saturating_add(self.offset).clamp(-limit, limit).saturating_sub(self.offset)
    }

    /// Add the calls, launches, samples and inferred frames of the process to the trace. `has_steps` is true if its
    /// steps are those of the trace.
    pub(super) fn add(&mut self, calls: &mut Calls, has_steps: bool) {
        for thread in &mut calls.threads {
            // A call ends before its caller and was written first: of equal spans the last one is the outermost.
            thread.calls.reverse();
            thread.calls.sort_by_key(|call| (call.start, Reverse(call.end)));
            thread.launches.reverse();
            thread.launches.sort_by_key(|launch| (launch.start, Reverse(launch.end)));
        }
        self.names = vec![None; calls.frames.len()];
        self.inputs = vec![None; calls.frames.len()];
        self.files = Files::new(calls);
        self.shown = shown_threads(calls);
        self.stacks = calls.threads.iter().map(|thread| vec![None; thread.nodes.len()]).collect();
        let pid = Key::Int(calls.process.pid.into());
        let process = self.trace.tracks.process(pid);
        // Another program may have had the same PID before (`exec`).
        let before = self.trace.tracks.processes[process.index()].name;
        let command = calls.process.command.join(" ");
        let command = before
            .some()
            .map_or(command.clone(), |before| format!("{}, then {command}", self.trace.strings.get(before)));
        self.trace.tracks.processes[process.index()].name = self.trace.strings.intern(&command);
        let steps = if has_steps { steps::infer(calls) } else { None };
        for (index, thread) in calls.threads.iter().enumerate() {
            if !thread.has_calls() && thread.samples.is_empty() {
                continue;
            }
            let track = self.track(pid, thread);
            let steps = steps.as_ref().filter(|(at, _)| *at == index).map_or(&[][..], |(_, steps)| steps);
            self.spans(calls, index, steps, track);
            // After the spans, which contain them even at equal times.
            self.add_launches(calls, index, track);
            self.samples(calls, index, track);
        }
    }

    /// Track of a thread in the trace, with the recorded name of the thread.
    fn track(&mut self, pid: Key, thread: &ThreadCalls) -> TrackId {
        let track = self.trace.tracks.track(pid, Key::Int(thread.thread.tid.into()), TrackKind::Thread);
        if !thread.thread.name.is_empty() {
            self.trace.tracks.tracks[track.index()].name = self.trace.strings.intern(&thread.thread.name);
        }
        track
    }

    /// Add the steps, inferred frames and calls of a thread to the trace, ordered by start and depth.
    fn spans(&mut self, calls: &Calls, tree: usize, steps: &[Step], track: TrackId) {
        let (thread, seen) = (&calls.threads[tree], sampled_spans(calls, &self.shown, tree));
        let (mut inferred, mut depths) = frames::infer(calls, tree, &seen, &[]);
        let steps = steps::extend(steps, &inferred);
        if !steps.is_empty() {
            let mut cuts: Vec<i64> = steps.iter().flat_map(|step| [step.start, step.end]).collect();
            cuts.dedup();
            (inferred, depths) = frames::infer(calls, tree, &seen, &cuts);
        }
        let mut spans: Vec<(i64, Reverse<i64>, u32, Span<'_>)> = Vec::new();
        for &Step { number, start, end, .. } in &steps {
            spans.push((start, Reverse(end), 0, Span::Step(number)));
        }
        spans.extend(inferred.iter().map(|f| (f.start, Reverse(f.end), f.depth + 1, Span::Frame(f))));
        let called = thread.calls.iter().zip(depths);
        spans.extend(called.map(|(call, depth)| (call.start, Reverse(call.end), depth + 1, Span::Call(call))));
        spans.sort_by_key(|&(start, end, depth, _)| (start, end, depth));
        for (start, Reverse(end), _, span) in spans {
            let (row, attrs, at) = self.describe(calls, tree, &span);
            let event = self.push(row, start, end - start, track, &attrs);
            self.set_caller_stack(calls, event, at);
            if let Span::Call(Call { sequence: Some(sequence), .. }) = span {
                match sequence.forward_thread {
                    // Operators without a node have the number of the next one with a node, so the last one is kept.
                    0 => drop(self.forward.insert((thread.thread.torch_id.cast_signed(), sequence.number), event)),
                    forward => self.backward_nodes.push(((forward, sequence.number), event)),
                }
            }
        }
    }

    /// Row (name, category, kind), attributes and call-tree node of a span.
    fn describe(
        &mut self,
        calls: &Calls,
        tree: usize,
        span: &Span<'_>,
    ) -> (Row, Vec<(&'static str, AttrValue)>, Option<Place>) {
        let inferred = vec![(INFERRED, AttrValue::Bool(true))];
        let row =
            |name, category, kind| Row { name, category, kind, phase: Phase::Complete, flags: flags::HAS_DURATION };
        match *span {
            Span::Step(number) => {
                let name = self.trace.strings.intern(&format!("{STEP_PREFIX}{number}"));
                (row(name, "user_annotation", EventKind::Annotation), inferred, None)
            }
            Span::Frame(frame) => {
                let name = self.frame_name(calls, frame.frame);
                (row(name, "python_function", EventKind::PythonFunction), inferred, Some(frame.at))
            }
            Span::Call(call) => {
                let frame = calls.threads[tree].nodes[call.node as usize].1;
                let name = match call.name.and_then(|name| calls.call_names.get(name as usize)) {
                    Some(name) => self.trace.strings.intern(name),
                    None => self.frame_name(calls, frame),
                };
                let is_span = matches!(calls.frames.get(frame as usize), Some(FrameKey::Span { .. }));
                let row = match is_span {
                    true => row(name, "user_annotation", EventKind::Annotation),
                    false => row(name, "cpu_op", EventKind::Operator),
                };
                let mut attrs = Vec::new();
                if let Some(inputs) = self.inputs(calls, frame) {
                    attrs.extend(inputs.attrs());
                }
                if let Some(sequence) = call.sequence {
                    attrs.push(("Sequence number", AttrValue::Int(sequence.number)));
                    attrs.push(("Fwd thread id", AttrValue::Int(sequence.forward_thread)));
                }
                (row, attrs, Some((tree, call.node)))
            }
        }
    }

    /// Add the samples of a thread to the trace as events without duration, each with its call path.
    fn samples(&mut self, calls: &Calls, tree: usize, track: TrackId) {
        let thread = &calls.threads[tree];
        for &Sample { at, node, metric, value } in &thread.samples {
            let (category, of) = match metric {
                Metric::CpuTime => ("cpu_sample", SampleMetric::CpuTime),
                // The former name of wall time. It is a stable key of run directories.
                Metric::WallTime => ("real_sample", SampleMetric::WallTime),
                Metric::WaitTime => ("wait_sample", SampleMetric::WaitTime),
                _ => ("counter_sample", SampleMetric::Count),
            };
            let frame = thread.nodes[node as usize].1;
            let name = if node == 0 { self.trace.strings.intern("(nothing)") } else { self.frame_name(calls, frame) };
            let row = Row { name, category, kind: EventKind::Sample, phase: Phase::Sample, flags: 0 };
            let value = AttrValue::Int(value.min(i64::MAX.cast_unsigned()).cast_signed());
            let mut attrs = vec![(of.key(), value)];
            let line = match calls.frames.get(frame as usize) {
                Some(&FrameKey::Python { line, .. }) if node != 0 => Some(line),
                _ => None,
            };
            attrs.extend(line.map(|line| (LINE, AttrValue::Int(line.into()))));
            let event = self.push(row, at, 0, track, &attrs);
            // A function is named by its first line: only the stack has the running line.
            if line.is_some() {
                let stack = self.stack(calls, (tree, node));
                self.trace.stacks.event.push(event);
                self.trace.stacks.stack.push(stack);
            } else {
                self.set_caller_stack(calls, event, Some((tree, node)));
            }
        }
    }

    /// Append an event with attributes to the trace. `start` is a time of the process; the offset is added here.
    pub(super) fn push(
        &mut self,
        row: Row,
        start: i64,
        dur: i64,
        track: TrackId,
        attrs: &[(&str, AttrValue)],
    ) -> EventId {
        let Row { name, category, kind, phase, flags } = row;
        let category = self.trace.strings.intern(category);
        let source_index = self.trace.events.len() as u32;
        let start = start.saturating_add(self.offset);
        let event = NewEvent { start, dur, track, name, category, kind, phase, flags, source_index };
        let (mut fields, mut values) = (Vec::with_capacity(attrs.len()), Vec::with_capacity(attrs.len()));
        for &(key, value) in attrs {
            let (kind, raw) = value.to_raw();
            fields.push((self.trace.strings.intern(key), kind));
            values.push(raw);
        }
        self.trace.attrs.push(&fields, &values);
        self.trace.events.push(event)
    }

    /// Set the stack (call path) of a trace event to that of the caller of its call-tree node.
    fn set_caller_stack(&mut self, calls: &Calls, event: EventId, at: Option<Place>) {
        let Some((tree, node)) = at else { return };
        let caller = calls.threads[tree].nodes.get(node as usize).map_or(0, |&(parent, _)| parent);
        if caller != 0 {
            let stack = self.stack(calls, (tree, caller));
            self.trace.stacks.event.push(event);
            self.trace.stacks.stack.push(stack);
        }
    }

    /// Stack (call path) in the trace that ends with a call-tree node.
    pub(super) fn stack(&mut self, calls: &Calls, (tree, node): Place) -> StackId {
        let nodes = &calls.threads[tree].nodes;
        let mut missing = Vec::new();
        let mut at = node;
        while at != 0 && self.stacks[tree][at as usize].is_none() {
            missing.push(at);
            at = nodes[at as usize].0;
        }
        let mut stack = self.stacks[tree][at as usize].unwrap_or(StackId::NONE);
        for node in missing.into_iter().rev() {
            let frame = nodes[node as usize].1;
            let (name, category) = (self.line_name(calls, frame), category(calls.frames.get(frame as usize)));
            let Trace { stacks, strings, .. } = &mut *self.trace;
            let category = strings.intern(category);
            stack = stacks.push(stack, (name, category), strings);
            self.stacks[tree][node as usize] = Some(stack);
        }
        stack
    }

    /// Event name of a frame: functions with their first line, as in PyTorch's profiler.
    fn frame_name(&mut self, calls: &Calls, frame: u32) -> StrId {
        if let Some(&Some(name)) = self.names.get(frame as usize) {
            return name;
        }
        let text = self.name(calls, frame, |first_line, _| first_line);
        let name = self.trace.strings.intern(&text);
        if let Some(known) = self.names.get_mut(frame as usize) {
            *known = Some(name);
        }
        name
    }

    /// Attributes for the inputs of an operator's frame; `None` if none were recorded.
    fn inputs(&mut self, calls: &Calls, frame: u32) -> Option<Inputs> {
        let known = self.inputs.get(frame as usize).copied().flatten();
        known.unwrap_or_else(|| {
            let found = Inputs::new(calls, frame, &mut self.trace.strings);
            if let Some(place) = self.inputs.get_mut(frame as usize) {
                *place = Some(found);
            }
            found
        })
    }

    /// Stack name of a frame: functions with their running line.
    fn line_name(&mut self, calls: &Calls, frame: u32) -> StrId {
        let text = self.name(calls, frame, |_, line| line);
        self.trace.strings.intern(&text)
    }

    /// Name of a frame. `line_of` selects the line of a Python function from its first and its running line.
    fn name(&self, calls: &Calls, frame: u32, line_of: impl Fn(u32, u32) -> u32) -> String {
        let Some(key) = calls.frames.get(frame as usize) else { return "(unknown)".to_owned() };
        match *key {
            FrameKey::Python { function, file, line, first_line } => {
                format!(
                    "{}({}): {}",
                    self.files.short_name(calls.text(file)),
                    line_of(first_line, line),
                    calls.text(function)
                )
            }
            FrameKey::Operator { name }
            | FrameKey::ShapedOperator { name, .. }
            | FrameKey::Backward { name }
            | FrameKey::ShapedBackward { name, .. }
            | FrameKey::Span { name } => calls.text(name).to_owned(),
            FrameKey::Module { path, class } => {
                format!("{MODULE_PREFIX} {} {}", calls.text(class), calls.text(path)).trim_end().to_owned()
            }
            FrameKey::Native { library, offset } => {
                let path = calls.libraries.get(library as usize).map_or("", |&path| calls.text(path));
                format!("{}+{offset:#x}", path.rsplit('/').next().unwrap_or(path))
            }
            FrameKey::Unmapped { address } => format!("{address:#x}"),
            FrameKey::Overflow => "(calls merged: the call tree was full)".to_owned(),
            _ => "(unknown)".to_owned(),
        }
    }
}

/// Category of a frame in the trace's stacks.
fn category(key: Option<&FrameKey>) -> &'static str {
    match key {
        Some(FrameKey::Python { .. }) => "python",
        Some(FrameKey::Operator { .. } | FrameKey::ShapedOperator { .. }) => "operator",
        Some(FrameKey::Backward { .. } | FrameKey::ShapedBackward { .. }) => "backward",
        Some(FrameKey::Span { .. }) => "span",
        Some(FrameKey::Module { .. }) => "module",
        Some(FrameKey::Native { .. } | FrameKey::Unmapped { .. }) => "native",
        _ => "other",
    }
}
