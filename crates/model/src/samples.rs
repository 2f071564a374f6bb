//! Samples of sampling profilers as columns of 16 bytes a sample.

use crate::kind::named_enum;
use crate::{AttrColumn, CallMetric, EventId, EventKind, LINE, StackId, StrId, Trace, TrackId};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::rc::Rc;

named_enum!(
    /// Metric of a sample: the meaning of its weight.
    SampleMetric {
        /// CPU time in ns.
        CpuTime = 0 "cpu_time",
        /// Wall time in ns.
        WallTime = 1 "wall_time",
        /// Waiting time of the thread in ns.
        WaitTime = 2 "wait_time",
        /// Increase of a counter.
        Count = 3 "count",
    }
);

impl SampleMetric {
    /// Name of the attribute of sample events that contains the weight.
    pub fn key(self) -> &'static str {
        match self {
            Self::CpuTime => "cpu_time_ns",
            // The former name of wall time. It is a stable key of run directories.
            Self::WallTime => "real_time_ns",
            Self::WaitTime => "wait_time_ns",
            Self::Count => "count",
        }
    }

    /// Metric of call trees that sums these weights; `None` for counts, whose metric is that of their counter.
    pub fn call_metric(self) -> Option<CallMetric> {
        match self {
            Self::CpuTime => Some(CallMetric::CpuTime),
            Self::WallTime => Some(CallMetric::WallTime),
            Self::WaitTime => Some(CallMetric::WaitTime),
            Self::Count => None,
        }
    }

    /// Unit of the weight: `ns`, or empty for counts.
    pub fn unit(self) -> &'static str {
        self.call_metric().map_or("", |metric| metric.unit().suffix())
    }
}

/// Reader of the metric and weight of sample events. An event has at most one; of several attributes the first metric
/// counts.
#[derive(Debug)]
pub struct SampleWeights<'a>(Vec<(SampleMetric, AttrColumn<'a>)>);

impl<'a> SampleWeights<'a> {
    /// Prepare access to the metrics and weights of a trace's sample events.
    pub fn new(trace: &'a Trace) -> Self {
        Self(SampleMetric::ALL.iter().map(|&metric| (metric, trace.attr(metric.key()))).collect())
    }

    /// Metric and weight of a sample; `None` if it has no weight.
    pub fn get(&self, sample: EventId) -> Option<(SampleMetric, i64)> {
        self.0.iter().find_map(|(metric, column)| Some((*metric, column.i64(sample)?)))
    }
}

/// Code location of samples: function, line and call path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SampleLocation {
    /// Innermost function; the stack may end with it, or with its caller.
    pub function: StrId,
    /// Executed line; 0 if it was not recorded.
    pub line: u32,
    /// Call path, if it was recorded.
    pub stack: StackId,
}

/// Samples of one metric on one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleSeries {
    /// Sampled thread or stream.
    pub track: TrackId,
    /// Metric; `None` if the source has no weight.
    pub metric: Option<SampleMetric>,
    /// End of the series' rows (exclusive).
    end: u32,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time in ns since the base.
    pub time: i64,
    /// Row of [`SampleTable::locations`].
    pub location: u32,
    /// Represented amount of the series' metric; 0 without a metric.
    pub weight: i64,
}

/// Marker of a weight in [`SampleTable::large`].
const LARGE: u32 = u32::MAX;

/// All samples of a trace, by series and time. A sample takes 16 bytes: time, location and weight. Track and metric are
/// those of its series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleTable {
    /// The series, by track and metric.
    series: Vec<SampleSeries>,
    /// Code locations in order of first appearance.
    locations: Vec<SampleLocation>,
    time: Vec<i64>,
    location: Vec<u32>,
    weight: Vec<u32>,
    /// Row and weight of samples whose weight does not fit 32 bits, ascending.
    large: Vec<(u32, i64)>,
}

impl SampleTable {
    /// Collect the sample events with a plausible time, grouped by track and metric. The trace's time order per track
    /// must exist.
    pub fn from_trace(trace: &Trace) -> Self {
        let mut table = Self::default();
        if !trace.events.kind.contains(&EventKind::Sample) {
            return table;
        }
        let (weights, lines) = (SampleWeights::new(trace), trace.attr(LINE));
        let mut known: FxHashMap<SampleLocation, u32> = FxHashMap::default();
        for track in trace.tracks.ids() {
            let is_sample = |e: &&EventId| trace.kind(**e) == EventKind::Sample && trace.events.is_plausible(**e);
            let mut rows: Vec<(Option<SampleMetric>, EventId, i64)> = Vec::new();
            for &event in trace.track_events(track).iter().filter(is_sample) {
                let (metric, weight) = weights.get(event).map_or((None, 0), |(metric, weight)| (Some(metric), weight));
                rows.push((metric, event, weight));
            }
            // Stable sort: the time order stays.
            rows.sort_by_key(|&(metric, ..)| metric);
            for series in rows.chunk_by(|a, b| a.0 == b.0) {
                for &(_, event, weight) in series {
                    let location = location(trace, &lines, event);
                    let next = table.locations.len() as u32;
                    let row = *known.entry(location).or_insert(next);
                    if row == next {
                        table.locations.push(location);
                    }
                    table.push(trace.events.start[event.index()], row, weight);
                }
                table.series.push(SampleSeries { track, metric: series[0].0, end: table.time.len() as u32 });
            }
        }
        table.shrink();
        table
    }

