//! Waits of threads that samples of blocked threads show ([`SampleMetric::WaitTime`]), used to divide host time.

use super::Exact;
use super::category::Category;
use super::path::ExactPath;
use super::thread_timelines::ThreadTimeline;
use crate::gpu_dependency::Evidence;
use rustc_hash::FxHashMap;
use stackline_model::{Sample, SampleMetric, Trace, TrackId};
use stackline_timeline::source_location::{SourceLocation, SourceLocations};
use std::collections::BTreeMap;

/// Rule of path segments in which samples show the thread blocked.
const RULE: &str = "wait_samples";

/// Rule of path segments between recorded steps (`stackline record --every`), in which nothing is known of the program.
pub const UNRECORDED_RULE: &str = "unrecorded_steps";

/// Part of a host thread's time with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostPart {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) category: Category,
    pub(super) evidence: Evidence,
    pub(super) rule: &'static str,
}

/// Time ranges per lane in which samples show the thread blocked, and in which it was not recorded. Each list is
/// disjoint and in time order.
pub(super) struct SampledWaits {
    waits: Vec<Vec<(i64, i64)>>,
    unrecorded: Vec<Vec<(i64, i64)>>,
}

impl SampledWaits {
    /// Collect, per host thread, the time ranges of blocked samples and the pauses of the recording.
    pub(super) fn new(trace: &Trace, lanes: &[ThreadTimeline]) -> Self {
        let mut by_track: FxHashMap<TrackId, Vec<(i64, i64)>> = FxHashMap::default();
        for (track, samples) in trace.samples().of_metric(SampleMetric::WaitTime) {
            let ranges = by_track.entry(track).or_default();
            for (_, (from, to)) in sampled_ranges(samples.map(|sample| ((), sample))) {
                match ranges.last_mut().filter(|last| last.1 == from) {
                    Some(last) => last.1 = to,
                    None => ranges.push((from, to)),
                }
            }
        }
        let waits = lanes.iter().map(|lane| by_track.remove(&lane.track).unwrap_or_default()).collect();
        let pauses = || trace.pauses().iter().map(|pause| (pause.start, pause.end));
        let unrecorded = |lane: &ThreadTimeline| {
            pauses().filter(|&pause| trace.overlaps_unrecorded(lane.track, pause)).collect::<Vec<_>>()
        };
        Self { waits, unrecorded: lanes.iter().map(unrecorded).collect() }
    }

    /// Total number of time ranges, blocked or not recorded, of all lanes.
    fn count(&self) -> usize {
        self.waits.iter().chain(&self.unrecorded).map(Vec::len).sum()
    }
}

/// Time ranges of one lane that overlap the range from `from` to `to`.
fn ranges_during(by_lane: &[Vec<(i64, i64)>], lane: usize, (from, to): (i64, i64)) -> &[(i64, i64)] {
    let ranges = by_lane.get(lane).map_or(&[][..], Vec::as_slice);
    let first = ranges.partition_point(|&(_, end)| end <= from);
    let last = ranges.partition_point(|&(start, _)| start < to);
    &ranges[first..last.max(first)]
}

/// Time ranges that the samples of one thread represent, each with the value next to its sample. A sample represents
/// the time before it, without that of earlier samples.
fn sampled_ranges<T>(samples: impl Iterator<Item = (T, Sample)>) -> impl Iterator<Item = (T, (i64, i64))> {
    let range = |until: &mut i64, (of, sample): (T, Sample)| {
        let from = sample.time.saturating_sub(sample.weight).max(*until);
        *until = sample.time.max(*until);
        Some((of, (from, sample.time)))
    };
    samples.scan(i64::MIN, range).filter(|(_, (from, to))| from < to)
}

/// Divide a time range at the waits that overlap it, in time order. The flag is true for waits.
fn divide(waits: &[(i64, i64)], (from, to): (i64, i64)) -> impl DoubleEndedIterator<Item = (i64, i64, bool)> {
    // Each wait follows the time since the wait before it.
    let part = move |i: usize| match waits.get(i / 2) {
        Some(&(start, end)) if i % 2 == 1 => (start.max(from), end.min(to), true),
        next => {
            let start = (i / 2).checked_sub(1).map_or(from, |before| waits[before].1.min(to));
            (start, next.map_or(to, |&(start, _)| start.max(from)), false)
        }
    };
    (0..=2 * waits.len()).map(part).filter(|(start, end, _)| start < end)
}

