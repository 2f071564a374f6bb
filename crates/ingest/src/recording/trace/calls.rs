//! Individual calls and samples of one stream, with the stream's own ID tables.

use super::devices::{Devices, LaunchCall};
use super::id_tables::{store, store_with};
use super::times::{MAX_NS, time};
use crate::diagnostics;
use crate::recording::ends::LastSeen;
use crate::recording::recorder_frames::{is_own_function, is_own_library};
use crate::recording::stream::{note_exit, note_outage, note_replaced};
use crate::recording::{note_unread, open_stream};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::ReadReport;
use stackline_recording::{
    CallDetail, Cost, FrameKey, Metric, OPENMP, Process, Processors, Record, TensorPart, Thread, TouchKind,
};

/// Content of a stream that was recorded in `trace` mode.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) process: Process,
    pub(super) texts: Vec<String>,
    pub(super) frames: Vec<FrameKey>,
    /// Path of each library, as a text number.
    pub(super) libraries: Vec<u32>,
    pub(super) threads: Vec<ThreadCalls>,
    /// Identifier that processes with a common clock share, if recorded.
    pub(super) boot: Option<u64>,
    /// CPU limits of the process, if recorded.
    pub(super) processors: Option<Processors>,
    /// CPU use of the threads, in time order.
    pub(super) loads: Vec<CpuLoad>,
    /// Cost of recording an operator.
    pub(super) cost: Option<Cost>,
    /// Starts and pauses of the recording; empty if it was never paused.
    pub(super) windows: Vec<RecordingChange>,
    /// Names of tensors.
    pub(super) tensor_names: Vec<TensorName>,
    /// Assignments of tensor names to memory, in their order of recording.
    pub(super) named: Vec<NameAssignment>,
    /// Kinds of dropped records with their numbers.
    pub(super) lost: Vec<(String, u64)>,
    /// True if the process has an end record.
    pub(super) ended: bool,
    /// True if the process was ended by neither its parent nor itself.
    pub(super) killed: bool,
    pub(super) last_seen: LastSeen,
    /// Exact names of calls whose frames merge many names.
    pub(super) call_names: Vec<String>,
    pub(super) devices: Devices,
    holes: Holes,
}

/// Definitions that are missing in unreadable parts of a stream.
#[derive(Debug, Default)]
struct Holes {
    /// Skipped bytes so far.
    skipped: usize,
    /// True while differences refer to skipped records, until they restart.
    differences: bool,
    /// Undefined IDs, with placeholders in their tables.
    texts: FxHashSet<u32>,
    frames: FxHashSet<u32>,
    libraries: FxHashSet<u32>,
    threads: FxHashSet<u32>,
    tensor_names: FxHashSet<u32>,
}

/// Name of a tensor ([`Record::TensorName`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TensorName {
    pub(super) module: String,
    pub(super) name: String,
    pub(super) part: TensorPart,
}

/// Assignment of a tensor name to an address at a time ([`Record::Named`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameAssignment {
    pub(super) at: i64,
    pub(super) address: u64,
    pub(super) name: u32,
}

/// Cumulative CPU and waiting time of a process's threads up to a time ([`Record::Load`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuLoad {
    pub(super) at: i64,
    pub(super) ran_ns: u64,
    pub(super) waited_ns: u64,
}

/// Start or pause of the recording ([`Record::Window`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordingChange {
    pub(super) at: i64,
    pub(super) step: u64,
    pub(super) open: bool,
    pub(super) at_step: bool,
}

/// Calls and samples of one thread. Operators and samples of a thread have separate trees, so a thread of the program
/// may occur twice.
#[derive(Debug, Default)]
pub(super) struct ThreadCalls {
    pub(super) thread: Thread,
    /// Parent and frame of each node; the root has neither.
    pub(super) nodes: Vec<(u32, u32)>,
    /// Nodes of the recorder's own frames, and the nodes that replace them.
    own: FxHashMap<u32, u32>,
    pub(super) calls: Vec<Call>,
    pub(super) samples: Vec<Sample>,
    pub(super) touches: Vec<TensorAccess>,
    /// Calls into runtimes and drivers of devices.
    pub(super) launches: Vec<LaunchCall>,
    /// End of the last launch.
    pub(super) last_launch: i64,
    last_touch: (i64, u64),
    last_end: i64,
    last_sample: i64,
    last_number: i64,
    /// Undefined nodes.
    holes: FxHashSet<u32>,
}

