//! Construction of the dependency graph from a trace.

use super::graph::{ActivityGraph, Dependency, NONE, NewEdge, NodeKind};
use super::other_streams::OtherStreams;
use super::thread_timelines::ThreadTimeline;
use super::wakeups::{Handover, HandoversAndGaps};
use crate::gpu_dependency::{CLOCK_TOLERANCE_NS, Reason, SyncCall};
use crate::gpu_order::GpuOrder;
use crate::streams::{end as gpu_end, start as gpu_start};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{EventId, GpuOpId, Trace, TrackId};

/// Counts of recorded times that contradict each other, such as kernels that start before their launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Corrections {
    /// Operations that start before their launch call.
    pub(super) early_kernels: u64,
    /// Dependencies on work that ended after the start of the waiting work; rejected beyond the tolerance of the
    /// clocks.
    pub(super) contradictions: u64,
}

/// Time on a thread (lane) at which the thread releases other work, such as the end of a launch call.
#[derive(Clone, Copy)]
struct ReleasePoint {
    lane: usize,
    at: i64,
}

/// Time range in which a thread waits, with the awaited work.
struct Wait {
    from: i64,
    /// Known end of the wait.
    until: i64,
    /// Start of the thread's next own work.
    to: i64,
    kind: NodeKind,
    call: EventId,
    /// Awaited work.
    on: Vec<(Releaser, Dependency)>,
}

/// Work whose end releases other work: a GPU operation, or a release point of a thread by its position.
#[derive(Clone, Copy)]
enum Releaser {
    By(GpuOpId),
    At(usize),
}

/// Nodes of the dependency graph, and the edges between them, as they are built from a trace.
pub(super) struct BuiltGraph {
    pub(super) graph: ActivityGraph,
    pub(super) edges: Vec<NewEdge>,
    /// First node and end of the nodes per lane.
    pub(super) lane_nodes: Vec<(u32, u32)>,
    pub(super) corrections: Corrections,
}

/// Builder of the dependency graph: its nodes, edges and release points so far.
pub(super) struct Builder<'a> {
    trace: &'a Trace,
    order: &'a GpuOrder,
    lanes: &'a [ThreadTimeline],
    lane_of: FxHashMap<TrackId, usize>,
    graph: ActivityGraph,
    edges: Vec<NewEdge>,
    sources: Vec<ReleasePoint>,
    /// Node that ends at each source.
    source_node: Vec<u32>,
    /// Node of each operation, and the source that launches it.
    gpu_node: Vec<u32>,
    launch_source: Vec<u32>,
    lane_nodes: Vec<(u32, u32)>,
    corrections: Corrections,
}

impl<'a> Builder<'a> {
    /// Build the nodes and edges of the graph.
    pub(super) fn build(
        trace: &'a Trace,
        order: &'a GpuOrder,
        lanes: &'a [ThreadTimeline],
        threads: &HandoversAndGaps,
    ) -> BuiltGraph {
        let mut builder = Self {
            trace,
            order,
            lanes,
            lane_of: lanes.iter().enumerate().map(|(i, l)| (l.track, i)).collect(),
            graph: ActivityGraph::default(),
            edges: Vec::new(),
            sources: Vec::new(),
            source_node: Vec::new(),
            gpu_node: vec![NONE; trace.gpu.len()],
            launch_source: vec![NONE; trace.gpu.len()],
            lane_nodes: Vec::new(),
            corrections: Corrections::default(),
        };
        builder.add_operations();
        builder.add_launches();
        let waits = builder.collect_waits(threads);
        builder.cut_at_doubtful_calls();
        builder.add_lanes(waits);
        builder.connect_operations();
        let others = OtherStreams::new(trace, order).dependencies(&builder.graph, &builder.edges, &builder.gpu_node);
        builder.edges.extend(others);
        let Self { graph, edges, lane_nodes, corrections, .. } = builder;
        BuiltGraph { graph, edges, lane_nodes, corrections }
    }

    /// Add a graph node for each GPU operation with usable times.
    fn add_operations(&mut self) {
        let mut usable: Vec<GpuOpId> =
            self.trace.gpu.ids().filter(|g| self.order.stream[g.index()] != u32::MAX).collect();
        usable.sort_unstable_by_key(|g| self.order.rank[g.index()]);
        for gpu in usable {
            let span = (gpu_start(self.trace, gpu), gpu_end(self.trace, gpu));
            self.gpu_node[gpu.index()] = self.graph.push(NodeKind::Gpu, gpu.0, span, EventId::NONE);
        }
    }

