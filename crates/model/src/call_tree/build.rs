//! Builder of a calling context tree from paths and values, in any order.

use super::{CallMetric, CallMetrics, CallNodes, CallProcess, CallStats, CallThread, CallingContextTree, thread_words};
use crate::{CallNodeId, CallProcessId, CallThreadId, Frame, FrameId, ReadReport, StrId};
use rustc_hash::FxHashMap;

/// Builder of a calling context tree, from call paths and metric values in any order.
#[derive(Debug)]
pub struct CallingContextTreeBuilder {
    tree: CallingContextTree,
    children: FxHashMap<(CallNodeId, FrameId), CallNodeId>,
    /// Values in order of arrival; several of one key are merged at the end.
    stats: Vec<(Key, CallStats)>,
    /// Row in `stats` of keys whose values arrive one by one.
    places: FxHashMap<Key, usize>,
    /// By node, the rows that were added to last, because they usually repeat.
    last: Vec<[usize; 2]>,
}

/// Key of values: node, thread and metric.
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

/// Metrics from values in any order; those of one key are merged.
impl FromIterator<(Key, CallStats)> for CallMetrics {
    fn from_iter<I: IntoIterator<Item = (Key, CallStats)>>(values: I) -> Self {
        let mut rows: Vec<(Key, CallStats)> = values.into_iter().filter(|(_, stats)| stats.count > 0).collect();
        // Calls usually arrive in the order of their nodes, which makes this sort fast.
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
    /// Create a builder of a calling context tree that has only a root.
    pub fn new() -> Self {
        Self::default()
    }

    /// Intern a text in the strings of the call tree.
    pub fn text(&mut self, text: &str) -> StrId {
        self.tree.strings.intern(text)
    }

    /// Text of a string handle of the call tree.
    pub fn text_of(&self, id: StrId) -> &str {
        self.tree.strings.get(id)
    }

    /// Intern a frame in the call tree's frame table.
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        self.tree.frames.intern(frame)
    }

    /// Node of a frame called from `parent`, created if missing.
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

    /// Add a process to the call tree.
    pub fn process(&mut self, process: CallProcess) -> CallProcessId {
        self.tree.processes.push(process);
        CallProcessId::new(self.tree.processes.len() - 1)
    }

    /// Mutable access to a process that was added to the call tree; `None` for an unknown handle.
    pub fn process_mut(&mut self, process: CallProcessId) -> Option<&mut CallProcess> {
        self.tree.processes.get_mut(process.index())
    }

    /// Add a thread to the call tree.
    pub fn thread(&mut self, thread: CallThread) -> CallThreadId {
        self.tree.threads.push(thread);
        CallThreadId::new(self.tree.threads.len() - 1)
    }

    /// Properties of a thread that was added to the call tree; `None` for an unknown handle.
    pub fn known_thread(&self, id: CallThreadId) -> Option<CallThread> {
        self.tree.threads.get(id.index()).copied()
    }

    /// Replace the properties of a thread; an unknown handle has no effect.
    pub fn set_thread(&mut self, id: CallThreadId, thread: CallThread) {
        if let Some(known) = self.tree.threads.get_mut(id.index()) {
            *known = thread;
        }
    }

    /// Merge statistics of a metric into those of a call-tree node on a thread.
    pub fn add(&mut self, node: CallNodeId, thread: CallThreadId, metric: CallMetric, stats: &CallStats) {
        let place = self.stats_row((node, thread, metric));
        self.stats[place].1.merge(stats);
    }

    /// Row of the statistics of a node, thread and metric, created if missing.
    fn stats_row(&mut self, key: Key) -> usize {
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

    /// Append statistics of a node, thread and metric without a lookup; [`Self::finish`] merges those of equal keys.
    /// Faster than [`Self::add`] unless values arrive one by one.
    pub fn add_sums(&mut self, node: CallNodeId, thread: CallThreadId, metric: CallMetric, sums: &CallStats) {
        self.stats.push(((node, thread, metric), *sums));
    }

    /// Texts of the frames of a node's call path, innermost first; Python frames with file and line.
    pub fn path_words(&self, node: CallNodeId) -> Vec<String> {
        let nodes = &self.tree.nodes;
        let up = |node: &CallNodeId| nodes.parent.get(node.index()).copied().filter(|parent| parent.is_some());
        let frames = std::iter::successors(Some(node), up).filter_map(|node| nodes.frame.get(node.index())?.some());
        frames.filter_map(|frame| self.tree.frames.get(frame.index())).map(|frame| self.frame_words(frame)).collect()
    }

    /// Text of a frame; a Python frame with file and line.
    fn frame_words(&self, frame: &Frame) -> String {
        let name = frame.name(&self.tree.strings);
        match *frame {
            Frame::Python { file, line, .. } => format!("{name} ({}:{line})", self.text_of(file)),
            _ => name,
        }
    }

    /// Text of a thread: its name and number; empty for an unknown thread.
    pub fn thread_words(&self, thread: CallThreadId) -> String {
        let known = self.tree.threads.get(thread.index());
        known.map_or_else(String::new, |thread| thread_words(self.text_of(thread.name), thread.tid))
    }

    /// Mutable read report of the call tree, to add diagnostics.
    pub fn report(&mut self) -> &mut ReadReport {
        &mut self.tree.report
    }

    /// Finish the calling context tree: sort the statistics, and merge those of equal node, thread and metric. The same
    /// calls in the same order give the same tree.
    pub fn finish(self) -> CallingContextTree {
        let mut tree = CallingContextTree { metrics: self.stats.into_iter().collect(), ..self.tree };
        tree.report.sort();
        tree
    }
}
