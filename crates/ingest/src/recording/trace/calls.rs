//! The single calls and samples of one stream, with its own tables of ids.

use crate::problems;
use crate::recording::own::{is_own_function, is_own_library};
use crate::recording::stream::note_exit;
use crate::recording::{note_damage, open_stream};
use rustc_hash::FxHashMap;
use stackline_model::ReadReport;
use stackline_recording::{Cost, FrameKey, Metric, OPENMP, Process, Processors, Record, TensorPart, Thread, TouchKind};

/// What a stream of a recording in `trace` mode says.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) process: Process,
    pub(super) texts: Vec<String>,
    pub(super) frames: Vec<FrameKey>,
    /// Path of each library, a text.
    pub(super) libraries: Vec<u32>,
    pub(super) threads: Vec<ThreadCalls>,
    /// What processes that share a clock have in common, if the stream says so.
    pub(super) boot: Option<u64>,
    /// What the process may use of processors, if the stream says so.
    pub(super) processors: Option<Processors>,
    /// What its threads used, in the order of time.
    pub(super) loads: Vec<Load>,
    /// What the recording of an operator costs.
    pub(super) cost: Option<Cost>,
    /// When recording began and paused; empty if it always went on.
    pub(super) windows: Vec<Change>,
    /// Names of tensors.
    pub(super) tensor_names: Vec<TensorName>,
    /// Which memory had which of them, in the order in which that was told.
    pub(super) named: Vec<Named>,
    /// What the recorder left out, and how often.
    pub(super) lost: Vec<(String, u64)>,
    /// Whether the process ended in order.
    pub(super) ended: bool,
}

/// What a tensor is called ([`Record::TensorName`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TensorName {
    pub(super) module: String,
    pub(super) name: String,
    pub(super) part: TensorPart,
}

/// That memory had a name, by its number ([`Record::Named`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) at: i64,
    pub(super) address: u64,
    pub(super) name: u32,
}

/// What threads of a process had used of processors by then ([`Record::Load`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) at: i64,
    pub(super) ran_ns: u64,
    pub(super) waited_ns: u64,
}

/// That recording began or paused ([`Record::Window`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) at: i64,
    pub(super) step: u64,
    pub(super) open: bool,
    pub(super) at_step: bool,
}

/// What happened on one thread. Operators and samples of a thread have a tree each, so that a thread of the program may
/// occur twice.
#[derive(Debug, Default)]
pub(super) struct ThreadCalls {
    pub(super) thread: Thread,
    /// Parent and frame of each node; the root has neither.
    pub(super) nodes: Vec<(u32, u32)>,
    /// Nodes of the recorder's own frames, and the nodes that they stand for.
    own: FxHashMap<u32, u32>,
    pub(super) calls: Vec<Call>,
    pub(super) samples: Vec<Sample>,
    pub(super) touches: Vec<Touch>,
    last_touch: (i64, u64),
    last_end: i64,
    last_sample: i64,
    last_number: i64,
    next: Option<Sequence>,
}

/// One call of an operator, a backward node or a span. Times are of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) node: u32,
    pub(super) sequence: Option<Sequence>,
}

/// Autograd's number, and torch's id of the thread of the forward operator (0 for a forward operator).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) number: i64,
    pub(super) forward_thread: i64,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) at: i64,
    pub(super) node: u32,
    pub(super) metric: Metric,
    pub(super) value: u64,
}

/// What happened to memory of a tensor ([`Record::Touch`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Touch {
    pub(super) at: i64,
    pub(super) node: u32,
    pub(super) kind: TouchKind,
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// Times beyond this (of 1970, those after 2043) are damage: sums of those below cannot overflow.
const MAX_NS: i64 = 1 << 61;
/// Numbers of steps beyond this, too.
const MAX_STEP: u64 = 1 << 53;

