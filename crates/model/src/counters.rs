//! Values of a trace's counters over time, as columns.

use crate::{Phase, StrId, Trace, TrackId, Unit};
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

impl CounterSeries {
    /// Unit of the series' values, by the end of the argument's name or else of the events' name, as in `VRAM (MiB)`;
    /// [`Unit::None`] if unknown.
    pub fn unit(&self, trace: &Trace) -> Unit {
        let units = [self.key, self.name].map(|name| unit_in_name(trace.strings.get(name)));
        units.into_iter().find(|&unit| unit != Unit::None).unwrap_or(Unit::None)
    }
}

/// Unit that a counter's name ends with: in brackets, or as the last word.
fn unit_in_name(name: &str) -> Unit {
    let bracketed = name.trim_end().strip_suffix([')', ']']).and_then(|name| name.rsplit_once(['(', '[']));
    // A slash stays in the word: "bytes/ns" is no time.
    let last_word = || name.rsplit([' ', '_', '-', ':']).next().unwrap_or(name);
    match bracketed.map_or_else(last_word, |(_, unit)| unit.trim()) {
        // Without brackets, a single letter is no unit: "stage B".
        "B" if bracketed.is_some() => Unit::Bytes,
        "bytes" | "Bytes" => Unit::Bytes,
        "MiB" => Unit::MiB,
        "GB/s" => Unit::GBps,
        "GiB/s" => Unit::GiBps,
        "%" | "percent" | "Percent" => Unit::Percent,
        "ns" => Unit::Ns,
        "us" | "µs" => Unit::Us,
        "ms" => Unit::Ms,
        _ => Unit::None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_from_names() {
        for (name, unit) in [
            ("VRAM (MiB)", Unit::MiB),
            ("PCIe RX [GB/s]", Unit::GBps),
            ("GPU Utilization (%)", Unit::Percent),
            ("GPU busy %", Unit::Percent),
            ("allocated_bytes", Unit::Bytes),
            ("allocated (B)", Unit::Bytes),
            ("latency ms", Unit::Ms),
            ("latency [ µs ]", Unit::Us),
            ("stage B", Unit::None),
            ("PCIe RX bytes/ns", Unit::None),
            ("PCIe RX GB/s", Unit::GBps),
            ("power (W)", Unit::None),
            ("cycles", Unit::None),
            ("", Unit::None),
        ] {
            assert_eq!(unit_in_name(name), unit, "{name:?}");
        }
        let mut trace = Trace::default();
        let [power, gpu, bytes] = ["power", "GPU 0", "held bytes"].map(|name| trace.strings.intern(name));
        let unit = |name, key| CounterSeries { track: TrackId(0), name, key }.unit(&trace);
        assert_eq!((unit(power, gpu), unit(bytes, gpu), unit(power, bytes)), (Unit::None, Unit::Bytes, Unit::Bytes));
    }
}
