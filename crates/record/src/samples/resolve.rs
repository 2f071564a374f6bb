//! Conversion of samples to tree nodes: frames are named, and samples are placed below the operator that they
//! interrupted.

use super::codes::UNKNOWN;
use super::record::{Head, MODULE, ThreadRecord, Times};
use super::timer::Clock;
use super::watch::thread_name;
use super::{Sampler, Settings, lock};
use crate::event_queue::TimedSample;
use crate::process::{Process, Registered};
use crate::tree::{Key, NodeId, ROOT, TreeOwner};
use dlmonitor::native;
use dlmonitor::{Memory, SampledCode};
use rustc_hash::FxHashMap;
use stackline_recording::{FrameKey, Metric, OPENMP};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Number of ended threads that keep their trees of samples; beyond it, new threads continue these trees.
const MAX_SPARE_TREES: usize = 64;

/// Largest number of samples that a wait adds at once, for processes that were stopped for hours.
const MOST_AT_ONCE: u64 = 1000;

/// Tree of the samples of one thread.
#[derive(Debug)]
struct Tree {
    owner: TreeOwner,
    name: String,
    is_main: bool,
    /// Nodes in this tree for operators of other trees.
    operators: FxHashMap<(u32, u32), NodeId>,
    /// Node of the thread's last sample of wall time, and the time until which it counts, in ticks.
    wall: Option<(NodeId, u64)>,
    slots: FxHashMap<(u32, Metric), u32>,
}

/// Converter of samples to tree nodes: names of code objects, which outlive a recording as their numbers do, and the
/// sample trees of one recording's threads.
#[derive(Debug, Default)]
pub(super) struct Resolver {
    /// Number of the sampled recording, 0 for none ([`Process::number`]).
    recording: usize,
    settings: Arc<Settings>,
    codes: FxHashMap<u32, SampledCode>,
    /// Frames of lines, by code object and offset.
    lines: FxHashMap<u64, u32>,
    /// Frames of native addresses, valid for one generation of the module list.
    natives: FxHashMap<u64, u32>,
    generation: u32,
    /// Trees by the number of the thread's record.
    trees: FxHashMap<usize, Tree>,
    spare: Vec<Tree>,
    entry: Vec<u64>,
    /// Tree of the main thread, and node and time (ticks) of its newest sample.
    main: Option<(u32, NodeId, u64)>,
}

impl Resolver {
    /// Number of the recording that is being sampled; 0 for none.
    pub(super) fn recording(&self) -> usize {
        self.recording
    }

    /// Drop the previous recording's trees and caches, and begin another one, or none (0). Code names are kept.
    pub(super) fn begin(&mut self, recording: usize, settings: Arc<Settings>) {
        *self = Self { recording, settings, codes: std::mem::take(&mut self.codes), ..Self::default() };
    }

    /// Move all samples from the rings to the trees of `process`, and release the records of ended threads. Returns the
    /// settings of the sampling; `None` if the samples belong to another recording.
    pub(super) fn drain(&mut self, sampler: &Sampler, process: &Process) -> Option<Arc<Settings>> {
        if self.recording != process.number() {
            return None;
        }
        let ended = std::mem::take(&mut lock(&sampler.watched).ended);
        self.take_samples(sampler, process);
        for &index in &ended {
            let tree = self.trees.remove(&index);
            if process.records_calls() {
                // Trees are not reused here, because the tree of a single sample identifies its thread.
                if let Some(tree) = tree {
                    process.end_tree(tree.owner.shared.id);
                }
            } else {
                self.spare.extend(tree);
            }
            if let Some(record) = sampler.record(index) {
                record.counters.stop();
                record.tid.store(0, Ordering::Release);
            }
        }
        lock(&sampler.watched).free.extend(ended);
        if sampler.codes.refused.load(Ordering::Relaxed) > 0 {
            self.forget_codes(sampler, process);
        }
        process.set_newest_main_sample(self.main);
        Some(Arc::clone(&self.settings))
    }

