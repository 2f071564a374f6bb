//! Counter tracks of a trace: recorded counters over time, and the bytes of PyTorch's allocators.

use rustc_hash::FxHashMap;
use stackline_model::{CounterSeries, CounterTable, EventId, EventKind, Key, Trace, Unit};

/// Most curves of a trace; those with most values are kept.
const MOST: usize = 64;

/// A counter of the timeline: its name, and its values over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counter {
    /// Display name.
    pub(crate) name: String,
    /// The counter counts bytes.
    pub(crate) is_bytes: bool,
    /// Time and new value, by time.
    pub(crate) values: Vec<(i64, f64)>,
}

/// Counters of a trace that the timeline draws, with the number of omitted ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counters {
    /// Memory first, then counters, as they first occur.
    pub(crate) list: Vec<Counter>,
    /// Number of counters without a track.
    pub(crate) left_out: usize,
}

/// Collect the counters of a trace with their values by time. Constant zeros are dropped; at most [`MOST`] counters are
/// kept.
pub(crate) fn counter_tracks(trace: &Trace) -> Counters {
    let mut all = memory_counters(trace);
    all.extend(recorded_counters(trace));
    // Constant zeros, such as the reserved bytes of the CPU allocator, are not informative.
    all.retain(|counter| counter.values.iter().any(|&(_, value)| value != 0.0));
    for counter in &mut all {
        counter.values.sort_by_key(|&(at, _)| at);
    }
    let left_out = all.len().saturating_sub(MOST);
    if left_out > 0 {
        all.sort_by_key(|counter| std::cmp::Reverse(counter.values.len()));
        all.truncate(MOST);
    }
    Counters { list: all, left_out }
}

/// Collect the counters that the trace recorded, one for each series.
fn recorded_counters(trace: &Trace) -> Vec<Counter> {
    let counters = CounterTable::from_trace(trace);
    let named = |series: &CounterSeries| Counter {
        name: name_of(trace, *series),
        is_bytes: series.unit(trace) == Unit::Bytes,
        ..Counter::default()
    };
    let mut found: Vec<Counter> = counters.all_series.iter().map(named).collect();
    for ((&series, &time), &value) in counters.series.iter().zip(&counters.time).zip(&counters.value) {
        found[series as usize].values.push((time, value));
    }
    found
}

/// Display name of a recorded counter, with its process.
fn name_of(trace: &Trace, CounterSeries { track, name, key }: CounterSeries) -> String {
    let process = trace.key_text(trace.tracks.pid(track));
    let (name, key) = (trace.strings.get(name), trace.strings.get(key));
    // "GPU 0 Utilization" with the argument "GPU Utilization" needs no second name.
    let last = |text: &str| text.split_whitespace().next_back().map(str::to_owned);
    let key_suffix = if name == key || last(name) == last(key) { String::new() } else { format!(", {key}") };
    format!("{name}{key_suffix} · process {process}")
}

/// An allocator: process, type of device and its number, as PyTorch counts them. Threads of a process share it.
type Allocator = (Key, i64, i64);

/// Collect the memory counters of each allocator from `[memory]` records: recorded totals, or else sums of allocations
/// and frees.
fn memory_counters(trace: &Trace) -> Vec<Counter> {
    let is_memory = |event: &EventId| trace.kind(*event) == EventKind::Memory && trace.events.is_plausible(*event);
    let mut events: Vec<EventId> = trace.events.ids().filter(is_memory).collect();
    events.sort_by_key(|event| trace.events.start[event.index()]);
    let [kind, device, allocated, reserved, bytes] =
        ["Device Type", "Device Id", "Total Allocated", "Total Reserved", "Bytes"].map(|key| trace.attr(key));
    let mut allocators: Vec<[Counter; 3]> = Vec::new();
    let mut places: FxHashMap<Allocator, usize> = FxHashMap::default();
    for event in events {
        let process = trace.tracks.pid(trace.events.track[event.index()]);
        let key = (process, kind.i64(event).unwrap_or(0), device.i64(event).unwrap_or(-1));
        let place = *places.entry(key).or_insert_with(|| {
            let names = ["allocated", "reserved", "allocated minus freed since the start of the trace"];
            allocators.push(names.map(|what| empty_memory_counter(trace, what, key)));
            allocators.len() - 1
        });
        let [total, held, sum] = &mut allocators[place];
        let at = trace.events.start[event.index()];
        total.values.extend(allocated.f64(event).map(|value| (at, value)));
        held.values.extend(reserved.f64(event).map(|value| (at, value)));
        let before = sum.values.last().map_or(0.0, |&(_, value)| value);
        sum.values.extend(bytes.f64(event).map(|value| (at, before + value)));
    }
    let of_one = |[total, held, sum]: [Counter; 3]| {
        if total.values.is_empty() { vec![sum] } else { vec![total, held] }
    };
    allocators.into_iter().flat_map(of_one).collect()
}

/// Create a memory counter without values, named after a device's allocator. Types of devices are PyTorch's: 0 is the
/// CPU, 1 CUDA, 6 HIP.
fn empty_memory_counter(trace: &Trace, what: &str, (process, kind, device): Allocator) -> Counter {
    let place = match kind {
        0 => "CPU".to_owned(),
        1 | 6 => format!("GPU {device}"),
        other => format!("device {device} of type {other}"),
    };
    let process = trace.key_text(process);
    Counter { name: format!("Memory {what} · {place} · process {process}"), is_bytes: true, values: Vec::new() }
}
