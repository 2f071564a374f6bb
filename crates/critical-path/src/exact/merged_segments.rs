//! Merged critical-path segments for reports: adjacent segments of one event become one, with operator and frame.

use super::category::Category;
use super::path::ExactPath;
use super::segment_list::PathSegment;
use super::{Exact, NONE};
use crate::PathPoint;
use crate::gpu_dependency::Evidence;
use rustc_hash::FxHashSet;
use serde::Serialize;
use stackline_model::{EventId, TrackId};
use stackline_timeline::import_frames::ImportFrames;

/// Critical-path segment with one cause, one track and one event, merged from adjacent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergedSegment {
    /// Start in ns since the trace's base.
    pub start: i64,
    /// End in ns since the trace's base.
    pub end: i64,
    /// Cause.
    pub category: Category,
    /// Thread or stream; none for unexplained time.
    pub track: TrackId,
    /// Event: on threads the innermost span; none in gaps.
    pub event: EventId,
    /// Innermost operator around the event; for GPU work, the launching operator.
    pub operator: EventId,
    /// Innermost Python frame around the event; for GPU work, the frame around its launch.
    pub frame: EventId,
    /// Evidence of the cause.
    pub evidence: Evidence,
    /// Rule of the cause.
    pub rule: &'static str,
    /// Node of the graph; [`NONE`] for unexplained time.
    pub node: u32,
}

/// A merged segment ([`MergedSegment`]) as text, with times since the start of the window. Fields are in alphabetical
/// order, as in the JSON document.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SegmentReport<'a> {
    /// Cause.
    pub category: Category,
    /// End in ns since the start of the window.
    pub end_ns: i64,
    /// Position of the event in the source's event list; none in gaps.
    pub event: Option<u32>,
    /// Evidence of the cause.
    pub evidence: Evidence,
    /// Innermost Python frame around the event; for GPU work, the frame around its launch.
    pub frame: Option<&'a str>,
    /// Name of the event.
    pub name: &'a str,
    /// Innermost operator around the event; for GPU work, the launching operator.
    pub operator: Option<&'a str>,
    /// Rule of the cause.
    pub rule: &'static str,
    /// Start in ns since the start of the window.
    pub start_ns: i64,
    /// Label of the thread or stream.
    pub track: &'a str,
}

/// Segments of a path as text, created lazily because a long path has hundreds of thousands.
pub struct SegmentReports<'a> {
    exact: &'a Exact<'a>,
    path: &'a ExactPath,
    /// Label per track.
    labels: Vec<String>,
}

impl SegmentReports<'_> {
    /// Merged segments of the critical path as text, in time order.
    pub fn segments(&self) -> impl Iterator<Item = SegmentReport<'_>> {
        self.exact.merged_segments(self.path).map(|s| self.segment(&s))
    }

    /// Merged segments of the critical path as text, in time order. Consecutive segments of imports of modules become
    /// one, with the number of its calls.
    pub(super) fn with_imports_folded(&self) -> Vec<(SegmentReport<'_>, Option<usize>)> {
        let trace = self.exact.trace;
        let imports = ImportFrames::from_trace(trace);
        let mut rows: Vec<(SegmentReport<'_>, Option<usize>)> = Vec::new();
        let mut calls: FxHashSet<EventId> = FxHashSet::default();
        for merged in self.exact.merged_segments(self.path) {
            let segment = self.segment(&merged);
            let is_import = imports
                .as_ref()
                .zip(merged.event.some())
                .is_some_and(|(imports, event)| imports.import_of(event).is_some());
            if !is_import {
                rows.push((segment, None));
                continue;
            }
            let last = rows.last_mut().filter(|(last, count)| count.is_some() && is_of_same_cause(last, &segment));
            if let Some((last, count)) = last {
                calls.insert(merged.event);
                last.end_ns = segment.end_ns;
                *count = Some(calls.len());
            } else {
                calls.clear();
                calls.insert(merged.event);
                rows.push((SegmentReport { event: None, frame: None, operator: None, ..segment }, Some(1)));
            }
        }
        rows
    }

    /// Start and end of each path segment that has an event, in the format of the other methods' paths.
    pub fn points(&self) -> impl Iterator<Item = PathPoint<'_>> {
        self.segments().filter_map(end_points).flatten()
    }

    /// Convert a merged segment to text, with times since the start of the window.
    fn segment(&self, s: &MergedSegment) -> SegmentReport<'_> {
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
    /// Segments of a path in time order, with adjacent segments of the same event and cause merged.
    pub fn merged_segments<'b>(&'b self, path: &'b ExactPath) -> impl Iterator<Item = MergedSegment> + 'b {
        let mut segments = path.segments.iter().peekable();
        std::iter::from_fn(move || {
            let mut whole = self.merged_segment(&segments.next()?);
            while let Some(next) = segments.next_if(|next| is_host(next) && continues(&whole, next)) {
                whole.end = next.end;
            }
            Some(whole)
        })
    }

    /// Copy a single path segment, and add the operator and Python frame of its event.
    fn merged_segment(&self, segment: &PathSegment) -> MergedSegment {
        let (operator, frame) = self.operator_and_frame(segment.event);
        let PathSegment { start, end, category, track, event, evidence, rule, node } = *segment;
        MergedSegment { start, end, category, track, event, operator, frame, evidence, rule, node }
    }

    /// Innermost operator and Python frame of an event: the event itself, around it, or around the launch of GPU work.
    fn operator_and_frame(&self, event: EventId) -> (EventId, EventId) {
        if event.is_none() {
            return (EventId::NONE, EventId::NONE);
        }
        match self.trace.gpu_operation(event) {
            Some(gpu) => (self.trace.gpu.operator[gpu.index()], self.trace.gpu.python[gpu.index()]),
            None => (self.enclosing().operator(event), self.enclosing().frame(self.trace, event)),
        }
    }

    /// Prepare the text reports of a critical path's merged segments, with track labels.
    pub fn segment_reports<'b>(&'b self, path: &'b ExactPath) -> SegmentReports<'b> {
        SegmentReports { exact: self, path, labels: self.trace.tracks.ids().map(|t| self.track_label(t)).collect() }
    }

    /// Label of a track: process and thread, or device and stream.
    pub fn track_label(&self, track: TrackId) -> String {
        if track.is_none() {
            return String::new();
        }
        let trace = self.trace;
        format!("{}/{}", trace.key_text(trace.tracks.pid(track)), trace.key_text(trace.tracks.get(track).tid))
    }
}

