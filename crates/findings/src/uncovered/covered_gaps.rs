//! Gaps between operators whose samples belong to findings.
//!
//! Samples are rarer than gaps. The estimate of a finding covers all occurrences of its gap, so an occurrence without a
//! sample is covered, too.

use crate::host_gaps::HostGap;
use crate::rule_context::RuleContext;
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::PathSegment;
use stackline_model::{EventId, SampleWeights, Trace, TrackId};
use std::collections::BTreeMap;

/// True if an event contains an end of a gap, so that it is no work of its own in the gap: the event is around the gap,
/// or is a step that begins or ends in the gap.
pub(super) fn reaches_beyond(trace: &Trace, event: EventId, (from, to): (i64, i64)) -> bool {
    trace.events.start[event.index()] <= from || trace.events.end(event) >= to
}

/// Start and end of each occurrence of a covered gap, by thread and start. Occurrences of one thread do not overlap.
#[derive(Default)]
pub(super) struct CoveredGaps(BTreeMap<TrackId, Vec<(i64, i64)>>);

impl CoveredGaps {
    /// Find the gaps in which at least half of the sampled time belongs to events of findings.
    pub(super) fn new(context: &RuleContext<'_>, covered: &FxHashSet<EventId>) -> Self {
        let (trace, mut found) = (context.trace(), Self::default());
        let weights = SampleWeights::new(trace);
        let is_covered = |host_gap: &&HostGap| {
            let (mut all, mut of_findings) = (0, 0);
            for sample in [&host_gap.cpu, &host_gap.wall, &host_gap.waits].into_iter().flat_map(|of| &of.events) {
                let ns = weights.get(*sample).map_or(0, |(_, ns)| ns);
                all += ns;
                of_findings += if covered.contains(sample) { ns } else { 0 };
            }
            host_gap.is_one && of_findings > 0 && 2 * of_findings >= all
        };
        for host_gap in context.host_gaps().all.iter().filter(is_covered) {
            let Some(track) = host_gap.track else { continue };
            let span =
                |&(before, after): &(EventId, EventId)| (trace.events.end(before), trace.events.start[after.index()]);
            found.0.entry(track).or_default().extend(host_gap.occurrences.iter().map(span));
        }
        found.0.values_mut().for_each(|spans| spans.sort_unstable());
        found
    }

    /// Check if a segment is in a covered gap. An event that begins and ends in the gap is work of its own.
    pub(super) fn contains(&self, trace: &Trace, segment: &PathSegment, event: Option<EventId>) -> bool {
        let gaps = self.0.get(&segment.track).map_or(&[][..], Vec::as_slice);
        let middle = segment.start + (segment.end - segment.start) / 2;
        let last = gaps.partition_point(|gap| gap.0 <= middle).checked_sub(1);
        let is_around = |&(from, to): &(i64, i64)| {
            middle < to && event.is_none_or(|event| reaches_beyond(trace, event, (from, to)))
        };
        last.and_then(|last| gaps.get(last)).is_some_and(is_around)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::{EventKind, Key, NewEvent, Phase, StrId, TrackKind, flags};

    #[test]
    fn steps_that_begin_or_end_in_a_gap_are_no_work_of_the_gap() {
        let mut trace = Trace::default();
        let track = trace.tracks.track(Key::Int(1), Key::Int(1), TrackKind::Thread);
        let name = trace.strings.intern("ProfilerStep#1");
        for (start, dur, is_covered) in [(50, 200, true), (50, 80, true), (120, 300, true), (120, 30, false)] {
            let event = trace.events.push(NewEvent {
                start,
                dur,
                track,
                name,
                category: StrId::NONE,
                kind: EventKind::Annotation,
                phase: Phase::Complete,
                flags: flags::HAS_DURATION,
                source_index: 0,
            });
            assert_eq!(reaches_beyond(&trace, event, (100, 200)), is_covered, "{start} {dur}");
        }
    }
}
