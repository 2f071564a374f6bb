//! Functions in gaps between operators of a recording, by their samples.
//!
//! Between operators, only sampled calls have a span. A program does the same work in each occurrence of a gap, so the
//! functions of a gap's samples divide the time of all its occurrences, as in findings and in `what-if`.

use super::LargeKind;
use super::groups::GroupKey;
use crate::host_gaps::HostGap;
use crate::rule_context::RuleContext;
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::{Category, PathSegment};
use stackline_model::{EventId, EventKind, SampleWeights, StrId, TrackId};
use std::collections::BTreeMap;

/// Functions of samples: the groups that their time belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SampledFunctions {
    /// True if a finding covers the samples.
    pub(super) is_covered: bool,
    /// Innermost function.
    pub(super) innermost: Option<StrId>,
    /// Groups of the innermost function and of the innermost function of the user.
    pub(super) keys: Vec<GroupKey>,
}

/// Division of a gap's time among the functions of its samples.
#[derive(Debug, Default)]
struct Division {
    /// Functions with their sampled time, and the time that they received so far, in ns.
    functions: Vec<(SampledFunctions, i64, i64)>,
    /// Total time of the samples in ns.
    sampled_ns: i64,
    /// Total time divided so far, in ns.
    divided_ns: i64,
}

impl Division {
    /// Functions that receive the next part of the time: those that lack most of their share.
    fn next(&mut self, ns: i64) -> Option<&SampledFunctions> {
        self.divided_ns += ns;
        let all = self.divided_ns as f64 / self.sampled_ns.max(1) as f64;
        let lacks = |at: usize| self.functions[at].1 as f64 * all - self.functions[at].2 as f64;
        let most = (0..self.functions.len()).reduce(|most, at| if lacks(at) > lacks(most) { at } else { most })?;
        let (functions, _, received) = self.functions.get_mut(most)?;
        *received += ns;
        Some(functions)
    }
}

/// Gaps with samples.
#[derive(Default)]
pub(super) struct SampledGaps {
    /// Start, end and position in `divisions` of each occurrence of a gap, by thread and start. Occurrences of one
    /// thread do not overlap.
    by_track: BTreeMap<TrackId, Vec<(i64, i64, usize)>>,
    divisions: Vec<Division>,
}

impl SampledGaps {
    /// Find the gaps with samples; none without a recording. `covered`: events and samples that findings cover.
    pub(super) fn new(context: &RuleContext<'_>, covered: &FxHashSet<EventId>) -> Self {
        let (trace, mut found) = (context.trace(), Self::default());
        if context.recording().is_none() {
            return found;
        }
        let is_function = |&event: &EventId| trace.kind(event) == EventKind::PythonFunction;
        let names: FxHashSet<StrId> =
            trace.events.ids().filter(is_function).map(|event| trace.events.name[event.index()]).collect();
        let weights = SampleWeights::new(trace);
        for host_gap in &context.host_gaps().all {
            let division = division(context, host_gap, (covered, &names), &weights);
            let Some(track) = host_gap.track.filter(|_| !division.functions.is_empty()) else { continue };
            let at = found.divisions.len();
            found.divisions.push(division);
            let span = |&(before, after): &(EventId, EventId)| {
                (trace.events.end(before), trace.events.start[after.index()], at)
            };
            found.by_track.entry(track).or_default().extend(host_gap.occurrences.iter().map(span));
        }
        found.by_track.values_mut().for_each(|spans| spans.sort_unstable());
        found
    }

    /// Functions of a critical-path segment in a gap; `None` elsewhere. An event that begins in the gap and is no
    /// function is work of its own.
    pub(super) fn functions_of(
        &mut self,
        context: &RuleContext<'_>,
        segment: &PathSegment,
        event: Option<EventId>,
    ) -> Option<&SampledFunctions> {
        let trace = context.trace();
        if segment.category == Category::Unknown {
            return None;
        }
        let gaps = self.by_track.get(&segment.track)?;
        let middle = segment.start + (segment.end - segment.start) / 2;
        let last = gaps.partition_point(|gap| gap.0 <= middle).checked_sub(1)?;
        let &(from, to, at) = gaps.get(last).filter(|gap| middle < gap.1)?;
        let is_around = |event: EventId| trace.events.start[event.index()] <= from && trace.events.end(event) >= to;
        let is_of_gap = |event: EventId| trace.kind(event) == EventKind::PythonFunction || is_around(event);
        if !event.is_none_or(is_of_gap) {
            return None;
        }
        self.divisions.get_mut(at)?.next(segment.end - segment.start)
    }
}

/// Sampled time of a gap by functions: of wall time, otherwise of CPU time and waits.
fn division(
    context: &RuleContext<'_>,
    host_gap: &HostGap,
    (covered, names): (&FxHashSet<EventId>, &FxHashSet<StrId>),
    weights: &SampleWeights<'_>,
) -> Division {
    let lists = match host_gap.wall.events.is_empty() {
        true => [&host_gap.cpu.events[..], &host_gap.waits.events[..]],
        false => [&host_gap.wall.events[..], &[]],
    };
    let mut by_functions: BTreeMap<SampledFunctions, i64> = BTreeMap::new();
    for &sample in lists.into_iter().flatten() {
        let ns = weights.get(sample).map_or(0, |(_, ns)| ns);
        let functions = || context.frames_of_sample(sample).filter(|name| names.contains(name));
        let innermost = functions().next();
        let own = functions().find(|&name| context.is_own_name(name));
        let mut keys: Vec<GroupKey> = innermost.into_iter().chain(own).map(|name| (LargeKind::Frame, name)).collect();
        keys.sort_unstable();
        keys.dedup();
        let is_covered = covered.contains(&sample);
        *by_functions.entry(SampledFunctions { is_covered, innermost, keys }).or_default() += ns;
    }
    let sampled_ns = by_functions.values().sum();
    let functions = by_functions.into_iter().map(|(functions, ns)| (functions, ns, 0)).collect();
    Division { functions, sampled_ns, divided_ns: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_divide_the_time_of_gaps() {
        let of = |name: usize| SampledFunctions { innermost: Some(StrId::new(name)), ..SampledFunctions::default() };
        let mut division = Division { functions: vec![(of(0), 30, 0), (of(1), 10, 0)], sampled_ns: 40, divided_ns: 0 };
        let names: Vec<usize> = (0..8).map(|_| division.next(5).unwrap().innermost.unwrap().index()).collect();
        // Of 40 ns, 30 and 10.
        assert_eq!(names.iter().filter(|&&name| name == 0).count(), 6, "{names:?}");
        assert_eq!((division.functions[0].2, division.functions[1].2), (30, 10));
        assert!(Division::default().next(5).is_none());
    }
}