    /// Add the points on threads that release operations: the return of the launch call, or the operation's start if
    /// that is earlier.
    fn add_launches(&mut self) {
        let blocking: FxHashSet<EventId> =
            self.order.syncs.iter().filter(|s| s.reason == Reason::BlockingCopy).map(|s| s.call).collect();
        for gpu in self.trace.gpu.ids() {
            if self.gpu_node[gpu.index()] == NONE {
                continue;
            }
            let is_launched = self.trace.gpu.launch[gpu.index()].is_some();
            let call = self.trace.gpu.launcher(gpu);
            let Some(call) = call.filter(|&c| self.trace.events.is_plausible(c)) else { continue };
            let Some(&lane) = self.lane_of.get(&self.trace.events.track[call.index()]) else { continue };
            let (from, to) = (self.trace.events.start[call.index()], self.trace.events.end(call));
            let began = gpu_start(self.trace, gpu);
            let is_delayed =
                blocking.contains(&call) && self.latest_prerequisite_end(gpu).is_some_and(|ended| ended > from);
            let at = if is_delayed { from } else { to.min(began).max(from) };
            let at = if is_launched { at } else { self.call_start_or(lane, at) };
            self.corrections.early_kernels += u64::from(began < from);
            self.launch_source[gpu.index()] = self.source(lane, at) as u32;
        }
    }

    /// Latest end, in ns, of the GPU work that an operation waits for; `None` if it waits for no GPU work.
    fn latest_prerequisite_end(&self, gpu: GpuOpId) -> Option<i64> {
        let latest = gpu_start(self.trace, gpu) + CLOCK_TOLERANCE_NS;
        let waits = self.order.deps(gpu).iter().map(|dep| gpu_end(self.trace, dep.on)).filter(|&ended| ended <= latest);
        waits.chain(self.order.previous[gpu.index()].some().map(|g| gpu_end(self.trace, g))).max()
    }

    /// Start of the API call on a thread that runs right before the time `at`; `at` itself outside of calls.
    fn call_start_or(&self, lane: usize, at: i64) -> i64 {
        let piece = self.lanes[lane].piece_before(at).map(|p| self.lanes[lane].pieces[p]);
        let call = piece.filter(|p| p.event.is_some() && self.trace.kind(p.event).is_api_call());
        call.map_or(at, |p| p.start)
    }

    /// Add a release point of a thread and return its position in the list of release points.
    fn source(&mut self, lane: usize, at: i64) -> usize {
        self.sources.push(ReleasePoint { lane, at });
        self.sources.len() - 1
    }

    /// Collect the waits of each thread (lane) in time order, and add the release points that end them.
    fn collect_waits(&mut self, threads: &HandoversAndGaps) -> Vec<Vec<Wait>> {
        let mut waits: Vec<Vec<Wait>> = self.lanes.iter().map(|_| Vec::new()).collect();
        let order = self.order;
        for sync in &order.syncs {
            if let Some(&lane) = self.lane_of.get(&self.trace.events.track[sync.call.index()]) {
                waits[lane].extend(self.sync_wait(sync));
            }
        }
        for handover in &threads.handovers {
            let wait = self.handover_wait(handover);
            waits[handover.target].push(wait);
        }
        for list in &mut waits {
            list.sort_by_key(|w| (w.from, w.until, w.to));
        }
        waits
    }

    /// Let graph nodes end at the return of calls with a possible wait for unrecorded work, so that an edit can apply
    /// there.
    fn cut_at_doubtful_calls(&mut self) {
        for &call in &self.order.near_missing_records {
            if let Some(&lane) = self.lane_of.get(&self.trace.events.track[call.index()]) {
                self.source(lane, self.trace.events.end(call));
            }
        }
    }

