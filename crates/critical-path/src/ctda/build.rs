//! Construction of the CTDA graph's nodes from threads and streams: host nodes and GPU nodes.

use super::gpu::{Gpu, StreamId};
use super::marks::{self, Mark, MarkKind};
use super::nodes::{self, Chain, CutInput, NO_NODE};
use super::python;
use super::stacks::{Host, Thread};
use super::timeline;
use super::waits::Waits;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{EventId, Trace, TrackId};
use stackline_timeline::phase_rules::Phase;
use std::ops::Range;
use std::rc::Rc;

/// Maximum idle share of a GPU node. A node with more idle time is cut where its stream had no work. The paper names
/// sparse nodes as the limit of aggregation (section 4.5.2).
const IDLE_SHARE: f64 = 0.1;

/// Logical thread (the merged threads of a process, or one thread) with its graph nodes.
pub(super) struct LogicalThread {
    /// Tracks of the logical thread's threads.
    pub(super) tracks: Vec<TrackId>,
    pub(super) marks: Vec<Mark>,
    pub(super) chain: Chain,
    /// Number of the first node.
    pub(super) first_node: u32,
    /// Streams of the process.
    pub(super) streams: Rc<[StreamId]>,
}

/// GPU node of the dependency graph: consecutive operations of a stream with the same launching host node, or with
/// none.
#[derive(Clone, Debug)]
pub(super) struct GpuNode {
    pub(super) stream: StreamId,
    /// Range of the node's operations in [`Gpu::ops`].
    pub(super) ops: Range<u32>,
    /// Node with the launch call; [`NO_NODE`] if the trace has none.
    pub(super) launched_by: u32,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) phase: Phase,
}

/// All nodes of the dependency graph of method `ctda`, before edges are added.
pub(super) struct Nodes {
    pub(super) lanes: Vec<LogicalThread>,
    /// Number of host nodes; GPU nodes follow.
    pub(super) host: u32,
    pub(super) gpu: Vec<GpuNode>,
    /// Node per operation, counted from the first GPU node.
    pub(super) node_of_op: Vec<u32>,
    /// Lane and position of the mark of each launch call.
    pub(super) mark_of_call: FxHashMap<EventId, (u32, u32)>,
}

/// Divide all threads and GPU streams into graph nodes. With `shares_gil`, the threads of a process form one logical
/// thread.
pub(super) fn build_nodes(trace: &Trace, host: &mut Host, gpu: &Gpu, waits: &Waits<'_>, shares_gil: bool) -> Nodes {
    let mut lanes = Vec::new();
    let orphans: Rc<[StreamId]> = orphan_streams(gpu).into();
    for threads in std::mem::take(&mut host.processes) {
        let own = process_streams(&threads, gpu);
        let streams = if own.is_empty() { Rc::clone(&orphans) } else { own.into() };
        if shares_gil {
            lanes.push(lane(trace, host, gpu, waits, threads, streams));
            continue;
        }
        for thread in threads {
            lanes.push(lane(trace, host, gpu, waits, vec![thread], Rc::clone(&streams)));
        }
    }
    let mut first = 0;
    let mut mark_of_call = FxHashMap::default();
    for (lane, number) in lanes.iter_mut().zip(0u32..) {
        python::roll_up(trace, &host.parent, &mut lane.chain);
        lane.first_node = first;
        first += lane.chain.nodes.len() as u32;
        mark_of_call.extend(lane.marks.iter().zip(0u32..).map(|(m, at)| (m.event, (number, at))));
    }
    let launcher = |call: EventId| launcher(&lanes, &mark_of_call, call);
    let phase = |node: u32| phase_of(&lanes, node);
    let (gpu_nodes, node_of_op) = gpu_nodes(trace, gpu, &launcher, &phase);
    Nodes { host: first, gpu: gpu_nodes, node_of_op, mark_of_call, lanes }
}

/// GPU streams of the operations that the calls of a process launched, ascending; empty for a process without launches.
fn process_streams(threads: &[Thread], gpu: &Gpu) -> Vec<StreamId> {
    let calls = threads.iter().flat_map(|t| &t.calls);
    let ops: Vec<u32> = calls.flat_map(|&c| gpu.launched_by(c).iter().copied()).collect();
    gpu.streams_of(&ops)
}

/// GPU streams of which no operation has a launch call in the trace.
fn orphan_streams(gpu: &Gpu) -> Vec<StreamId> {
    let orphan = |s: &StreamId| gpu.ops_of_stream(*s).all(|op| gpu.ops[op as usize].launch.is_none());
    (0..gpu.streams.len() as u32).filter(orphan).collect()
}

/// Build a logical thread from threads of one process: merge their activity, find the relevant calls, and cut nodes.
fn lane(
    trace: &Trace,
    host: &Host,
    gpu: &Gpu,
    waits: &Waits<'_>,
    threads: Vec<Thread>,
    streams: Rc<[StreamId]>,
) -> LogicalThread {
    let pieces = timeline::merge(&threads);
    let marks = marks::find_marks(trace, &threads, gpu);
    let waited = |(_, m): &(usize, &Mark)| m.kind == MarkKind::Record && waits.is_waited_for(m.event);
    let waited_records: FxHashSet<usize> = marks.iter().enumerate().filter(waited).map(|(at, _)| at).collect();
    let (none, waited_records) = (FxHashSet::default(), &waited_records);
    let source = CutInput { pieces: &pieces, marks: &marks, phase: &host.phase, gpu, waited_records, starved: &none };
    let mut chain = nodes::cut_into_nodes(&source);
    let starved = starved_launches(gpu, &marks, &chain);
    if !starved.is_empty() {
        chain = nodes::cut_into_nodes(&CutInput { starved: &starved, ..source });
    }
    let tracks = threads.iter().map(|t| t.track).collect();
    LogicalThread { tracks, marks, chain, first_node: 0, streams }
}

