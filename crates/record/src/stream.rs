//! From the trees to the file, again and again: what is new and what changed since the last time.

use crate::events::{Call, Inbox, TimedSample, Touch};
use crate::process::{Process, Registered};
use crate::tensors;
use crate::window::{Change, Window};
use dlmonitor::clock;
use stackline_recording::{ChunkWriter, Cost, HEADER, Processors, Record, Source};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A chunk is written when it has this many bytes.
const CHUNK: usize = 1 << 18;
/// A file is written anew when it has this many bytes and mostly says what later records say again.
const COMPACT: u64 = 8 << 20;

/// How much of a tree the file has.
#[derive(Debug, Default)]
struct Written {
    thread: Option<stackline_recording::Thread>,
    nodes: usize,
    /// When the last call ended, and when the last sample was taken, `CLOCK_MONOTONIC`.
    last_end: i64,
    last_sample: i64,
    /// When memory was touched last, and where.
    last_touch: (i64, usize),
    /// Autograd's last number.
    last_number: i64,
    /// Count of each slot when it was written last; a slot that changed has another.
    counts: Vec<u64>,
}

/// The stream of one process.
#[derive(Debug)]
pub(crate) struct Stream {
    path: PathBuf,
    file: File,
    head: stackline_recording::Process,
    /// What processes of the same machine have in common.
    boot: Option<u64>,
    /// Changes of the window that were written.
    changes: usize,
    chunk: ChunkWriter,
    records: usize,
    trees: BTreeMap<u32, Written>,
    sources: Vec<Source>,
    /// As they were written last.
    processors: Option<Processors>,
    cost: Option<Cost>,
    /// What was left out, by name, as it was written last.
    lost: BTreeMap<&'static str, u64>,
    /// Bytes of single calls that may be written.
    calls_left: u64,
    /// Calls that were not written for the limit.
    calls_cut: u64,
    touches_cut: u64,
    names_cut: u64,
    names: tensors::Written,
    bytes: u64,
    /// Size right after the file was written anew.
    whole: u64,
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
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        let mut stream = Self {
            path: path.to_owned(),
            file,
            head,
            boot,
            changes: 0,
            chunk: ChunkWriter::new(),
            records: 0,
            trees: BTreeMap::new(),
            sources: Vec::new(),
            processors: None,
            cost: None,
            lost: BTreeMap::new(),
            calls_left,
            calls_cut: 0,
            touches_cut: 0,
            names_cut: 0,
            names: tensors::Written::default(),
            bytes: 0,
            whole: 0,
        };
        stream.write(&HEADER)?;
        // At once: whatever becomes of the process, the stream says whose it is.
        stream.push(&Record::Process(Box::new(stream.head.clone())))?;
        if let Some(boot) = boot {
            stream.push(&Record::Machine { boot })?;
        }
        stream.send()?;
        Ok(stream)
    }

    /// Brings the file up to date.
    ///
    /// # Errors
    /// If the file cannot be written; what was written before stays readable.
    pub(crate) fn update(&mut self, process: &Process, window: &Window, sources: &[Source]) -> io::Result<()> {
        // Single calls stand in the file once, and must stay there.
        if !process.traces() && self.bytes > COMPACT.max(4 * self.whole) {
            self.start_anew(process, window, sources)?;
        }
        self.append(process, window, sources)
    }

    /// Nothing more comes of these trees.
    pub(crate) fn forget(&mut self, trees: &[u32]) {
        for &tree in trees {
            self.trees.remove(&tree);
        }
    }

    /// Says which `PyTorch` the process has, unless that was said.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn torch(&mut self, version: &str) -> io::Result<()> {
        if self.head.torch == version {
            return Ok(());
        }
        version.clone_into(&mut self.head.torch);
        self.push(&Record::Torch { version: version.to_owned() })
    }

    /// Says that the process ended in order, at this time of `CLOCK_MONOTONIC`, and with which `os._exit`, if by that.
    pub(crate) fn end(&mut self, monotonic_ns: i64, exit: Option<i32>) -> io::Result<()> {
        if let Some(code) = exit {
            self.push(&Record::Exit { code })?;
        }
        let at_ns = (monotonic_ns - self.head.start_monotonic_ns).max(0).cast_unsigned();
        self.push(&Record::End { at_ns })?;
        self.send()
    }

    /// Says what threads used of processors, and what recording costs.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn usage(&mut self, load: Option<Record>, cost: Option<dlmonitor::Cost>) -> io::Result<()> {
        if self.processors.is_none() || load.is_some() {
            // Threads may be pinned at any time.
            let processors = Some(crate::usage::processors()).filter(|now| self.processors.as_ref() != Some(now));
            if let Some(processors) = processors {
                self.processors = Some(processors);
                self.push(&Record::Processors(processors))?;
            }
        }
        if let Some(load) = load {
            self.push(&load)?;
        }
        let cost = cost.map(|cost| Cost {
            begin_ns: cost.begin_ns,
            end_ns: cost.end_ns,
            torch_ns: cost.torch_ns,
            measured: cost.measured,
        });
        if let Some(cost) = cost.filter(|cost| self.cost.as_ref() != Some(cost)) {
            self.cost = Some(cost);
            self.push(&Record::Cost(cost))?;
        }
        self.send()
    }

    fn append(&mut self, process: &Process, window: &Window, sources: &[Source]) -> io::Result<()> {
        // Calls, then nodes, then frames: each refers to what exists by then.
        let samples = process.samples();
        let trees = process.trees();
        let calls: Vec<Vec<Call>> =
            trees.iter().map(|registered| registered.inbox.as_ref().map(Inbox::take).unwrap_or_default()).collect();
        let touches: Vec<Vec<Touch>> =
            trees.iter().map(|registered| registered.touches.as_ref().map(Inbox::take).unwrap_or_default()).collect();
        let nodes: Vec<usize> = trees.iter().map(|registered| registered.tree.nodes.count()).collect();
        let records: Vec<Record> = process.frames().records(self.records).to_vec();
        self.records += records.len();
        for record in &records {
            self.push(record)?;
        }
        for source in sources {
            if !self.sources.contains(source) {
                self.push(&Record::Source(source.clone()))?;
            }
        }
        self.sources = sources.to_vec();
        for Change { at, step, open, at_step } in window.changes(self.changes) {
            self.push(&Record::Window { at_ns: clock::monotonic_at(at), step, open, at_step })?;
            self.changes += 1;
        }
        for (registered, nodes) in trees.iter().zip(nodes) {
            self.append_tree(registered, nodes)?;
        }
        for (registered, calls) in trees.iter().zip(calls) {
            self.append_calls(registered, &calls)?;
        }
        for (registered, touches) in trees.iter().zip(touches) {
            self.append_touches(registered, &touches)?;
        }
        self.append_names(process)?;
        self.append_samples(&samples)?;
        self.note_lost("tree_full", process.overflows())?;
        self.note_lost("calls_too_fast", process.lost_calls())?;
        self.note_lost("calls_over_limit", self.calls_cut)?;
        self.note_lost("touches_too_fast", process.lost_touches())?;
        self.note_lost("touches_over_limit", self.touches_cut)?;
        self.note_lost("inputs_over_limit", process.inputs_left_out())?;
        self.note_lost("forward_links_over_limit", process.lost_forward_links())?;
        self.note_lost("names_over_limit", process.tensors.lost() + self.names_cut)?;
        self.send()
    }

    fn append_tree(&mut self, registered: &Registered, nodes: usize) -> io::Result<()> {
        let mut written = self.trees.remove(&registered.tree.id).unwrap_or_default();
        let result = self.append_changes(&mut written, registered, nodes);
        self.trees.insert(registered.tree.id, written);
        result
    }

    fn append_changes(&mut self, written: &mut Written, registered: &Registered, nodes: usize) -> io::Result<()> {
        let (thread, tree) = (&registered.thread, &registered.tree);
        if written.thread.as_ref() != Some(thread) {
            self.push(&Record::Thread(thread.clone()))?;
            written.thread = Some(thread.clone());
        }
        for id in written.nodes.max(1)..nodes {
            let Some(node) = tree.nodes.get(id) else { break };
            self.push(&Record::Node { thread: tree.id, id: id as u32, parent: node.parent, frame: node.frame })?;
        }
        written.nodes = nodes;
        for (at, slot) in tree.slots() {
            // A node that came after the frames were written waits for the next time.
            if slot.node as usize >= nodes {
                continue;
            }
            let stats = tree.read(slot);
            if written.counts.len() <= at {
                written.counts.resize(at + 1, 0);
            }
            if stats.count != written.counts[at] {
                written.counts[at] = stats.count;
                self.push(&Record::Stats { thread: tree.id, node: slot.node, metric: slot.metric, stats })?;
            }
        }
        Ok(())
    }

    fn append_calls(&mut self, registered: &Registered, calls: &[Call]) -> io::Result<()> {
        let thread = registered.thread.id;
        for (at, call) in calls.iter().enumerate() {
            if self.calls_left == 0 {
                self.calls_cut += (calls.len() - at) as u64;
                return Ok(());
            }
            let (start, duration_ns) = (call.start, call.took_ns);
            let written = self.written(thread);
            let (start_delta_ns, last_number) = (start - written.last_end, written.last_number);
            if let Some((number, forward_thread)) = call.sequence.get() {
                let number = number.cast_signed();
                let delta = number - last_number;
                self.push_single(&Record::Sequence { thread, delta, forward_thread })?;
                self.written(thread).last_number = number;
            }
            self.push_single(&Record::Event { thread, node: call.node.0, start_delta_ns, duration_ns })?;
            self.written(thread).last_end = start + duration_ns.cast_signed();
        }
        Ok(())
    }

    fn append_touches(&mut self, registered: &Registered, touches: &[Touch]) -> io::Result<()> {
        let thread = registered.thread.id;
        for (at, touch) in touches.iter().enumerate() {
            if self.calls_left == 0 {
                self.touches_cut += (touches.len() - at) as u64;
                return Ok(());
            }
            let (before, address) = std::mem::replace(&mut self.written(thread).last_touch, (touch.at, touch.address));
            self.push_single(&Record::Touch {
                thread,
                node: touch.node.0,
                delta_ns: touch.at - before,
                kind: touch.kind,
                address_delta: touch.address.wrapping_sub(address).cast_signed() as i64,
                bytes: touch.bytes,
            })?;
        }
        Ok(())
    }

    fn append_names(&mut self, process: &Process) -> io::Result<()> {
        let (names, named) = process.tensors.take(&process.modules, &mut self.names);
        for name in &names {
            self.push(name)?;
        }
        for (at, one) in named.iter().enumerate() {
            if self.calls_left == 0 {
                self.names_cut += (named.len() - at) as u64;
                return Ok(());
            }
            self.push_single(&Record::Named { at_ns: one.at, address: one.address as u64, name: one.name })?;
        }
        Ok(())
    }

    /// How much of a tree was written.
    fn written(&mut self, tree: u32) -> &mut Written {
        self.trees.entry(tree).or_default()
    }

    fn append_samples(&mut self, samples: &[TimedSample]) -> io::Result<()> {
        for (at, sample) in samples.iter().enumerate() {
            if self.calls_left == 0 {
                self.calls_cut += (samples.len() - at) as u64;
                return Ok(());
            }
            // A tree that is not written yet has no samples: they are posted after it was made.
            let Some(written) = self.trees.get_mut(&sample.tree) else { continue };
            let now = clock::monotonic_at(sample.at);
            let delta_ns = now - std::mem::replace(&mut written.last_sample, now);
            let &TimedSample { tree: thread, node, metric, value, .. } = sample;
            self.push_single(&Record::Sample { thread, node: node.0, delta_ns, metric, value })?;
        }
        Ok(())
    }

    /// Pushes what counts against the limit of single calls.
    fn push_single(&mut self, record: &Record) -> io::Result<()> {
        let before = self.chunk.len() as u64;
        self.push(record)?;
        self.calls_left = self.calls_left.saturating_sub((self.chunk.len() as u64).saturating_sub(before).max(1));
        Ok(())
    }

    fn note_lost(&mut self, what: &'static str, count: u64) -> io::Result<()> {
        if self.lost.get(what).copied().unwrap_or(0) == count {
            return Ok(());
        }
        self.lost.insert(what, count);
        self.push(&Record::Lost { what: what.into(), count })
    }

    /// Writes everything to a new file and lets it take the place of the old one.
    fn start_anew(&mut self, process: &Process, window: &Window, sources: &[Source]) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let _ = std::fs::remove_file(&beside);
        let mut anew = Self::create(&beside, (self.head.clone(), self.boot), self.calls_left)?;
        anew.append(process, window, sources)?;
        std::fs::rename(&beside, &self.path)?;
        anew.path.clone_from(&self.path);
        anew.whole = anew.bytes;
        *self = anew;
        Ok(())
    }

    fn push(&mut self, record: &Record) -> io::Result<()> {
        self.chunk.push(record).map_err(io::Error::other)?;
        if self.chunk.len() >= CHUNK { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let bytes = self.chunk.finish();
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        self.chunk.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}