/// True if two segments have the same cause, evidence and thread.
fn is_of_same_cause(last: &SegmentReport<'_>, next: &SegmentReport<'_>) -> bool {
    last.category == next.category
        && last.track == next.track
        && last.evidence == next.evidence
        && last.rule == next.rule
}

/// Start and end of a path segment as points of the path; `None` for a segment without event.
fn end_points(segment: SegmentReport<'_>) -> Option<[PathPoint<'_>; 2]> {
    let event = segment.event?;
    let point = |at: &'static str, time_ns| PathPoint {
        at: at.into(),
        event,
        name: segment.name.into(),
        time_ns,
        track: segment.track.into(),
    };
    Some([point("start", segment.start_ns), point("end", segment.end_ns)])
}

/// True if a segment continues the last one: same event, cause, evidence and thread.
fn continues(last: &MergedSegment, next: &PathSegment) -> bool {
    last.event == next.event
        && last.category == next.category
        && last.track == next.track
        && last.evidence == next.evidence
        && last.rule == next.rule
}

/// True if a segment is host time with a rule whose adjacent segments may be merged.
fn is_host(segment: &PathSegment) -> bool {
    segment.node != NONE && matches!(segment.rule, "innermost_span" | "gap" | "wait_samples")
}

#[cfg(test)]
mod tests {
    use crate::exact::{Exact, WindowChoice, segments_table};
    use stackline_model::Values;
    use stackline_testkit::mini;

    #[test]
    fn consecutive_segments_of_imports_are_one_row() {
        let json = mini::trace(
            "1/1  python_function  train.py(1): <module>                                    0..1000
             1/1  python_function  <frozen importlib._bootstrap>(9): _find_and_load         100..500
             1/1  python_function  <frozen importlib._bootstrap_external>(5): exec_module   150..450
             1/1  python_function  site-packages/numpy/__init__.py(1): <module>             200..400",
        );
        let trace = stackline_ingest::read_bytes("t", json.as_bytes(), &Default::default()).unwrap();
        let exact = Exact::new(&trace);
        let path = exact.path(&WindowChoice::Whole).unwrap();
        let reports = exact.segment_reports(&path);
        assert_eq!(reports.segments().filter(|segment| segment.name.contains("importlib")).count(), 4);
        let table = segments_table(&reports);
        let Values::Str(names) = &table.column("name").unwrap().values else { panic!("{table:?}") };
        let names: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
        assert_eq!(names, ["train.py(1): <module>", "imports (3 calls)", "train.py(1): <module>"]);
    }
}
