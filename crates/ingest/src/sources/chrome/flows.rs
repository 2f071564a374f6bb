//! Flow arrows: points are collected first and linked once all events are known.

use super::categories::BACKWARD_FLOWS;
use crate::diagnostics;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, Key, LinkKind, StrId, Trace, TrackId, TrackKind};

/// Point type of a flow record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FlowPhase {
    /// Start of the arrow.
    Start,
    /// Intermediate point of the arrow.
    Step,
    /// End of the arrow.
    Finish,
}

/// Point of a flow arrow, from a flow record: its thread, arrow ID, time and type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowPoint {
    pub(crate) pid: Key,
    pub(crate) tid: Key,
    pub(crate) id: Key,
    pub(crate) category: StrId,
    /// Time in ns since the base.
    pub(crate) at: i64,
    pub(crate) phase: FlowPhase,
}

/// Bind flow points to events, and store the arrows between events in `trace.links`. Points of the `skip` categories
/// are ignored.
pub(crate) fn link(trace: &mut Trace, points: Vec<FlowPoint>, skip: &[&str]) {
    let skipped: Vec<StrId> = skip.iter().filter_map(|c| trace.strings.find(c)).collect();
    // Arrows are sorted by their first occurrence in the file; the points of an arrow may be in any order. Kineto
    // numbers arrows from forward to backward per process, so merged ranks must not be linked to each other.
    let local: Vec<StrId> = BACKWARD_FLOWS.iter().filter_map(|c| trace.strings.find(c)).collect();
    let mut arrows: FxHashMap<(StrId, Key, Key), u32> = FxHashMap::default();
    let mut tagged: Vec<(u32, FlowPoint)> = Vec::with_capacity(points.len());
    for point in points {
        if !skipped.contains(&point.category) {
            let next = arrows.len() as u32;
            let pid = if local.contains(&point.category) { point.pid } else { Key::None };
            tagged.push((*arrows.entry((point.category, point.id, pid)).or_insert(next), point));
        }
    }
    tagged.sort_by_key(|(arrow, p)| (*arrow, p.at, p.phase));
    let (mut links, mut dangling) = (Vec::new(), 0);
    for arrow in tagged.chunk_by(|a, b| a.0 == b.0) {
        let mut from: Option<EventId> = None;
        let mut linked = false;
        for (_, point) in arrow {
            match (point.phase, bind(trace, point), from) {
                (FlowPhase::Start, event, _) => from = event,
                (_, Some(to), Some(source)) => {
                    links.push((source, to, point.category));
                    linked = true;
                    from = (point.phase == FlowPhase::Step).then_some(to);
                }
                _ => {}
            }
        }
        dangling += u64::from(!linked);
    }
    trace.links.set(LinkKind::Flow, links);
    diagnostics::DANGLING_FLOW.count_many(&mut trace.report, dangling, None, "");
}

/// Event to which a flow point belongs: the innermost one of its track around its time; `None` if there is none.
fn bind(trace: &Trace, point: &FlowPoint) -> Option<EventId> {
    [TrackKind::Thread, TrackKind::Stream, TrackKind::Async].into_iter().find_map(|kind| {
        let track = trace.tracks.find(point.pid, point.tid, kind)?;
        innermost(trace, track, point.at)
    })
}

/// Innermost event of a track that covers the time (both ends included); `None` if none does.
fn innermost(trace: &Trace, track: TrackId, at: i64) -> Option<EventId> {
    let events = trace.track_events(track);
    let after = events.partition_point(|e| trace.events.start[e.index()] <= at);
    let last = *events.get(after.checked_sub(1)?)?;
    std::iter::once(last).chain(trace.ancestors(last)).find(|&e| trace.events.end(e) >= at)
}
