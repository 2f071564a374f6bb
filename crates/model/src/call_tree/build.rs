//! Makes a tree from paths and values, in any order.

use super::{CallMetric, CallMetrics, CallNodes, CallProcess, CallStats, CallThread, CallingContextTree, thread_words};
use crate::{CallNodeId, CallProcessId, CallThreadId, Frame, FrameId, ReadReport, StrId};
use rustc_hash::FxHashMap;

/// Builder of a calling context tree.
#[derive(Debug)]
pub struct CallingContextTreeBuilder {
    tree: CallingContextTree,
    children: FxHashMap<(CallNodeId, FrameId), CallNodeId>,
    /// What was measured, as it came; of one key there may be several, which are merged at the end.
    stats: Vec<(Key, CallStats)>,
    /// Where in that stands what was added piece by piece.
    places: FxHashMap<Key, usize>,
    /// By node, the places that were added to last: mostly it is one of them again.
    last: Vec<[usize; 2]>,
}

/// What values belong to.
type Key = (CallNodeId, CallThreadId, CallMetric);

impl Default for CallingContextTreeBuilder {
    fn default() -> Self {
        let nodes = CallNodes { parent: vec![CallNodeId::NONE], frame: vec![FrameId::NONE] };
        Self {
            tree: CallingContextTree { nodes, ..CallingContextTree::default() },
            children: FxHashMap::default(),
            stats: Vec::new(),
            places: FxHashMap::default(),
            last: Vec::new(),
        }
    }
}

/// Values in any order; those of one key are merged.
impl FromIterator<(Key, CallStats)> for CallMetrics {
    fn from_iter<I: IntoIterator<Item = (Key, CallStats)>>(values: I) -> Self {
        let mut rows: Vec<(Key, CallStats)> = values.into_iter().filter(|(_, stats)| stats.count > 0).collect();
        // Calls mostly come in the order of their nodes, which this sort makes use of.
        rows.sort_by_key(|(key, _)| *key);
        rows.dedup_by(|(key, stats), (kept, sums)| {
            let is_same = key == kept;
            if is_same {
                sums.merge(stats);
            }
            is_same
        });
        let mut metrics = Self::default();
        for ((node, thread, metric), stats) in rows {
            metrics.node.push(node);
            metrics.thread.push(thread);
            metrics.metric.push(metric);
            metrics.stats.push(stats);
        }
        metrics
    }
}

impl CallingContextTreeBuilder {
    /// A tree that is nothing but a root.
    pub fn new() -> Self {
        Self::default()
    }

    /// The handle of a text.
    pub fn text(&mut self, text: &str) -> StrId {
        self.tree.strings.intern(text)
    }

    /// A text that was interned.
    pub fn text_of(&self, id: StrId) -> &str {
        self.tree.strings.get(id)
    }

    /// The handle of a frame.
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        self.tree.frames.intern(frame)
    }

    /// The node of a frame that was called from `parent`.
    pub fn child(&mut self, parent: CallNodeId, frame: FrameId) -> CallNodeId {
        let nodes = &mut self.tree.nodes;
        let next = CallNodeId::new(nodes.len());
        let id = *self.children.entry((parent, frame)).or_insert(next);
        if id == next {
            nodes.parent.push(parent);
            nodes.frame.push(frame);
        }
        id
    }

    /// Adds a process.
    pub fn process(&mut self, process: CallProcess) -> CallProcessId {
        self.tree.processes.push(process);
        CallProcessId::new(self.tree.processes.len() - 1)
    }

    /// A process that was added, to be completed.
    pub fn process_mut(&mut self, process: CallProcessId) -> Option<&mut CallProcess> {
        self.tree.processes.get_mut(process.index())
    }

    /// Adds a thread.
    pub fn thread(&mut self, thread: CallThread) -> CallThreadId {
        self.tree.threads.push(thread);
        CallThreadId::new(self.tree.threads.len() - 1)
    }

    /// A thread that was added.
    pub fn known_thread(&self, id: CallThreadId) -> Option<CallThread> {
        self.tree.threads.get(id.index()).copied()
    }

    /// Says anew what a thread is.
    pub fn set_thread(&mut self, id: CallThreadId, thread: CallThread) {
        if let Some(known) = self.tree.threads.get_mut(id.index()) {
            *known = thread;
        }
    }

    /// Adds values that were measured at a node.
    pub fn add(&mut self, node: CallNodeId, thread: CallThreadId, metric: CallMetric, stats: &CallStats) {
        let place = self.place((node, thread, metric));
        self.stats[place].1.merge(stats);
    }

    /// Where the values of a key stand.
    fn place(&mut self, key: Key) -> usize {
        let at = key.0.index();
        let last = self.last.get(at).copied().unwrap_or([usize::MAX; 2]);
        if let Some(&place) = last.iter().find(|&&place| self.stats.get(place).is_some_and(|(of, _)| *of == key)) {
            return place;
        }
        let next = self.stats.len();
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.stats.push((key, CallStats::default()));
        }
        if self.last.len() <= at {
            self.last.resize(at + 1, [usize::MAX; 2]);
        }
        self.last[at] = [place, last[0]];
        place
    }

    /// Adds all that was measured at a node: the same as [`Self::add`], sooner, and of use where values do not come piece by piece.
    pub fn add_sums(&mut self, node: CallNodeId, thread: CallThreadId, metric: CallMetric, sums: &CallStats) {
        self.stats.push(((node, thread, metric), *sums));
    }

    /// The frames of a path in words, the innermost first.
    pub fn path_words(&self, node: CallNodeId) -> Vec<String> {
        let nodes = &self.tree.nodes;
        let up = |node: &CallNodeId| nodes.parent.get(node.index()).copied().filter(|parent| parent.is_some());
        let frames = std::iter::successors(Some(node), up).filter_map(|node| nodes.frame.get(node.index())?.some());
        frames.filter_map(|frame| self.tree.frames.get(frame.index())).map(|frame| self.frame_words(frame)).collect()
    }

    fn frame_words(&self, frame: &Frame) -> String {
        let name = frame.name(&self.tree.strings);
        match *frame {
            Frame::Python { file, line, .. } => format!("{name} ({}:{line})", self.text_of(file)),
            _ => name,
        }
    }

    /// A thread in words: its name and its number.
    pub fn thread_words(&self, thread: CallThreadId) -> String {
        let known = self.tree.threads.get(thread.index());
        known.map_or_else(String::new, |thread| thread_words(self.text_of(thread.name), thread.tid))
    }

    /// The read report, to be added to.
    pub fn report(&mut self) -> &mut ReadReport {
        &mut self.tree.report
    }

    /// The whole tree. The same calls in the same order give the same tree.
    pub fn finish(self) -> CallingContextTree {
        let mut tree = CallingContextTree { metrics: self.stats.into_iter().collect(), ..self.tree };
        tree.report.sort();
        tree
    }
}
