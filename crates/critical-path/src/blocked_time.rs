//! Time of the critical path in which samples show the thread blocked, although the path attributes it to Python code.

use crate::exact::{Category, ExactPath};
use stackline_model::{SampleMetric, Trace, TrackId};
use stackline_timeline::source_location::{SourceLocation, SourceLocations};
use std::collections::BTreeMap;

/// Time in which a thread of the critical path was blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedTime {
    /// Total time on the path, in ns.
    pub ns: i64,
    /// Source line with most of this time.
    pub line: SourceLocation,
}

/// Time on the path that counts as [`Category::HostPython`], but in which samples of blocked threads
/// ([`SampleMetric::WaitTime`]) show a wait. `None` without such samples on the path.
pub fn blocked_time(trace: &Trace, path: &ExactPath) -> Option<BlockedTime> {
    let mut python: BTreeMap<TrackId, Vec<(i64, i64)>> = BTreeMap::new();
    for segment in path.segments.iter().filter(|segment| segment.category == Category::HostPython) {
        python.entry(segment.track).or_default().push((segment.start, segment.end));
    }
    let mut found = Vec::new();
    for (series, samples) in trace.sample_events().filter(|(series, _)| series.metric == Some(SampleMetric::WaitTime)) {
        let Some(segments) = python.get(&series.track) else { continue };
        let mut until = i64::MIN;
        for (event, sample) in samples {
            // A sample represents the time before it.
            let from = sample.time.saturating_sub(sample.weight).max(until);
            until = sample.time;
            let ns = overlap_ns(segments, (from, sample.time));
            if ns > 0 {
                found.push((event, ns));
            }
        }
    }
    if found.is_empty() {
        return None;
    }
    let places = SourceLocations::new(trace);
    let mut by_line: BTreeMap<SourceLocation, i64> = BTreeMap::new();
    for &(event, ns) in &found {
        let line = places.line_of_sample(event).unwrap_or_else(|| places.place(places.line_key(event)));
        *by_line.entry(line).or_default() += ns;
    }
    let (line, _) = by_line.into_iter().max_by_key(|(_, ns)| *ns)?;
    Some(BlockedTime { ns: found.iter().map(|(_, ns)| ns).sum(), line })
}

/// Time that ascending, disjoint segments share with a time range.
fn overlap_ns(segments: &[(i64, i64)], (from, to): (i64, i64)) -> i64 {
    let first = segments.partition_point(|&(_, end)| end <= from);
    let within = segments[first..].iter().take_while(|&&(start, _)| start < to && from < to);
    within.map(|&(start, end)| end.min(to) - start.max(from)).sum()
}

#[cfg(test)]
mod tests {
    use super::overlap_ns;

    #[test]
    fn overlap_of_a_time_range_with_segments() {
        let segments = [(0, 10), (20, 30), (30, 50)];
        assert_eq!(overlap_ns(&segments, (5, 35)), 5 + 10 + 5);
        assert_eq!(overlap_ns(&segments, (10, 20)), 0);
        assert_eq!(overlap_ns(&segments, (25, 5)), 0, "a negative weight");
        assert_eq!(overlap_ns(&segments, (60, 70)), 0);
    }
}
