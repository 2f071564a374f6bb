//! Two memory traces compared at the highest peak of each device, by source line.

use super::int;
use super::peaks::PeakScope;
use crate::curve::{alive_at, curves};
use crate::source_location::place_text;
use rustc_hash::FxHashMap;
use stackline_model::{MemoryDeviceId, MemoryStackId, MemoryTrace, Table, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// Total bytes and number of some objects.
pub(super) type Sum = (u64, u64);

/// Highest memory peak of a device: total bytes, older bytes, and bytes by source line.
#[derive(Clone, Debug, Default)]
pub(super) struct HighestPeak {
    pub(super) bytes: u64,
    /// Bytes that are older than the records.
    older: u64,
    pub(super) places: BTreeMap<String, Sum>,
}

/// Highest memory peak of each device, by the device's name.
pub(super) fn highest_peaks(trace: &MemoryTrace) -> BTreeMap<String, HighestPeak> {
    let mut peaks = BTreeMap::new();
    for curve in curves(trace) {
        let peak = curve.peak();
        let mut of_device = HighestPeak::default();
        let mut texts: FxHashMap<MemoryStackId, String> = FxHashMap::default();
        for object in alive_at(trace, curve.device, peak.position) {
            let (row, objects) = (object.index(), &trace.objects);
            let text = texts.entry(objects.stack[row]).or_insert_with(|| place_text(trace, objects.stack[row]));
            let is_older = objects.allocated_by[row].is_none();
            let key = match (text.is_empty(), is_older) {
                (false, _) => text.clone(),
                (true, true) => "(allocated before the recording)".to_owned(),
                (true, false) => "(no call path)".to_owned(),
            };
            // Requested bytes, because block sizes differ between runs of the same program.
            let requested = if objects.requested[row] > 0 { objects.requested[row] } else { objects.bytes[row] };
            of_device.bytes = of_device.bytes.saturating_add(requested);
            if is_older {
                of_device.older = of_device.older.saturating_add(requested);
            }
            let sum = of_device.places.entry(key).or_default();
            *sum = (sum.0.saturating_add(requested), sum.1 + 1);
        }
        peaks.insert(device_name(trace, curve.device), of_device);
    }
    peaks
}

/// Name of a device, empty if unknown.
fn device_name(trace: &MemoryTrace, device: MemoryDeviceId) -> String {
    trace.devices.get(device.index()).map(|device| trace.strings.get(device.name).to_owned()).unwrap_or_default()
}

/// Highest peak of a device in both traces; none if a trace lacks the device.
type PeakPair = (Option<HighestPeak>, Option<HighestPeak>);

/// Highest memory peaks of each device in both traces, by the device's name.
fn pairs(before: &MemoryTrace, after: &MemoryTrace) -> BTreeMap<String, PeakPair> {
    let mut pairs: BTreeMap<String, PeakPair> = BTreeMap::new();
    for (device, peak) in highest_peaks(before) {
        pairs.entry(device).or_default().0 = Some(peak);
    }
    for (device, peak) in highest_peaks(after) {
        pairs.entry(device).or_default().1 = Some(peak);
    }
    pairs
}

/// Difference of two sizes; `None` if one is unknown.
fn change(before: Option<u64>, after: Option<u64>) -> Option<i64> {
    Some(int(after?).saturating_sub(int(before?)))
}

/// One row per device: highest peak before and after; null if a trace lacks the device.
pub fn peaks_comparison_table(before: &MemoryTrace, after: &MemoryTrace) -> Table {
    let pairs = pairs(before, after);
    let highest = |value: fn(&HighestPeak) -> u64| {
        let both = move |(before, after): &PeakPair| (before.as_ref().map(value), after.as_ref().map(value));
        pairs.values().map(both).collect::<Vec<_>>()
    };
    let (bytes, older) = (highest(|peak| peak.bytes), highest(|peak| peak.older));
    let percent = |(before, after): &(Option<u64>, Option<u64>)| {
        let before_bytes = before.filter(|bytes| *bytes > 0)?;
        Some(100.0 * change(*before, *after)? as f64 / before_bytes as f64)
    };
    let scopes = [("A", before), ("B", after)].map(|(name, trace)| (name, PeakScope::from_trace(trace)));
    let unknown = scopes.into_iter().filter_map(|(name, scope)| match scope {
        PeakScope::Moment => Some(format!(
            "{name}: the snapshot has no history, so its peak is unknown. Its bytes are those at the time of the \
             snapshot."
        )),
        PeakScope::History => Some(format!("{name}: the recording began late, so earlier peaks are unknown.")),
        PeakScope::All => None,
    });
    let table = Table::new("memory_diff_peaks", "Highest memory peak of each device")
        .text("device", pairs.keys().cloned().map(Some))
        .i64("bytes_before", Unit::Bytes, bytes.iter().map(|(before, _)| before.map(int)))
        .i64("bytes_after", Unit::Bytes, bytes.iter().map(|(_, after)| after.map(int)))
        .i64("change", Unit::Bytes, bytes.iter().map(|(before, after)| change(*before, *after)))
        .f64("change_percent", Unit::Percent, bytes.iter().map(percent))
        .i64("older_before", Unit::Bytes, older.iter().map(|(before, _)| before.map(int)))
        .i64("older_after", Unit::Bytes, older.iter().map(|(_, after)| after.map(int)))
        .note(
            "Columns bytes_*: requested bytes, without the allocator's rounding. Columns older_*: bytes of the peak \
             that were allocated before the recording began.",
        );
    unknown.fold(table, Table::note)
}

/// One row per line whose bytes at the highest peak of a device differ, largest change first; null if a trace lacks the
/// device.
pub fn comparison_table(before: &MemoryTrace, after: &MemoryTrace) -> Table {
    let mut rows: Vec<(String, String, Option<Sum>, Option<Sum>)> = Vec::new();
    for (device, (before, after)) in pairs(before, after) {
        let bytes_at = |peak: &Option<HighestPeak>, place: &String| {
            peak.as_ref().map(|peak| peak.places.get(place).copied().unwrap_or_default())
        };
        let places: BTreeSet<&String> = before.iter().chain(&after).flat_map(|peak| peak.places.keys()).collect();
        let both = places.into_iter().map(|place| (place, bytes_at(&before, place), bytes_at(&after, place)));
        let changed = both.filter(|(_, before, after)| before != after);
        rows.extend(changed.map(|(place, before, after)| (device.clone(), place.clone(), before, after)));
    }
    let bytes = |sum: Option<Sum>| sum.map(|sum| sum.0);
    let objects = |sum: Option<Sum>| sum.map(|sum| int(sum.1));
    let size = |sum: Option<Sum>| bytes(sum).unwrap_or(0);
    rows.sort_by_key(|(_, _, before, after)| std::cmp::Reverse(size(*before).abs_diff(size(*after))));
    Table::new("memory_diff", "Live bytes at the highest memory peak, by source line")
        .text("device", rows.iter().map(|row| Some(row.0.clone())))
        .text("place", rows.iter().map(|row| Some(row.1.clone())))
        .i64("bytes_before", Unit::Bytes, rows.iter().map(|row| bytes(row.2).map(int)))
        .i64("bytes_after", Unit::Bytes, rows.iter().map(|row| bytes(row.3).map(int)))
        .i64("change", Unit::Bytes, rows.iter().map(|row| change(bytes(row.2), bytes(row.3))))
        .i64("objects_before", Unit::None, rows.iter().map(|row| objects(row.2)))
        .i64("objects_after", Unit::None, rows.iter().map(|row| objects(row.3)))
}
