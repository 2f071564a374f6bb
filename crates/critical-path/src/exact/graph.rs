//! Dependency graph: activities and the prerequisites of their starts.
//!
//! `start(n) = max over in-edges of (end(predecessor) + lag)`. The lags of this graph reproduce the observed times
//! exactly. The edge with the maximum in the trace is the *binding* one: the release of the activity.

use super::wakeups::ThreadRule;
use crate::gpu_dependency::{Evidence, ROUNDING_NS, Reason};
use stackline_model::{EventId, GpuOpId};

/// Number for "no node" and "no edge".
pub const NONE: u32 = u32::MAX;

/// Kind of a node of the dependency graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// Activity of a thread.
    Host,
    /// Return of a thread from a finished wait for the GPU.
    SyncReturn,
    /// Return of a thread from a finished wait for another thread.
    Resume,
    /// Kernel, copy or fill.
    Gpu,
}

/// Kind of an edge of the dependency graph: the rule by which one activity depends on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dependency {
    /// Order within a thread.
    Program,
    /// Launch of an operation.
    Launch,
    /// Launch of an operation by an operator, without a launch call in the trace.
    LaunchByOperator,
    /// Order within a stream.
    Stream,
    /// Order within a stream with possibly missing work in between.
    StreamNearMissing,
    /// Order within a stream if the operation began before the end of the previous one (programmatic dependent launch,
    /// or clock noise).
    Overlap,
    /// Order within a stream for an operation without launch in the trace.
    Unlaunched,
    /// Wait between streams.
    Gpu(Reason),
    /// Wait of the host for the GPU.
    Sync(Reason),
    /// Wait of a thread for another one.
    Thread(ThreadRule, Evidence),
}

impl Dependency {
    /// Evidence of the dependency: exact or inferred.
    pub fn evidence(self) -> Evidence {
        match self {
            Self::Program | Self::Launch | Self::Stream => Evidence::Exact,
            Self::LaunchByOperator | Self::StreamNearMissing | Self::Overlap | Self::Unlaunched => Evidence::Inferred,
            Self::Gpu(reason) | Self::Sync(reason) => reason.evidence(),
            Self::Thread(_, evidence) => evidence,
        }
    }

    /// True if the dependency is the order of operations within one stream, recorded or inferred.
    pub(crate) fn is_stream_order(self) -> bool {
        matches!(self, Self::Stream | Self::StreamNearMissing | Self::Overlap | Self::Unlaunched)
    }

    /// True for inferred dependencies of operations without launch in the trace.
    pub(crate) fn is_without_launch(self) -> bool {
        matches!(self, Self::Unlaunched | Self::Gpu(Reason::OtherStreamUnlaunched))
    }

    /// Name of the dependency's rule in tables and files.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Program => "program_order",
            Self::Launch => "launch",
            Self::LaunchByOperator => "launch_by_operator",
            Self::Stream => "stream_order",
            Self::StreamNearMissing => "stream_order_amid_loss",
            Self::Overlap => "stream_overlap",
            Self::Unlaunched => "stream_order_without_launch",
            Self::Gpu(reason) | Self::Sync(reason) => reason.name(),
            Self::Thread(rule, _) => rule.name(),
        }
    }
}

/// Edge into a graph node: the dependency of its start on the end of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InEdge {
    /// Node whose end releases the target.
    pub from: u32,
    /// Kind of the edge.
    pub dependency: Dependency,
    /// Time from the end of `from` to the start of the node in ns; negative if clocks disagree or work overlaps.
    pub lag: i64,
}

/// Edge of the dependency graph before its position and lag are known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NewEdge {
    pub(super) to: u32,
    pub(super) from: u32,
    pub(super) dependency: Dependency,
}

/// Dependency graph of the activities in a trace. All columns of nodes have equal length.
#[derive(Clone, Debug, Default)]
pub struct ActivityGraph {
    /// Start in ns since the trace's base.
    pub start: Vec<i64>,
    /// End in ns since the trace's base.
    pub end: Vec<i64>,
    /// Kind of the node.
    pub kind: Vec<NodeKind>,
    /// Row of the GPU table for GPU work, otherwise the lane of the thread.
    pub place: Vec<u32>,
    /// Call of a [`NodeKind::SyncReturn`] node; none for other nodes.
    pub call: Vec<EventId>,
    /// Binding edge per node; [`NONE`] without known prerequisite.
    pub binding: Vec<u32>,
    /// Nodes in topological order.
    pub order: Vec<u32>,
    /// Edges by node: see `ActivityGraph::edges_into`.
    pub edges: Vec<InEdge>,
    edge_offset: Vec<u32>,
    usual: MedianLags,
    /// Number of edges that were removed because they closed a cycle.
    pub broken_cycles: u64,
}

impl ActivityGraph {
    /// Number of nodes in the dependency graph.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// True if the dependency graph has no nodes.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// Add an activity to the dependency graph and return its node number. `place` is the GPU row or the lane.
    pub(super) fn push(&mut self, kind: NodeKind, place: u32, (start, end): (i64, i64), call: EventId) -> u32 {
        self.start.push(start);
        self.end.push(end);
        self.kind.push(kind);
        self.place.push(place);
        self.call.push(call);
        (self.start.len() - 1) as u32
    }