    /// Append a sample; a weight that does not fit 32 bits is stored separately.
    fn push(&mut self, time: i64, location: u32, weight: i64) {
        let small = u32::try_from(weight).ok().filter(|&weight| weight != LARGE);
        if small.is_none() {
            self.large.push((self.time.len() as u32, weight));
        }
        self.time.push(time);
        self.location.push(location);
        self.weight.push(small.unwrap_or(LARGE));
    }

    /// Release unused capacity of the sample columns.
    fn shrink(&mut self) {
        self.time.shrink_to_fit();
        self.location.shrink_to_fit();
        self.weight.shrink_to_fit();
    }

    /// Number of samples in the table.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// True if the table has no samples.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// Memory of all sample columns in bytes, dictionaries included.
    #[cfg(test)]
    fn heap_bytes(&self) -> usize {
        self.time.capacity() * size_of::<i64>()
            + (self.location.capacity() + self.weight.capacity()) * size_of::<u32>()
            + self.large.capacity() * size_of::<(u32, i64)>()
            + self.series.capacity() * size_of::<SampleSeries>()
            + self.locations.capacity() * size_of::<SampleLocation>()
    }

    /// Code locations of the samples, indexed by [`Sample::location`].
    pub fn locations(&self) -> &[SampleLocation] {
        &self.locations
    }

    /// Each series of samples with its samples, by time.
    pub fn series(&self) -> impl Iterator<Item = (SampleSeries, impl Iterator<Item = Sample> + '_)> + '_ {
        let first = std::iter::once(0).chain(self.series.iter().map(|series| series.end as usize));
        first.zip(&self.series).map(move |(first, series)| (*series, self.rows(first..series.end as usize)))
    }

    /// Samples of one metric: each sampled track with its samples, by time.
    pub fn of_metric(
        &self,
        metric: SampleMetric,
    ) -> impl Iterator<Item = (TrackId, impl Iterator<Item = Sample> + '_)> + '_ {
        self.series()
            .filter(move |(series, _)| series.metric == Some(metric))
            .map(|(series, rows)| (series.track, rows))
    }

    /// Samples at a range of rows.
    fn rows(&self, rows: Range<usize>) -> impl Iterator<Item = Sample> + '_ {
        rows.map(move |row| Sample { time: self.time[row], location: self.location[row], weight: self.weight_of(row) })
    }

    /// Weight of the sample at a row, also one that does not fit 32 bits.
    fn weight_of(&self, row: usize) -> i64 {
        match self.weight[row] {
            LARGE => {
                let found = self.large.binary_search_by_key(&(row as u32), |&(row, _)| row);
                found.map_or(0, |at| self.large[at].1)
            }
            small => small.into(),
        }
    }
}

impl Trace {
    /// Samples as columns, computed on the first call. Call it after all events were added.
    pub fn samples(&self) -> &SampleTable {
        self.samples.get_or_init(|| SampleTable::from_trace(self))
    }

