//! Marks and arrows that show the critical path of method "exact" in a copy of the trace file.

use super::graph::NONE;
use super::path::ExactPath;
use super::segment_list::PathSegment;
use super::{Exact, NodeKind};
use crate::events::TrackKey;
use crate::{FlowEnd, FlowPair, Mark, Overlay};
use stackline_model::EventId;

impl Exact<'_> {
    /// Marks for the events on a path, and arrows between segments of different threads or streams. With
    /// `only_critical`, the overlay omits complete events, except events on the path, annotations and Python frames.
    pub fn overlay(&self, path: &ExactPath, only_critical: bool) -> Overlay {
        let mut events: Vec<EventId> = path.segments.iter().filter_map(|h| h.event.some()).collect();
        let index = |e: &EventId| self.trace.events.source_index[e.index()];
        events.sort_unstable_by_key(index);
        events.dedup();
        let mark = |e: &EventId| Mark {
            index: index(e),
            name: self.trace.name(*e).to_owned(),
            start_ns: self.trace.events.start[e.index()],
            clock_shift_ns: self.trace.clock_shift(self.trace.events.track[e.index()]),
        };
        Overlay { critical: events.iter().map(mark).collect(), flows: self.arrows(path), only_critical }
    }

    /// Flow arrows between successive critical-path segments, in time order.
    fn arrows(&self, path: &ExactPath) -> Vec<FlowPair> {
        let mut flows: Vec<FlowPair> = Vec::new();
        let mut before: Option<PathSegment> = None;
        // Rule of the time since the previous segment.
        let mut waited = None;
        for segment in path.segments.iter().filter(|h| h.track.is_some()) {
            if self.is_lag(&segment) {
                waited = Some(segment.rule);
                continue;
            }
            if let Some(last) = before.filter(|last| last.track != segment.track) {
                flows.push(FlowPair {
                    id: flows.len() as u64,
                    from: self.flow_end(&last, last.end),
                    to: self.flow_end(&segment, segment.start),
                    weight_us: (segment.start - last.end) / 1_000,
                    critical: true,
                    kind: waited.unwrap_or_else(|| self.rule_into(&segment)),
                });
            }
            (before, waited) = (Some(segment), None);
        }
        flows
    }

    /// True if a path segment is the lag before the start of its graph node.
    fn is_lag(&self, segment: &PathSegment) -> bool {
        segment.node != NONE && segment.end <= self.graph.start[segment.node as usize]
    }

    /// Name of the rule of the binding edge into the graph node of a path segment.
    fn rule_into(&self, segment: &PathSegment) -> &'static str {
        if segment.node == NONE {
            return segment.rule;
        }
        self.graph.binding_edge(segment.node).map_or(segment.rule, |edge| edge.dependency.rule())
    }

    /// Start or end of a segment on its track, in whole µs inside the segment if possible, so that the arrow touches
    /// the segment. The end of GPU work is up to 1 µs earlier for the same reason.
    fn flow_end(&self, segment: &PathSegment, at: i64) -> FlowEnd {
        let trace = self.trace;
        let is_gpu = segment.node != NONE && self.graph.kind[segment.node as usize] == NodeKind::Gpu;
        let inset = if is_gpu && at == segment.end { (segment.end - segment.start).min(1_000) } else { 0 };
        let key = |key| TrackKey::from_trace(trace, key);
        let shift = trace.clock_shift(segment.track);
        let (at, start, end) =
            (at.saturating_sub(shift), segment.start.saturating_sub(shift), segment.end.saturating_sub(shift));
        let floor = (at - inset).div_euclid(1_000);
        let ts_us = if floor * 1_000 < start && (floor + 1) * 1_000 <= end { floor + 1 } else { floor };
        FlowEnd { pid: key(trace.tracks.pid(segment.track)), tid: key(trace.tracks.get(segment.track).tid), ts_us }
    }
}
