//! Constraints that may delay work only after an edit: capacity of the device, and queries of the GPU.

use super::super::Exact;
use super::super::graph::NodeKind;
use crate::streams::LastOnTwoStreams;
use rustc_hash::FxHashMap;
use stackline_model::gpu_calls::CallKind;

/// For each node of a GPU operation: the node of the operation that ended last before its start on another stream of
/// its device.
pub(super) fn capacity_dependencies(exact: &Exact<'_>) -> FxHashMap<u32, u32> {
    let (graph, gpu) = (&exact.graph, &exact.trace.gpu);
    let operations = || (0..graph.len() as u32).filter(|&n| graph.kind[n as usize] == NodeKind::Gpu);
    let place = |n: u32| graph.place[n as usize] as usize;
    let mut by_start: Vec<u32> = operations().collect();
    by_start.sort_unstable_by_key(|&n| (graph.start[n as usize], n));
    let mut by_end: Vec<u32> = operations().collect();
    by_end.sort_unstable_by_key(|&n| (graph.end[n as usize], n));
    let mut latest: FxHashMap<i32, LastOnTwoStreams<i64, u32>> = FxHashMap::default();
    let mut found = FxHashMap::default();
    let mut ended = by_end.into_iter().peekable();
    for node in by_start {
        while let Some(done) = ended.next_if(|&d| graph.end[d as usize] <= graph.start[node as usize]) {
            let of_device = latest.entry(gpu.device[place(done)]).or_insert_with(LastOnTwoStreams::new);
            of_device.ended(gpu.stream[place(done)], done);
        }
        let of_device = latest.get(&gpu.device[place(node)]);
        if let Some(other) = of_device.and_then(|last| last.ended_on_other_stream(gpu.stream[place(node)])) {
            found.insert(node, other);
        }
    }
    found
}

/// For each host node after a query of the GPU: the GPU operation that ended last before the query. If this operation
/// ended later, the thread would have queried again.
pub(super) fn query_dependencies(exact: &Exact<'_>) -> FxHashMap<u32, u32> {
    let (trace, graph) = (exact.trace, &exact.graph);
    let mut by_end: Vec<(i64, u32)> = Vec::new();
    let mut found = FxHashMap::default();
    for (number, lane) in exact.lanes.iter().enumerate() {
        let (first, last) = exact.lane_nodes[number];
        let starts = &graph.start[first as usize..last as usize];
        for piece in &lane.pieces {
            if piece.event.is_none() || exact.kinds.kind_of(trace, piece.event) != Some(CallKind::Query) {
                continue;
            }
            if by_end.is_empty() {
                let operations = (0..graph.len() as u32).filter(|&n| graph.kind[n as usize] == NodeKind::Gpu);
                by_end = operations.map(|n| (graph.end[n as usize], n)).collect();
                by_end.sort_unstable();
            }
            let node = first + starts.partition_point(|&start| start <= piece.start) as u32;
            let before = by_end.partition_point(|&(end, _)| end <= piece.start);
            if let Some(&(_, operation)) = before.checked_sub(1).and_then(|i| by_end.get(i))
                && node < last
            {
                found.insert(node, operation);
            }
        }
    }
    found
}