/// A call of an operator, backward node or span, in `CLOCK_MONOTONIC` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) node: u32,
    pub(super) sequence: Option<Sequence>,
    /// Exact name of the call ([`Calls::call_names`]), if its frame merges many names.
    pub(super) name: Option<u32>,
}

/// Autograd's sequence number, and torch's ID of the thread of the forward operator (0 for a forward operator).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) number: i64,
    pub(super) forward_thread: i64,
}

/// A sample of a thread: time, call-tree node, metric and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) at: i64,
    pub(super) node: u32,
    pub(super) metric: Metric,
    pub(super) value: u64,
}

/// Allocation, access or release of a tensor's memory ([`Record::Touch`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TensorAccess {
    pub(super) at: i64,
    pub(super) node: u32,
    pub(super) kind: TouchKind,
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// Limit on step numbers; larger ones are damage.
const MAX_STEP: u64 = 1 << 53;

impl Calls {
    /// Decode a stream without its damaged parts. `None` if nothing is left. The end of its process is counted
    /// separately ([`note_end`](super::in_flight::note_end)).
    pub(super) fn decode(name: &str, file: &[u8], report: &mut ReadReport) -> Option<Self> {
        let mut reader = open_stream(name, file, report)?;
        let mut calls: Option<Self> = None;
        while let Some(record) = reader.next() {
            report.records += 1;
            calls.iter_mut().for_each(|calls| calls.note_skipped(reader.skipped()));
            match (record, &mut calls) {
                (Record::Process(mut process), None) => {
                    process.start_unix_ns = process.start_unix_ns.clamp(-MAX_NS, MAX_NS);
                    process.start_monotonic_ns = process.start_monotonic_ns.clamp(-MAX_NS / 4, MAX_NS / 4);
                    calls = Some(Self { process: *process, ..Self::default() });
                }
                (Record::End { .. }, Some(calls)) => calls.ended = true,
                (Record::Exit { code }, Some(_)) => note_exit(report, name, code),
                (Record::Replaced, Some(_)) => note_replaced(report, name),
                (Record::Lost { what, count }, Some(calls)) => {
                    calls.lost.retain(|(other, _)| *other != what);
                    calls.lost.push((what, count));
                }
                (Record::Outage { from_ns, to_ns, error, dropped }, Some(_)) => {
                    note_outage(report, name, (from_ns, to_ns), error, dropped);
                }
                (record, Some(calls)) => {
                    if calls.apply(record).is_none() {
                        diagnostics::DANGLING_RECORD.count(report, None, name);
                    }
                }
                (_, None) => diagnostics::DANGLING_RECORD.count(report, None, name),
            }
        }
        note_unread(name, &reader, file.len(), report);
        if let Some(calls) = calls.as_mut().filter(|_| reader.skipped() > 0) {
            // The kind of the damaged records is unknown.
            calls.lost.push(("touches_damaged".to_owned(), 1));
        }
        calls.iter_mut().for_each(|calls| calls.name_threads(reader.skipped() > 0));
        if calls.is_none() {
            diagnostics::EMPTY_STREAM.count(report, None, name);
        }
        calls
    }