    /// Positions of the edges into a graph node in the list of edges.
    pub(crate) fn edge_range(&self, node: u32) -> std::ops::Range<usize> {
        let at = |i: usize| self.edge_offset.get(i).map_or(0, |&o| o as usize);
        at(node as usize)..at(node as usize + 1)
    }

    /// Dependency edges into a graph node.
    pub(crate) fn edges_into(&self, node: u32) -> &[InEdge] {
        self.edges.get(self.edge_range(node)).unwrap_or(&[])
    }

    /// Binding edge of a graph node: the dependency that determined its start; `None` without known prerequisite.
    pub fn binding_edge(&self, node: u32) -> Option<&InEdge> {
        self.edges.get(*self.binding.get(node as usize)? as usize)
    }

    /// True if the launch and the stream of a GPU operation could both have determined its start, within the rounding
    /// error.
    ///
    /// `edge` is the one that binds by its end. With the usual lag, the other one would allow a start no earlier,
    /// within the rounding error of whole µs.
    pub(super) fn is_near_tie(&self, node: u32, edge: &InEdge) -> bool {
        let is_launch = |e: &InEdge| matches!(e.dependency, Dependency::Launch | Dependency::LaunchByOperator);
        let is_queue = |e: &InEdge| e.dependency.is_stream_order();
        let ready = |other: &InEdge| self.end[other.from as usize] + self.usual.lag_of(other.dependency);
        let is_late = |other: &InEdge| ready(other) + ROUNDING_NS >= self.start[node as usize];
        let competes = |other: &&InEdge| is_launch(edge) && is_queue(other) || is_queue(edge) && is_launch(other);
        self.kind[node as usize] == NodeKind::Gpu && self.edges_into(node).iter().filter(competes).any(is_late)
    }

    /// GPU operation of a graph node; none for host nodes.
    pub fn gpu(&self, node: u32) -> Option<GpuOpId> {
        (self.kind[node as usize] == NodeKind::Gpu).then(|| GpuOpId(self.place[node as usize]))
    }

    /// Add the edges to the graph: choose the binding ones, compute the lags, and sort the nodes.
    pub(super) fn connect(&mut self, mut edges: Vec<NewEdge>) {
        edges.sort_unstable();
        let mut offset = vec![0u32; self.len() + 1];
        for edge in &edges {
            offset[edge.to as usize + 1] += 1;
        }
        for i in 0..self.len() {
            offset[i + 1] += offset[i];
        }
        self.edge_offset = offset;
        self.edges = edges.iter().map(|e| InEdge { from: e.from, dependency: e.dependency, lag: 0 }).collect();
        drop(edges);
        self.binding = (0..self.len() as u32).map(|node| self.choose_binding(node)).collect();
        self.set_lags();
        self.sort();
    }

    /// Choose the binding edge of a node, as a position in the list of edges: the one whose predecessor ended last.
    /// Ends after the node's start count as at its start.
    fn choose_binding(&self, node: u32) -> u32 {
        let start = self.start[node as usize];
        let key = |i: &usize| {
            let edge = &self.edges[*i];
            (self.end[edge.from as usize].min(start), binding_priority(edge.dependency), std::cmp::Reverse(edge.from))
        };
        self.edge_range(node).max_by_key(key).map_or(NONE, |i| i as u32)
    }

    /// Set the lags of all edges in ns: the observed lag for binding edges, otherwise the usual lag of the kind (0 for
    /// host nodes), at most the observed one.
    fn set_lags(&mut self) {
        let mut usual = UsualLags::default();
        for node in 0..self.len() as u32 {
            if let Some(edge) = self.binding_edge(node) {
                usual.add(edge.dependency, self.start[node as usize] - self.end[edge.from as usize]);
            }
        }
        let usual = usual.medians();
        self.usual = usual;
        for node in 0..self.len() {
            let binding = self.binding[node] as usize;
            for i in self.edge_range(node as u32) {
                let edge = &mut self.edges[i];
                let observed = self.start[node] - self.end[edge.from as usize];
                let is_gap = self.kind[node] == NodeKind::Gpu;
                edge.lag = match () {
                    () if i == binding => observed,
                    () if is_gap => observed.min(usual.lag_of(edge.dependency)),
                    () => observed.min(0),
                };
            }
        }
    }

