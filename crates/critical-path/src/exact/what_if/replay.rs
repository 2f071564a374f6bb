//! Forward replay of the dependency graph with edited durations and dependencies.
//!
//! The replay computes shifts from the observed times: `shift(n) = max over in-edges of (shift of the end of its
//! predecessor - slack)`. Slack is the time by which the predecessor may end later before the edge binds; binding edges
//! have none. Without changes every shift is 0, which reproduces the observed times exactly.

use super::super::Exact;
use super::super::category::{LONG_GAP_NS, UNLAUNCHED_GAP_NS};
use super::super::graph::{ActivityGraph, Dependency, NONE};
use super::cancellation::Stop;
use super::capacity::{capacity_dependencies, query_dependencies};
use super::lags::{Class, Lags, Mode, REMOVED_EDGE_SLACK, class_of, lag_tables};
use super::lock_contention::LockContention;
use super::missing_work_bounds::MissingWork;
use super::waits::Waits;
use crate::gpu_dependency::Evidence;
use rustc_hash::{FxHashMap, FxHashSet};

/// Edge of the dependency graph in the replay plan; nodes are positions in topological order.
#[derive(Clone, Copy)]
pub(super) struct PlanEdge {
    /// Observed start minus observed end of the predecessor, in ns.
    pub(super) observed: i64,
    /// Position of the predecessor.
    pub(super) from: u32,
    class: Class,
    is_binding: bool,
    is_inferred: bool,
    is_sync: bool,
    /// True for stream order in a trace with overlapping operations.
    follows: bool,
    /// Position of the edge in the graph; none for capacity.
    pub(super) edge: u32,
}

impl PlanEdge {
    /// Slack of the edge in ns for the lags of a mode; 0 for the binding edge.
    fn slack(&self, lags: &Lags) -> i64 {
        if self.is_binding { 0 } else { self.observed - self.observed.min(lags[self.class as usize]) }
    }
}

/// Replay plan: nodes of the dependency graph in topological order, with their edges, as columns.
pub(super) struct Plan {
    /// Position of each node.
    pub(super) position: Vec<u32>,
    /// Node at each position.
    pub(super) node: Vec<u32>,
    offset: Vec<u32>,
    edges: Vec<PlanEdge>,
    /// Per position: true if its binding dependency is inferred.
    is_inferred: Vec<bool>,
    /// Per position: true for an operation without launch that started long after all known prerequisites, possibly
    /// right after its unrecorded launch.
    without_cause: Vec<bool>,
    /// Contention for locks and full queues: after an edit, such a wait may disappear.
    pub(super) lock_contention: LockContention,
    /// Maximum overlap of two operations of a stream in ns; 0 without overlaps.
    max_overlap: i64,
    /// Per position: true if it follows a wait for the GPU.
    is_sync: Vec<bool>,
    waits: Waits,
    missing_work: MissingWork,
    /// Observed start per position, in ns.
    start: Vec<i64>,
    /// Lags per mode.
    lags: [Lags; 3],
    /// In traces with overlapping operations: positions of operations, with the next operation of their stream.
    next_on_stream: FxHashMap<u32, u32>,
}

impl Plan {
    pub(super) fn new(exact: &Exact<'_>) -> Self {
        let mut others = capacity_dependencies(exact);
        others.extend(query_dependencies(exact));
        let mut plan = Self::of_graph(&exact.graph, Waits::new(exact), LockContention::new(exact), &others);
        plan.missing_work = MissingWork::new(exact, &plan.lags[Mode::Pessimistic as usize]);
        plan
    }

    /// Create the replay plan of a dependency graph. `others`: per node, another node that may delay it after an edit,
    /// though it never did in the trace.
    pub(super) fn of_graph(
        graph: &ActivityGraph,
        waits: Waits,
        lock_contention: LockContention,
        others: &FxHashMap<u32, u32>,
    ) -> Self {
        let node = by_time(graph);
        let position = positions(&node);
        let mut plan = Self {
            offset: Vec::with_capacity(node.len() + 1),
            edges: Vec::with_capacity(graph.edges.len()),
            is_inferred: Vec::with_capacity(node.len()),
            without_cause: Vec::with_capacity(node.len()),
            lock_contention,
            max_overlap: max_overlap(graph),
            is_sync: Vec::with_capacity(node.len()),
            waits,
            missing_work: MissingWork::default(),
            start: node.iter().map(|&n| graph.start[n as usize]).collect(),
            lags: lag_tables(graph),
            next_on_stream: FxHashMap::default(),
            position,
            node,
        };
        plan.offset.push(0);
        for at in 0..plan.node.len() {
            plan.add_node(graph, at as u32, others);
        }
        plan
    }