    /// Apply a stream record; `None` if it refers to an undefined entry.
    fn apply(&mut self, record: Record) -> Option<()> {
        let lost = self.holes.skipped;
        match record {
            Record::Text { id, text } => store((&mut self.texts, &mut self.holes.texts), id, lost, text),
            Record::Frame { id, key } => {
                let frame = self.frame(key)?;
                store_with((&mut self.frames, &mut self.holes.frames), id, lost, frame, || FrameKey::Overflow)
            }
            Record::Library { id, path, .. } => store((&mut self.libraries, &mut self.holes.libraries), id, lost, path),
            Record::Thread(thread) => match self.thread(thread.id) {
                Some(known) => {
                    known.thread = thread;
                    Some(())
                }
                None => {
                    let id = thread.id;
                    let thread = ThreadCalls { thread, nodes: vec![(0, 0)], ..ThreadCalls::default() };
                    store((&mut self.threads, &mut self.holes.threads), id, lost, thread)
                }
            },
            Record::Node { thread, id, parent, frame } => {
                let has_frame = (frame as usize) < self.frames.len() && !self.holes.frames.contains(&frame);
                let is_own = self.is_own(frame);
                let thread = self.thread(thread)?;
                // Parents come first, so paths have no cycles.
                if parent >= id || !has_frame || thread.holes.contains(&parent) {
                    return None;
                }
                let parent = thread.visible_node(parent);
                store((&mut thread.nodes, &mut thread.holes), id, lost, (parent, frame))?;
                if is_own {
                    thread.own.insert(id, parent);
                }
                Some(())
            }
            Record::Running { thread, .. } | Record::Sampled { thread, .. } | Record::LastSample { thread, .. } => {
                self.thread(thread)?;
                self.last_seen.store(&record);
                Some(())
            }
            Record::Restart => {
                self.holes.differences = false;
                self.threads.iter_mut().for_each(ThreadCalls::restart_deltas);
                self.devices.restart_deltas();
                Some(())
            }
            // These records contain differences from skipped records.
            Record::Call { .. }
            | Record::Sample { .. }
            | Record::Touch { .. }
            | Record::Launch(_)
            | Record::Activity(_)
                if self.holes.differences =>
            {
                None
            }
            Record::Call { thread, node, start_delta_ns, duration_ns, detail } => {
                let names = self.call_names.len() as u32;
                let known = self.thread(thread)?;
                let (sequence, name) = match &detail {
                    CallDetail::None => (None, None),
                    CallDetail::Autograd { delta, forward_thread } => (known.sequence(*delta, *forward_thread), None),
                    CallDetail::Name(_) => (None, Some(names)),
                };
                known.call(node, start_delta_ns, duration_ns, (sequence, name))?;
                match detail {
                    // The call is kept without its sequence number.
                    CallDetail::Autograd { .. } if sequence.is_none() => return None,
                    CallDetail::Name(name) => self.call_names.push(name),
                    _ => {}
                }
                Some(())
            }
            Record::Sample { thread, node, delta_ns, metric, value } => {
                self.thread(thread)?.sample(node, delta_ns, metric, value)
            }
            Record::Touch { thread, node, delta_ns, kind, address_delta, bytes } => {
                self.thread(thread)?.touch(node, delta_ns, kind, (address_delta, bytes))
            }
            Record::Machine { boot } => {
                self.boot = Some(boot);
                Some(())
            }
            Record::Window { at_ns, step, open, at_step } => {
                let at = time(0, at_ns).filter(|&at| self.windows.last().is_none_or(|last| last.at <= at))?;
                self.windows.push(RecordingChange { at, step: step.min(MAX_STEP), open, at_step });
                Some(())
            }
            Record::Processors(processors) => {
                self.processors = Some(processors);
                Some(())
            }
            Record::Cost(cost) => {
                self.cost = Some(cost);
                Some(())
            }
            Record::Load { at_ns, ran_ns, waited_ns, .. } => {
                let at = time(0, at_ns)?;
                self.loads.push(CpuLoad { at, ran_ns, waited_ns });
                Some(())
            }
            Record::TensorName { id, module, name, part } => {
                let name = TensorName { module, name, part };
                let unknown = name.clone();
                store_with((&mut self.tensor_names, &mut self.holes.tensor_names), id, lost, name, || unknown.clone())
            }
            Record::Named { at_ns, address, name } => {
                let at = time(0, at_ns).filter(|_| {
                    (name as usize) < self.tensor_names.len() && !self.holes.tensor_names.contains(&name)
                })?;
                self.named.push(NameAssignment { at, address, name });
                Some(())
            }
            // Records of devices. All others belong to the tree, where unknown kinds were counted.
            record => self.apply_device_record(record, lost),
        }
    }

    /// Store the number of skipped bytes. Time differences cannot be continued after them.
    fn note_skipped(&mut self, skipped: usize) {
        if skipped > self.holes.skipped {
            (self.holes.skipped, self.holes.differences) = (skipped, true);
        }
    }

    /// Check if the stream has defined a text.
    pub(super) fn has_text(&self, id: u32) -> bool {
        (id as usize) < self.texts.len() && !self.holes.texts.contains(&id)
    }

    /// Calls of a thread that the recorder stream has defined; `None` for other IDs.
    pub(super) fn thread(&mut self, id: u32) -> Option<&mut ThreadCalls> {
        self.threads.get_mut(id as usize).filter(|_| !self.holes.threads.contains(&id))
    }

    /// Frame in the form in which this reader stores it; `None` if it refers to a skipped definition.
    fn frame(&self, key: FrameKey) -> Option<FrameKey> {
        let has = |text: u32| !self.holes.texts.contains(&text);
        let is_whole = match key {
            FrameKey::Python { function, file, .. } => has(function) && has(file),
            FrameKey::Operator { name }
            | FrameKey::Backward { name }
            | FrameKey::Span { name }
            | FrameKey::FoldedSpan { name } => has(name),
            FrameKey::Module { path, class } => has(path) && has(class),
            FrameKey::ShapedOperator { name, inputs } | FrameKey::ShapedBackward { name, inputs } => {
                has(name) && has(inputs)
            }
            FrameKey::Native { library, .. } => !self.holes.libraries.contains(&library),
            _ => true,
        };
        is_whole.then_some(match key {
            // Calls of this frame have names of their own.
            FrameKey::FoldedSpan { name } => FrameKey::Span { name },
            key => key,
        })
    }

