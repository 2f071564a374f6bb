//! Hops for readers: neighbours of one cause become one, with what ran and around what.

use super::category::Category;
use super::walk::{ExactPath, Hop};
use super::{Exact, NONE};
use crate::critical_path::gpu_order::Evidence;
use serde::Serialize;
use stackline_model::{EventId, TrackId};

/// A stretch of the path with one cause on one track, in one operator (for time of operators).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Start in ns since the trace's base.
    pub start: i64,
    /// End in ns since the trace's base.
    pub end: i64,
    /// Cause.
    pub category: Category,
    /// Where; none for time that nothing explains.
    pub track: TrackId,
    /// What ran longest in it; none in gaps.
    pub event: EventId,
    /// Innermost operator around all of it: for GPU work the one that launched it.
    pub operator: EventId,
    /// Innermost Python frame around all of it: for GPU work the one around its launch.
    pub frame: EventId,
    /// How sure the cause is.
    pub evidence: Evidence,
    /// The rule behind it.
    pub rule: &'static str,
    /// Node of the graph; [`NONE`] for time that nothing explains.
    pub node: u32,
}

/// A [`Stretch`] as text, times from the start of the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HopReport {
    /// Start in ns since the start of the window.
    pub start_ns: i64,
    /// End in ns since the start of the window.
    pub end_ns: i64,
    /// Cause.
    pub category: Category,
    /// Where.
    pub track: String,
    /// Position of the event in the source's event list; none in gaps.
    pub event: Option<u32>,
    /// Name of the event.
    pub name: String,
    /// Innermost operator around it; for GPU work the one that launched it.
    pub operator: Option<String>,
    /// Innermost Python frame around it; for GPU work the one around the launch.
    pub frame: Option<String>,
    /// How sure the cause is.
    pub evidence: Evidence,
    /// The rule behind it.
    pub rule: &'static str,
}

impl Exact<'_> {
    /// The hops of a path, neighbours of one cause put together.
    pub fn stretches(&self, path: &ExactPath) -> Vec<Stretch> {
        let mut out: Vec<Stretch> = Vec::new();
        // Time of the event that ran longest in the last stretch.
        let mut longest = 0;
        for hop in &path.hops {
            let single = self.stretch(hop);
            match out.last_mut() {
                Some(last) if is_host(hop) && self.continues(last, &single) => {
                    last.end = single.end;
                    last.frame = self.common(last.frame, single.frame);
                    last.operator = self.common(last.operator, single.operator);
                    if single.end - single.start > longest {
                        (longest, last.event) = (single.end - single.start, single.event);
                    }
                }
                _ => {
                    longest = single.end - single.start;
                    out.push(single);
                }
            }
        }
        out
    }

    fn stretch(&self, hop: &Hop) -> Stretch {
        let (operator, frame) = self.owners(hop.event);
        let Hop { start, end, category, track, event, evidence, rule, node } = *hop;
        Stretch { start, end, category, track, event, operator, frame, evidence, rule, node }
    }

    /// Whether a stretch goes on: the same cause on the same thread, for operators in the same outermost one.
    fn continues(&self, last: &Stretch, next: &Stretch) -> bool {
        last.category == next.category
            && last.track == next.track
            && last.evidence == next.evidence
            && last.rule == next.rule
            && (last.category != Category::HostOperator || self.common(last.operator, next.operator).is_some())
            && (last.category != Category::HostRuntime || last.event == next.event)
    }

    /// The innermost event around two of one thread: `a`, or what encloses it and `b`.
    fn common(&self, a: EventId, b: EventId) -> EventId {
        let events = &self.trace.events;
        if b.is_none() {
            return EventId::NONE;
        }
        let encloses =
            |e: &EventId| events.start[e.index()] <= events.start[b.index()] && events.end(b) <= events.end(*e);
        self.enclosing().chain(self.trace, a).find(encloses).into()
    }

    /// Innermost operator and Python frame of an event: itself, around it, or around the launch of GPU work.
    fn owners(&self, event: EventId) -> (EventId, EventId) {
        if event.is_none() {
            return (EventId::NONE, EventId::NONE);
        }
        match self.trace.gpu.of_event(event) {
            Some(gpu) => (self.trace.gpu.operator[gpu.index()], self.trace.gpu.python[gpu.index()]),
            None => (self.enclosing().operator(event), self.enclosing().frame(event)),
        }
    }

    /// Hops as text.
    pub fn hop_reports(&self, path: &ExactPath, stretches: &[Stretch]) -> Vec<HopReport> {
        let name = |event: EventId| event.some().map(|e| self.trace.name(e).to_owned());
        let report = |s: &Stretch| HopReport {
            start_ns: s.start - path.window.start,
            end_ns: s.end - path.window.start,
            category: s.category,
            track: self.track_label(s.track),
            event: s.event.some().map(|e| self.trace.events.source_index[e.index()]),
            name: name(s.event).unwrap_or_default(),
            operator: name(s.operator),
            frame: name(s.frame),
            evidence: s.evidence,
            rule: s.rule,
        };
        stretches.iter().map(report).collect()
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

fn is_host(hop: &Hop) -> bool {
    hop.node != NONE && matches!(hop.rule, "innermost_span" | "gap")
}
