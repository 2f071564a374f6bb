//! Index of a trace: events by name, operations by launch, threads by track. Built once per trace.

use super::super::Exact;
use super::super::graph::{Dependency, NONE, NodeKind};
use crate::call_kind_cache::CallKindCache;
use crate::gpu_dependency::Reason;
use rustc_hash::FxHashMap;
use stackline_model::gpu_calls::CallKind;
use stackline_model::{EventId, EventKind, StrId, Trace, TrackId};

/// Time range of a host thread: its number (lane), start and end in ns since the base.
pub(super) type ThreadRange = (u32, i64, i64);

/// GPU operation with its launch call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Launched {
    /// Start of the launch call.
    pub(super) at: i64,
    pub(super) call: EventId,
    /// Node of the operation.
    pub(super) node: u32,
}

/// Index of a trace for selectors and edits: events by name, operations by launch call, lanes by track.
pub(super) struct Index {
    name_offset: Vec<u32>,
    by_name: Vec<EventId>,
    /// Node per row of the GPU table.
    pub(super) gpu_node: Vec<u32>,
    lane_of: FxHashMap<TrackId, u32>,
    /// Operations launched by each lane, in time order.
    launches: Vec<Vec<Launched>>,
    /// Number of operations per launch call.
    launched_by: FxHashMap<EventId, u32>,
    /// Nodes with an edge from GPU work to a thread, and the waiting call.
    pub(super) sync_nodes: Vec<(u32, EventId)>,
    /// Per node: true if another thread waits for it.
    pub(super) releases_thread: Vec<bool>,
    /// Kind of each call.
    pub(super) calls: CallKindCache,
}

impl Index {
    /// Build the index of an analyzed trace.
    pub(super) fn new(exact: &Exact<'_>) -> Self {
        let (trace, graph) = (exact.trace, &exact.graph);
        let (name_offset, by_name) = by_name(trace);
        let mut gpu_node = vec![NONE; trace.gpu.len()];
        let mut releases_thread = vec![false; graph.len()];
        let mut sync_nodes = Vec::new();
        for node in 0..graph.len() as u32 {
            if graph.kind[node as usize] == NodeKind::Gpu {
                gpu_node[graph.place[node as usize] as usize] = node;
                continue;
            }
            let mut waits = false;
            for edge in graph.edges_into(node) {
                match edge.dependency {
                    Dependency::Thread(..) => releases_thread[edge.from as usize] = true,
                    Dependency::Sync(reason) => waits |= reason != Reason::BackPressure,
                    _ => {}
                }
            }
            if waits {
                sync_nodes.push((node, waiting_call(exact, node)));
            }
        }
        let lane_of = exact.lanes.iter().enumerate().map(|(i, l)| (l.track, i as u32)).collect();
        let mut index = Self {
            name_offset,
            by_name,
            gpu_node,
            lane_of,
            launches: vec![Vec::new(); exact.lanes.len()],
            launched_by: FxHashMap::default(),
            sync_nodes,
            releases_thread,
            calls: CallKindCache::new(trace),
        };
        index.add_launches(trace);
        index
    }

    /// Collect the launched GPU operations per lane, and their number per launch call.
    fn add_launches(&mut self, trace: &Trace) {
        for gpu in trace.gpu.ids() {
            let (call, node) = (trace.gpu.launch[gpu.index()], self.gpu_node[gpu.index()]);
            if call.is_none() || node == NONE {
                continue;
            }
            *self.launched_by.entry(call).or_default() += 1;
            if let Some(lane) = self.lane(trace, call) {
                self.launches[lane as usize].push(Launched { at: trace.events.start[call.index()], call, node });
            }
        }
        for list in &mut self.launches {
            list.sort_unstable();
        }
    }

    /// Number (lane) of the host thread timeline that contains an event; `None` for events of other tracks.
    pub(super) fn lane(&self, trace: &Trace, event: EventId) -> Option<u32> {
        self.lane_of.get(&trace.events.track[event.index()]).copied()
    }

    /// Events of the trace with exactly this name and a duration.
    pub(super) fn named(&self, name: StrId) -> &[EventId] {
        let at = |i: usize| self.name_offset.get(i).map_or(self.by_name.len(), |&o| o as usize);
        self.by_name.get(at(name.index())..at(name.index() + 1)).unwrap_or(&[])
    }

    /// GPU operations launched in a time range of a thread, in time order.
    pub(super) fn launched_in(&self, (lane, from, to): ThreadRange) -> &[Launched] {
        let list = &self.launches[lane as usize];
        &list[list.partition_point(|l| l.at < from)..list.partition_point(|l| l.at < to)]
    }

    /// Number of GPU operations that a call launched.
    pub(super) fn operations_of(&self, call: EventId) -> u32 {
        self.launched_by.get(&call).copied().unwrap_or(0)
    }

    /// True if a call waits for the GPU, or queries if GPU work has ended.
    pub(super) fn is_sync(&self, trace: &Trace, event: EventId) -> bool {
        use CallKind::{DeviceSync, EventSync, Free, Query, StreamSync};
        matches!(self.calls.kind_of(trace, event), Some(DeviceSync | EventSync | Free | Query | StreamSync))
    }
}

/// Call in which a thread waited for the GPU before a node; none if no API call ran there.
pub(super) fn waiting_call(exact: &Exact<'_>, node: u32) -> EventId {
    let call = exact.graph.call[node as usize];
    if call.is_some() {
        return call;
    }
    let lane = &exact.lanes[exact.graph.place[node as usize] as usize];
    let piece = lane.piece_at(exact.graph.start[node as usize]);
    let event = piece.map_or(EventId::NONE, |p| lane.pieces[p].event);
    if event.is_some() && exact.trace.kind(event).is_api_call() { event } else { EventId::NONE }
}

/// Events with a duration, grouped by name: offsets per name, and one flat list of events.
fn by_name(trace: &Trace) -> (Vec<u32>, Vec<EventId>) {
    let usable = |e: EventId| trace.events.is_timed(e);
    let names = trace.strings.len();
    let slot = |e: EventId| Some(trace.events.name[e.index()].index()).filter(|&n| n < names);
    let mut offset = vec![0u32; names + 1];
    for event in trace.events.ids().filter(|&e| usable(e)) {
        if let Some(name) = slot(event) {
            offset[name + 1] += 1;
        }
    }
    for i in 0..names {
        offset[i + 1] += offset[i];
    }
    let mut next = offset.clone();
    let mut events = vec![EventId::NONE; offset.last().map_or(0, |&n| n as usize)];
    for event in trace.events.ids().filter(|&e| usable(e)) {
        if let Some(name) = slot(event) {
            events[next[name] as usize] = event;
            next[name] += 1;
        }
    }
    (offset, events)
}

/// Class of a module from its name, such as `Linear` of `Linear_3`; names without a number stay.
pub fn module_class(module: &str) -> &str {
    let class = module.trim_end_matches(|c: char| c.is_ascii_digit());
    class.strip_suffix('_').filter(|c| !c.is_empty() && class.len() < module.len()).unwrap_or(module)
}

/// True if an event has this kind.
pub(super) fn is_kind(trace: &Trace, event: EventId, kind: EventKind) -> bool {
    trace.kind(event) == kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules() {
        assert_eq!(module_class("LayerNorm_3"), "LayerNorm");
        assert_eq!(module_class("Conv2d"), "Conv2d");
        assert_eq!(module_class("_7"), "_7");
    }
}