    /// Append the node at position `at` with its edges. `capacity`: per node, one that delays it only after edits.
    fn add_node(&mut self, graph: &ActivityGraph, at: u32, capacity: &FxHashMap<u32, u32>) {
        let node = self.node[at as usize];
        let start = graph.start[node as usize];
        let binding = graph.binding[node as usize];
        let (mut inferred, mut is_sync, mut without_cause) = (false, false, false);
        for i in graph.edge_range(node) {
            let edge = &graph.edges[i];
            let from = self.position[edge.from as usize];
            // The graph disables edges that closed a cycle, which would point backward here.
            if from >= at || edge.lag <= i64::MIN / 4 {
                continue;
            }
            let is_binding = i as u32 == binding;
            let is_inferred = edge.dependency.evidence() == Evidence::Inferred;
            let class = match class_of(graph.kind[node as usize], edge.dependency) {
                Class::Queue if is_inferred && !is_binding => Class::DoubtfulQueue,
                Class::Other if is_inferred && !is_binding => Class::DoubtfulOther,
                class => class,
            };
            is_sync |= matches!(edge.dependency, Dependency::Sync(_));
            inferred |= is_binding && is_inferred;
            let observed = start - graph.end[edge.from as usize];
            without_cause |= is_binding && edge.dependency.is_without_launch() && observed > UNLAUNCHED_GAP_NS;
            let follows = self.max_overlap > 0
                && matches!(edge.dependency, Dependency::Overlap | Dependency::Stream | Dependency::StreamNearMissing);
            if follows {
                self.next_on_stream.insert(from, at);
            }
            let (is_sync, edge) = (matches!(edge.dependency, Dependency::Sync(_)), i as u32);
            self.edges.push(PlanEdge { observed, from, class, is_binding, is_inferred, is_sync, follows, edge });
        }
        // Capacity of the device alone never releases a node.
        let has_edges = self.edges.len() > self.offset[at as usize] as usize;
        if let Some(&other) = capacity.get(&node).filter(|_| has_edges) {
            let from = self.position[other as usize];
            if from < at {
                let observed = start - graph.end[other as usize];
                let (class, edge) = (Class::Capacity, NONE);
                self.edges.push(PlanEdge {
                    observed,
                    from,
                    class,
                    is_binding: false,
                    is_inferred: true,
                    is_sync: false,
                    follows: false,
                    edge,
                });
            }
        }
        self.is_inferred.push(inferred);
        self.without_cause.push(without_cause);
        self.is_sync.push(is_sync);
        self.offset.push(self.edges.len() as u32);
    }

    /// Number of nodes in the replay plan.
    pub(super) fn len(&self) -> usize {
        self.node.len()
    }

    /// Range of the edges into a node, as indices for [`Self::edge`].
    pub(super) fn range(&self, at: u32) -> std::ops::Range<usize> {
        self.offset[at as usize] as usize..self.offset[at as usize + 1] as usize
    }

    /// Dependency edge at an index of the replay plan.
    pub(super) fn edge(&self, index: usize) -> &PlanEdge {
        &self.edges[index]
    }

    /// Slack of an edge in ns, if its lag is the usual one of its class.
    pub(super) fn usual_slack(&self, index: usize) -> i64 {
        self.edges[index].slack(&self.lags[Mode::Usual as usize])
    }

    /// True if the edits change nothing, not even waits for missing GPU work.
    pub(super) fn is_as_before(&self, changes: &Changes) -> bool {
        changes.count == 0 && changes.at_worst.is_none() && (changes.unrecorded == 0.0 || self.missing_work.is_empty())
    }

