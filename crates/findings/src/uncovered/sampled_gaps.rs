//! Functions in gaps between operators of a recording, by their samples.
//!
//! Between operators, only sampled calls have a span. A program does the same work in each occurrence of a gap, so the
//! functions of a gap's samples divide the time of all its occurrences, as in findings and in `what-if`.

use super::covered_gaps::reaches_beyond;
use super::path_part::GroupKey;
use crate::host_gaps::HostGap;
use crate::large_group::LargeKind;
use crate::rule_context::RuleContext;
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::{Category, PathSegment};
use stackline_model::{EventId, EventKind, SampleWeights, StrId, TrackId};
use stackline_timeline::frame_functions::FrameFunctions;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Functions that samples show in a gap, and the groups to which the samples' time belongs.
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
    /// Order in which they receive the next parts: the middles of these parts, with their positions.
    order: BinaryHeap<Reverse<(i128, usize)>>,
    /// Usual length of a part, in ns.
    part_ns: i64,
}

impl Division {
    /// Create a division among functions with sampled times.
    fn new(functions: impl IntoIterator<Item = (SampledFunctions, i64)>, part_ns: i64) -> Self {
        let functions: Vec<_> = functions.into_iter().map(|(functions, sampled)| (functions, sampled, 0)).collect();
        let order = functions
            .iter()
            .enumerate()
            .map(|(at, &(_, sampled, _))| Reverse((next_part_key(sampled, 0, part_ns), at)));
        Self { order: order.collect(), functions, part_ns }
    }

    /// Assign the next `ns` of the gap's time; returns the functions that receive them, `None` without functions.
    fn assign(&mut self, ns: i64) -> Option<&SampledFunctions> {
        let Reverse((_, at)) = self.order.pop()?;
        let (functions, sampled, received) = self.functions.get_mut(at)?;
        *received += ns;
        self.order.push(Reverse((next_part_key(*sampled, *received, self.part_ns), at)));
        Some(functions)
    }
}

/// Priority of a function for the next part of a gap's time: the middle of this part relative to the function's sampled
/// time. The lowest is next, so each function receives its share of the time, within about one part.
fn next_part_key(sampled: i64, received: i64, part_ns: i64) -> i128 {
    let middle = i128::from(received) + i128::from(part_ns / 2);
    (middle << 32) / i128::from(sampled.max(1))
}

/// Host gaps with samples, and the division of their time among the sampled functions.
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
        let (weights, functions) = (SampleWeights::new(trace), FrameFunctions::new(trace));
        for host_gap in &context.host_gaps().all {
            let division = division(context, host_gap, (covered, &names), (&weights, &functions));
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

    /// Functions of a critical-path segment in a gap; `None` elsewhere. An event that begins and ends in the gap and is
    /// no function is work of its own.
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
        let is_of_gap =
            |event: EventId| trace.kind(event) == EventKind::PythonFunction || reaches_beyond(trace, event, (from, to));
        if !event.is_none_or(is_of_gap) {
            return None;
        }
        self.divisions.get_mut(at)?.assign(segment.end - segment.start)
    }
}

/// Divide the sampled time of a gap among functions: wall time samples, otherwise samples of CPU time and waits.
fn division(
    context: &RuleContext<'_>,
    host_gap: &HostGap,
    (covered, names): (&FxHashSet<EventId>, &FxHashSet<StrId>),
    (weights, functions_of_frames): (&SampleWeights<'_>, &FrameFunctions),
) -> Division {
    let lists = match host_gap.wall.events.is_empty() {
        true => [&host_gap.cpu.events[..], &host_gap.waits.events[..]],
        false => [&host_gap.wall.events[..], &[]],
    };
    let mut by_functions: BTreeMap<SampledFunctions, i64> = BTreeMap::new();
    for &sample in lists.into_iter().flatten() {
        let ns = weights.get(sample).map_or(0, |(_, ns)| ns);
        let frames = || context.frames_of_sample(sample).map(|frame| functions_of_frames.function_of(frame));
        let functions = || frames().filter(|name| names.contains(name));
        let innermost = functions().next();
        let own = functions().find(|&name| context.is_own_name(name));
        let mut keys: Vec<GroupKey> = innermost.into_iter().chain(own).map(|name| (LargeKind::Frame, name)).collect();
        keys.sort_unstable();
        keys.dedup();
        let is_covered = covered.contains(&sample);
        *by_functions.entry(SampledFunctions { is_covered, innermost, keys }).or_default() += ns;
    }
    let part_ns = host_gap.ns.checked_div(host_gap.occurrences.len() as i64).unwrap_or(0);
    Division::new(by_functions, part_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_divide_the_time_of_gaps() {
        let of = |name: usize| SampledFunctions { innermost: Some(StrId::new(name)), ..SampledFunctions::default() };
        let mut division = Division::new([(of(0), 30), (of(1), 10)], 5);
        let names: Vec<usize> = (0..8).map(|_| division.assign(5).unwrap().innermost.unwrap().index()).collect();
        // Of 40 ns, 30 and 10.
        assert_eq!(names.iter().filter(|&&name| name == 0).count(), 6, "{names:?}");
        assert_eq!((division.functions[0].2, division.functions[1].2), (30, 10));
        assert!(Division::default().assign(5).is_none());
    }
    #[test]
    fn rare_functions_receive_no_more_than_their_share() {
        let of = |name: usize| SampledFunctions { innermost: Some(StrId::new(name)), ..SampledFunctions::default() };
        // Half of the time is of one function; 50 others have 1 % each.
        let mut division = Division::new((0..51).map(|name| (of(name), if name == 0 { 500 } else { 10 })), 10);
        let mut received = |parts: usize| {
            (0..parts).for_each(|_| assert!(division.assign(10).is_some()));
            division.functions.iter().map(|(.., received)| *received).collect::<Vec<i64>>()
        };
        assert_eq!(received(10)[0], 100, "the first parts are of the most frequent function");
        let all = received(90);
        assert!(all[0] == 500 && all[1..].iter().all(|&ns| ns == 10), "{all:?}");
    }
}
