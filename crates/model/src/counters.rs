//! Values of a trace's counters over time, as columns.

use crate::{Phase, StrId, Trace, TrackId};
use rustc_hash::FxHashMap;

/// Series of values: a numeric argument of the counter events of one name on one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterSeries {
    /// Track of the events.
    pub track: TrackId,
    /// Name of the events.
    pub name: StrId,
    /// Name of the argument.
    pub key: StrId,
}

/// Values of all counters of a trace, in the order of the events; columns are equally long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterTable {
    /// Series in order of first appearance.
    pub all_series: Vec<CounterSeries>,
    /// Row of `all_series` of each value.
    pub series: Vec<u32>,
    /// Time from which each value is valid, in ns since the base.
    pub time: Vec<i64>,
    /// Values, all finite.
    pub value: Vec<f64>,
}

impl CounterTable {
    /// Collect the values of counter events with a plausible time. Arguments that are not finite numbers are skipped.
    pub fn from_trace(trace: &Trace) -> Self {
        let mut table = Self::default();
        let mut rows: FxHashMap<(TrackId, StrId, StrId), u32> = FxHashMap::default();
        let is_counter = |event: usize| trace.events.phase[event] == Phase::Counter;
        for event in trace.events.ids().filter(|event| is_counter(event.index()) && trace.events.is_plausible(*event)) {
            let (track, name) = (trace.events.track[event.index()], trace.events.name[event.index()]);
            for (key, value) in trace.attrs.of_event(event) {
                let Some(value) = value.as_f64().filter(|value| value.is_finite()) else { continue };
                let row = *rows.entry((track, name, key)).or_insert_with(|| {
                    table.all_series.push(CounterSeries { track, name, key });
                    table.all_series.len() as u32 - 1
                });
                table.series.push(row);
                table.time.push(trace.events.start[event.index()]);
                table.value.push(value);
            }
        }
        table
    }

    /// Number of counter values in the table.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// True if the table has no counter values.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// Series, time in ns and value of each row.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&CounterSeries, i64, f64)> {
        (0..self.len()).map(|row| (&self.all_series[self.series[row] as usize], self.time[row], self.value[row]))
    }
}
