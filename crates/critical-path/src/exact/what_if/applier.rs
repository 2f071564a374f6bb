//! State of the application of edits, and the elementary changes that edits consist of.

use super::super::Exact;
use super::super::category::{Category, lag_category};
use super::super::graph::{Dependency, NodeKind};
use super::cancellation::Stop;
use super::edit::Edit;
use super::host_time::Cut;
use super::index::{Index, ThreadRange};
use super::lags::REMOVED_EDGE_SLACK;
use super::replay::{Changes, Plan};
use super::selector::Selector;
use crate::CriticalPathError;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::EventId;

/// State of the conversion of edits to changes of the replay: changes, scaled time ranges and notes so far.
pub(super) struct Applier<'a, 'e> {
    pub(super) exact: &'e Exact<'a>,
    pub(super) plan: &'e Plan,
    pub(super) index: &'e Index,
    pub(super) changes: Changes,
    pub(super) notes: Vec<String>,
    pub(super) cuts: Vec<Cut>,
    /// Cuts of gaps of which samples show a part: lower bound, likely, upper bound.
    pub(super) partly: Vec<[Cut; 3]>,
    /// First edit of each operation or time range.
    pub(super) operations: FxHashMap<u32, usize>,
    pub(super) ranges: FxHashMap<ThreadRange, usize>,
    pub(super) edits: &'e [Edit],
    pub(super) current: usize,
    pub(super) stop: Stop<'e>,
}

impl<'a, 'e> Applier<'a, 'e> {
    /// Create the state before the first edit, without changes.
    pub(super) fn new(
        exact: &'e Exact<'a>,
        (plan, index): (&'e Plan, &'e Index),
        edits: &'e [Edit],
        stop: Stop<'e>,
    ) -> Self {
        Self {
            exact,
            plan,
            index,
            changes: Changes::none(plan),
            notes: Vec::new(),
            cuts: Vec::new(),
            partly: Vec::new(),
            operations: FxHashMap::default(),
            ranges: FxHashMap::default(),
            edits,
            current: 0,
            stop,
        }
    }

    /// Position of a graph node in the replay plan.
    pub(super) fn position_of(&self, node: u32) -> u32 {
        self.plan.position[node as usize]
    }

    /// Observed duration of a graph node in ns.
    pub(super) fn length(&self, node: u32) -> i64 {
        let graph = &self.exact.graph;
        graph.end[node as usize] - graph.start[node as usize]
    }

    /// Register a time range of a thread that a factor scales; nothing for an empty range.
    pub(super) fn cut(&mut self, (lane, from, to): ThreadRange, factor: f64) {
        if from < to {
            self.cuts.push(Cut { lane, from, to, factor });
        }
    }

    /// Register the time of a call on its thread, scaled by a factor.
    pub(super) fn cut_call(&mut self, call: EventId, factor: f64) {
        let trace = self.exact.trace;
        if let Some(lane) = self.index.lane(trace, call) {
            self.cut((lane, trace.events.start[call.index()], trace.events.end(call)), factor);
        }
    }

    /// Change the duration of a node to `new` of its current duration in ns, at least 0.
    pub(super) fn set_time(&mut self, node: u32, new: impl Fn(i64) -> i64) {
        let at = self.position_of(node);
        let now = self.length(node) + self.changes.time[at as usize];
        self.changes.add_time(self.plan, at, new(now).max(0) - now);
    }

    /// Remove a time range of a thread.
    pub(super) fn remove_time(&mut self, range: ThreadRange) {
        self.cut(range, 0.0);
    }

    /// Add time in ns to the duration of a graph node.
    pub(super) fn lengthen(&mut self, node: u32, ns: i64) {
        self.set_time(node, |now| now + ns);
    }

    /// Remove GPU operations, and the calls that launched nothing else, from the replay.
    pub(super) fn remove_operations(&mut self, nodes: &[u32]) {
        let (trace, graph) = (self.exact.trace, &self.exact.graph);
        let mut removed_per_call: FxHashMap<EventId, u32> = FxHashMap::default();
        let mut calls: FxHashSet<EventId> = FxHashSet::default();
        for &node in nodes {
            self.set_time(node, |_| 0);
            let at = self.position_of(node);
            for i in self.plan.range(at) {
                let observed = self.plan.edge(i).observed;
                let Some(edge) = graph.edges.get(self.plan.edge(i).edge as usize) else { continue };
                // The cause of the operation's delay is not recorded. It may delay the next operation, or disappear
                // with this one.
                if lag_category(edge.dependency, observed) == Category::Unknown {
                    self.changes.set_slack_at_best(at, i, observed);
                } else {
                    self.changes.set_slack(at, i, observed.max(0));
                }
            }
            let call = trace.gpu.launch[graph.place[node as usize] as usize];
            if call.is_some() {
                let count = removed_per_call.entry(call).or_default();
                *count += 1;
                if *count == self.index.operations_of(call) && calls.insert(call) {
                    self.cut_call(call, 0.0);
                }
            }
        }
        self.remove_waits(&calls, false);
    }

    /// Remove the waits of these calls. With `cut`, the calls' own time is removed as well, except for calls that
    /// launch work.
    pub(super) fn remove_waits(&mut self, calls: &FxHashSet<EventId>, cut: bool) {
        if calls.is_empty() {
            return;
        }
        for &(node, call) in &self.index.sync_nodes {
            if !calls.contains(&call) {
                continue;
            }
            let at = self.position_of(node);
            for i in self.plan.range(at) {
                if self.is_edge(i, |d| matches!(d, Dependency::Sync(_))) {
                    self.changes.set_slack(at, i, REMOVED_EDGE_SLACK);
                }
            }
            if self.exact.graph.kind[node as usize] == NodeKind::SyncReturn {
                self.set_time(node, |_| 0);
            }
        }
        if cut {
            let mut calls: Vec<EventId> = calls.iter().copied().collect();
            calls.sort_unstable();
            for call in calls.into_iter().filter(|&c| self.index.operations_of(c) == 0) {
                self.cut_call(call, 0.0);
            }
        }
    }

    /// True if the dependency of the edge at `index` in the replay plan passes a test; false for edges outside of the
    /// graph.
    pub(super) fn is_edge(&self, index: usize, test: impl Fn(Dependency) -> bool) -> bool {
        self.exact.graph.edges.get(self.plan.edge(index).edge as usize).is_some_and(|e| test(e.dependency))
    }

    /// Error that the current edit cannot be applied, with the reason.
    pub(super) fn refused_edit_error(&self, selector: &Selector, reason: &str) -> CriticalPathError {
        let edit = self.edits.get(self.current).map_or_else(|| selector.text.clone(), ToString::to_string);
        CriticalPathError::RefusedEdit { text: edit, reason: reason.to_owned() }
    }
}