    /// Replay: compute by how much the end of every node before `until` shifts, in ns, by position. After a stop
    /// request, the remaining shifts are 0.
    pub(super) fn replay(&self, changes: &Changes, mode: Mode, (until, stop): (u32, Stop<'_>), shifts: &mut Vec<i64>) {
        let lags = &self.lags[mode as usize];
        let first = changes.first.min(until);
        shifts.clear();
        shifts.resize(first as usize, 0);
        for at in first..until {
            if stop.is_requested_at(at as usize) {
                shifts.resize(until as usize, 0);
                return;
            }
            let doubtful = mode != Mode::Usual && self.is_inferred[at as usize];
            let shift = if changes.special[at as usize] || doubtful || self.is_sync[at as usize] {
                let (shift, change) = self.special_shift(changes, mode, at, shifts);
                shift + change
            } else {
                let edges = &self.edges[self.range(at)];
                edges.iter().map(|e| shifts[e.from as usize] - e.slack(lags)).max().unwrap_or(0)
            };
            shifts.push(self.with_missing_work(changes, mode, at, shift + changes.time[at as usize]));
        }
    }

    /// Shift of a node's end, including possible missing work inside the node.
    fn with_missing_work(&self, changes: &Changes, mode: Mode, at: u32, shift: i64) -> i64 {
        if self.missing_work.is_empty() {
            return shift;
        }
        let (node, time) = (self.node[at as usize], changes.time[at as usize]);
        match mode {
            Mode::Usual => shift,
            Mode::Pessimistic => self.missing_work.at_worst(node, shift, time),
            Mode::Optimistic if changes.unrecorded == 0.0 => shift,
            Mode::Optimistic => self.missing_work.at_best(node, shift, time, changes.unrecorded),
        }
    }

    /// Shift of a node's start in ns with the usual lags, from the shifts of earlier nodes' ends.
    pub(super) fn start_shift(&self, changes: &Changes, at: u32, shifts: &[i64]) -> i64 {
        if self.is_sync[at as usize] {
            return self.special_shift(changes, Mode::Usual, at, shifts).0;
        }
        shifts[at as usize] - changes.time[at as usize]
    }

    /// Shift of the start of a node whose edges are not all as observed, and the change of its return from a wait.
    fn special_shift(&self, changes: &Changes, mode: Mode, at: u32, shifts: &[i64]) -> (i64, i64) {
        let inferred = self.is_inferred[at as usize];
        let is_removed_at_best = |i: usize| changes.removed_at_best.contains(&(i as u32));
        // The wait may have disappeared.
        let may_go = self.lock_contention.is_lock_release[self.node[at as usize] as usize]
            || (mode == Mode::Optimistic
                && !changes.removed_at_best.is_empty()
                && self.range(at).any(is_removed_at_best));
        let mut terms = Terms { unmoved: true, ..Terms::default() };
        let (mut synced, mut others) = (None, None);
        for (i, edge) in self.range(at).zip(&self.edges[self.range(at)]) {
            let Some((term, observed)) = self.term(changes, mode, (at, i), shifts) else { continue };
            terms.unmoved &= shifts[edge.from as usize] == 0;
            let side = if edge.is_sync { &mut synced } else { &mut others };
            *side = Some(term).max(*side);
            match mode {
                Mode::Optimistic if inferred && edge.is_binding => terms.binding = Some(term),
                Mode::Optimistic if inferred => {
                    let required = if may_go { term } else { observed };
                    terms.other = terms.other.max(Some(required));
                    if !edge.is_inferred {
                        terms.sure = terms.sure.max(Some(term));
                    }
                }
                // A longer delay than any lag has another cause.
                Mode::Pessimistic if inferred && edge.class != Class::Capacity && edge.observed <= LONG_GAP_NS => {
                    terms.sure = terms.sure.max(Some(term.max(observed)));
                }
                _ => terms.sure = terms.sure.max(Some(term)),
            }
        }
        for &(from, slack) in changes.extra.get(&at).into_iter().flatten() {
            let shift = if from == NONE { 0 } else { shifts[from as usize] };
            terms.sure = terms.sure.max(Some(shift - slack));
        }
        if mode == Mode::Pessimistic && self.without_cause[at as usize] {
            terms.sure = terms.sure.max(Some(0));
        }
        let shift = terms.shift();
        let moved = shift != 0 || synced < others || others.is_some_and(|s| s != 0);
        if self.is_sync[at as usize] && moved {
            let waits = synced >= others && synced.is_some();
            return (shift, self.waits.change(self.node[at as usize], mode, waits));
        }
        (shift, 0)
    }

    /// Shift of a node's start that one edge requires, and the shift with the observed lag. `None` for a removed edge.
    pub(super) fn term(
        &self,
        changes: &Changes,
        mode: Mode,
        (at, index): (u32, usize),
        shifts: &[i64],
    ) -> Option<(i64, i64)> {
        let edge = &self.edges[index];
        if mode == Mode::Optimistic && changes.removed_at_best.contains(&(index as u32)) {
            return None;
        }
        let at_best = changes.at_best.get(&(index as u32)).filter(|_| mode == Mode::Optimistic);
        let changed = at_best.or_else(|| changes.overrides.get(&(index as u32))).copied();
        let slack = changed.unwrap_or_else(|| edge.slack(&self.lags[mode as usize]));
        if slack >= REMOVED_EDGE_SLACK / 2 {
            return None;
        }
        let shift = shifts[edge.from as usize];
        let mut term = shift - slack;
        let change = changes.time[edge.from as usize];
        if edge.class == Class::Overlap {
            // The operation may not begin before the one that it overlaps.
            term = term.max(shift - change - (self.start[at as usize] - self.start[edge.from as usize]));
        }
        if change != 0 && edge.follows {
            // Operations may start or stop to overlap if one of them changes.
            term = match mode {
                Mode::Optimistic => term.min(shift - slack - edge.observed - self.max_overlap),
                Mode::Usual => term,
                Mode::Pessimistic => term.max(shift - edge.observed + self.lags[mode as usize][Class::Queue as usize]),
            };
        }
        Some((term, if changed.is_some() { term } else { shift }))
    }
}

/// Largest shifts of a node's start that its edges require, by certainty of the edges.
#[derive(Default)]
struct Terms {
    sure: Option<i64>,
    binding: Option<i64>,
    other: Option<i64>,
    /// True if no predecessor moved.
    unmoved: bool,
}

impl Terms {
    fn shift(&self) -> i64 {
        // Without movement, no dependency is in doubt.
        let doubtful = match (self.binding, self.other) {
            (Some(0), _) if self.unmoved => Some(0),
            (Some(binding), Some(other)) => Some(binding.min(other)),
            (binding, other) => binding.or(other),
        };
        self.sure.max(doubtful).unwrap_or(0)
    }
}

/// Changes that edits make to the replay: times of nodes and slack of edges, by position.
#[derive(Clone)]
pub(super) struct Changes {
    /// Time added to the duration of each node, in ns.
    pub(super) time: Vec<i64>,
    /// Per position: true if its edges need the fields below.
    special: Vec<bool>,
    /// New slack of edges, by index in the plan.
    overrides: FxHashMap<u32, i64>,
    /// New slack of edges for the upper bound.
    at_best: FxHashMap<u32, i64>,
    /// Additional edges: position of the predecessor (none: a fixed time) and slack.
    pub(super) extra: FxHashMap<u32, Vec<(u32, i64)>>,
    /// Edges that are removed for the upper bound, by index in the plan.
    removed_at_best: FxHashSet<u32>,
    /// Largest share of the time of GPU work that edits remove. The same share of missing work may disappear.
    unrecorded: f64,
    /// Cost in ns if the edits have no effect.
    pub(super) at_worst: Option<i64>,
    /// First node position that an edit changes.
    first: u32,
    /// Number of changes.
    count: usize,
}

impl Changes {
    /// Create an empty set of changes for a replay plan.
    pub(super) fn none(plan: &Plan) -> Self {
        Self {
            time: vec![0; plan.len()],
            special: vec![false; plan.len()],
            overrides: FxHashMap::default(),
            at_best: FxHashMap::default(),
            extra: FxHashMap::default(),
            removed_at_best: FxHashSet::default(),
            unrecorded: 0.0,
            at_worst: None,
            first: plan.len() as u32,
            count: 0,
        }
    }

