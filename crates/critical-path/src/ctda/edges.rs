//! Edges of the CTDA graph (section 3.2.2 of the paper).

use super::build::{LogicalThread, Nodes};
use super::gpu::{Gpu, StreamId};
use super::graph::{CtdaEdge, CtdaEdgeKind};
use super::marks::{MarkKind, SyncKind};
use super::nodes::NO_NODE;
use super::waits::{Waits, launch_streams};
use rustc_hash::FxHashMap;
use stackline_model::Trace;

/// Create all edges of the CTDA graph, sorted by (to, from, kind). Of edges with an equal key, the one that ends last
/// is kept.
pub(super) fn build_edges(trace: &Trace, nodes: &Nodes, gpu: &Gpu, waits: &mut Waits<'_>) -> Vec<CtdaEdge> {
    let mut edges = Vec::new();
    for lane in &nodes.lanes {
        add_thread_order_edges(lane, &mut edges);
        add_sync_edges(nodes, lane, gpu, waits, &mut edges);
    }
    add_stream_and_launch_edges(nodes, gpu, &mut edges);
    for (node, to) in nodes.gpu.iter().zip(nodes.host..) {
        let Some(op) = gpu.inferred_prerequisite(trace, node.ops.start) else { continue };
        waits.inferred += 1;
        let (from, at_ns) = (nodes.host + nodes.node_of_op[op as usize], gpu.ops[op as usize].end);
        edges.push(CtdaEdge { from, to, kind: CtdaEdgeKind::Sync, at_ns });
    }
    edges.retain(|e: &CtdaEdge| e.from != e.to);
    edges.sort_unstable_by_key(|e| (e.to, e.from, e.kind, std::cmp::Reverse(e.at_ns)));
    edges.dedup_by_key(|e| (e.to, e.from, e.kind));
    edges
}

/// Add the edges of program order: each node follows the previous node of the logical thread, and the previous one of
/// its own thread.
fn add_thread_order_edges(lane: &LogicalThread, edges: &mut Vec<CtdaEdge>) {
    let mut last: Vec<Option<u32>> = vec![None; lane.tracks.len()];
    let mut before: Option<u32> = None;
    for (node, number) in lane.chain.nodes.iter().zip(lane.first_node..) {
        let own = last[node.thread as usize];
        let end = |n: u32| lane.chain.nodes[(n - lane.first_node) as usize].end.min(node.start);
        if let Some(from) = before.filter(|_| before != own) {
            edges.push(CtdaEdge { from, to: number, kind: CtdaEdgeKind::CrossThread, at_ns: end(from) });
        }
        if let Some(from) = own {
            edges.push(CtdaEdge { from, to: number, kind: CtdaEdgeKind::Sequence, at_ns: end(from) });
        }
        last[node.thread as usize] = Some(number);
        before = Some(number);
    }
}

/// Add the edges of stream order and launches: each GPU node follows the previous one on its stream, and its launch.
fn add_stream_and_launch_edges(nodes: &Nodes, gpu: &Gpu, edges: &mut Vec<CtdaEdge>) {
    // The previous node of the stream may have ended before an earlier, longer one.
    let mut latest: Option<(StreamId, u32)> = None;
    for (node, at) in nodes.gpu.iter().zip(0u32..) {
        let to = nodes.host + at;
        if let Some((_, from)) = latest.filter(|(stream, _)| *stream == node.stream) {
            let at_ns = nodes.gpu[(from - nodes.host) as usize].end.min(node.start);
            edges.push(CtdaEdge { from, to, kind: CtdaEdgeKind::Sequence, at_ns });
        }
        latest = Some((node.stream, to));
        if node.launched_by != NO_NODE {
            let at_ns = launch_end(nodes, gpu, at);
            edges.push(CtdaEdge { from: node.launched_by, to, kind: CtdaEdgeKind::Call, at_ns });
        }
    }
}