    /// Wait of a host call for GPU operations, from the start of the wait to the return of the call; `None` without
    /// operations.
    fn sync_wait(&self, sync: &SyncCall) -> Option<Wait> {
        let to = self.trace.events.end(sync.call);
        let released = sync.on.iter().map(|&g| gpu_end(self.trace, g)).max()?;
        let mut from = sync.from;
        if sync.reason == Reason::BlockingCopy
            && let Some(source) = self.sources.get(self.launch_source[sync.on[0].index()] as usize)
        {
            from = from.max(source.at);
        }
        let until = released.clamp(from, to);
        let on = sync.on.iter().map(|&g| (Releaser::By(g), Dependency::Sync(sync.reason))).collect();
        Some(Wait { from, until, to, kind: NodeKind::SyncReturn, call: sync.call, on })
    }

    /// Wait of a thread that another thread released. Also adds the release point of that other thread.
    fn handover_wait(&mut self, handover: &Handover) -> Wait {
        let source = self.source(handover.source.0, handover.source.1);
        let dependency = Dependency::Thread(handover.rule, handover.evidence);
        // A worker that starts has no return from a wait: its time is the lag of the edge. A wait in a span has a
        // return.
        let starts = handover.from == handover.to || self.is_gap(handover);
        let until = if starts { handover.to } else { handover.source.1.clamp(handover.from, handover.to) };
        let on = vec![(Releaser::At(source), dependency)];
        Wait { from: handover.from, until, to: handover.to, kind: NodeKind::Resume, call: EventId::NONE, on }
    }

    /// True if the waiting thread of a handover was outside of all spans at the start of the wait.
    fn is_gap(&self, handover: &Handover) -> bool {
        let lane = &self.lanes[handover.target];
        lane.piece_at(handover.from).is_some_and(|p| lane.pieces[p].event.is_none())
    }

    /// Add the host nodes of all threads, and the edges from the releasing work to the nodes after waits.
    fn add_lanes(&mut self, waits: Vec<Vec<Wait>>) {
        self.source_node = vec![NONE; self.sources.len()];
        let mut sources: Vec<Vec<(i64, usize)>> = self.lanes.iter().map(|_| Vec::new()).collect();
        for (i, source) in self.sources.iter().enumerate() {
            sources[source.lane].push((source.at, i));
        }
        let mut incoming_edges: Vec<(u32, Releaser, Dependency)> = Vec::new();
        for (lane, (mut sources, waits)) in sources.into_iter().zip(waits).enumerate() {
            sources.sort_unstable();
            let from = self.graph.len() as u32;
            LaneCutter::new(self, lane, &mut incoming_edges).cut(&sources, waits);
            self.lane_nodes.push((from, self.graph.len() as u32));
        }
        for (node, released, dependency) in incoming_edges {
            let from = match released {
                Releaser::By(gpu) => self.gpu_node[gpu.index()],
                Releaser::At(source) => self.source_node[source],
            };
            if from != NONE {
                self.edges.push(NewEdge { to: node, from, dependency });
            }
        }
    }

    /// Add the edges into GPU nodes: launch, order of the stream, and waits for other streams.
    fn connect_operations(&mut self) {
        for gpu in self.trace.gpu.ids() {
            let node = self.gpu_node[gpu.index()];
            if node == NONE {
                continue;
            }
            let began = self.graph.start[node as usize];
            let is_launched = self.trace.gpu.launch[gpu.index()].is_some();
            let source = self.launch_source[gpu.index()];
            if source != NONE {
                let dependency = if is_launched { Dependency::Launch } else { Dependency::LaunchByOperator };
                let from = self.source_node[source as usize];
                self.edges.push(NewEdge { to: node, from, dependency });
            }
            if let Some(previous) = self.order.previous[gpu.index()].some() {
                let from = self.gpu_node[previous.index()];
                let dependency = match () {
                    () if self.graph.end[from as usize] > began => Dependency::Overlap,
                    () if source == NONE => Dependency::Unlaunched,
                    () if self.order.after_missing_records[gpu.index()] => Dependency::StreamNearMissing,
                    () => Dependency::Stream,
                };
                self.edges.push(NewEdge { to: node, from, dependency });
            }
            for dep in self.order.deps(gpu) {
                let from = self.gpu_node[dep.on.index()];
                let late = self.graph.end[from as usize] - began;
                self.corrections.contradictions += u64::from(late > 0);
                let believed = if is_launched { CLOCK_TOLERANCE_NS } else { 0 };
                if late <= believed {
                    self.edges.push(NewEdge { to: node, from, dependency: Dependency::Gpu(dep.reason) });
                }
            }
        }
    }
}