impl Exact<'_> {
    /// Sampled waits of all threads, computed on first use.
    fn sampled_waits(&self) -> &SampledWaits {
        self.sampled_waits.get_or_init(|| SampledWaits::new(self.trace, &self.lanes))
    }

    /// Maximum number of segments that sampled waits add to a path.
    pub(super) fn most_wait_segments(&self) -> usize {
        2 * self.sampled_waits().count()
    }

    /// Divide time of a host thread into running, waiting and unrecorded parts, in time order. Python code is a wait
    /// ([`Category::HostBlocked`]) where samples show the thread blocked. Its cause is unknown where the recording
    /// paused. The time must have one innermost span.
    pub(super) fn host_parts(&self, lane: usize, whole: HostPart) -> impl DoubleEndedIterator<Item = HostPart> {
        let range = (whole.start, whole.end);
        // Operators are recorded until their end.
        let unrecorded: &[(i64, i64)] = match whole.category {
            Category::HostPython | Category::HostDataLoading => {
                ranges_during(&self.sampled_waits().unrecorded, lane, range)
            }
            _ => &[],
        };
        divide(unrecorded, range).flat_map(move |(start, end, is_unrecorded)| {
            let (category, evidence) = (Category::Unknown, Evidence::Inferred);
            let part = match is_unrecorded {
                true => HostPart { start, end, category, evidence, rule: UNRECORDED_RULE },
                false => HostPart { start, end, ..whole },
            };
            self.waiting_parts(lane, part)
        })
    }

    /// Divide time of a host thread at the sampled waits in Python code.
    fn waiting_parts(&self, lane: usize, whole: HostPart) -> impl DoubleEndedIterator<Item = HostPart> {
        let range = (whole.start, whole.end);
        let waits: &[(i64, i64)] = match whole.category {
            Category::HostPython => ranges_during(&self.sampled_waits().waits, lane, range),
            _ => &[],
        };
        divide(waits, range).map(move |(start, end, is_wait)| match is_wait {
            // The object that the thread waited for is not recorded.
            true => HostPart { start, end, category: Category::HostBlocked, evidence: Evidence::Inferred, rule: RULE },
            false => HostPart { start, end, ..whole },
        })
    }

    /// Source line with the most sampled wait time on the path ([`Category::HostBlocked`]); `None` without waits.
    pub fn wait_line(&self, path: &ExactPath) -> Option<SourceLocation> {
        let mut waits: BTreeMap<TrackId, Vec<(i64, i64)>> = BTreeMap::new();
        for segment in path.segments.iter().filter(|segment| segment.category == Category::HostBlocked) {
            waits.entry(segment.track).or_default().push((segment.start, segment.end));
        }
        if waits.is_empty() {
            return None;
        }
        let places = SourceLocations::new(self.trace);
        let mut by_line: BTreeMap<SourceLocation, i64> = BTreeMap::new();
        let is_wait = |metric: Option<SampleMetric>| metric == Some(SampleMetric::WaitTime);
        for (series, samples) in self.trace.sample_events().filter(|(series, _)| is_wait(series.metric)) {
            let Some(segments) = waits.get(&series.track) else { continue };
            for (event, range) in sampled_ranges(samples) {
                let ns = overlap_ns(segments, range);
                if ns > 0 {
                    let line = places.line_of_sample(event).unwrap_or_else(|| places.place(places.line_key(event)));
                    *by_line.entry(line).or_default() += ns;
                }
            }
        }
        by_line.into_iter().max_by_key(|(_, ns)| *ns).map(|(line, _)| line)
    }
}

/// Time in ns that ascending, disjoint segments share with a time range.
fn overlap_ns(segments: &[(i64, i64)], (from, to): (i64, i64)) -> i64 {
    let first = segments.partition_point(|&(_, end)| end <= from);
    let within = segments[first..].iter().take_while(|&&(start, _)| start < to && from < to);
    within.map(|&(start, end)| end.min(to) - start.max(from)).sum()
}

#[cfg(test)]
mod tests {
    use super::{divide, overlap_ns, sampled_ranges};
    use stackline_model::Sample;

    #[test]
    fn overlap_of_a_time_range_with_segments() {
        let segments = [(0, 10), (20, 30), (30, 50)];
        assert_eq!(overlap_ns(&segments, (5, 35)), 5 + 10 + 5);
        assert_eq!(overlap_ns(&segments, (10, 20)), 0);
        assert_eq!(overlap_ns(&segments, (25, 5)), 0, "a negative weight");
        assert_eq!(overlap_ns(&segments, (60, 70)), 0);
    }

    #[test]
    fn samples_represent_the_time_since_the_sample_before() {
        let samples = [(10, 5), (18, 20), (30, 4), (40, -1)];
        let samples = samples.map(|(time, weight)| (time, Sample { time, location: 0, weight }));
        let ranges: Vec<_> = sampled_ranges(samples.into_iter()).collect();
        assert_eq!(ranges, [(10, (5, 10)), (18, (10, 18)), (30, (26, 30))]);
    }

    #[test]
    fn parts_cover_a_time_range_without_overlap() {
        let parts = |waits: &[(i64, i64)], range| divide(waits, range).collect::<Vec<_>>();
        assert_eq!(parts(&[], (0, 9)), [(0, 9, false)]);
        assert_eq!(
            parts(&[(2, 4), (6, 7)], (0, 9)),
            [(0, 2, false), (2, 4, true), (4, 6, false), (6, 7, true), (7, 9, false)]
        );
        assert_eq!(parts(&[(-5, 3), (8, 20)], (0, 9)), [(0, 3, true), (3, 8, false), (8, 9, true)]);
        assert_eq!(parts(&[(-5, 20)], (0, 9)), [(0, 9, true)]);
        let latest_first: Vec<_> = divide(&[(2, 4)], (0, 9)).rev().collect();
        assert_eq!(latest_first, [(4, 9, false), (2, 4, true), (0, 2, false)]);
    }
}
