//! Incremental writer of a process's stream: new and changed data of the trees since the last write.
//!
//! Data that were taken from the trees are not dropped while the process runs: a chunk that cannot be written waits
//! in memory ([`Output`]), so the file never has a record that refers to a missing one. While chunks wait, no more
//! data are taken from trees, whose values are sums, and individual calls are taken up to a limit.

mod provisional_end;
mod single_records;
mod steps;

use crate::event_queue::{Call, CallName, EventReceiver, MemoryAccess};
use crate::folding::Examples;
use crate::output::{Mark, Outage, Output};
use crate::process::{Process, Registered};
use crate::samples::OpenOperators;
use crate::stream_file::StreamFile;
use crate::tensors;
use crate::window::{Change, Window};
use dlmonitor::clock;
use stackline_recording::{ChunkWriter, Cost, HEADER, Overhead, Processors, Record, Source, StepEnds};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Size of a chunk in bytes.
const CHUNK: usize = 1 << 18;
/// The file is rewritten when it has this size and consists mostly of superseded records.
const LEAST_REWRITE_BYTES: u64 = 8 << 20;
/// Limit in bytes of calls that wait while the file cannot be written; beyond it, calls stay in their threads' queues.
const MAX_WAITING: usize = 32 << 20;
/// Largest number of stored names of calls in progress per thread.
const MAX_NAMES: usize = 1 << 16;
/// Largest number of outages that are reported separately.
const MAX_OUTAGES: usize = 64;

/// State of writing one thread's tree: numbers, counts and times that were last written.
#[derive(Debug, Default)]
struct Written {
    thread: Option<stackline_recording::Thread>,
    nodes: usize,
    /// Chunk to which the differences below belong ([`Record::Restart`]).
    chunk: u64,
    /// End of the last call and time of the last sample, `CLOCK_MONOTONIC`.
    last_end: i64,
    last_sample: i64,
    /// Time and address of the last memory event.
    last_touch: (i64, usize),
    /// Last number of autograd.
    last_number: i64,
    /// Exact names of calls in progress, by their numbers.
    names: BTreeMap<u32, Box<str>>,
    /// Last written node of the running operator.
    running: u32,
    /// Last written count of each slot; a changed slot has another count.
    counts: Vec<u64>,
}

/// Writer of the stream of one process.
#[derive(Debug)]
pub(crate) struct Stream {
    path: PathBuf,
    output: Output,
    head: stackline_recording::Process,
    /// Id of the machine's boot, common to its processes.
    boot: Option<u64>,
    /// Number of written changes of the window.
    changes: usize,
    /// Tree of the main thread's samples, and node and time of the newest sample at the last write.
    sampled: Option<(u32, u32, u64)>,
    chunk: ChunkWriter,
    /// Number of the chunk, and of records in it.
    chunks: u64,
    in_chunk: u64,
    records: usize,
    /// Written version of the examples of each shared name.
    examples: Vec<u32>,
    trees: BTreeMap<u32, Written>,
    sources: Vec<Source>,
    /// Last written value.
    processors: Option<Processors>,
    cost: Option<Cost>,
    overhead: Option<Overhead>,
    step_ends: Option<StepEnds>,
    /// Last written counts of missing records, by name.
    lost: BTreeMap<&'static str, u64>,
    /// Remaining size of individual calls in bytes.
    calls_left: u64,
    /// Number of calls beyond the limit.
    calls_cut: u64,
    touches_cut: u64,
    names_cut: u64,
    names: tensors::Written,
    /// Size right after the file was rewritten.
    whole: u64,
    outages: Vec<Record>,
    refused: UnwrittenEvents,
    /// Position of the provisional end, which is written in case another program replaces this one.
    provisional: Option<Mark>,
}

/// Events that were lost because the file could not be written.
#[derive(Debug, Default)]
struct UnwrittenEvents {
    /// True if calls remained in their threads' queues at the last write.
    now: bool,
    /// Lost calls and memory events at that time, for any reason.
    seen: (u64, u64),
    calls: u64,
    touches: u64,
    samples: u64,
}