/// Divides the timeline of a thread (lane) into graph nodes at its release points and waits.
struct LaneCutter<'b, 'a> {
    builder: &'b mut Builder<'a>,
    incoming_edges: &'b mut Vec<(u32, Releaser, Dependency)>,
    lane: usize,
    /// End of the nodes so far.
    cursor: i64,
    last: u32,
    /// End time, kind and call of the nodes of the return from a wait.
    returning: Option<(i64, NodeKind, EventId)>,
    /// Waits before the next node.
    pending: Vec<(Releaser, Dependency)>,
}

impl<'b, 'a> LaneCutter<'b, 'a> {
    /// Start at the first span of a thread.
    fn new(
        builder: &'b mut Builder<'a>,
        lane: usize,
        incoming_edges: &'b mut Vec<(u32, Releaser, Dependency)>,
    ) -> Self {
        let cursor = builder.lanes[lane].start();
        Self { builder, incoming_edges, lane, cursor, last: NONE, returning: None, pending: Vec::new() }
    }

    /// Add the graph nodes of the whole thread, cut at its release points and waits, both in time order.
    fn cut(mut self, sources: &[(i64, usize)], waits: Vec<Wait>) {
        let mut sources = sources.iter().peekable();
        for wait in waits {
            while let Some(&(at, source)) = sources.next_if(|(at, _)| *at <= wait.from) {
                self.mark(at, source);
            }
            // A wait inside another one has no effect.
            if wait.from >= self.cursor {
                self.wait(wait);
            }
        }
        for &(at, source) in sources {
            self.mark(at, source);
        }
        let end = self.builder.lanes[self.lane].end();
        self.advance(end);
        if !self.pending.is_empty() || self.last == NONE {
            self.end_wait();
        }
    }

    /// Cut the thread at a release point, so that the node before the point releases the other work.
    fn mark(&mut self, at: i64, source: usize) {
        self.advance(at);
        // Work that is released during a wait was released at the start of the wait.
        let during_wait = at < self.cursor && self.last != NONE;
        if !during_wait && (!self.pending.is_empty() || self.last == NONE) {
            self.end_wait();
        }
        self.builder.source_node[source] = self.last;
    }

    /// Add a node of length 0, so that work after the last wait has a start node.
    fn end_wait(&mut self) {
        let (kind, call) = self.returning.map_or((NodeKind::Host, EventId::NONE), |(_, kind, call)| (kind, call));
        self.node(self.cursor, kind, call);
        // A return without time is complete.
        self.returning = self.returning.filter(|&(until, ..)| until > self.cursor);
    }

    /// Cut the thread at a wait. The next node begins at the known end of the wait and depends on the awaited work.
    fn wait(&mut self, wait: Wait) {
        self.advance(wait.from);
        // A wait right after another one begins at the end of that wait, independent of its target.
        if !self.pending.is_empty() {
            self.end_wait();
        }
        self.cursor = wait.until;
        self.pending.extend(wait.on);
        let waited = wait.until > wait.from;
        // A call may return at the end of the awaited work, or earlier by the clocks. Edits need a node of the return.
        let returns = wait.to > wait.until || wait.kind == NodeKind::SyncReturn;
        self.returning = Some((wait.to, wait.kind, wait.call)).filter(|_| waited && returns);
    }

    /// Add the graph nodes of a thread from the end of its last node up to a time.
    fn advance(&mut self, to: i64) {
        if let Some((until, kind, call)) = self.returning
            && self.cursor < to
        {
            self.node(until.min(to), kind, call);
            if until <= to {
                self.returning = None;
            }
        }
        if self.cursor < to {
            self.node(to, NodeKind::Host, EventId::NONE);
        }
    }

    /// Add a graph node from the end of the last node to a time, with edges from the last node and from pending waits.
    fn node(&mut self, to: i64, kind: NodeKind, call: EventId) {
        let node = self.builder.graph.push(kind, self.lane as u32, (self.cursor, to), call);
        if self.last != NONE {
            self.builder.edges.push(NewEdge { to: node, from: self.last, dependency: Dependency::Program });
        }
        self.incoming_edges.extend(self.pending.drain(..).map(|(released, dependency)| (node, released, dependency)));
        self.last = node;
        self.cursor = to;
    }
}
