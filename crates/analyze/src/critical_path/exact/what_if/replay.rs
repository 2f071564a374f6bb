//! Forward replay: when would everything start if some durations and dependencies were others?
//!
//! Replay counts in shifts from the observed times: `shift(n) = max over in-edges of (shift of the end of its
//! predecessor - slack)`, where slack is by how much the predecessor could end later before the edge binds. Binding
//! edges have none. So without changes every shift is 0 and the observed times come back exactly.

use super::super::Exact;
use super::super::category::{LONG_GAP_NS, UNLAUNCHED_GAP_NS};
use super::super::graph::{ActivityGraph, Dependency, NONE};
use super::cancellation::Stop;
use super::capacity::{capacity, lone_queries};
use super::lags::{Class, Lags, class_of, lag_tables};
pub(super) use super::lags::{GONE, Mode};
use super::lock_contention::LockContention;
use super::missing_work_bounds::Losses;
use super::waits::Waits;
use crate::critical_path::gpu_order::Evidence;
use rustc_hash::{FxHashMap, FxHashSet};

/// An edge by position.
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
    /// Whether it is the order of a stream in a trace in which operations overlap.
    follows: bool,
    /// Position of the edge in the graph; none for capacity.
    pub(super) edge: u32,
}

impl PlanEdge {
    fn slack(&self, lags: &Lags) -> i64 {
        if self.is_binding { 0 } else { self.observed - self.observed.min(lags[self.class as usize]) }
    }
}

/// The graph's columns in an order in which predecessors come first.
pub(super) struct Plan {
    /// Position of each node.
    pub(super) position: Vec<u32>,
    /// Node at each position.
    pub(super) node: Vec<u32>,
    offset: Vec<u32>,
    edges: Vec<PlanEdge>,
    /// Per position whether what bound it is inferred.
    is_inferred: Vec<bool>,
    /// Per position whether it is an operation without launch that started long after all that is known to have held it
    /// back: maybe as soon as the program launched it.
    without_cause: Vec<bool>,
    /// Who takes turns at locks and full queues: after an edit there may be nothing to wait for.
    pub(super) turns: LockContention,
    /// The longest overlap of two operations of a stream, in ns; 0 if none do.
    most_overlap: i64,
    /// Per position whether it follows a wait for the GPU.
    is_sync: Vec<bool>,
    waits: Waits,
    losses: Losses,
    /// Observed start per position, in ns.
    start: Vec<i64>,
    /// Per mode.
    lags: [Lags; 3],
    /// In traces in which operations overlap the one ahead of them on their stream: positions of operations, with the
    /// next one of their stream.
    next_on_stream: FxHashMap<u32, u32>,
}

impl Plan {
    pub(super) fn new(exact: &Exact<'_>) -> Self {
        let mut others = capacity(exact);
        others.extend(lone_queries(exact));
        let mut plan = Self::of_graph(&exact.graph, Waits::new(exact), LockContention::new(exact), &others);
        plan.losses = Losses::new(exact, &plan.lags[Mode::Pessimistic as usize]);
        plan
    }

