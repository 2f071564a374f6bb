//! Merged critical-path segments for readers: neighbors of one event become one, with operator and frame.

use super::backward_pass::{ExactPath, PathSegment};
use super::category::Category;
use super::{Exact, NONE};
use crate::critical_path::PathPoint;
use crate::critical_path::gpu_order::Evidence;
use serde::Serialize;
use stackline_model::{EventId, TrackId};

/// Critical-path segment with one cause on one track, in which one event ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergedSegment {
    /// Start in ns since the trace's base.
    pub start: i64,
    /// End in ns since the trace's base.
    pub end: i64,
    /// Cause.
    pub category: Category,
    /// Where; none for time that nothing explains.
    pub track: TrackId,
    /// What ran: on threads the innermost span; none in gaps.
    pub event: EventId,
    /// Innermost operator around it: for GPU work the one that launched it.
    pub operator: EventId,
    /// Innermost Python frame around it: for GPU work the one around its launch.
    pub frame: EventId,
    /// How sure the cause is.
    pub evidence: Evidence,
    /// The rule behind it.
    pub rule: &'static str,
    /// Node of the graph; [`NONE`] for time that nothing explains.
    pub node: u32,
}

/// A [`MergedSegment`] as text, times from the start of the window. Its fields stand in the order of documents, by the
/// alphabet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SegmentReport<'a> {
    /// Cause.
    pub category: Category,
    /// End in ns since the start of the window.
    pub end_ns: i64,
    /// Position of the event in the source's event list; none in gaps.
    pub event: Option<u32>,
    /// How sure the cause is.
    pub evidence: Evidence,
    /// Innermost Python frame around it; for GPU work the one around the launch.
    pub frame: Option<&'a str>,
    /// Name of the event.
    pub name: &'a str,
    /// Innermost operator around it; for GPU work the one that launched it.
    pub operator: Option<&'a str>,
    /// The rule behind it.
    pub rule: &'static str,
    /// Start in ns since the start of the window.
    pub start_ns: i64,
    /// Where.
    pub track: &'a str,
}

/// Segments of a path as text. A long path has hundreds of thousands: each is made when it is asked for.
pub struct SegmentReports<'a> {
    exact: &'a Exact<'a>,
    path: &'a ExactPath,
    /// Per track its label.
    labels: Vec<String>,
}

impl SegmentReports<'_> {
    /// The hops in time order.
    pub fn hops(&self) -> impl Iterator<Item = SegmentReport<'_>> {
        self.exact.stretches(self.path).map(|s| self.hop(&s))
    }

    /// The path as other methods have it: start and end of each hop with an event.
    pub fn points(&self) -> impl Iterator<Item = PathPoint<'_>> {
        self.hops().filter_map(both_points).flatten()
    }

    fn hop(&self, s: &MergedSegment) -> SegmentReport<'_> {
        let trace = self.exact.trace;
        let name = |event: EventId| event.some().map(|e| trace.name(e));
        SegmentReport {
            category: s.category,
            end_ns: s.end - self.path.window.start,
            event: s.event.some().map(|e| trace.events.source_index[e.index()]),
            evidence: s.evidence,
            frame: name(s.frame),
            name: name(s.event).unwrap_or_default(),
            operator: name(s.operator),
            rule: s.rule,
            start_ns: s.start - self.path.window.start,
            track: self.labels.get(s.track.index()).map_or("", String::as_str),
        }
    }
}

impl Exact<'_> {
    /// The hops of a path, neighbours of one event and one cause put together.
    pub fn stretches<'b>(&'b self, path: &'b ExactPath) -> impl Iterator<Item = MergedSegment> + 'b {
        let mut hops = path.hops.iter().peekable();
        std::iter::from_fn(move || {
            let mut whole = self.stretch(&hops.next()?);
            while let Some(next) = hops.next_if(|next| is_host(next) && continues(&whole, next)) {
                whole.end = next.end;
            }
            Some(whole)
        })
    }

    fn stretch(&self, hop: &PathSegment) -> MergedSegment {
        let (operator, frame) = self.owners(hop.event);
        let PathSegment { start, end, category, track, event, evidence, rule, node } = *hop;
        MergedSegment { start, end, category, track, event, operator, frame, evidence, rule, node }
    }

    /// Innermost operator and Python frame of an event: itself, around it, or around the launch of GPU work.
    fn owners(&self, event: EventId) -> (EventId, EventId) {
        if event.is_none() {
            return (EventId::NONE, EventId::NONE);
        }
        match self.trace.gpu.of_event(event) {
            Some(gpu) => (self.trace.gpu.operator[gpu.index()], self.trace.gpu.python[gpu.index()]),
            None => (self.enclosing().operator(event), self.enclosing().frame(self.trace, event)),
        }
    }

    /// The stretches of a path as text.
    pub fn hop_reports<'b>(&'b self, path: &'b ExactPath) -> SegmentReports<'b> {
        SegmentReports { exact: self, path, labels: self.trace.tracks.ids().map(|t| self.track_label(t)).collect() }
    }

    /// Process and thread, or device and stream, of a track.
    pub fn track_label(&self, track: TrackId) -> String {
        if track.is_none() {
            return String::new();
        }
        let trace = self.trace;
        format!("{}/{}", trace.key_text(trace.tracks.pid(track)), trace.key_text(trace.tracks.get(track).tid))
    }
}

/// Start and end of a hop, if it has an event.
fn both_points(hop: SegmentReport<'_>) -> Option<[PathPoint<'_>; 2]> {
    let event = hop.event?;
    let point = |at: &'static str, time_ns| PathPoint {
        at: at.into(),
        event,
        name: hop.name.into(),
        time_ns,
        track: hop.track.into(),
    };
    Some([point("start", hop.start_ns), point("end", hop.end_ns)])
}

/// Whether a stretch goes on: the same event for the same cause on the same thread.
fn continues(last: &MergedSegment, next: &PathSegment) -> bool {
    last.event == next.event
        && last.category == next.category
        && last.track == next.track
        && last.evidence == next.evidence
        && last.rule == next.rule
}

fn is_host(hop: &PathSegment) -> bool {
    hop.node != NONE && matches!(hop.rule, "innermost_span" | "gap")
}
