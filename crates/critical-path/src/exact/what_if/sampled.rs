//! Edits of Python frames known from samples: calls between samples have no span, but ran in gaps between operators.
//!
//! A recording has a span for a Python frame only if an operator or a sample shows it. So between two operators, only
//! sampled calls have a span. Gaps between operators with the same call paths belong to the same part of the program.
//! The frame's time in all of these gaps is the time of its samples, with their counting error, independent of the
//! sampled gap.
//!
//! Samples of CPU time do not show waits, and few waits have samples of their own. So if the samples of gaps take less
//! time than the gaps, the thread waited for the rest, in an unknown frame. The likely share divides this rest in
//! proportion to the samples. The lower bound assigns it to other frames, the upper bound to the frame.

use super::super::Exact;
use super::index::{Index, ThreadRange};
use stackline_model::{EventId, EventKind, SampleMetric, StackId, StrId, Trace, TrackId};
use stackline_timeline::frame_functions::FrameFunctions;
use stackline_timeline::sampling_error::count_bounds;
use std::collections::BTreeMap;

/// Gap between operators in which a sampled frame ran, and the frame's estimated share of the gap. The shares are lower
/// bound, likely value and upper bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartialGap {
    pub(super) gap: ThreadRange,
    pub(super) shares: [f64; 3],
    /// True if samples cover too little of such gaps: the thread also waited without a sample.
    pub(super) has_unsampled_wait: bool,
}

/// Minimum expected number of samples for gaps to count as a separate part of the program.
const MIN_EXPECTED_SAMPLES: i64 = 5;

/// Call path of an operator, and its name.
type Caller = (usize, StrId);

/// Sample of a thread's time.
struct Sample {
    at: i64,
    ns: i64,
    is_wall: bool,
    /// True if the frame ran, or called the work that ran.
    contains_frame: bool,
}

/// Group of similar gaps between operators, with the numbers of samples in them.
#[derive(Default)]
struct Gaps {
    gaps: Vec<ThreadRange>,
    ns: i64,
    /// Samples with the frame.
    with_frame: SampleSum,
    all: SampleSum,
}

/// Number of samples, and their total time in ns.
#[derive(Clone, Copy, Default)]
struct SampleSum {
    count: usize,
    ns: i64,
}

impl SampleSum {
    /// Add a number of samples and their total time in ns.
    fn add(&mut self, count: usize, ns: i64) {
        self.count += count;
        self.ns += ns;
    }

    /// Lower bound, likely value and upper bound of the sampled time in ns, by the error of counting.
    fn bounds(self) -> [f64; 3] {
        let (least, most) = count_bounds(self.count);
        let each = self.ns as f64 / self.count.max(1) as f64;
        [each * least, self.ns as f64, each * most]
    }
}

/// Find the gaps between operators in which frames of some names ran. Excluded are gaps that lie entirely in one of
/// `spans` (sorted by lane and time).
pub(super) fn partial_gaps(
    exact: &Exact<'_>,
    index: &Index,
    spans: &[ThreadRange],
    names: &dyn Fn(StrId) -> bool,
) -> Vec<PartialGap> {
    let trace = exact.trace();
    let mut by_track: BTreeMap<TrackId, Vec<EventId>> = BTreeMap::new();
    let is_operator = |event: EventId| trace.kind(event) == EventKind::Operator && trace.events.is_timed(event);
    for event in trace.events.ids().filter(|&event| is_operator(event)) {
        if !trace.ancestors(event).any(is_operator) {
            by_track.entry(trace.events.track[event.index()]).or_default().push(event);
        }
    }
    let samples = samples(trace, names);
    let mut found = Vec::new();
    for (track, mut operators) in by_track {
        let Some(samples) = samples.get(&track).filter(|samples| samples.iter().any(|sample| sample.contains_frame))
        else {
            continue;
        };
        let Some(lane) = operators.first().and_then(|&first| index.lane(trace, first)) else { continue };
        operators.sort_unstable_by_key(|&e| (trace.events.start[e.index()], trace.events.end(e), e));
        let inside = |&(of, from, to): &ThreadRange, (at, until): (i64, i64)| of == lane && from < at && until < to;
        let is_whole = |gap: (i64, i64)| {
            let begun = spans.partition_point(|&(of, from, _)| (of, from) < (lane, gap.0));
            begun.checked_sub(1).is_some_and(|last| inside(&spans[last], gap))
        };
        found.extend(thread_gaps(trace, (lane, &operators), samples, is_whole));
    }
    found.sort_unstable_by_key(|partly| partly.gap);
    found
}

