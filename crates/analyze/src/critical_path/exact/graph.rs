//! The dependency graph: activities, and what each one's start waited for.
//!
//! `start(n) = max over in-edges of (end(predecessor) + lag)`; with the lags of this graph that gives the observed times
//! back exactly. The edge that attains the maximum in the trace is the *binding* one: the release of the activity.

use super::wakeups::ThreadRule;
use crate::critical_path::gpu_order::{Evidence, ROUNDING_NS, Reason};
use stackline_model::{EventId, GpuId};

/// "No node", "no edge".
pub const NONE: u32 = u32::MAX;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// A thread at work.
    Host,
    /// A thread on its way back from a wait for the GPU that is over.
    SyncReturn,
    /// A thread on its way back from a wait for another thread that is over.
    Resume,
    /// A kernel, copy or fill.
    Gpu,
}

/// What an edge means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dependency {
    /// Order within a thread.
    Program,
    /// From a launch to its operation.
    Launch,
    /// From an operator to an operation whose launch call is not in the trace.
    LaunchByOperator,
    /// Order within a stream.
    Stream,
    /// Order within a stream, where work that is not recorded may have come between.
    StreamAmidLoss,
    /// The operation began before the one ahead of it ended (programmatic dependent launch, or clock noise).
    Overlap,
    /// Order within a stream, for an operation whose launch is not in the trace.
    Unlaunched,
    /// A wait between streams.
    Gpu(Reason),
    /// A wait of the host for the GPU.
    Sync(Reason),
    /// A wait of a thread for another one.
    Thread(ThreadRule, Evidence),
}

impl Dependency {
    /// How sure it is.
    pub fn evidence(self) -> Evidence {
        match self {
            Self::Program | Self::Launch | Self::Stream => Evidence::Exact,
            Self::LaunchByOperator | Self::StreamAmidLoss | Self::Overlap | Self::Unlaunched => Evidence::Inferred,
            Self::Gpu(reason) | Self::Sync(reason) => reason.evidence(),
            Self::Thread(_, evidence) => evidence,
        }
    }

    /// Whether it is the order of one stream, known or concluded.
    pub fn is_stream_order(self) -> bool {
        matches!(self, Self::Stream | Self::StreamAmidLoss | Self::Overlap | Self::Unlaunched)
    }

    /// Whether it is concluded for an operation whose launch is not in the trace.
    pub fn is_without_launch(self) -> bool {
        matches!(self, Self::Unlaunched | Self::Gpu(Reason::OtherStreamUnlaunched))
    }

    /// Name of the rule in tables and files.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Program => "program_order",
            Self::Launch => "launch",
            Self::LaunchByOperator => "launch_by_operator",
            Self::Stream => "stream_order",
            Self::StreamAmidLoss => "stream_order_amid_loss",
            Self::Overlap => "stream_overlap",
            Self::Unlaunched => "stream_order_without_launch",
            Self::Gpu(reason) | Self::Sync(reason) => reason.name(),
            Self::Thread(rule, _) => rule.name(),
        }
    }
}

/// An edge into a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InEdge {
    /// Node whose end releases.
    pub from: u32,
    /// What it means.
    pub dependency: Dependency,
    /// From that end to the start of the node, in ns; negative where clocks disagree or work overlaps.
    pub lag: i64,
}

/// An edge before its place and lag are known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NewEdge {
    pub(super) to: u32,
    pub(super) from: u32,
    pub(super) dependency: Dependency,
}

/// The graph. All columns of nodes have one length.
#[derive(Clone, Debug, Default)]
pub struct ActivityGraph {
    /// Start in ns since the trace's base.
    pub start: Vec<i64>,
    /// End in ns since the trace's base.
    pub end: Vec<i64>,
    /// What it is.
    pub kind: Vec<NodeKind>,
    /// For GPU work the row of the GPU table, else the lane of the thread.
    pub place: Vec<u32>,
    /// The call that a [`NodeKind::SyncReturn`] returns from; none elsewhere.
    pub call: Vec<EventId>,
    /// Per node its binding edge; [`NONE`] where nothing is known to come before.
    pub binding: Vec<u32>,
    /// Nodes in an order in which predecessors come first.
    pub order: Vec<u32>,
    /// Edges by node: see [`Self::edges_into`].
    pub edges: Vec<InEdge>,
    edge_offset: Vec<u32>,
    usual: Usual,
    /// Edges left out because they closed a cycle.
    pub broken_cycles: u64,
}

impl ActivityGraph {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// Adds a node.
    pub(super) fn push(&mut self, kind: NodeKind, place: u32, (start, end): (i64, i64), call: EventId) -> u32 {
        self.start.push(start);
        self.end.push(end);
        self.kind.push(kind);
        self.place.push(place);
        self.call.push(call);
        (self.start.len() - 1) as u32
    }

