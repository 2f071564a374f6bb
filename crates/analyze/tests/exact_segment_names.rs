//! Names of path segments, compared with a plain search of all spans of a thread.

use crate::support;

use stackline_critical_path::exact::{Exact, MergedSegment, WindowChoice};
use stackline_model::{EventId, EventKind, Trace, TrackId};
use std::cell::RefCell;
use std::collections::HashMap;

/// Maximum number of segments to check, evenly spaced: a search of all spans of a thread for each segment takes long.
const MAX_SEGMENTS: usize = 1_500;

fn is_host_span(trace: &Trace, event: EventId) -> bool {
    let is_gpu = trace.kind(event).is_gpu_work();
    let is_mark = matches!(trace.kind(event), EventKind::GpuAnnotation);
    trace.events.is_timed(event) && trace.events.dur[event.index()] > 0 && !is_gpu && !is_mark
}

/// The spans of each thread: start, end, event.
#[derive(Default)]
struct Threads(HashMap<TrackId, Vec<(i64, i64, EventId)>>);

impl Threads {
    fn around(&mut self, trace: &Trace, segment: &MergedSegment) -> Vec<EventId> {
        let spans = self.0.entry(segment.track).or_insert_with(|| {
            let spans = trace.track_events(segment.track).iter().copied().filter(|&e| is_host_span(trace, e));
            spans.map(|e| (trace.events.start[e.index()], trace.events.end(e), e)).collect()
        });
        spans
            .iter()
            .filter(|&&(start, end, _)| start < segment.end && end > segment.start)
            .map(|&(_, _, e)| e)
            .collect()
    }
}

/// Length of a segment, and the part of it in which another name ran. At each moment, the name is that of the span around it that
/// began last, and of those that began together the shortest.
fn wrong(trace: &Trace, threads: &mut Threads, segment: &MergedSegment) -> (i64, i64) {
    let end = |e: EventId| trace.events.end(e);
    let start = |e: EventId| trace.events.start[e.index()];
    let around = threads.around(trace, segment);
    let mut cuts: Vec<i64> = around.iter().flat_map(|&e| [start(e), end(e)]).collect();
    cuts.extend([segment.start, segment.end]);
    cuts.retain(|at| (segment.start..=segment.end).contains(at));
    cuts.sort_unstable();
    cuts.dedup();
    let name = segment.event.some().map_or("", |e| trace.name(e));
    let mut wrong = 0;
    for part in cuts.windows(2) {
        let covers = |e: &&EventId| start(**e) <= part[0] && part[1] <= end(**e);
        let key = |e: &EventId| (start(*e), std::cmp::Reverse(end(*e)));
        let innermost = around.iter().filter(covers).map(key).max();
        let all = around.iter().filter(covers).filter(|e| Some(key(e)) == innermost);
        let names: Vec<&str> = all.map(|&e| trace.name(e)).collect();
        let is_right = if names.is_empty() { name.is_empty() } else { names.contains(&name) };
        wrong += if is_right { 0 } else { part[1] - part[0] };
    }
    (segment.end - segment.start, wrong)
}

#[test]
fn segments_are_named_after_the_running_span() {
    let worst = RefCell::new(Vec::new());
    support::for_each_trace(|name, trace| {
        let exact = Exact::new(trace);
        let Ok(path) = exact.path(&WindowChoice::Whole) else { return };
        let host: Vec<MergedSegment> =
            exact.merged_segments(&path).filter(|segment| matches!(segment.rule, "innermost_span" | "gap")).collect();
        let mut threads = Threads::default();
        let every = host.len().div_ceil(MAX_SEGMENTS).max(1);
        let (all, wrong) = host
            .iter()
            .step_by(every)
            .map(|segment| wrong(trace, &mut threads, segment))
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        println!("{name}: {} host segments, {wrong} of {all} ns named wrongly", host.len());
        worst.borrow_mut().push((1_000 * wrong / all.max(1), name.to_owned()));
    });
    let worst = worst.into_inner().into_iter().max();
    assert!(worst.as_ref().is_none_or(|(per_mille, _)| *per_mille < 1), "{worst:?}");
}