    /// Add time (negative: remove) to the duration of a replayed node.
    pub(super) fn add_time(&mut self, plan: &Plan, at: u32, ns: i64) {
        self.time[at as usize] += ns;
        self.first = self.first.min(at);
        self.count += usize::from(ns != 0);
        if let Some(&next) = plan.next_on_stream.get(&at) {
            self.special[next as usize] = true;
        }
    }

    /// Set the slack of an edge into a node; [`REMOVED_EDGE_SLACK`] removes the edge.
    pub(super) fn set_slack(&mut self, at: u32, index: usize, slack: i64) {
        self.overrides.insert(index as u32, slack);
        self.mark(at);
    }

    /// Set the slack of an edge into a node, only for the upper bound of the gain.
    pub(super) fn set_slack_at_best(&mut self, at: u32, index: usize, slack: i64) {
        self.at_best.insert(index as u32, slack);
        self.mark(at);
    }

    /// Slack in ns that an edit set for an edge; `None` for unchanged edges.
    pub(super) fn slack(&self, index: usize) -> Option<i64> {
        self.overrides.get(&(index as u32)).copied()
    }

    /// Remove an edge into a node, only for the upper bound of the gain.
    pub(super) fn remove_at_best(&mut self, at: u32, index: usize) {
        self.removed_at_best.insert(index as u32);
        self.mark(at);
    }