    /// Move all samples and waiting times from the rings to the trees of `process`.
    fn take_samples(&mut self, sampler: &Sampler, process: &Process) {
        // A sample may refer to a code object that another thread named: read the names after the ends of the samples
        // were read.
        let end = |(index, record): (_, &'static ThreadRecord)| Some((index, record, record.end_of_samples()?));
        let ends: Vec<_> = sampler.all_records().filter_map(end).collect();
        // Also from free records: a code object that a late handler named keeps its number in this recording.
        for (_, record) in sampler.all_records() {
            self.take_names(record);
        }
        let trees = process.trees();
        for (index, record, end) in ends {
            let mut entry = std::mem::take(&mut self.entry);
            let mut tree = None;
            // A thread that continues to wait has written no sample since: the time belongs to its last sample,
            // unless another one follows.
            let waits_on = record.samples.end() == end;
            let waited = if waits_on { record.wall.take_waited() } else { 0 };
            while record.samples.pop(end, &mut entry) {
                let tree = tree.get_or_insert_with(|| self.take_tree(process, index, record));
                self.add_sample(process, &trees, tree, &entry);
            }
            if waited > 0 {
                let tree = tree.get_or_insert_with(|| self.take_tree(process, index, record));
                tree.add_wait(self.settings.rates.wall, process, waited, dlmonitor::clock::ticks());
            }
            self.entry = entry;
            self.trees.extend(tree.map(|tree| (index, tree)));
        }
    }

    /// Read the names of code objects that a thread's handler has passed on.
    fn take_names(&mut self, record: &ThreadRecord) {
        let end = record.names.end();
        while record.names.pop(end, &mut self.entry) {
            if let (Some(interpreter), [number, words @ ..]) = (dlmonitor::interpreter(), self.entry.as_slice()) {
                self.codes.extend(SampledCode::unpack(interpreter, words).map(|code| (*number as u32, code)));
            }
        }
    }

    /// Take or create the sample tree of a thread, under the thread's current name.
    fn take_tree(&mut self, process: &Process, index: usize, record: &ThreadRecord) -> Tree {
        let tid = record.tid.load(Ordering::Relaxed);
        let name = process.python_name(tid).or_else(|| thread_name(tid));
        if let Some(mut tree) = self.trees.remove(&index) {
            if let Some(name) = name.filter(|name| *name != tree.name) {
                process.rename(tree.owner.shared.id, tid, &name);
                tree.name = name;
            }
            return tree;
        }
        let name = name.unwrap_or_else(|| lock(&record.name).clone());
        if self.spare.len() > MAX_SPARE_TREES && tid != std::process::id() {
            let same = self.spare.iter().position(|tree| tree.name.starts_with(&name));
            let mut tree = self.spare.swap_remove(same.unwrap_or(0));
            process.rename(tree.owner.shared.id, tid, &format!("{name} and threads before it"));
            tree.name = name;
            return tree;
        }
        let owner = process.add_tree(tid, name.clone());
        let is_main = tid == std::process::id();
        Tree { owner, name, is_main, operators: FxHashMap::default(), wall: None, slots: FxHashMap::default() }
    }

    /// Add a sample's time and counts to the node of its call path in the tree.
    fn add_sample(&mut self, process: &Process, trees: &[Registered], tree: &mut Tree, sample: &[u64]) {
        let Some((head, Times { interval, waited, at }, frames)) = Head::unpack(sample) else { return };
        tree.add_wait(self.settings.rates.wall, process, waited, at);
        let (frames, counts) = frames.split_at(frames.len().saturating_sub(usize::from(head.counters)));
        let mut node = head.operator.map_or(ROOT, |operator| tree.operator_node(process, trees, operator));
        if head.cut {
            node = tree.child(process, node, process.overflow);
        }
        let full = tree.owner.is_full();
        let (python, rest) = frames.split_at(frames.len().min(head.python as usize));
        let mut modules = rest.chunks_exact(MODULE).take(usize::from(head.modules)).rev().peekable();
        for (index, &word) in python.iter().enumerate().rev() {
            let module = modules.next_if(|module| module.first() == Some(&(index as u64)));
            if head.caller && index + 1 == python.len() {
                continue;
            }
            if let Some(&[_, module, class]) = module {
                let frame = Self::module_frame(process, full, (module as usize, class as usize));
                node = tree.child(process, node, frame);
            }
            let frame = self.line_frame(process, full, word);
            node = tree.child(process, node, frame);
        }
        let native = frames.len().saturating_sub(usize::from(head.native));
        for &address in frames.get(native..).unwrap_or(&[]).iter().rev() {
            let frame = self.native_frame(process, full, address);
            node = tree.child(process, node, frame);
        }
        if head.openmp {
            let frame = process.intern(full, |frames| FrameKey::Span { name: frames.text(OPENMP) });
            node = tree.child(process, node, frame);
        }
        let metric = match head.clock {
            Clock::Cpu => Metric::CpuTime,
            Clock::Wall => Metric::WallTime,
            Clock::Wait => Metric::WaitTime,
        };
        tree.add(node, metric, interval);
        if head.clock == Clock::Wall {
            tree.wall = Some((node, at));
        }
        for (&counter, &count) in self.settings.counters.iter().zip(counts).filter(|(_, count)| **count > 0) {
            tree.add(node, Metric::Counter(counter), count);
        }
        process.post_sample(TimedSample { tree: tree.owner.shared.id, node, at, metric, value: interval });
        if tree.is_main {
            self.main = Some((tree.owner.shared.id, node, at));
        }
    }

    /// Frame of a Python line, from the word that a handler wrote: number of the code object and offset.
    fn line_frame(&mut self, process: &Process, full: bool, word: u64) -> u32 {
        let number = (word >> 32) as u32;
        let word = if number == UNKNOWN { u64::MAX } else { word };
        let code = self.codes.get(&number);
        cached_frame(&mut self.lines, word, process.overflow, || {
            process.intern(full, |frames| match code {
                Some(code) => FrameKey::Python {
                    function: frames.text(&code.function),
                    file: frames.text(&code.file),
                    line: code.line(word as u32),
                    first_line: code.first_line,
                },
                None => {
                    let unknown = frames.text("(unknown)");
                    FrameKey::Python { function: unknown, file: unknown, line: 0, first_line: 0 }
                }
            })
        })
    }

    /// Frame of an `nn.Module`, by the addresses of module and class. The class is usually alive when samples are read;
    /// otherwise the frame has no name.
    fn module_frame(process: &Process, full: bool, (module, class): (usize, usize)) -> u32 {
        process.module_frame(full, (module, class), || {
            let memory = Memory::of_this_thread();
            let name = dlmonitor::interpreter().and_then(|interpreter| interpreter.sampled_class_name(&memory, class));
            name.unwrap_or_default()
        })
    }

    /// Tree frame of the native function at an address.
    fn native_frame(&mut self, process: &Process, full: bool, address: u64) -> u32 {
        // An address may belong to another library later.
        if self.generation != native::generation() {
            self.generation = native::generation();
            self.natives.clear();
        }
        cached_frame(&mut self.natives, address, process.overflow, || {
            process.native_frame(full, address as usize, native::module_at(address as usize).as_deref())
        })
    }

    /// Take the remaining samples, and clear the full table of code objects. Handlers return at once meanwhile; if one
    /// does not end in time, nothing is cleared.
    fn forget_codes(&mut self, sampler: &Sampler, process: &Process) {
        sampler.paused.store(true, Ordering::SeqCst);
        if sampler.wait_for_handlers() {
            self.take_samples(sampler, process);
            sampler.codes.clear();
            self.codes.clear();
            self.lines.clear();
        }
        if lock(&sampler.task).rates.is_some() {
            sampler.paused.store(false, Ordering::SeqCst);
        }
    }
}

/// Look up a frame in a cache, or add the result of `frame` to the cache. The overflow frame is not cached, because
/// another tree may have space.
fn cached_frame(known: &mut FxHashMap<u64, u32>, key: u64, overflow: u32, frame: impl FnOnce() -> u32) -> u32 {
    if let Some(&frame) = known.get(&key) {
        return frame;
    }
    let frame = frame();
    if frame != overflow {
        known.insert(key, frame);
    }
    frame
}

impl Tree {
    /// Find or create the child of `parent` with this frame.
    fn child(&mut self, process: &Process, parent: NodeId, frame: u32) -> NodeId {
        self.owner.child(parent, Key::frame(frame), process.overflow, |_| frame)
    }