impl Calls {
    /// Reads a stream up to its first damage. `None` if it says nothing.
    pub(super) fn read(name: &str, file: &[u8], report: &mut ReadReport) -> Option<Self> {
        let mut reader = open_stream(name, file, report)?;
        let mut calls: Option<Self> = None;
        for record in reader.by_ref() {
            report.records += 1;
            match (record, &mut calls) {
                (Record::Process(mut process), None) => {
                    process.start_unix_ns = process.start_unix_ns.clamp(-MAX_NS, MAX_NS);
                    process.start_monotonic_ns = process.start_monotonic_ns.clamp(-MAX_NS / 4, MAX_NS / 4);
                    calls = Some(Self { process: *process, ..Self::default() });
                }
                (Record::End { .. }, Some(calls)) => calls.ended = true,
                (Record::Exit { code }, Some(_)) => note_exit(report, name, code),
                (Record::Lost { what, count }, Some(calls)) => {
                    calls.lost.retain(|(other, _)| *other != what);
                    calls.lost.push((what, count));
                }
                (record, Some(calls)) => {
                    if calls.apply(record).is_none() {
                        problems::DANGLING_RECORD.count(report, None, name);
                    }
                }
                (_, None) => problems::DANGLING_RECORD.count(report, None, name),
            }
        }
        note_damage(name, &reader, report);
        match &calls {
            None => problems::EMPTY_STREAM.count(report, None, name),
            Some(calls) if !calls.ended => problems::KILLED.count(report, None, name),
            Some(_) => {}
        }
        for (what, count) in calls.iter().flat_map(|calls| &calls.lost).filter(|(what, _)| what.starts_with("calls_")) {
            problems::NOT_RECORDED.count_many(report, *count, None, &format!("{name}: {what}"));
        }
        calls
    }

    /// Takes a record in; `None` if it refers to nothing.
    fn apply(&mut self, record: Record) -> Option<()> {
        match record {
            Record::Text { id, text } => place(&mut self.texts, id, text),
            Record::Frame { id, key } => place(&mut self.frames, id, key),
            Record::Library { id, path, .. } => place(&mut self.libraries, id, path),
            Record::Thread(thread) => match self.threads.get_mut(thread.id as usize) {
                Some(known) => {
                    known.thread = thread;
                    Some(())
                }
                None => {
                    let id = thread.id;
                    place(&mut self.threads, id, ThreadCalls { thread, nodes: vec![(0, 0)], ..ThreadCalls::default() })
                }
            },
            Record::Node { thread, id, parent, frame } => {
                // Parents come first: paths have no circles.
                if parent >= id || frame as usize >= self.frames.len() {
                    return None;
                }
                let is_own = self.is_own(frame);
                let thread = self.threads.get_mut(thread as usize)?;
                let parent = thread.seen(parent);
                place(&mut thread.nodes, id, (parent, frame))?;
                if is_own {
                    thread.own.insert(id, parent);
                }
                Some(())
            }
            Record::Sequence { thread, delta, forward_thread } => {
                let thread = self.threads.get_mut(thread as usize)?;
                thread.last_number = thread.last_number.checked_add(delta)?;
                let forward_thread = i64::try_from(forward_thread).ok()?;
                thread.next = Some(Sequence { number: thread.last_number, forward_thread });
                Some(())
            }
            Record::Event { thread, node, start_delta_ns, duration_ns } => {
                self.threads.get_mut(thread as usize)?.call(node, start_delta_ns, duration_ns)
            }
            Record::Sample { thread, node, delta_ns, metric, value } => {
                self.threads.get_mut(thread as usize)?.sample(node, delta_ns, metric, value)
            }
            Record::Touch { thread, node, delta_ns, kind, address_delta, bytes } => {
                self.threads.get_mut(thread as usize)?.touch(node, delta_ns, kind, (address_delta, bytes))
            }
            Record::Machine { boot } => {
                self.boot = Some(boot);
                Some(())
            }
            Record::Window { at_ns, step, open, at_step } => {
                let at = time(0, at_ns).filter(|&at| self.windows.last().is_none_or(|last| last.at <= at))?;
                self.windows.push(Change { at, step: step.min(MAX_STEP), open, at_step });
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
                self.loads.push(Load { at, ran_ns, waited_ns });
                Some(())
            }
            Record::TensorName { id, module, name, part } => {
                place(&mut self.tensor_names, id, TensorName { module, name, part })
            }
            Record::Named { at_ns, address, name } => {
                let at = time(0, at_ns).filter(|_| (name as usize) < self.tensor_names.len())?;
                self.named.push(Named { at, address, name });
                Some(())
            }
            // The tree's affair; kinds that are not known were counted with the tree.
            _ => Some(()),
        }
    }