/// Launch calls, as positions in `marks`, at which a new host node must begin. The cuts at the longest idle times of a
/// stream reduce the idle share of its GPU nodes toward [`IDLE_SHARE`].
fn starved_launches(gpu: &Gpu, marks: &[Mark], chain: &Chain) -> FxHashSet<usize> {
    let mark_of: FxHashMap<EventId, usize> = marks.iter().enumerate().map(|(at, m)| (m.event, at)).collect();
    let node_of = |call: EventId| mark_of.get(&call).map_or(NO_NODE, |&at| chain.node_of_mark[at]);
    let mut starved = FxHashSet::default();
    for group in group_by_launcher(gpu, &node_of, &|_| false).into_iter().filter(|g| g.1 != NO_NODE) {
        let ops = &gpu.ops[group.0.start as usize..group.0.end as usize];
        let mut gaps: Vec<(i64, usize)> = Vec::new();
        let (mut span, mut idle) = (0, 0);
        let mut until = ops.first().map_or(0, |op| op.start);
        for op in ops {
            let gap = (op.start - until).max(0);
            (span, idle) = (span + gap + (op.end - until.max(op.start)).max(0), idle + gap);
            let mark = mark_of.get(&op.launch).copied();
            // Same rule as in the search: the launch ended later than the work before it.
            if let Some(mark) = mark.filter(|&m| gap > 0 && marks[m].end > until) {
                gaps.push((gap, mark));
            }
            until = until.max(op.end);
        }
        gaps.sort_unstable_by_key(|&(gap, mark)| (std::cmp::Reverse(gap), mark));
        for (gap, mark) in gaps {
            if idle as f64 <= span as f64 * IDLE_SHARE {
                break;
            }
            (span, idle) = (span - gap, idle - gap);
            starved.insert(mark);
        }
    }
    starved
}

/// Group consecutive operations of one stream with the same launching node, as ranges in [`Gpu::ops`] with that node. A
/// group also ends before operations for which `is_cut` returns true.
fn group_by_launcher(
    gpu: &Gpu,
    node_of: &dyn Fn(EventId) -> u32,
    is_cut: &dyn Fn(u32) -> bool,
) -> Vec<(Range<u32>, u32)> {
    let mut groups: Vec<(Range<u32>, u32)> = Vec::new();
    for (op, at) in gpu.ops.iter().zip(0u32..) {
        let node = if op.launch.is_some() { node_of(op.launch) } else { NO_NODE };
        match groups.last_mut() {
            Some((range, of)) if *of == node && gpu.ops[range.start as usize].stream == op.stream && !is_cut(at) => {
                range.end = at + 1;
            }
            _ => groups.push((at..at + 1, node)),
        }
    }
    groups
}

/// Graph number of the host node that contains a launch call; [`NO_NODE`] if no node contains the call.
fn launcher(lanes: &[LogicalThread], mark_of_call: &FxHashMap<EventId, (u32, u32)>, call: EventId) -> u32 {
    let Some(&(lane, mark)) = mark_of_call.get(&call) else { return NO_NODE };
    let lane = &lanes[lane as usize];
    let node = lane.chain.node_of_mark[mark as usize];
    if node == NO_NODE { NO_NODE } else { lane.first_node + node }
}

/// Phase of the host node with a graph number.
fn phase_of(lanes: &[LogicalThread], node: u32) -> Phase {
    let after = lanes.partition_point(|l| l.first_node <= node);
    let lane = after.checked_sub(1).and_then(|i| lanes.get(i));
    lane.and_then(|l| l.chain.nodes.get((node - l.first_node) as usize)).map_or(Phase::Other, |n| n.phase)
}

/// Group GPU operations into nodes by stream and launching host node. Also returns the GPU node of each operation.
fn gpu_nodes(
    trace: &Trace,
    gpu: &Gpu,
    launcher: &dyn Fn(EventId) -> u32,
    phase: &dyn Fn(u32) -> Phase,
) -> (Vec<GpuNode>, Vec<u32>) {
    let mut nodes = Vec::new();
    let mut node_of_op = vec![NO_NODE; gpu.ops.len()];
    for (ops, launched_by) in group_by_launcher(gpu, launcher, &|op| gpu.inferred_prerequisite(trace, op).is_some()) {
        let members = &gpu.ops[ops.start as usize..ops.end as usize];
        let start = members.iter().map(|op| op.start).min().unwrap_or(0);
        let end = members.iter().map(|op| op.end).max().unwrap_or(start);
        node_of_op[ops.start as usize..ops.end as usize].fill(nodes.len() as u32);
        let stream = gpu.ops[ops.start as usize].stream;
        let phase = if launched_by == NO_NODE { Phase::Other } else { phase(launched_by) };
        nodes.push(GpuNode { stream, ops, launched_by, start, end, phase });
    }
    (nodes, node_of_op)
}