    /// Check if a frame is the recorder's own.
    pub(super) fn is_own(&self, frame: u32) -> bool {
        match self.frames.get(frame as usize) {
            Some(&FrameKey::Python { function, file, .. }) => is_own_function(self.text(file), self.text(function)),
            Some(&FrameKey::Native { library, .. }) => {
                self.libraries.get(library as usize).is_some_and(|&path| is_own_library(self.text(path)))
            }
            _ => false,
        }
    }

    /// Check if a frame represents OpenMP libraries.
    pub(super) fn is_openmp(&self, frame: u32) -> bool {
        matches!(self.frames.get(frame as usize), Some(&FrameKey::Span { name }) if self.text(name) == OPENMP)
    }

    /// Text that the recorder stream defined for an id; empty if undefined.
    pub(super) fn text(&self, id: u32) -> &str {
        self.texts.get(id as usize).map_or("", String::as_str)
    }
}

impl ThreadCalls {
    /// Node that is shown for a call-tree node: nodes of the recorder's own frames are replaced.
    pub(super) fn visible_node(&self, node: u32) -> u32 {
        self.own.get(&node).copied().unwrap_or(node)
    }

    /// Sequence number of a call, and thread of its forward operator; `None` if they are invalid.
    fn sequence(&mut self, delta: i64, forward_thread: u64) -> Option<Sequence> {
        self.last_number = self.last_number.checked_add(delta)?;
        Some(Sequence { number: self.last_number, forward_thread: i64::try_from(forward_thread).ok()? })
    }

    /// Add a call that starts `start_delta_ns` after the last call's end; `None` if the node or time is invalid.
    fn call(
        &mut self,
        node: u32,
        start_delta_ns: i64,
        duration_ns: u64,
        (sequence, name): (Option<Sequence>, Option<u32>),
    ) -> Option<()> {
        let start = time(self.last_end, start_delta_ns)?;
        let end = time(start, i64::try_from(duration_ns).ok()?)?;
        self.last_end = end;
        if !self.has_node(node) {
            return None;
        }
        let node = self.visible_node(node);
        self.calls.push(Call { start, end, node, sequence, name });
        Some(())
    }

    /// Add a sample `delta_ns` after the thread's last one; `None` for an unknown node or invalid time.
    fn sample(&mut self, node: u32, delta_ns: i64, metric: Metric, value: u64) -> Option<()> {
        let at = time(self.last_sample, delta_ns)?;
        self.last_sample = at;
        if !self.has_node(node) {
            return None;
        }
        let node = self.visible_node(node);
        self.samples.push(Sample { at, node, metric, value });
        Some(())
    }

    /// Add a memory access, with differences to the last one; `None` for an unknown node or an invalid time.
    fn touch(&mut self, node: u32, delta_ns: i64, kind: TouchKind, (delta, bytes): (i64, u64)) -> Option<()> {
        let (before, last) = self.last_touch;
        let (at, address) = (time(before, delta_ns)?, last.wrapping_add_signed(delta));
        self.last_touch = (at, address);
        if !self.has_node(node) {
            return None;
        }
        // Accesses are kept in their recorded order, even if clock values decrease.
        let at = self.touches.last().map_or(at, |before| at.max(before.at));
        let node = self.visible_node(node);
        self.touches.push(TensorAccess { at, node, kind, address, bytes });
        Some(())
    }

    /// Check if the stream has defined a call-tree node of this thread.
    pub(super) fn has_node(&self, node: u32) -> bool {
        (node as usize) < self.nodes.len() && !self.holes.contains(&node)
    }

    /// Reset the bases of the differences of times, sequence numbers and addresses to 0.
    fn restart_deltas(&mut self) {
        (self.last_end, self.last_sample, self.last_number, self.last_touch) = (0, 0, 0, (0, 0));
        self.last_launch = 0;
    }

    /// Store the nodes from the root (exclusive) to `node` in `path`.
    pub(super) fn path(&self, node: u32, path: &mut Vec<u32>) {
        path.clear();
        let mut at = node;
        while at != 0 {
            path.push(at);
            at = self.nodes.get(at as usize).map_or(0, |&(parent, _)| parent);
        }
        path.reverse();
    }
}
