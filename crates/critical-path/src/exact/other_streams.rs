//! Dependencies of GPU operations on other streams, inferred from times alone.

use super::category::{LONG_GAP_NS, UNLAUNCHED_GAP_NS};
use super::graph::{ActivityGraph, Dependency, NONE, NewEdge};
use crate::gpu_dependency::{ROUNDING_NS, Reason};
use crate::gpu_order::GpuOrder;
use crate::streams::{end, start};
use rustc_hash::FxHashSet;
use stackline_model::{GpuOpId, Key, Trace};
use std::collections::BTreeMap;

/// Maximum time in ns between the end of another stream's work and the start of an operation that waited for it.
const MAX_RELEASE_DELAY_NS: i64 = 50_000;

/// Device number, with the process if several processes of a file have their own numbers.
type Device = (Key, i32);

/// Index of the GPU operations of each device by end, to infer dependencies between streams.
pub(super) struct OtherStreams<'a> {
    trace: &'a Trace,
    order: &'a GpuOrder,
    by_end: BTreeMap<Device, Vec<(i64, GpuOpId)>>,
    /// Devices with a recorded launch.
    launched: FxHashSet<Device>,
}

impl<'a> OtherStreams<'a> {
    /// Index the GPU operations of each device by end, and find the devices with a recorded launch.
    pub(super) fn new(trace: &'a Trace, order: &'a GpuOrder) -> Self {
        let mut by_end: BTreeMap<Device, Vec<(i64, GpuOpId)>> = BTreeMap::new();
        let mut launched = FxHashSet::default();
        for gpu in trace.gpu.ids().filter(|gpu| order.stream[gpu.index()] != u32::MAX) {
            let device = device(trace, order, gpu);
            by_end.entry(device).or_default().push((end(trace, gpu), gpu));
            if trace.gpu.launcher(gpu).is_some() {
                launched.insert(device);
            }
        }
        for operations in by_end.values_mut() {
            operations.sort_unstable_by_key(|&(end, gpu)| (end, order.rank[gpu.index()]));
        }
        Self { trace, order, by_end, launched }
    }

    /// Infer dependencies of operations that start long after all known prerequisites (in `edges`). `nodes` contains
    /// the graph node of each operation.
    pub(super) fn dependencies(&self, graph: &ActivityGraph, edges: &[NewEdge], nodes: &[u32]) -> Vec<NewEdge> {
        let mut released = vec![i64::MIN; graph.len()];
        for edge in edges {
            let slot = &mut released[edge.to as usize];
            *slot = graph.end[edge.from as usize].max(*slot);
        }
        let operations = self.trace.gpu.ids().filter(|gpu| nodes[gpu.index()] != NONE);
        let dependency = |gpu: GpuOpId| {
            let to = nodes[gpu.index()];
            let (on, reason) = self.delayed_by(gpu, released[to as usize])?;
            Some(NewEdge { to, from: nodes[on.index()], dependency: Dependency::Gpu(reason) })
        };
        operations.filter_map(dependency).collect()
    }

    /// Operation of another stream that may have delayed `gpu` beyond the time `after`, with the inference rule.
    fn delayed_by(&self, gpu: GpuOpId, after: i64) -> Option<(GpuOpId, Reason)> {
        let began = start(self.trace, gpu);
        let waited = began.saturating_sub(after);
        let device = device(self.trace, self.order, gpu);
        // Without recorded launches, nothing else shows the program's activity.
        let (earliest, reason) = if !self.launched.contains(&device) {
            (after, Reason::OtherStreamUnlaunched)
        } else if after != i64::MIN && waited > LONG_GAP_NS {
            (after.max(began - MAX_RELEASE_DELAY_NS), Reason::OtherStream)
        } else {
            return None;
        };
        if waited <= UNLAUNCHED_GAP_NS {
            return None;
        }
        let by_end = self.by_end.get(&device)?;
        let until = by_end.partition_point(|&(end, _)| end <= began + ROUNDING_NS);
        let stream = |gpu: GpuOpId| self.order.stream[gpu.index()];
        let mut ended = by_end[..until].iter().rev().take_while(|(end, _)| *end > earliest).map(|&(_, other)| other);
        let on = ended.find(|&other| stream(other) != stream(gpu) && start(self.trace, other) < began)?;
        Some((on, reason))
    }
}

/// Device of a GPU operation, with its process if several processes share device and stream numbers.
fn device(trace: &Trace, order: &GpuOrder, gpu: GpuOpId) -> Device {
    // Rows of one device may otherwise be separate processes (TensorFlow 1 has one per stream).
    let track = trace.events.track[trace.gpu.event[gpu.index()].index()];
    let process = if order.is_one_process { Key::None } else { trace.tracks.pid(track) };
    (process, trace.gpu.device[gpu.index()])
}