    /// `others`: per node one that may hold it back after an edit though it never did in the trace.
    pub(super) fn of_graph(
        graph: &ActivityGraph,
        waits: Waits,
        turns: LockContention,
        others: &FxHashMap<u32, u32>,
    ) -> Self {
        let node = by_time(graph);
        let position = positions(&node);
        let mut plan = Self {
            offset: Vec::with_capacity(node.len() + 1),
            edges: Vec::with_capacity(graph.edges.len()),
            is_inferred: Vec::with_capacity(node.len()),
            without_cause: Vec::with_capacity(node.len()),
            turns,
            most_overlap: most_overlap(graph),
            is_sync: Vec::with_capacity(node.len()),
            waits,
            losses: Losses::default(),
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

    fn add_node(&mut self, graph: &ActivityGraph, at: u32, capacity: &FxHashMap<u32, u32>) {
        let node = self.node[at as usize];
        let start = graph.start[node as usize];
        let binding = graph.binding[node as usize];
        let (mut inferred, mut is_sync, mut without_cause) = (false, false, false);
        for i in graph.edge_range(node) {
            let edge = &graph.edges[i];
            let from = self.position[edge.from as usize];
            // Edges that closed a cycle were dropped by the graph; they would point backwards here.
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
            let follows = self.most_overlap > 0
                && matches!(edge.dependency, Dependency::Overlap | Dependency::Stream | Dependency::StreamAmidLoss);
            if follows {
                self.next_on_stream.insert(from, at);
            }
            let (is_sync, edge) = (matches!(edge.dependency, Dependency::Sync(_)), i as u32);
            self.edges.push(PlanEdge { observed, from, class, is_binding, is_inferred, is_sync, follows, edge });
        }
        // Room on the device alone releases nothing.
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

    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.node.len()
    }

    /// Positions among [`Self::edge`] of the edges into a node.
    pub(super) fn range(&self, at: u32) -> std::ops::Range<usize> {
        self.offset[at as usize] as usize..self.offset[at as usize + 1] as usize
    }

    /// An edge.
    pub(super) fn edge(&self, index: usize) -> &PlanEdge {
        &self.edges[index]
    }

    /// How much later an operation's edge of this usual lag binds, in ns.
    pub(super) fn usual_slack(&self, index: usize) -> i64 {
        self.edges[index].slack(&self.lags[Mode::Usual as usize])
    }

    /// Whether changes are none, for work without record, too.
    pub(super) fn is_as_before(&self, changes: &Changes) -> bool {
        changes.count == 0 && changes.at_worst.is_none() && (changes.unrecorded == 0.0 || self.losses.is_empty())
    }

    /// Shift of the end of every node before `until`, by position, in ns. Asked to stop, it leaves the rest at 0.
    pub(super) fn replay(&self, changes: &Changes, mode: Mode, (until, stop): (u32, Stop<'_>), shifts: &mut Vec<i64>) {
        let lags = &self.lags[mode as usize];
        let first = changes.first.min(until);
        shifts.clear();
        shifts.resize(first as usize, 0);
        for at in first..until {
            if stop.is_asked_at(at as usize) {
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
            shifts.push(self.with_losses(changes, mode, at, shift + changes.time[at as usize]));
        }
    }

    /// The shift of a node's end, taking in what may be hidden in it that has no record.
    fn with_losses(&self, changes: &Changes, mode: Mode, at: u32, shift: i64) -> i64 {
        if self.losses.is_empty() {
            return shift;
        }
        let (node, time) = (self.node[at as usize], changes.time[at as usize]);
        match mode {
            Mode::Usual => shift,
            Mode::Pessimistic => self.losses.at_worst(node, shift, time),
            Mode::Optimistic if changes.unrecorded == 0.0 => shift,
            Mode::Optimistic => self.losses.at_best(node, shift, time, changes.unrecorded),
        }
    }

    /// Shift of the start of a node by the usual lags, given the shifts of those before it.
    pub(super) fn start_shift(&self, changes: &Changes, at: u32, shifts: &[i64]) -> i64 {
        if self.is_sync[at as usize] {
            return self.special_shift(changes, Mode::Usual, at, shifts).0;
        }
        shifts[at as usize] - changes.time[at as usize]
    }

    /// Shift of the start of a node whose edges are not all as observed, and by how much its way back from a wait changes.
    fn special_shift(&self, changes: &Changes, mode: Mode, at: u32, shifts: &[i64]) -> (i64, i64) {
        let inferred = self.is_inferred[at as usize];
        let gone = |i: usize| changes.gone_at_best.contains(&(i as u32));
        // There may be nothing to wait for any more.
        let may_go = self.turns.is_turn[self.node[at as usize] as usize]
            || (mode == Mode::Optimistic && !changes.gone_at_best.is_empty() && self.range(at).any(gone));
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
                    let asked = if may_go { term } else { observed };
                    terms.other = terms.other.max(Some(asked));
                    if !edge.is_inferred {
                        terms.sure = terms.sure.max(Some(term));
                    }
                }
                // What took longer than lags do, something else held back.
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

    /// What an edge asks for, and what it would ask for with the observed lag. `None` if it is gone.
    pub(super) fn term(
        &self,
        changes: &Changes,
        mode: Mode,
        (at, index): (u32, usize),
        shifts: &[i64],
    ) -> Option<(i64, i64)> {
        let edge = &self.edges[index];
        if mode == Mode::Optimistic && changes.gone_at_best.contains(&(index as u32)) {
            return None;
        }
        let at_best = changes.at_best.get(&(index as u32)).filter(|_| mode == Mode::Optimistic);
        let changed = at_best.or_else(|| changes.overrides.get(&(index as u32))).copied();
        let slack = changed.unwrap_or_else(|| edge.slack(&self.lags[mode as usize]));
        if slack >= GONE / 2 {
            return None;
        }
        let shift = shifts[edge.from as usize];
        let mut term = shift - slack;
        let change = changes.time[edge.from as usize];
        if edge.class == Class::Overlap {
            // It may not begin before the one that it overlaps.
            term = term.max(shift - change - (self.start[at as usize] - self.start[edge.from as usize]));
        }
        if change != 0 && edge.follows {
            // Whether operations overlap may differ where one of them does.
            term = match mode {
                Mode::Optimistic => term.min(shift - slack - edge.observed - self.most_overlap),
                Mode::Usual => term,
                Mode::Pessimistic => term.max(shift - edge.observed + self.lags[mode as usize][Class::Queue as usize]),
            };
        }
        Some((term, if changed.is_some() { term } else { shift }))
    }
}

/// What the edges into a node ask for.
#[derive(Default)]
struct Terms {
    sure: Option<i64>,
    binding: Option<i64>,
    other: Option<i64>,
    /// Whether no predecessor moved.
    unmoved: bool,
}

impl Terms {
    fn shift(&self) -> i64 {
        // Where nothing moved, nothing is in doubt.
        let doubtful = match (self.binding, self.other) {
            (Some(0), _) if self.unmoved => Some(0),
            (Some(binding), Some(other)) => Some(binding.min(other)),
            (binding, other) => binding.or(other),
        };
        self.sure.max(doubtful).unwrap_or(0)
    }
}

/// What an edit changes, by position.
#[derive(Clone)]
pub(super) struct Changes {
    /// Time added to each node's duration, in ns.
    pub(super) time: Vec<i64>,
    /// Whether its edges need a look at what follows.
    special: Vec<bool>,
    /// New slack of edges, by index in the plan.
    overrides: FxHashMap<u32, i64>,
    /// The same where things are taken in favour of the edits.
    at_best: FxHashMap<u32, i64>,
    /// Edges on top: position (none: nothing, a moment) and slack.
    pub(super) extra: FxHashMap<u32, Vec<(u32, i64)>>,
    /// Edges, by index in the plan, that the optimist takes away.
    gone_at_best: FxHashSet<u32>,
    /// The largest part of the time of GPU work that edits take: as much may go of work that has no record.
    unrecorded: f64,
    /// If the edits may come to nothing: what they cost then, in ns.
    pub(super) at_worst: Option<i64>,
    /// First position at which anything changes.
    first: u32,
    /// How many changes were made.
    count: usize,
}

impl Changes {
    pub(super) fn none(plan: &Plan) -> Self {
        Self {
            time: vec![0; plan.len()],
            special: vec![false; plan.len()],
            overrides: FxHashMap::default(),
            at_best: FxHashMap::default(),
            extra: FxHashMap::default(),
            gone_at_best: FxHashSet::default(),
            unrecorded: 0.0,
            at_worst: None,
            first: plan.len() as u32,
            count: 0,
        }
    }

    /// Adds time to a node.
    pub(super) fn add_time(&mut self, plan: &Plan, at: u32, ns: i64) {
        self.time[at as usize] += ns;
        self.first = self.first.min(at);
        self.count += usize::from(ns != 0);
        if let Some(&next) = plan.next_on_stream.get(&at) {
            self.special[next as usize] = true;
        }
    }

    /// Sets the slack of an edge into a node; [`GONE`] takes it away.
    pub(super) fn set_slack(&mut self, at: u32, index: usize, slack: i64) {
        self.overrides.insert(index as u32, slack);
        self.mark(at);
    }

    /// Sets the slack of an edge into a node where things are taken in favour of the edits.
    pub(super) fn set_slack_at_best(&mut self, at: u32, index: usize, slack: i64) {
        self.at_best.insert(index as u32, slack);
        self.mark(at);
    }

    /// The slack that was set of an edge, in ns.
    pub(super) fn slack(&self, index: usize) -> Option<i64> {
        self.overrides.get(&(index as u32)).copied()
    }

    /// Takes an edge into a node away where things are taken in favour of the edits.
    pub(super) fn doubt(&mut self, at: u32, index: usize) {
        self.gone_at_best.insert(index as u32);
        self.mark(at);
    }

    /// Adds an edge.
    pub(super) fn add_edge(&mut self, at: u32, from: u32, slack: i64) {
        if from < at || from == NONE {
            self.extra.entry(at).or_default().push((from, slack));
            self.mark(at);
        }
    }

    /// So large a part of the time of GPU work goes.
    pub(super) fn take_gpu_time(&mut self, part: f64) {
        self.unrecorded = self.unrecorded.max(part.clamp(0.0, 1.0));
    }

    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        (self.first as usize) < self.time.len()
    }

    /// How many changes were made so far; those of no time are none.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The first position at which anything changes.
    pub(super) fn first_position(&self) -> Option<u32> {
        self.any().then_some(self.first)
    }

    /// Makes the replay look at everything.
    pub(super) fn replay_from_start(&mut self) {
        self.first = 0;
    }

    fn mark(&mut self, at: u32) {
        self.special[at as usize] = true;
        self.first = self.first.min(at);
        self.count += 1;
    }
}

/// Nodes by start, where that is an order; else in that of the graph.
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

fn positions(order: &[u32]) -> Vec<u32> {
    let mut position = vec![0; order.len()];
    for (at, &node) in order.iter().enumerate() {
        position[node as usize] = at as u32;
    }
    position
}

/// The longest overlap of two operations of a stream, in ns.
fn most_overlap(graph: &ActivityGraph) -> i64 {
    let overlaps = (0..graph.len() as u32).filter_map(|node| {
        let edge = graph.release(node).filter(|e| e.dependency == Dependency::Overlap)?;
        Some(graph.end[edge.from as usize] - graph.start[node as usize])
    });
    overlaps.filter(|&ns| ns <= LONG_OVERLAP_NS).max().unwrap_or(0)
}

/// A longer overlap is no programmatic dependent launch, in ns.
const LONG_OVERLAP_NS: i64 = 20_000;

#[cfg(test)]
mod tests;
