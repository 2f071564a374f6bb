//! From the trees to the file, again and again: what is new and what changed since the last time.
//!
//! Nothing that was taken from the trees is dropped while the process runs: a chunk that cannot be written waits in memory
//! ([`Output`]), so the file never has a record that refers to one that it lacks. While chunks wait, nothing more is taken
//! from trees, whose values are sums, and single calls are taken up to a limit.

mod replaced;
mod singles;
mod steps;

use crate::event_queue::{Call, CallName, EventReceiver, MemoryAccess};
use crate::folding::Examples;
use crate::output::{Mark, Outage, Output};
use crate::process::{Process, Registered};
use crate::samples::Open;
use crate::stream_file::StreamFile;
use crate::tensors;
use crate::window::{Change, Window};
use dlmonitor::clock;
use stackline_recording::{ChunkWriter, Cost, HEADER, Overhead, Processors, Record, Source, StepEnds};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// A chunk is written when it has this many bytes.
const CHUNK: usize = 1 << 18;
/// A file is written anew when it has this many bytes and mostly says what later records say again.
const COMPACT: u64 = 8 << 20;
/// Bytes of single calls that wait while the file cannot be written. Beyond, calls stay with their threads, which count what
/// finds no room.
const MAX_WAITING: usize = 32 << 20;
/// Names of calls that have not ended, of a thread.
const MAX_NAMES: usize = 1 << 16;
/// Outages that are told one by one.
const MAX_OUTAGES: usize = 64;

/// How much of a tree the file has.
#[derive(Debug, Default)]
struct Written {
    thread: Option<stackline_recording::Thread>,
    nodes: usize,
    /// The chunk that the differences below are of ([`Record::Restart`]).
    chunk: u64,
    /// When the last call ended, and when the last sample was taken, `CLOCK_MONOTONIC`.
    last_end: i64,
    last_sample: i64,
    /// When memory was touched last, and where.
    last_touch: (i64, usize),
    /// Autograd's last number.
    last_number: i64,
    /// Exact names of calls that have not ended, by their numbers.
    names: BTreeMap<u32, Box<str>>,
    /// Where it was when that was written last.
    running: u32,
    /// Count of each slot when it was written last; a slot that changed has another.
    counts: Vec<u64>,
}

/// The stream of one process.
#[derive(Debug)]
pub(crate) struct Stream {
    path: PathBuf,
    output: Output,
    head: stackline_recording::Process,
    /// What processes of the same machine have in common.
    boot: Option<u64>,
    /// Changes of the window that were written.
    changes: usize,
    /// The tree of the main thread's samples, and where the newest one was when that was written last.
    sampled: Option<(u32, u32)>,
    chunk: ChunkWriter,
    /// Number of the chunk, and of records in it.
    chunks: u64,
    in_chunk: u64,
    records: usize,
    /// How often the examples of each shared name had changed when they were written.
    examples: Vec<u32>,
    trees: BTreeMap<u32, Written>,
    sources: Vec<Source>,
    /// As they were written last.
    processors: Option<Processors>,
    cost: Option<Cost>,
    overhead: Option<Overhead>,
    step_ends: Option<StepEnds>,
    /// What was left out, by name, as it was written last.
    lost: BTreeMap<&'static str, u64>,
    /// Bytes of single calls that may be written.
    calls_left: u64,
    /// Calls that were not written for the limit.
    calls_cut: u64,
    touches_cut: u64,
    names_cut: u64,
    names: tensors::Written,
    /// Size right after the file was written anew.
    whole: u64,
    outages: Vec<Record>,
    refused: Refused,
    /// Where the end is that was written in case another program takes the place of this one.
    provisional: Option<Mark>,
}

/// What found no room on its way here because the file could not be written.
#[derive(Debug, Default)]
struct Refused {
    /// Whether calls were left with their threads the last time.
    now: bool,
    /// Calls and touches that threads had lost by then, for whatever reason.
    seen: (u64, u64),
    calls: u64,
    touches: u64,
    samples: u64,
}