/// Time samples of each thread, in time order. Each is marked if its call path contains a function whose name `names`
/// accepts.
fn samples(trace: &Trace, names: &dyn Fn(StrId) -> bool) -> BTreeMap<TrackId, Vec<Sample>> {
    let (table, functions) = (trace.samples(), FrameFunctions::new(trace));
    let is_selected = |frame: StrId| names(functions.function_of(frame));
    let contains_frame: Vec<bool> =
        table.locations().iter().map(|&location| trace.frames_at(location).any(is_selected)).collect();
    let mut found: BTreeMap<TrackId, Vec<Sample>> = BTreeMap::new();
    let is_time = |metric: SampleMetric| metric != SampleMetric::Count;
    for (series, rows) in table.series().filter(|(series, _)| series.metric.is_some_and(is_time)) {
        let is_wall = series.metric == Some(SampleMetric::WallTime);
        let of = found.entry(series.track).or_default();
        of.extend(rows.map(|row| Sample {
            at: row.time,
            ns: row.weight,
            is_wall,
            contains_frame: contains_frame[row.location as usize],
        }));
    }
    found.values_mut().for_each(|of| of.sort_unstable_by_key(|sample| (sample.at, sample.ns)));
    // Samples of wall time include both computing and waiting.
    for of in found.values_mut().filter(|of| of.iter().any(|sample| sample.is_wall)) {
        of.retain(|sample| sample.is_wall);
    }
    found
}

/// Gaps between the operators of a thread in which the frame ran, with its share by the samples of similar gaps.
fn thread_gaps(
    trace: &Trace,
    (lane, operators): (u32, &[EventId]),
    samples: &[Sample],
    is_whole: impl Fn((i64, i64)) -> bool,
) -> Vec<PartialGap> {
    let mut by_callers: BTreeMap<(Caller, Caller), Gaps> = BTreeMap::new();
    for pair in operators.windows(2) {
        let (from, to) = (trace.events.end(pair[0]), trace.events.start[pair[1].index()]);
        let track = trace.events.track[pair[0].index()];
        if from >= to || is_whole((from, to)) || trace.overlaps_unrecorded(track, (from, to)) {
            continue;
        }
        let gaps = by_callers.entry((caller(trace, pair[0]), caller(trace, pair[1]))).or_default();
        gaps.gaps.push((lane, from, to));
        gaps.ns += to - from;
        let first = samples.partition_point(|sample| sample.at < from);
        for sample in samples[first..].iter().take_while(|sample| sample.at < to) {
            gaps.all.add(1, sample.ns);
            if sample.contains_frame {
                gaps.with_frame.add(1, sample.ns);
            }
        }
    }
    let mut lengths: Vec<i64> = samples.iter().map(|sample| sample.ns).collect();
    lengths.sort_unstable();
    let least = lengths.get(lengths.len() / 2).copied().unwrap_or(0).saturating_mul(MIN_EXPECTED_SAMPLES);
    let (mut found, mut rest) = (Vec::new(), Gaps::default());
    for gaps in by_callers.into_values() {
        if gaps.ns >= least {
            found.extend(gaps.partial_gaps());
        } else {
            rest.ns += gaps.ns;
            rest.with_frame.add(gaps.with_frame.count, gaps.with_frame.ns);
            rest.all.add(gaps.all.count, gaps.all.ns);
            rest.gaps.extend(gaps.gaps);
        }
    }
    found.extend(rest.partial_gaps());
    found
}