/// Effective end of the launch edge of a GPU node: the end of the call that launches its first operation, or the start
/// of that operation if the call returns later.
fn launch_end(nodes: &Nodes, gpu: &Gpu, at: u32) -> i64 {
    let node = &nodes.gpu[at as usize];
    let op = &gpu.ops[node.ops.start as usize];
    let mark = nodes.mark_of_call.get(&op.launch).map(|&(lane, mark)| &nodes.lanes[lane as usize].marks[mark as usize]);
    let Some(mark) = mark else { return node.start };
    if mark.kind == MarkKind::Sync(SyncKind::OwnCopy) {
        // Such a call returns after the copy. If the stream was busy, the call only waited; otherwise it prepared the
        // copy.
        let before = node.ops.start.checked_sub(1).map(|o| &gpu.ops[o as usize]).filter(|o| o.stream == op.stream);
        let busy = before.is_some_and(|o| o.end > mark.start);
        return if busy { mark.start.min(node.start) } else { node.start };
    }
    mark.end.min(node.start)
}

/// Add the edges of synchronizing host calls and of stream waits, for the calls of one logical thread.
fn add_sync_edges(nodes: &Nodes, lane: &LogicalThread, gpu: &Gpu, waits: &mut Waits<'_>, edges: &mut Vec<CtdaEdge>) {
    let next_launches = NextLaunches::new(lane, gpu);
    let mut unfinished = UnfinishedStreams::new(lane, gpu);
    let mut last_stream: FxHashMap<u32, StreamId> = FxHashMap::default();
    let sync_nodes: FxHashMap<usize, u32> =
        lane.chain.nodes.iter().zip(lane.first_node..).filter_map(|(n, i)| n.sync.map(|s| (s, i))).collect();
    let node_of = |op: u32| nodes.host + nodes.node_of_op[op as usize];
    for (mark, at) in lane.marks.iter().zip(0usize..) {
        let mut own = Vec::new();
        if let Some(&stream) = launch_streams(mark, gpu, &mut own).last() {
            last_stream.insert(mark.thread, stream);
        }
        match mark.kind {
            MarkKind::Sync(kind) => {
                let Some(&to) = sync_nodes.get(&at) else { continue };
                let ops = match kind {
                    SyncKind::Device => unfinished.last_ops_at(mark.start, gpu, waits),
                    _ => waits.sync_targets(mark, kind, &lane.streams, last_stream.get(&mark.thread).copied()),
                };
                for op in ops {
                    // Another thread may have continued while this call still waited.
                    let until = lane.chain.nodes[(to - lane.first_node) as usize].end.min(mark.end);
                    let at_ns = gpu.ops[op as usize].end.min(until);
                    edges.push(CtdaEdge { from: node_of(op), to, kind: CtdaEdgeKind::Sync, at_ns });
                }
            }
            MarkKind::StreamWait => {
                let next = next_launches.after(mark.thread, at);
                let (stream, sources) = waits.stream_wait_targets(mark, &lane.streams, next);
                let target = stream.and_then(|s| next_launches.on_stream(mark.thread, s, at));
                let Some(target) = target else { continue };
                add_stream_wait_edges(nodes, gpu, (target, &sources), edges);
            }
            MarkKind::Launch(_) | MarkKind::Record => {}
        }
    }
}

/// Add the edges of a stream wait: the node of the operation `target` waits for the operations `sources` of other
/// streams. Sources that end after the start of `target` are excluded.
fn add_stream_wait_edges(nodes: &Nodes, gpu: &Gpu, (target, sources): (u32, &[u32]), edges: &mut Vec<CtdaEdge>) {
    let to = nodes.host + nodes.node_of_op[target as usize];
    let waiting = &gpu.ops[target as usize];
    for &source in sources {
        let op = &gpu.ops[source as usize];
        if op.stream != waiting.stream && op.end <= waiting.start {
            let from = nodes.host + nodes.node_of_op[source as usize];
            let at_ns = op.end.min(nodes.gpu[nodes.node_of_op[target as usize] as usize].start);
            edges.push(CtdaEdge { from, to, kind: CtdaEdgeKind::Sync, at_ns });
        }
    }
}