    /// Whether a frame is the recorder's own.
    fn is_own(&self, frame: u32) -> bool {
        match self.frames.get(frame as usize) {
            Some(&FrameKey::Python { function, file, .. }) => is_own_function(self.text(file), self.text(function)),
            Some(&FrameKey::Native { library, .. }) => {
                self.libraries.get(library as usize).is_some_and(|&path| is_own_library(self.text(path)))
            }
            _ => false,
        }
    }

    /// Whether a frame stands for the libraries of OpenMP.
    pub(super) fn is_openmp(&self, frame: u32) -> bool {
        matches!(self.frames.get(frame as usize), Some(&FrameKey::Span { name }) if self.text(name) == OPENMP)
    }

    /// A text, empty if there is none.
    pub(super) fn text(&self, id: u32) -> &str {
        self.texts.get(id as usize).map_or("", String::as_str)
    }
}

impl ThreadCalls {
    /// The node that is seen where this one is: another one for frames of the recorder.
    fn seen(&self, node: u32) -> u32 {
        self.own.get(&node).copied().unwrap_or(node)
    }

    fn call(&mut self, node: u32, start_delta_ns: i64, duration_ns: u64) -> Option<()> {
        let sequence = self.next.take();
        let start = time(self.last_end, start_delta_ns)?;
        let end = time(start, i64::try_from(duration_ns).ok()?)?;
        self.last_end = end;
        if node as usize >= self.nodes.len() {
            return None;
        }
        let node = self.seen(node);
        self.calls.push(Call { start, end, node, sequence });
        Some(())
    }

    fn sample(&mut self, node: u32, delta_ns: i64, metric: Metric, value: u64) -> Option<()> {
        let at = time(self.last_sample, delta_ns)?;
        self.last_sample = at;
        if node as usize >= self.nodes.len() {
            return None;
        }
        let node = self.seen(node);
        self.samples.push(Sample { at, node, metric, value });
        Some(())
    }

    fn touch(&mut self, node: u32, delta_ns: i64, kind: TouchKind, (delta, bytes): (i64, u64)) -> Option<()> {
        let (before, last) = self.last_touch;
        let (at, address) = (time(before, delta_ns)?, last.wrapping_add_signed(delta));
        self.last_touch = (at, address);
        if node as usize >= self.nodes.len() {
            return None;
        }
        // They come in the order in which they happened, whatever the clock says.
        let at = self.touches.last().map_or(at, |before| at.max(before.at));
        let node = self.seen(node);
        self.touches.push(Touch { at, node, kind, address, bytes });
        Some(())
    }

    /// Nodes from the root (left out) to `node`, in `path`.
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

fn time(from: i64, delta: i64) -> Option<i64> {
    from.checked_add(delta).filter(|time| (-MAX_NS..=MAX_NS).contains(time))
}

/// Puts a value at the place of its id: ids are dense, and a later one replaces an earlier one.
fn place<T>(table: &mut Vec<T>, id: u32, value: T) -> Option<()> {
    match (id as usize).cmp(&table.len()) {
        std::cmp::Ordering::Less => table[id as usize] = value,
        std::cmp::Ordering::Equal => table.push(value),
        std::cmp::Ordering::Greater => return None,
    }
    Some(())
}