/// Call path and name of an operator, by which similar gaps are grouped.
fn caller(trace: &Trace, operator: EventId) -> Caller {
    let stack = trace.stacks.of_event(operator).map_or(usize::MAX, StackId::index);
    (stack, trace.events.name[operator.index()])
}

impl Gaps {
    /// Estimate the frame's share in a group of similar gaps; no gaps if no sample of the group contains the frame.
    fn partial_gaps(self) -> impl Iterator<Item = PartialGap> {
        let (time, has_frame) = (self.ns.max(1) as f64, self.with_frame.count > 0);
        let ([least, likely, most], all) = (self.with_frame.bounds(), self.all.bounds());
        let has_unsampled_wait = all[2] < time;
        let [least, likely, most] = match has_unsampled_wait {
            true => [least, time * likely / all[1].max(1.0), most + time - all[0]],
            false => [least, likely, most],
        };
        let shares = [least, likely, most].map(|ns| (ns / time).clamp(0.0, 1.0));
        let partial_gap = move |gap| PartialGap { gap, shares, has_unsampled_wait };
        self.gaps.into_iter().filter(move |_| has_frame).map(partial_gap)
    }
}

/// Remove gaps from time ranges of threads; both are disjoint and sorted by lane and time.
pub(super) fn subtract_gaps(ranges: &[ThreadRange], gaps: &[PartialGap]) -> Vec<ThreadRange> {
    let mut left = Vec::with_capacity(ranges.len());
    for &(lane, mut from, to) in ranges {
        let first = gaps.partition_point(|partly| (partly.gap.0, partly.gap.2) <= (lane, from));
        for &PartialGap { gap: (_, begin, end), .. } in
            gaps[first..].iter().take_while(|partly| partly.gap.0 == lane && partly.gap.1 < to)
        {
            if from < begin {
                left.push((lane, from, begin));
            }
            from = from.max(end);
        }
        if from < to {
            left.push((lane, from, to));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_subtracted() {
        let gap = |from, to| PartialGap { gap: (0, from, to), shares: [0.0; 3], has_unsampled_wait: false };
        let gaps = [gap(10, 20), gap(30, 40), gap(50, 60)];
        assert_eq!(
            subtract_gaps(&[(0, 0, 5), (0, 12, 35), (0, 38, 70), (1, 0, 99)], &gaps),
            [(0, 0, 5), (0, 20, 30), (0, 40, 50), (0, 60, 70), (1, 0, 99)]
        );
    }

    /// Four of five samples of 30 ns have the frame. By counting, five samples stand for 1.6 to 11.7.
    #[test]
    fn waits_without_samples_are_divided_by_the_samples() {
        let shares = |ns: i64| {
            let (with_frame, all) = (SampleSum { count: 4, ns: 120 }, SampleSum { count: 5, ns: 150 });
            let gaps = Gaps { gaps: vec![(0, 0, ns)], ns, with_frame, all };
            let gap = gaps.partial_gaps().next().unwrap();
            (gap.shares, gap.has_unsampled_wait)
        };
        // 4 samples stand for 1.09 to 10.24: 0.03 and 0.3 of 1,000 ns, of which at least 650 ns are waits.
        let ([least, likely, most], has_wait) = shares(1_000);
        assert!(has_wait && (0.03..0.036).contains(&least) && most >= 1.0, "{least} {most}");
        assert!((likely - 0.8).abs() < 1e-9, "{likely}");
        // Samples may cover all of 200 ns.
        let ([least, likely, most], has_wait) = shares(200);
        assert!(!has_wait && (0.15..0.18).contains(&least) && most >= 1.0, "{least} {most}");
        assert!((likely - 0.6).abs() < 1e-9, "{likely}");
    }
}