    /// Find or create the node in this tree with the whole call path of an operator's node in another tree; the root if
    /// that tree is unknown.
    fn operator_node(&mut self, process: &Process, trees: &[Registered], (tree, node): (u32, u32)) -> NodeId {
        if let Some(&node) = self.operators.get(&(tree, node)) {
            return node;
        }
        let at = trees.binary_search_by_key(&tree, |registered| registered.tree.id);
        let Some(registered) = at.ok().and_then(|at| trees.get(at)) else { return ROOT };
        let path = registered.tree.path(NodeId(node));
        let place = path.into_iter().fold(ROOT, |node, frame| self.child(process, node, frame));
        self.operators.insert((tree, node), place);
        place
    }

    /// Add samples for a wait of `waited` ns until `until` (ticks), at the call path of the last sample of wall time.
    /// None were taken meanwhile.
    fn add_wait(&mut self, hz: u32, process: &Process, waited: u64, until: u64) {
        let Some((node, from)) = self.wall.filter(|_| waited > 0) else { return };
        let period = 1_000_000_000 / u64::from(hz.max(1));
        let many = (waited / period).clamp(1, MOST_AT_ONCE);
        for number in 1..=many {
            let at = from + (until.saturating_sub(from) / many).saturating_mul(number);
            let value = waited / many + u64::from(number <= waited % many);
            self.add(node, Metric::WallTime, value);
            process.post_sample(TimedSample { tree: self.owner.shared.id, node, at, metric: Metric::WallTime, value });
        }
        self.wall = Some((node, until));
    }

    /// Add a value of a metric to a node of this tree.
    fn add(&mut self, node: NodeId, metric: Metric, value: u64) {
        let slot = *self.slots.entry((node.0, metric)).or_insert_with(|| self.owner.make_slot(node, metric));
        self.owner.add_value(slot, value);
    }
}
