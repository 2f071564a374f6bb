//! Parent of each event on a CPU thread, found by exact times, also if spans cross (overlap without nesting).
//!
//! Crossing is common in real traces: frames that open an annotation end inside it, and under `torch.compile` operators
//! exceed their Python frames by microseconds. The parent of a span is the innermost open span that covers its start
//! and at least half of it. For properly nested spans this is the usual stack rule.

use crate::byte_offsets::{ByteOffsets, ProblemTally};
use crate::diagnostics;
use stackline_model::{EventId, EventTable, Trace, TrackKind, flags};

/// Fill the parents of all events on CPU threads, and report events that cross with their byte offset. Requires the
/// time order.
pub(super) fn nest(trace: &mut Trace, places: &ByteOffsets) {
    let mut crossings = ProblemTally::default();
    let mut stack: Vec<(EventId, i64)> = Vec::new();
    for track in trace.tracks.ids() {
        if trace.tracks.get(track).kind != TrackKind::Thread {
            continue;
        }
        stack.clear();
        let order: Vec<EventId> = trace.track_events(track).to_vec();
        for event in order {
            if !trace.events.is_plausible(event) {
                continue;
            }
            if set_parent(&mut trace.events, &mut stack, event) {
                crossings.add(event, || trace.name(event).to_owned());
            }
        }
    }
    crossings.report(diagnostics::CROSSING, places, &mut trace.report);
}

/// Set the parent of an event, and push the event on the stack of open ones. Returns true if it crosses the end of an
/// open one.
#[inline]
fn set_parent(events: &mut EventTable, stack: &mut Vec<(EventId, i64)>, event: EventId) -> bool {
    let row = event.index();
    let (start, dur) = (events.start[row], events.dur[row]);
    let end = start.saturating_add(dur);
    while let Some(&(_, open_end)) = stack.last()
        && open_end <= start
    {
        stack.pop();
    }
    let middle = start + dur / 2;
    let mut crossing = false;
    for &(open, open_end) in stack.iter().rev() {
        if open_end <= start {
            continue;
        }
        if end > open_end {
            events.flags[row] |= flags::CROSSING;
            crossing = true;
        }
        if open_end >= middle {
            events.parent[row] = open;
            break;
        }
    }
    if dur > 0 {
        stack.push((event, end));
    }
    crossing
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stackline_model::{EventKind, Key, NewEvent, Phase, StrId};

    fn nested(spans: &[(i64, i64)]) -> Trace {
        let mut trace = Trace::default();
        let track = trace.tracks.track(Key::Int(1), Key::Int(1), TrackKind::Thread);
        for (i, &(start, end)) in spans.iter().enumerate() {
            let (name, category) = (StrId::NONE, StrId::NONE);
            let flags = flags::HAS_DURATION;
            let (kind, phase, source_index) = (EventKind::Operator, Phase::Complete, i as u32);
            let dur = end - start;
            trace.events.push(NewEvent { start, dur, track, name, category, kind, phase, flags, source_index });
            trace.attrs.push(&[], &[]);
        }
        trace.index_tracks();
        nest(&mut trace, &ByteOffsets::default());
        trace
    }

    fn parents(spans: &[(i64, i64)]) -> Vec<i64> {
        nested(spans).events.parent.iter().map(|p| p.some().map_or(-1, |p| i64::from(p.0))).collect()
    }

    #[test]
    fn an_annotation_opened_by_a_frame_is_not_its_child() {
        // record_function.__enter__ 0..10 opens the annotation 8..100; an operator runs in it.
        assert_eq!(parents(&[(0, 10), (8, 100), (20, 30)]), [-1, -1, 1]);
    }

    #[test]
    fn a_span_that_sticks_out_a_little_stays_a_child() {
        let trace = nested(&[(0, 100), (90, 105), (101, 104)]);
        let parent = |row: usize| trace.events.parent[row];
        assert_eq!((parent(1), parent(2)), (EventId(0), EventId(1)));
        assert!(trace.events.has(EventId(1), flags::CROSSING));
    }

    #[test]
    fn adjacent_and_equal_spans() {
        assert_eq!(parents(&[(0, 10), (10, 20), (10, 20), (20, 20)]), [-1, -1, 1, -1]);
    }

    proptest! {
        /// Oracle: for properly nested spans the parent is the smallest span that contains the child.
        #[test]
        fn proper_nesting_gives_the_smallest_container(cuts in proptest::collection::vec(0i64..1000, 2..40)) {
            let mut spans = vec![(0, 2000)];
            for pair in cuts.chunks_exact(2) {
                let (a, b) = (pair[0].min(pair[1]), pair[0].max(pair[1]) + 1);
                if spans.iter().all(|&(s, e)| (a >= s && b <= e) || (s >= a && e <= b) || b <= s || e <= a)
                    && !spans.contains(&(a, b))
                {
                    spans.push((a, b));
                }
            }
            let expected: Vec<i64> = spans.iter().enumerate().map(|(i, &(a, b))| {
                spans.iter().enumerate()
                    .filter(|&(j, &(s, e))| j != i && s <= a && b <= e)
                    .min_by_key(|(_, (s, e))| e - s)
                    .map_or(-1, |(j, _)| j as i64)
            }).collect();
            prop_assert_eq!(parents(&spans), expected);
        }
    }
}