    /// Sort nodes topologically with Kahn's algorithm. In a remaining cycle, the earliest node goes first, without its
    /// waiting edges.
    fn sort(&mut self) {
        let mut waits: Vec<u32> = (0..self.len() as u32).map(|n| self.edge_range(n).len() as u32).collect();
        let (offset, targets) = self.out_edges();
        let mut order: Vec<u32> = (0..self.len() as u32).filter(|&n| waits[n as usize] == 0).collect();
        let mut done = vec![false; self.len()];
        let mut next = 0;
        let mut blocked: Option<Vec<u32>> = None;
        loop {
            while let Some(&node) = order.get(next) {
                next += 1;
                done[node as usize] = true;
                for &to in &targets[offset[node as usize] as usize..offset[node as usize + 1] as usize] {
                    // A node that was taken first from a cycle no longer waits.
                    if done[to as usize] {
                        continue;
                    }
                    waits[to as usize] -= 1;
                    if waits[to as usize] == 0 {
                        order.push(to);
                    }
                }
            }
            if order.len() == self.len() {
                break;
            }
            let queue = blocked.get_or_insert_with(|| {
                let mut left: Vec<u32> = (0..self.len() as u32).filter(|&n| !done[n as usize]).collect();
                left.sort_by_key(|&n| std::cmp::Reverse((self.start[n as usize], self.end[n as usize], n)));
                left
            });
            while queue.last().is_some_and(|&n| done[n as usize]) {
                queue.pop();
            }
            let Some(first) = queue.pop() else { break };
            self.broken_cycles += self.drop_edges(first, &done);
            waits[first as usize] = 0;
            done[first as usize] = true;
            order.push(first);
        }
        self.order = order;
    }

    /// Disable the edges into a node from nodes that are not yet `done`, with a lag of minus infinity. Choose a new
    /// binding edge, and return the number of disabled edges.
    fn drop_edges(&mut self, node: u32, done: &[bool]) -> u64 {
        let mut dropped = 0;
        for i in self.edge_range(node) {
            if !done[self.edges[i].from as usize] {
                self.edges[i].lag = i64::MIN / 4;
                dropped += 1;
            }
        }
        let kept = |i: &usize| self.edges[*i].lag > i64::MIN / 4;
        let start = self.start[node as usize];
        let best = self.edge_range(node).filter(kept).max_by_key(|&i| self.end[self.edges[i].from as usize].min(start));
        self.binding[node as usize] = best.map_or(NONE, |i| i as u32);
        if let Some(i) = best {
            self.edges[i].lag = start - self.end[self.edges[i].from as usize];
        }
        dropped
    }

    /// Target nodes of the edges that leave each node: offsets per node, and one flat list.
    fn out_edges(&self) -> (Vec<u32>, Vec<u32>) {
        // Counts are shifted by one place, so that filling the list moves each offset to its final position.
        let mut offset = vec![0u32; self.len() + 2];
        for edge in &self.edges {
            offset[edge.from as usize + 2] += 1;
        }
        for i in 1..=self.len() {
            offset[i + 1] += offset[i];
        }
        let mut targets = vec![0u32; self.edges.len()];
        for node in 0..self.len() as u32 {
            for edge in self.edges_into(node) {
                let slot = &mut offset[edge.from as usize + 1];
                targets[*slot as usize] = node;
                *slot += 1;
            }
        }
        offset.pop();
        (offset, targets)
    }
}

/// Priority of a dependency among edges whose predecessors end at the same time. The edge with the largest priority
/// becomes the binding edge.
fn binding_priority(dependency: Dependency) -> u8 {
    match dependency {
        Dependency::Program => 0,
        Dependency::Overlap => 1,
        Dependency::Unlaunched => 2,
        Dependency::Stream | Dependency::StreamNearMissing => 3,
        Dependency::Gpu(_) => 4,
        Dependency::LaunchByOperator => 5,
        Dependency::Launch => 6,
        Dependency::Thread(..) => 7,
        Dependency::Sync(_) => 8,
    }
}

/// Observed lags of binding edges into GPU operations in ns, by kind (launch or queue).
#[derive(Default)]
struct UsualLags {
    launch: Vec<i64>,
    queue: Vec<i64>,
}

/// Median lags of binding edges into GPU operations in ns, by kind (launch or queue).
#[derive(Clone, Copy, Debug, Default)]
struct MedianLags {
    launch: i64,
    queue: i64,
}

impl UsualLags {
    /// Add the lag of a binding edge, if it is not negative and the edge is a launch, stream order or wait between
    /// streams.
    fn add(&mut self, dependency: Dependency, lag: i64) {
        match dependency {
            _ if lag < 0 => {}
            Dependency::Launch => self.launch.push(lag),
            Dependency::Stream | Dependency::StreamNearMissing | Dependency::Gpu(_) => self.queue.push(lag),
            _ => {}
        }
    }

    /// Median of the launch lags and of the queue lags in ns; 0 without lags.
    fn medians(self) -> MedianLags {
        let median = |mut lags: Vec<i64>| {
            let middle = lags.len() / 2;
            if lags.is_empty() { 0 } else { *lags.select_nth_unstable(middle).1 }
        };
        MedianLags { launch: median(self.launch), queue: median(self.queue) }
    }
}

impl MedianLags {
    /// Median lag in ns for a kind of dependency; 0 for dependencies of host nodes.
    fn lag_of(self, dependency: Dependency) -> i64 {
        match dependency {
            Dependency::Launch | Dependency::LaunchByOperator => self.launch,
            Dependency::Stream | Dependency::StreamNearMissing | Dependency::Unlaunched | Dependency::Gpu(_) => {
                self.queue
            }
            _ => 0,
        }
    }
}