impl Stream {
    /// Create the file, which must not exist, and write the process to it. Single records may take `calls_left` bytes.
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
            refused: UnwrittenEvents::default(),
            provisional: None,
        };
        // Immediately, so that the stream identifies its process even if the process is killed.
        stream.push(&Record::Process(Box::new(stream.head.clone())));
        if let Some(boot) = boot {
            stream.push(&Record::Machine { boot });
        }
        // In one write, so that the file never contains a part of it.
        let first = [&HEADER[..], stream.chunk.finish()].concat();
        stream.output.put(&first, std::mem::take(&mut stream.in_chunk));
        stream.chunk.clear();
        stream
    }

    /// Write all new data of a process. `true` if all posted events were taken; `last` takes them in any case.
    pub(crate) fn update(&mut self, process: &Process, window: &Window, sources: &[Source], last: bool) -> bool {
        let is_blocked = self.output.flush().is_err();
        if let Some(outage) = self.output.recovered() {
            self.note_outage(outage);
        }
        self.note_unwritten(process);
        let has_room = process.records_calls() && self.output.waiting_bytes() < MAX_WAITING;
        if is_blocked && !has_room && !last {
            self.refused.now = true;
            self.refused.samples += process.take_samples().len() as u64;
            return false;
        }
        // Individual calls are written once and must be kept.
        if !process.records_calls() && !is_blocked && self.output.len() > LEAST_REWRITE_BYTES.max(4 * self.whole) {
            self.rewrite(process, window, sources);
        }
        self.append(process, window, sources);
        true
    }

    /// Try once to write the waiting chunks, and return the error if some still wait; `None` if the file is up to date.
    pub(crate) fn error(&mut self) -> Option<io::Error> {
        self.output.flush().err()
    }

    /// Count calls and memory events that were lost since the last write because the file could not be written.
    fn note_unwritten(&mut self, process: &Process) {
        let lost = (process.lost_calls(), process.lost_touches());
        let refused = &mut self.refused;
        if std::mem::take(&mut refused.now) {
            refused.calls += lost.0.saturating_sub(refused.seen.0);
            refused.touches += lost.1.saturating_sub(refused.seen.1);
        }
        refused.seen = lost;
    }

    /// Write the record of an outage, and keep it for a rewritten file.
    fn note_outage(&mut self, outage: Outage) {
        let record = Record::from(outage);
        self.push(&record);
        if self.outages.len() < MAX_OUTAGES {
            self.outages.push(record);
        }
    }

    /// Drop the state of writing these trees, which receive no more data.
    pub(crate) fn forget_trees(&mut self, trees: &[u32]) {
        for &tree in trees {
            self.trees.remove(&tree);
        }
    }

    /// Write the version of `PyTorch` to the stream, if it is new.
    pub(crate) fn write_torch_version(&mut self, version: &str) {
        if self.head.torch == version {
            return;
        }
        version.clone_into(&mut self.head.torch);
        self.push(&Record::Torch { version: version.to_owned() });
    }

    /// Write the normal end of the process at this time of `CLOCK_MONOTONIC`, with the code if it ended by `os._exit`.
    ///
    /// # Errors
    /// If the file is not up to date. Counts of the missing records are written if they fit.
    pub(crate) fn end(&mut self, monotonic_ns: i64, exit: Option<i32>) -> io::Result<()> {
        self.retract_end();
        self.push_end(monotonic_ns, exit);
        self.send();
        let Err(error) = self.output.flush() else {
            if let Some(outage) = self.output.recovered() {
                // The outage ended with the last chunk: write it and the end again.
                self.note_outage(outage);
                self.push_end(monotonic_ns, exit);
                self.send();
            }
            return Ok(());
        };
        // A few bytes usually fit even if a chunk does not, because the last block of a file is rarely full.
        let outage = self.output.give_up();
        for (what, count) in self.lost.clone() {
            self.push(&Record::Lost { what: what.into(), count });
        }
        outage.into_iter().for_each(|outage| self.note_outage(outage));
        self.push_end(monotonic_ns, exit);
        self.send();
        // If the first chunk waits, so does the end. There is no later attempt.
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

    /// Write the CPU usage of threads and, if changed, the available processors and the cost of recording.
    pub(crate) fn write_usage(&mut self, load: Option<Record>, cost: Option<dlmonitor::Cost>) {
        // Usage records are sums too: later records contain the skipped ones.
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

    /// Write all data that are new or changed since the last write: frames, trees, single records, counts of lost data.
    fn append(&mut self, process: &Process, window: &Window, sources: &[Source]) {
        // Take calls, then nodes, then frames, so that each refers to existing records.
        let samples = process.take_samples();
        let sampled = process.newest_main_sample();
        let trees = process.trees();
        let calls: Vec<Vec<Call>> = trees
            .iter()
            .map(|registered| registered.inbox.as_ref().map(EventReceiver::take).unwrap_or_default())
            .collect();
        let touches: Vec<Vec<MemoryAccess>> = trees
            .iter()
            .map(|registered| registered.touches.as_ref().map(EventReceiver::take).unwrap_or_default())
            .collect();
        // After the calls: an operator among them has ended.
        let running = OpenOperators::all_running();
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
        let sampled = sampled.filter(|(tree, ..)| trees.iter().any(|registered| registered.tree.id == *tree));
        if let Some((thread, node, at)) = sampled.filter(|_| std::mem::replace(&mut self.sampled, sampled) != sampled) {
            let at_ns = (clock::monotonic_at(at) - self.head.start_monotonic_ns).max(0).cast_unsigned();
            self.push(&Record::LastSample { thread, node, at_ns });
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
        self.note_lost("inputs_over_limit", process.unread_inputs());
        self.note_lost("native_frames_without_stack", process.without_native_frames());
        self.note_lost("forward_links_over_limit", process.forward_threads.lost_links());
        self.note_lost("names_over_limit", process.tensors.lost() + self.names_cut);
        self.send();
    }

    /// Write new texts, frames and libraries, and changed examples of folded span names.
    fn append_frames(&mut self, process: &Process) {
        let (records, examples) = {
            let frames = process.frames();
            (frames.records(self.records).to_vec(), frames.span_names().examples().to_vec())
        };
        self.records += records.len();
        // Texts first, because they refer to nothing, and long blocks of one kind compress better.
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

    /// Write a tree's thread if it changed, its new nodes up to number `nodes`, and changed metric values.
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
            // A node that was added after the frames were written waits for the next write.
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

    /// Write the total number of omissions of one kind, if it changed.
    fn note_lost(&mut self, what: &'static str, count: u64) {
        if self.lost.get(what).copied().unwrap_or(0) != count {
            self.lost.insert(what, count);
            self.push(&Record::Lost { what: what.into(), count });
        }
    }

    /// Rewrite all data to a new file, which replaces the old one. If this fails, the old one is kept.
    fn rewrite(&mut self, process: &Process, window: &Window, sources: &[Source]) {
        let new_path = self.path.with_extension("new");
        let _ = std::fs::remove_file(&new_path);
        let Ok(mut rewritten) = Self::create(&new_path, (self.head.clone(), self.boot), self.calls_left) else {
            return;
        };
        for outage in &self.outages {
            rewritten.push(outage);
        }
        rewritten.outages.clone_from(&self.outages);
        rewritten.append(process, window, sources);
        if rewritten.output.is_blocked() || std::fs::rename(&new_path, &self.path).is_err() {
            let _ = std::fs::remove_file(&new_path);
            // Not again before the file has grown.
            self.whole = self.output.len();
            return;
        }
        rewritten.path.clone_from(&self.path);
        rewritten.output.moved(&self.path);
        rewritten.whole = rewritten.output.len();
        *self = rewritten;
    }

    /// Add a record to the open chunk, and pass the chunk to the output when it is full.
    fn push(&mut self, record: &Record) {
        self.begin_chunk();
        self.add(record);
        if self.chunk.len() >= CHUNK {
            self.send();
        }
    }

    /// Begin a chunk by [`Record::Restart`], so that it can be read without the previous one, unless one is open.
    fn begin_chunk(&mut self) {
        if self.chunk.is_empty() {
            self.chunks += 1;
            // The first chunk begins with the process.
            if self.chunks > 1 {
                self.add(&Record::Restart);
            }
        }
    }

    /// Add a record to the open chunk. Encoding never fails for the records of this crate.
    fn add(&mut self, record: &Record) {
        if self.chunk.push(record).is_ok() {
            self.in_chunk += 1;
        }
    }

    /// Pass the open chunk to the output, which writes it, and begin an empty one.
    fn send(&mut self) {
        if !self.chunk.is_empty() {
            self.output.put(self.chunk.finish(), std::mem::take(&mut self.in_chunk));
            self.chunk.clear();
        }
    }
}

#[cfg(test)]
mod tests;