impl Stream {
    /// Makes the file, which must not exist; single calls may take `calls_left` bytes of it.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(crate) fn create(
        path: &Path,
        (head, boot): (stackline_recording::Process, Option<u64>),
        calls_left: u64,
    ) -> io::Result<Self> {
        let file = StreamFile::create(path)?;
        Ok(Self::new(path, (head, boot), calls_left, Output::new(Box::new(file))))
    }

    fn new(
        path: &Path,
        (head, boot): (stackline_recording::Process, Option<u64>),
        calls_left: u64,
        output: Output,
    ) -> Self {
        let mut stream = Self {
            path: path.to_owned(),
            output,
            head,
            boot,
            changes: 0,
            sampled: None,
            chunk: ChunkWriter::new(),
            chunks: 0,
            in_chunk: 0,
            records: 0,
            examples: Vec::new(),
            trees: BTreeMap::new(),
            sources: Vec::new(),
            processors: None,
            cost: None,
            overhead: None,
            step_ends: None,
            lost: BTreeMap::new(),
            calls_left,
            calls_cut: 0,
            touches_cut: 0,
            names_cut: 0,
            names: tensors::Written::default(),
            whole: 0,
            outages: Vec::new(),
            refused: Refused::default(),
            provisional: None,
        };
        // At once: whatever becomes of the process, the stream says whose it is.
        stream.push(&Record::Process(Box::new(stream.head.clone())));
        if let Some(boot) = boot {
            stream.push(&Record::Machine { boot });
        }
        // In one piece: nothing stands in a file that lacks a part of it.
        let first = [&HEADER[..], stream.chunk.finish()].concat();
        stream.output.put(&first, std::mem::take(&mut stream.in_chunk));
        stream.chunk.clear();
        stream
    }

    /// Brings the file up to date. `true` if all that threads posted was taken; `last` takes it in any case.
    pub(crate) fn update(&mut self, process: &Process, window: &Window, sources: &[Source], last: bool) -> bool {
        let is_blocked = self.output.flush().is_err();
        if let Some(outage) = self.output.recovered() {
            self.note_outage(outage);
        }
        self.note_refused(process);
        let has_room = process.traces() && self.output.waiting_bytes() < MAX_WAITING;
        if is_blocked && !has_room && !last {
            self.refused.now = true;
            self.refused.samples += process.samples().len() as u64;
            return false;
        }
        // Single calls stand in the file once, and must stay there.
        if !process.traces() && !is_blocked && self.output.len() > COMPACT.max(4 * self.whole) {
            self.start_anew(process, window, sources);
        }
        self.append(process, window, sources);
        true
    }

    /// Why the file is not up to date, if it is not.
    pub(crate) fn error(&mut self) -> Option<io::Error> {
        self.output.flush().err()
    }

    /// Counts calls that their threads lost because the file could not be written.
    fn note_refused(&mut self, process: &Process) {
        let lost = (process.lost_calls(), process.lost_touches());
        let refused = &mut self.refused;
        if std::mem::take(&mut refused.now) {
            refused.calls += lost.0.saturating_sub(refused.seen.0);
            refused.touches += lost.1.saturating_sub(refused.seen.1);
        }
        refused.seen = lost;
    }

    fn note_outage(&mut self, outage: Outage) {
        let record = Record::from(outage);
        self.push(&record);
        if self.outages.len() < MAX_OUTAGES {
            self.outages.push(record);
        }
    }

    /// Nothing more comes of these trees.
    pub(crate) fn forget(&mut self, trees: &[u32]) {
        for &tree in trees {
            self.trees.remove(&tree);
        }
    }

    /// Says which `PyTorch` the process has, unless that was said.
    pub(crate) fn torch(&mut self, version: &str) {
        if self.head.torch == version {
            return;
        }
        version.clone_into(&mut self.head.torch);
        self.push(&Record::Torch { version: version.to_owned() });
    }

    /// Says that the process ended in order, at this time of `CLOCK_MONOTONIC`, and with which `os._exit`, if by that.
    ///
    /// # Errors
    /// If the file is not up to date. What it lacks stands in it, if there is room for that.
    pub(crate) fn end(&mut self, monotonic_ns: i64, exit: Option<i32>) -> io::Result<()> {
        self.take_back_end();
        self.push_end(monotonic_ns, exit);
        self.send();
        let Err(error) = self.output.flush() else {
            if let Some(outage) = self.output.recovered() {
                // It ended with the last chunk: the end is told again behind it.
                self.note_outage(outage);
                self.push_end(monotonic_ns, exit);
                self.send();
            }
            return Ok(());
        };
        // A few bytes mostly fit where a chunk does not: the last block of a file is rarely full.
        let outage = self.output.give_up();
        for (what, count) in self.lost.clone() {
            self.push(&Record::Lost { what: what.into(), count });
        }
        outage.into_iter().for_each(|outage| self.note_outage(outage));
        self.push_end(monotonic_ns, exit);
        self.send();
        // If the first chunk waits, so does the end. There is nobody left to try again.
        let _ = self.output.flush();
        Err(error)
    }

    fn push_end(&mut self, monotonic_ns: i64, exit: Option<i32>) {
        if let Some(code) = exit {
            self.push(&Record::Exit { code });
        }
        let at_ns = (monotonic_ns - self.head.start_monotonic_ns).max(0).cast_unsigned();
        self.push(&Record::End { at_ns });
    }

    /// Says what threads used of processors, and what recording costs.
    pub(crate) fn usage(&mut self, load: Option<Record>, cost: Option<dlmonitor::Cost>) {
        // Sums, too: the next ones hold them.
        if self.output.is_blocked() {
            return;
        }
        if self.processors.is_none() || load.is_some() {
            // Threads may be pinned at any time.
            let processors = Some(crate::cpu_usage::processors()).filter(|now| self.processors.as_ref() != Some(now));
            if let Some(processors) = processors {
                self.processors = Some(processors);
                self.push(&Record::Processors(processors));
            }
        }
        if let Some(load) = load {
            self.push(&load);
        }
        let cost = cost.map(|cost| Cost {
            begin_ns: cost.begin_ns,
            end_ns: cost.end_ns,
            torch_ns: cost.torch_ns,
            measured: cost.measured,
        });
        if let Some(cost) = cost.filter(|cost| self.cost.as_ref() != Some(cost)) {
            self.cost = Some(cost);
            self.push(&Record::Cost(cost));
        }
        self.send();
    }

    fn append(&mut self, process: &Process, window: &Window, sources: &[Source]) {
        // Calls, then nodes, then frames: each refers to what exists by then.
        let samples = process.samples();
        let (running, sampled) = (Open::all_running(), process.sampled());
        let trees = process.trees();
        let calls: Vec<Vec<Call>> = trees
            .iter()
            .map(|registered| registered.inbox.as_ref().map(EventReceiver::take).unwrap_or_default())
            .collect();
        let touches: Vec<Vec<MemoryAccess>> = trees
            .iter()
            .map(|registered| registered.touches.as_ref().map(EventReceiver::take).unwrap_or_default())
            .collect();
        let nodes: Vec<usize> = trees.iter().map(|registered| registered.tree.nodes.count()).collect();
        // After their calls: a name is posted before its call.
        let names: Vec<Vec<CallName>> = trees
            .iter()
            .map(|registered| registered.names.as_ref().map(EventReceiver::take).unwrap_or_default())
            .collect();
        self.append_frames(process);
        for source in sources {
            if !self.sources.contains(source) {
                self.push(&Record::Source(source.clone()));
            }
        }
        self.sources = sources.to_vec();
        for Change { at, step, open, at_step } in window.changes(self.changes) {
            self.push(&Record::Window { at_ns: clock::monotonic_at(at), step, open, at_step });
            self.changes += 1;
        }
        for (registered, nodes) in trees.iter().zip(nodes) {
            self.append_tree(registered, nodes, &running);
        }
        let sampled = sampled.filter(|(tree, _)| trees.iter().any(|registered| registered.tree.id == *tree));
        if let Some((thread, node)) = sampled.filter(|_| std::mem::replace(&mut self.sampled, sampled) != sampled) {
            self.push(&Record::Sampled { thread, node });
        }
        for (registered, (calls, names)) in trees.iter().zip(calls.into_iter().zip(names)) {
            self.append_calls(registered, &calls, names);
        }
        for (registered, touches) in trees.iter().zip(touches) {
            self.append_touches(registered, &touches);
        }
        self.append_names(process);
        self.append_samples(&samples);
        self.note_lost("tree_full", process.overflows());
        self.note_lost("calls_too_fast", process.lost_calls().saturating_sub(self.refused.calls));
        self.note_lost("calls_not_written", self.refused.calls);
        self.note_lost("calls_without_names", process.lost_names());
        self.note_lost("samples_not_written", self.refused.samples);
        self.note_lost("calls_over_limit", self.calls_cut);
        self.note_lost("touches_too_fast", process.lost_touches().saturating_sub(self.refused.touches));
        self.note_lost("touches_not_written", self.refused.touches);
        self.note_lost("threads_not_written", process.dropped_trees());
        if let Some(threads) = crate::samples::over_limit(process) {
            self.note_lost("threads_over_limit", threads);
        }
        self.note_lost("touches_over_limit", self.touches_cut);
        self.note_lost("inputs_over_limit", process.inputs_left_out());
        self.note_lost("native_frames_without_stack", process.native_left_out());
        self.note_lost("forward_links_over_limit", process.lost_forward_links());
        self.note_lost("names_over_limit", process.tensors.lost() + self.names_cut);
        self.send();
    }

    fn append_frames(&mut self, process: &Process) {
        let (records, examples) = {
            let frames = process.frames();
            (frames.records(self.records).to_vec(), frames.span_names().examples().to_vec())
        };
        self.records += records.len();
        // Texts first, which refer to nothing: blocks of one kind are long then.
        let (texts, others): (Vec<_>, Vec<_>) =
            records.iter().partition(|record| matches!(record, Record::Text { .. }));
        for record in texts.into_iter().chain(others) {
            self.push(record);
        }
        self.examples.resize(examples.len(), 0);
        for (at, Examples { frame, first, last, version }) in examples.into_iter().enumerate() {
            if std::mem::replace(&mut self.examples[at], version) != version {
                self.push(&Record::FoldedNames { frame, first, last });
            }
        }
    }

    fn append_tree(&mut self, registered: &Registered, nodes: usize, running: &[(u32, u32)]) {
        let mut written = self.trees.remove(&registered.tree.id).unwrap_or_default();
        self.append_changes(&mut written, registered, nodes);
        let now = running.iter().find(|(tree, _)| *tree == registered.tree.id).map_or(0, |&(_, node)| node);
        if written.running != now && (now as usize) < nodes {
            written.running = now;
            self.push(&Record::Running { thread: registered.tree.id, node: now });
        }
        self.trees.insert(registered.tree.id, written);
    }

    fn append_changes(&mut self, written: &mut Written, registered: &Registered, nodes: usize) {
        let (thread, tree) = (&registered.thread, &registered.tree);
        if written.thread.as_ref() != Some(thread) {
            self.push(&Record::Thread(thread.clone()));
            written.thread = Some(thread.clone());
        }
        for id in written.nodes.max(1)..nodes {
            let Some(node) = tree.nodes.get(id) else { break };
            self.push(&Record::Node { thread: tree.id, id: id as u32, parent: node.parent, frame: node.frame });
        }
        written.nodes = nodes;
        for (at, place) in tree.slots() {
            let slot = place.slot();
            // A node that came after the frames were written waits for the next time.
            if slot.node as usize >= nodes {
                continue;
            }
            let stats = tree.read(&place);
            if written.counts.len() <= at {
                written.counts.resize(at + 1, 0);
            }
            if stats.count != written.counts[at] {
                written.counts[at] = stats.count;
                self.push(&Record::Stats { thread: tree.id, node: slot.node, metric: slot.metric, stats });
            }
        }
    }

    fn note_lost(&mut self, what: &'static str, count: u64) {
        if self.lost.get(what).copied().unwrap_or(0) != count {
            self.lost.insert(what, count);
            self.push(&Record::Lost { what: what.into(), count });
        }
    }

    /// Writes everything to a new file and lets it take the place of the old one. If that fails, the old one stays.
    fn start_anew(&mut self, process: &Process, window: &Window, sources: &[Source]) {
        let beside = self.path.with_extension("new");
        let _ = std::fs::remove_file(&beside);
        let Ok(mut anew) = Self::create(&beside, (self.head.clone(), self.boot), self.calls_left) else { return };
        for outage in &self.outages {
            anew.push(outage);
        }
        anew.outages.clone_from(&self.outages);
        anew.append(process, window, sources);
        if anew.output.is_blocked() || std::fs::rename(&beside, &self.path).is_err() {
            let _ = std::fs::remove_file(&beside);
            // Not again before the file has grown.
            self.whole = self.output.len();
            return;
        }
        anew.path.clone_from(&self.path);
        anew.output.moved(&self.path);
        anew.whole = anew.output.len();
        *self = anew;
    }

    fn push(&mut self, record: &Record) {
        self.begin_chunk();
        self.add(record);
        if self.chunk.len() >= CHUNK {
            self.send();
        }
    }

    /// Lets a chunk begin so that it can be read without the one before.
    fn begin_chunk(&mut self) {
        if self.chunk.is_empty() {
            self.chunks += 1;
            // The first one begins with the process.
            if self.chunks > 1 {
                self.add(&Record::Restart);
            }
        }
    }

    fn add(&mut self, record: &Record) {
        // No record of this crate fails to be encoded.
        if self.chunk.push(record).is_ok() {
            self.in_chunk += 1;
        }
    }

    fn send(&mut self) {
        if !self.chunk.is_empty() {
            self.output.put(self.chunk.finish(), std::mem::take(&mut self.in_chunk));
            self.chunk.clear();
        }
    }
}

#[cfg(test)]
mod tests;