/// Tracker of the streams with possibly unfinished work, for the operations that device synchronizations wait for.
/// Earlier synchronizations already waited for all work that had ended when they began.
struct UnfinishedStreams {
    /// Launch times and streams, ascending.
    launches: Vec<(i64, StreamId)>,
    next: usize,
    streams: Vec<StreamId>,
}

impl UnfinishedStreams {
    /// Collect the launch times on the streams of a logical thread; none if the thread has no device synchronization.
    fn new(lane: &LogicalThread, gpu: &Gpu) -> Self {
        let mut launches = Vec::new();
        if lane.marks.iter().any(|m| m.kind == MarkKind::Sync(SyncKind::Device)) {
            let ops = lane.streams.iter().flat_map(|&s| gpu.ops_of_stream(s));
            launches.extend(ops.map(|op| &gpu.ops[op as usize]).map(|op| (op.launched_at, op.stream)));
            launches.sort_unstable();
            launches.dedup();
        }
        Self { launches, next: 0, streams: Vec::new() }
    }

    /// Last operation launched up to a time on each stream with possibly unfinished work. Times of successive calls
    /// must not decrease.
    fn last_ops_at(&mut self, at: i64, gpu: &Gpu, waits: &Waits<'_>) -> Vec<u32> {
        let new = self.launches[self.next..].iter().take_while(|(launched, _)| *launched <= at);
        let before = self.streams.len();
        self.streams.extend(new.map(|(_, stream)| *stream));
        self.next += self.streams.len() - before;
        self.streams.sort_unstable();
        self.streams.dedup();
        let ops: Vec<u32> = self.streams.iter().filter_map(|&s| waits.last_launched(s, at)).collect();
        self.streams.retain(|&s| waits.last_launched(s, at).is_some_and(|op| gpu.ops[op as usize].end > at));
        ops
    }
}

/// Index of the launches of each thread, to find the next launch after a stream wait.
#[derive(Default)]
struct NextLaunches {
    /// Per thread: mark, stream and first operation on the stream, in the order of the marks.
    of_thread: FxHashMap<u32, Vec<(usize, StreamId, u32)>>,
    /// The same, per thread and stream.
    of_stream: FxHashMap<(u32, StreamId), Vec<(usize, u32)>>,
}

impl NextLaunches {
    /// Index the launches of a logical thread; the index is empty if the thread has no stream wait.
    fn new(lane: &LogicalThread, gpu: &Gpu) -> Self {
        let mut found = Self::default();
        if !lane.marks.iter().any(|m| m.kind == MarkKind::StreamWait) {
            return found;
        }
        for (at, mark) in lane.marks.iter().enumerate() {
            let mut own = Vec::new();
            for &stream in launch_streams(mark, gpu, &mut own) {
                let ops = gpu.launched_by(mark.event).iter().copied();
                let Some(op) = ops.filter(|&op| gpu.ops[op as usize].stream == stream).min() else { continue };
                found.of_thread.entry(mark.thread).or_default().push((at, stream, op));
                found.of_stream.entry((mark.thread, stream)).or_default().push((at, op));
            }
        }
        found
    }

    /// Next launch of a thread after the mark at a position, as stream and first operation; `None` if no launch
    /// follows.
    ///
    /// For a launch on several streams, the last stream.
    fn after(&self, thread: u32, mark: usize) -> Option<(StreamId, u32)> {
        let launches = self.of_thread.get(&thread)?;
        let next = launches.partition_point(|l| l.0 <= mark);
        let of_next = launches[next..].iter().take_while(|l| l.0 == launches[next].0);
        of_next.last().map(|&(_, stream, op)| (stream, op))
    }

    /// First operation of a thread's next launch on a stream after the mark at a position; `None` if no launch follows.
    fn on_stream(&self, thread: u32, stream: StreamId, mark: usize) -> Option<u32> {
        let launches = self.of_stream.get(&(thread, stream))?;
        launches.get(launches.partition_point(|l| l.0 <= mark)).map(|l| l.1)
    }
}