    /// Add a dependency edge with slack between two replayed nodes, if the first precedes the second.
    pub(super) fn add_edge(&mut self, at: u32, from: u32, slack: i64) {
        if from < at || from == NONE {
            self.extra.entry(at).or_default().push((from, slack));
            self.mark(at);
        }
    }

    /// Register that an edit removes a share of the time of GPU work; the largest share counts.
    pub(super) fn remove_gpu_share(&mut self, part: f64) {
        self.unrecorded = self.unrecorded.max(part.clamp(0.0, 1.0));
    }

    /// True if the edits change any node or edge.
    pub(super) fn any(&self) -> bool {
        (self.first as usize) < self.time.len()
    }

    /// Number of changes so far; added times of 0 do not count.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// First node position that an edit changes; none without changes.
    pub(super) fn first_position(&self) -> Option<u32> {
        self.any().then_some(self.first)
    }

    /// Make the replay begin at the first node instead of the first change.
    pub(super) fn replay_from_start(&mut self) {
        self.first = 0;
    }

    fn mark(&mut self, at: u32) {
        self.special[at as usize] = true;
        self.first = self.first.min(at);
        self.count += 1;
    }
}

/// Nodes by start if that is a topological order, otherwise in the order of the graph.
fn by_time(graph: &ActivityGraph) -> Vec<u32> {
    let rank = positions(&graph.order);
    let mut nodes = graph.order.clone();
    nodes.sort_unstable_by_key(|&n| (graph.start[n as usize], graph.end[n as usize], rank[n as usize]));
    let position = positions(&nodes);
    let is_order = nodes.iter().all(|&n| {
        let before = |from: u32| position[from as usize] < position[n as usize];
        graph.edges_into(n).iter().all(|e| before(e.from) || e.lag <= i64::MIN / 4)
    });
    if is_order { nodes } else { graph.order.clone() }
}

/// Invert an order: the position of each node in it.
fn positions(order: &[u32]) -> Vec<u32> {
    let mut position = vec![0; order.len()];
    for (at, &node) in order.iter().enumerate() {
        position[node as usize] = at as u32;
    }
    position
}

/// Longest overlap of two operations of a stream, in ns.
fn max_overlap(graph: &ActivityGraph) -> i64 {
    let overlaps = (0..graph.len() as u32).filter_map(|node| {
        let edge = graph.binding_edge(node).filter(|e| e.dependency == Dependency::Overlap)?;
        Some(graph.end[edge.from as usize] - graph.start[node as usize])
    });
    overlaps.filter(|&ns| ns <= LONG_OVERLAP_NS).max().unwrap_or(0)
}

/// Maximum overlap of programmatic dependent launch, in ns.
const LONG_OVERLAP_NS: i64 = 20_000;

#[cfg(test)]
mod tests;