    /// Positions of the edges into a node.
    pub fn edge_range(&self, node: u32) -> std::ops::Range<usize> {
        let at = |i: usize| self.edge_offset.get(i).map_or(0, |&o| o as usize);
        at(node as usize)..at(node as usize + 1)
    }

    /// The edges into a node.
    pub fn edges_into(&self, node: u32) -> &[InEdge] {
        self.edges.get(self.edge_range(node)).unwrap_or(&[])
    }

    /// The binding edge of a node.
    pub fn release(&self, node: u32) -> Option<&InEdge> {
        self.edges.get(*self.binding.get(node as usize)? as usize)
    }

    /// Whether it is open if its launch or its stream held an operation back: `edge` is the one that did as far as ends tell, and the
    /// other one with its usual lag would have let it start no earlier, give or take what times in whole µs are off.
    pub(super) fn is_near_tie(&self, node: u32, edge: &InEdge) -> bool {
        let is_launch = |e: &InEdge| matches!(e.dependency, Dependency::Launch | Dependency::LaunchByOperator);
        let is_queue = |e: &InEdge| e.dependency.is_stream_order();
        let ready = |other: &InEdge| self.end[other.from as usize] + self.usual.lag_of(other.dependency);
        let is_late = |other: &InEdge| ready(other) + ROUNDING_NS >= self.start[node as usize];
        let competes = |other: &&InEdge| is_launch(edge) && is_queue(other) || is_queue(edge) && is_launch(other);
        self.kind[node as usize] == NodeKind::Gpu && self.edges_into(node).iter().filter(competes).any(is_late)
    }

    /// The operation of a node.
    pub fn gpu(&self, node: u32) -> Option<GpuId> {
        (self.kind[node as usize] == NodeKind::Gpu).then(|| GpuId(self.place[node as usize]))
    }

    /// Takes the edges, chooses the binding ones, sets the lags of the others, and sorts the nodes.
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

    /// The edge whose predecessor ended last; an end after the node's start counts as at its start.
    fn choose_binding(&self, node: u32) -> u32 {
        let start = self.start[node as usize];
        let key = |i: &usize| {
            let edge = &self.edges[*i];
            (self.end[edge.from as usize].min(start), preference(edge.dependency), std::cmp::Reverse(edge.from))
        };
        self.edge_range(node).max_by_key(key).map_or(NONE, |i| i as u32)
    }

    /// Binding edges get the observed lag; the others the usual lag of their kind, at most the observed one.
    fn set_lags(&mut self) {
        let mut usual = UsualLags::default();
        for node in 0..self.len() as u32 {
            if let Some(edge) = self.release(node) {
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

    /// Kahn's algorithm; where a cycle is left, the earliest node of it goes first, without the edges that wait.
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
                    // A node that went first out of a cycle waits for nothing any more.
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

    /// Makes edges from nodes that are not done mean nothing: they point to the node that is certainly before.
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

    /// The targets of each node's edges: offsets and one flat list.
    fn out_edges(&self) -> (Vec<u32>, Vec<u32>) {
        // Counted one place further on, so that filling the list moves each offset to where it belongs.
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

/// Which of two edges with equally late predecessors is named as the release.
fn preference(dependency: Dependency) -> u8 {
    match dependency {
        Dependency::Program => 0,
        Dependency::Overlap => 1,
        Dependency::Unlaunched => 2,
        Dependency::Stream | Dependency::StreamAmidLoss => 3,
        Dependency::Gpu(_) => 4,
        Dependency::LaunchByOperator => 5,
        Dependency::Launch => 6,
        Dependency::Thread(..) => 7,
        Dependency::Sync(_) => 8,
    }
}

/// Median lags of binding edges.
#[derive(Default)]
struct UsualLags {
    launch: Vec<i64>,
    queue: Vec<i64>,
}

/// The medians, in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    launch: i64,
    queue: i64,
}

impl UsualLags {
    fn add(&mut self, dependency: Dependency, lag: i64) {
        match dependency {
            _ if lag < 0 => {}
            Dependency::Launch => self.launch.push(lag),
            Dependency::Stream | Dependency::StreamAmidLoss | Dependency::Gpu(_) => self.queue.push(lag),
            _ => {}
        }
    }

    fn medians(self) -> Usual {
        let median = |mut lags: Vec<i64>| {
            let middle = lags.len() / 2;
            if lags.is_empty() { 0 } else { *lags.select_nth_unstable(middle).1 }
        };
        Usual { launch: median(self.launch), queue: median(self.queue) }
    }
}

impl Usual {
    fn lag_of(self, dependency: Dependency) -> i64 {
        match dependency {
            Dependency::Launch | Dependency::LaunchByOperator => self.launch,
            Dependency::Stream | Dependency::StreamAmidLoss | Dependency::Unlaunched | Dependency::Gpu(_) => self.queue,
            _ => 0,
        }
    }
}