    /// Series with their samples and events, by time. Only events of sampled tracks are visited.
    pub fn sample_events(
        &self,
    ) -> impl Iterator<Item = (SampleSeries, impl Iterator<Item = (EventId, Sample)> + '_)> + '_ {
        let weights = Rc::new(SampleWeights::new(self));
        self.samples().series().map(move |(series, rows)| {
            let weights = Rc::clone(&weights);
            // In the order of the rows, which were built from these events.
            let is_of = move |&event: &EventId| {
                self.kind(event) == EventKind::Sample
                    && self.events.is_plausible(event)
                    && weights.get(event).map(|(metric, _)| metric) == series.metric
            };
            (series, self.track_events(series.track).iter().copied().filter(is_of).zip(rows))
        })
    }

    /// Names of the frames at a code location, innermost first: the function, then the recorded stack.
    pub fn frames_at(&self, location: SampleLocation) -> impl Iterator<Item = StrId> + '_ {
        std::iter::once(location.function).chain(self.stacks.names(location.stack.some()))
    }
}

/// Code location of a sample event: function (its name), line (0 if unknown) and stack.
fn location(trace: &Trace, lines: &AttrColumn<'_>, sample: EventId) -> SampleLocation {
    SampleLocation {
        function: trace.events.name[sample.index()],
        line: lines.i64(sample).and_then(|line| u32::try_from(line).ok()).unwrap_or(0),
        stack: trace.stacks.of_event(sample).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttrType, Key, NewEvent, Phase, TrackKind};
    use proptest::prelude::*;

    /// Thread, metric (4 for none), time and weight.
    type Row = (usize, usize, i64, i64);

    fn sampled(rows: impl IntoIterator<Item = Row>) -> Trace {
        let mut trace = Trace::default();
        let tracks = [1, 2].map(|tid| trace.tracks.track(Key::Int(7), Key::Int(tid), TrackKind::Thread));
        let names = ["idle", "work"].map(|name| trace.strings.intern(name));
        for (thread, metric, start, weight) in rows {
            let key = SampleMetric::ALL.get(metric).map(|metric| (trace.strings.intern(metric.key()), AttrType::Int));
            let fields: Vec<(StrId, AttrType)> = key.into_iter().collect();
            trace.attrs.push(&fields, &vec![weight.cast_unsigned(); fields.len()]);
            trace.events.push(NewEvent {
                start,
                dur: 0,
                track: tracks[thread],
                name: names[usize::from(start % 2 == 0)],
                category: StrId::NONE,
                kind: EventKind::Sample,
                phase: Phase::Sample,
                flags: 0,
                source_index: 0,
            });
        }
        trace.index_tracks();
        trace
    }

    #[test]
    fn a_sample_takes_sixteen_bytes() {
        let many = 100_000;
        let trace = sampled((0..many).map(|at| (usize::from(at % 3 == 0), 0, at, 10_000_000 + at)));
        let table = trace.samples();
        let each = table.heap_bytes() as f64 / table.len() as f64;
        println!("{} samples, {each:.3} bytes each", table.len());
        assert_eq!(table.len() as i64, many);
        assert!(each < 16.01, "{each}");
    }

    #[test]
    fn samples_come_with_their_events() {
        let trace = sampled([(1, 0, 9, 5), (0, 2, 4, 6), (0, 0, 8, -1), (0, 0, 2, 7), (0, 4, 1, 3), (0, 0, 2, 8)]);
        let found: Vec<_> = trace
            .sample_events()
            .map(|(series, rows)| {
                (series.metric, rows.map(|(event, sample)| (event.0, sample.weight)).collect::<Vec<_>>())
            })
            .collect();
        let cpu = Some(SampleMetric::CpuTime);
        let expected = [
            (None, vec![(4, 0)]),
            (cpu, vec![(3, 7), (5, 8), (2, -1)]),
            (Some(SampleMetric::WaitTime), vec![(1, 6)]),
            (cpu, vec![(0, 5)]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn samples_of_a_series_come_by_time() {
        let large = i64::from(u32::MAX);
        let trace = sampled([(1, 0, 9, 5), (0, 2, 4, large), (0, 0, 8, -1), (0, 0, 2, large + 7), (0, 4, 1, 3)]);
        let table = trace.samples();
        let row = |time, location, weight| Sample { time, location, weight };
        let expected = [
            (0, None, vec![row(1, 0, 0)]),
            (0, Some("cpu_time"), vec![row(2, 1, large + 7), row(8, 1, -1)]),
            (0, Some("wait_time"), vec![row(4, 1, large)]),
            (1, Some("cpu_time"), vec![row(9, 0, 5)]),
        ];
        let found = table.series().map(|(series, rows)| {
            let rows: Vec<Sample> = rows.collect();
            (series.track.0, series.metric.map(SampleMetric::name), rows)
        });
        assert!(found.eq(expected));
        let names: Vec<&str> = table.locations().iter().map(|at| trace.strings.get(at.function)).collect();
        assert_eq!(names, ["idle", "work"]);
        let counts = table.of_metric(SampleMetric::CpuTime).map(|(track, rows)| (track.0, rows.count()));
        assert!(counts.eq([(0, 2), (1, 1)]));
    }

    #[test]
    fn a_trace_without_samples_has_an_empty_table() {
        assert!(Trace::default().samples().is_empty());
    }

    proptest! {
        #[test]
        fn no_sample_is_lost(rows in prop::collection::vec((0_usize..2, 0_usize..5, 0_i64..50, any::<i64>()), 0..60)) {
            let trace = sampled(rows.iter().copied());
            let mut found = Vec::new();
            for (series, samples) in trace.samples().series() {
                let metric = series.metric.map_or(4, |metric| metric as usize);
                found.extend(samples.map(|sample| (series.track.index(), metric, sample.time, sample.weight)));
            }
            let mut expected: Vec<Row> = rows.into_iter().map(|(thread, metric, time, weight)| {
                (thread, metric, time, if metric == 4 { 0 } else { weight })
            }).collect();
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
