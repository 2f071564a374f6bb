//! Backward pass over the dependency graph, from the end of a window to its start.

use super::Exact;
use super::category::{Categories, Category, lag_category};
use super::graph::{Dependency, InEdge, NONE, NodeKind};
use super::sampled_waits::HostPart;
use super::segment_list::PathSegment;
use super::window::Window;
use crate::gpu_dependency::Evidence;
use stackline_model::{EventId, GpuOpId, TrackId};

/// State of the backward pass.
struct BackwardPass<'a, 'b, 'c, F> {
    exact: &'b Exact<'a>,
    categories: &'b mut Categories<'c>,
    from: i64,
    visit: F,
}

/// Compute the critical path of a window backward, and call `visit` with each segment, latest first.
pub(super) fn walk(exact: &Exact<'_>, categories: &mut Categories<'_>, window: Window, visit: impl FnMut(PathSegment)) {
    BackwardPass { exact, categories, from: window.start, visit }.run(window);
}

impl<F: FnMut(PathSegment)> BackwardPass<'_, '_, '_, F> {
    /// Walk from the node at the end of the window to its start, by the binding edge of each node.
    fn run(&mut self, window: Window) {
        let graph = &self.exact.graph;
        let (mut node, mut at) = (window.anchor, window.end);
        // After the anchor's end no work is known.
        if node != NONE && graph.end[node as usize] < at {
            at = self.unexplained(graph.end[node as usize], at);
        }
        while node != NONE && at > self.from {
            let start = graph.start[node as usize].max(self.from);
            if start < at {
                self.visit_node(node, start, at);
                at = start;
            }
            let Some(edge) = graph.binding_edge(node).copied().filter(|_| at > self.from) else { break };
            let released = graph.end[edge.from as usize].clamp(self.from, at);
            if released < at {
                self.visit_lag(node, &edge, released, at);
                at = released;
            }
            node = edge.from;
        }
        self.unexplained(self.from, at);
    }

    /// Visit a time range without known cause, and return its start limited to the window; an empty range adds no
    /// segment.
    fn unexplained(&mut self, from: i64, to: i64) -> i64 {
        let from = from.max(self.from);
        if from < to {
            self.push(PathSegment {
                start: from,
                end: to,
                category: Category::Unknown,
                track: TrackId::NONE,
                event: EventId::NONE,
                evidence: Evidence::Inferred,
                rule: "no_cause_found",
                node: NONE,
            });
        }
        from.min(to)
    }

    /// Call the visitor with a segment.
    fn push(&mut self, segment: PathSegment) {
        (self.visit)(segment);
    }

    /// Visit the lag between the end of the binding prerequisite of a node (`start`) and the start of the node (`end`).
    fn visit_lag(&mut self, node: u32, edge: &InEdge, start: i64, end: i64) {
        let graph = &self.exact.graph;
        let place = graph.place[node as usize] as usize;
        let (track, event) = match graph.kind[node as usize] {
            NodeKind::Gpu => {
                let event = self.exact.trace.gpu.event[place];
                (self.exact.trace.events.track[event.index()], event)
            }
            _ => (self.exact.lanes[place].track, EventId::NONE),
        };
        let category = lag_category(edge.dependency, end - start);
        // No record states a lag that was cut because of clocks that disagree.
        let guessed = category == Category::Unknown || end < graph.start[node as usize];
        self.push(PathSegment {
            start,
            end,
            category,
            track,
            event,
            evidence: if guessed { Evidence::Inferred } else { self.edge_evidence(node, edge) },
            rule: edge.dependency.rule(),
            node,
        });
    }

    /// Evidence of an edge into a node: that of its dependency, or inferred if the recorded times are doubtful.
    fn edge_evidence(&self, node: u32, edge: &InEdge) -> Evidence {
        let graph = &self.exact.graph;
        let host = match edge.dependency {
            Dependency::Launch => Some(edge.from),
            Dependency::Sync(_) => Some(node),
            _ => None,
        };
        let after_overlong = graph.gpu(edge.from).is_some_and(|gpu| self.exact.overlong.contains(&gpu));
        if after_overlong || host.is_some_and(|host| self.clock_disagrees(host)) {
            return Evidence::Inferred;
        }
        if graph.is_near_tie(node, edge) { Evidence::Inferred } else { edge.dependency.evidence() }
    }

    /// True if the clock of the process of a host node disagrees with that of a GPU.
    fn clock_disagrees(&self, node: u32) -> bool {
        let Exact { trace, lanes, graph, clocks_disagree, .. } = self.exact;
        let process = || trace.tracks.pid(lanes[graph.place[node as usize] as usize].track);
        !clocks_disagree.is_empty() && clocks_disagree.contains(&process())
    }

    /// Visit the path segments in the time range of a graph node, by cause.
    fn visit_node(&mut self, node: u32, start: i64, end: i64) {
        let graph = &self.exact.graph;
        let (kind, place) = (graph.kind[node as usize], graph.place[node as usize] as usize);
        match kind {
            NodeKind::Host => self.visit_host_time(node, place, start, end),
            NodeKind::Gpu => {
                let event = self.exact.trace.gpu.event[place];
                let category = self.categories.gpu_category(event);
                let track = self.exact.trace.events.track[event.index()];
                // The end of a record that overlaps later ones may be wrong.
                let is_doubtful = self.exact.overlong.contains(&GpuOpId(place as u32));
                let evidence = if is_doubtful { Evidence::Inferred } else { Evidence::Exact };
                let rule = "record";
                self.push(PathSegment { start, end, category, track, event, evidence, rule, node });
            }
            NodeKind::SyncReturn | NodeKind::Resume => {
                let edge = graph.binding_edge(node);
                // Cut because of clocks that disagree.
                let is_cut = end < graph.end[node as usize];
                let evidence = edge.filter(|_| !is_cut).map_or(Evidence::Inferred, |e| self.edge_evidence(node, e));
                let rule = edge.map_or("program_order", |e| e.dependency.rule());
                let (category, track) = (Categories::return_category(kind), self.exact.lanes[place].track);
                let event = graph.call[node as usize];
                self.push(PathSegment { start, end, category, track, event, evidence, rule, node });
            }
        }
    }

    /// Visit the path segments in the time range of a host node, one or more for each innermost span.
    fn visit_host_time(&mut self, node: u32, lane_index: usize, start: i64, end: i64) {
        let exact = self.exact;
        let lane = &exact.lanes[lane_index];
        let Some(mut piece) = lane.piece_before(end) else { return };
        let mut end = end;
        loop {
            let from = lane.pieces[piece].start.max(start);
            let event = lane.pieces[piece].event;
            let (category, mut evidence) = self.categories.host_category(lane_index, event);
            if exact.reliability.is_host_doubtful() || exact.loops.contains(event, from) {
                evidence = Evidence::Inferred;
            }
            let rule = if event.is_some() { "innermost_span" } else { "gap" };
            for part in exact.host_parts(lane_index, HostPart { start: from, end, category, evidence, rule }).rev() {
                let HostPart { start, end, category, evidence, rule } = part;
                self.push(PathSegment { start, end, category, track: lane.track, event, evidence, rule, node });
            }
            end = from;
            if from <= start || piece == 0 {
                break;
            }
            piece -= 1;
        }
    }
}
