//! Two memory traces compared at the highest peak of each device, by source line.

use super::int;
use crate::curve::{alive_at, curves};
use crate::source_location::place_text;
use rustc_hash::FxHashMap;
use stackline_model::{MemoryDeviceId, MemoryStackId, MemoryTrace, Table, Unit};
use std::collections::BTreeMap;

/// Bytes and number of objects.
type Sum = (u64, u64);

/// The highest peak of a device.
#[derive(Default)]
struct PeakOf {
    bytes: u64,
    /// What is older than the records.
    older: u64,
    places: BTreeMap<String, Sum>,
}

fn highest_peaks(trace: &MemoryTrace) -> BTreeMap<String, PeakOf> {
    let mut peaks = BTreeMap::new();
    for curve in curves(trace) {
        let peak = curve.peak();
        let mut of_device = PeakOf::default();
        let mut texts: FxHashMap<MemoryStackId, String> = FxHashMap::default();
        for object in alive_at(trace, curve.device, peak.position) {
            let (row, objects) = (object.index(), &trace.objects);
            let text = texts.entry(objects.stack[row]).or_insert_with(|| place_text(trace, objects.stack[row]));
            let is_older = objects.allocated_by[row].is_none();
            let key = match (text.is_empty(), is_older) {
                (false, _) => text.clone(),
                (true, true) => "(older than the records)".to_owned(),
                (true, false) => "(no call path)".to_owned(),
            };
            // What was asked for: how large a block the allocator had at hand differs between runs of the same program.
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

fn device_name(trace: &MemoryTrace, device: MemoryDeviceId) -> String {
    trace.devices.get(device.index()).map(|device| trace.strings.get(device.name).to_owned()).unwrap_or_default()
}

/// The devices of either, with the highest peak in both.
fn pairs(before: &MemoryTrace, after: &MemoryTrace) -> BTreeMap<String, (PeakOf, PeakOf)> {
    let mut pairs: BTreeMap<String, (PeakOf, PeakOf)> = BTreeMap::new();
    for (device, peak) in highest_peaks(before) {
        pairs.entry(device).or_default().0 = peak;
    }
    for (device, peak) in highest_peaks(after) {
        pairs.entry(device).or_default().1 = peak;
    }
    pairs
}

fn change(before: u64, after: u64) -> i64 {
    int(after).saturating_sub(int(before))
}

/// One row per device: its highest peak before and after.
pub fn peaks_comparison_table(before: &MemoryTrace, after: &MemoryTrace) -> Table {
    let pairs = pairs(before, after);
    let rows = || pairs.values();
    let percent = |(before, after): &(PeakOf, PeakOf)| {
        (before.bytes > 0).then(|| 100.0 * change(before.bytes, after.bytes) as f64 / before.bytes as f64)
    };
    Table::new("memory_diff_peaks", "Highest peak of each device")
        .text("device", pairs.keys().cloned().map(Some))
        .i64("bytes_before", Unit::Bytes, rows().map(|(before, _)| int(before.bytes)))
        .i64("bytes_after", Unit::Bytes, rows().map(|(_, after)| int(after.bytes)))
        .i64("change", Unit::Bytes, rows().map(|(before, after)| change(before.bytes, after.bytes)))
        .f64("change_percent", Unit::Percent, rows().map(percent))
        .i64("older_before", Unit::Bytes, rows().map(|(before, _)| int(before.older)))
        .i64("older_after", Unit::Bytes, rows().map(|(_, after)| int(after.older)))
        .note("Bytes are those asked for. older: the part of the peak that was allocated before the records begin.")
}

/// One row per line that holds more or less at the highest peak of a device, largest change first.
pub fn comparison_table(before: &MemoryTrace, after: &MemoryTrace) -> Table {
    let mut rows: Vec<(String, String, Sum, Sum)> = Vec::new();
    for (device, (before, after)) in pairs(before, after) {
        let mut places: BTreeMap<String, (Sum, Sum)> = BTreeMap::new();
        before.places.into_iter().for_each(|(place, sum)| places.entry(place).or_default().0 = sum);
        after.places.into_iter().for_each(|(place, sum)| places.entry(place).or_default().1 = sum);
        let changed = places.into_iter().filter(|(_, (before, after))| before != after);
        rows.extend(changed.map(|(place, (before, after))| (device.clone(), place, before, after)));
    }
    rows.sort_by_key(|(_, _, before, after)| std::cmp::Reverse(before.0.abs_diff(after.0)));
    Table::new("memory_diff", "In use at the highest peak, by source line")
        .text("device", rows.iter().map(|row| Some(row.0.clone())))
        .text("place", rows.iter().map(|row| Some(row.1.clone())))
        .i64("bytes_before", Unit::Bytes, rows.iter().map(|row| int(row.2.0)))
        .i64("bytes_after", Unit::Bytes, rows.iter().map(|row| int(row.3.0)))
        .i64("change", Unit::Bytes, rows.iter().map(|row| change(row.2.0, row.3.0)))
        .i64("objects_before", Unit::None, rows.iter().map(|row| int(row.2.1)))
        .i64("objects_after", Unit::None, rows.iter().map(|row| int(row.3.1)))
}
