//! Table of the highest memory peaks of each device.

use super::allocator::{Reserved, reserved_curve};
use super::int;
use crate::curve::{Curve, Peak, alive_at, curves, device_of};
use crate::source_location::place_text;
use stackline_model::format::{bytes, count};
use stackline_model::{
    MemoryCallId, MemoryCallKind, MemoryDeviceId, MemoryObjectId, MemoryStackId, MemoryTrace, Table, Unit,
};
use std::collections::BTreeSet;

/// Memory peak of a device, with a short name such as `P1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPeak {
    /// `P1`, `P2` and so on: by device, highest first; the device with the highest peak comes first.
    pub name: String,
    /// The device.
    pub device: MemoryDeviceId,
    /// Position and bytes.
    pub peak: Peak,
}

/// Highest peaks of each device, at most `most` per device.
pub fn named_peaks(trace: &MemoryTrace, most: usize) -> Vec<NamedPeak> {
    let of_curve = |curve: &Curve| (curve.device, curve.peaks(most));
    let mut devices: Vec<(MemoryDeviceId, Vec<Peak>)> = curves(trace).iter().map(of_curve).collect();
    devices.sort_by_key(|(_, peaks)| std::cmp::Reverse(peaks.first().map(|peak| peak.bytes)));
    let peaks = devices.into_iter().flat_map(|(device, peaks)| peaks.into_iter().map(move |peak| (device, peak)));
    let named = |(at, (device, peak))| NamedPeak { name: format!("P{}", at + 1), device, peak };
    peaks.enumerate().map(named).collect()
}

/// One row per peak: bytes, time, and the call that reached it.
pub fn peaks_table(trace: &MemoryTrace, peaks: &[NamedPeak]) -> Table {
    let time = trace.times_since_first();
    let row = |peak: &NamedPeak| peak.peak.position.index();
    let alive: Vec<_> = peaks.iter().map(|peak| alive_at(trace, peak.device, peak.peak.position)).collect();
    let requested =
        |at: usize| alive[at].iter().map(|object| trace.objects.requested[object.index()]).fold(0, u64::saturating_add);
    let text = |f: &dyn Fn(&NamedPeak) -> String| peaks.iter().map(|peak| Some(f(peak))).collect::<Vec<_>>();
    // A first call that frees did not reach the peak, which existed before.
    let frees = |peak: &NamedPeak| trace.calls.kind.get(row(peak)) == Some(&MemoryCallKind::Free);
    let stack = |peak: &NamedPeak| match trace.calls.stack.get(row(peak)) {
        Some(stack) if !frees(peak) => *stack,
        _ => MemoryStackId::NONE,
    };
    let device =
        |peak: &NamedPeak| trace.devices.get(peak.device.index()).map(|device| device.name).unwrap_or_default();
    let stacks: Vec<MemoryStackId> = peaks.iter().map(stack).collect();
    let reserved = Reserved::from_trace(trace);
    let table = Table::new("memory_peaks", PeakScope::from_trace(trace).title())
        .text("peak", text(&|peak| peak.name.clone()))
        .text("device", text(&|peak| trace.strings.get(device(peak)).to_owned()))
        .i64("bytes", Unit::Bytes, peaks.iter().map(|peak| int(peak.peak.bytes)))
        .i64("requested", Unit::Bytes, (0..peaks.len()).map(|at| int(requested(at))))
        .i64("reserved", Unit::Bytes, peaks.iter().map(|p| reserved.at(p.device, p.peak.position).map(int)))
        .i64("objects", Unit::None, alive.iter().map(|alive| int(alive.len() as u64)))
        .i64("call", Unit::None, peaks.iter().map(|peak| int(row(peak) as u64)))
        .i64("time", Unit::Ns, peaks.iter().map(|peak| time(row(peak))));
    let table = super::add_place_columns(table, trace, &stacks);
    reserved_notes(trace, peaks).into_iter().chain(history_note(trace)).fold(table, Table::note)
}

/// Part of a program that the peaks of its memory trace cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeakScope {
    /// Only the time of the snapshot, which has no history: the peak is unknown.
    Moment,
    /// The recorded history, which began late: earlier peaks are unknown.
    History,
    /// All allocations.
    All,
}

impl PeakScope {
    /// Determine the scope of the peaks of a memory trace.
    pub fn from_trace(trace: &MemoryTrace) -> Self {
        // A history may consist of failed requests.
        let is_moment = trace.calls.is_empty() && trace.segment_events.is_empty() && trace.out_of_memory.is_empty();
        match (is_moment, preexisting(trace).0) {
            (true, _) => Self::Moment,
            (false, 0) => Self::All,
            (false, _) => Self::History,
        }
    }

    /// Title of the table of peaks.
    fn title(self) -> &'static str {
        match self {
            Self::Moment => {
                "Live bytes at the time of the snapshot (the peak is unknown, because the snapshot has no history)"
            }
            Self::All => "Peaks of live bytes",
            Self::History => "Peaks of live bytes within the recorded history",
        }
    }

    /// Time of the highest known memory use, in parentheses; empty if it is the peak.
    pub fn remark(self) -> &'static str {
        match self {
            Self::Moment => " (at the time of the snapshot)",
            Self::All => "",
            Self::History => " (within the recorded history)",
        }
    }
}

/// Least growth of reserved memory, and least free part of it, as shares of its maximum, for a note.
const MIN_GROWTH: f64 = 0.05;
const MIN_UNUSED: f64 = 0.1;

/// One note per device on the maximum of reserved memory, if no peak shows it or much of it was unused.
fn reserved_notes(trace: &MemoryTrace, peaks: &[NamedPeak]) -> Vec<String> {
    let devices: BTreeSet<MemoryDeviceId> = peaks.iter().map(|peak| peak.device).collect();
    let note = |curve: Curve| {
        let held = reserved_curve(trace, curve.device);
        let most = held.iter().map(|(_, bytes)| *bytes).max()?;
        let device_peaks = peaks.iter().filter(|peak| peak.device == curve.device);
        let is_reported =
            device_peaks.filter_map(|peak| bytes_at(&held, peak.peak.position.0)).any(|at_peak| at_peak == most);
        let growth = growth_while_free(trace, &curve, &held, most);
        if is_reported && growth.is_none() {
            return None;
        }
        let name = trace.devices.get(curve.device.index()).map(|device| device.name).unwrap_or_default();
        let name = trace.strings.get(name);
        let most = bytes(most);
        Some(match growth {
            Some(growth) => format!("{name}: the allocator reserved at most {most}. {growth}"),
            None => format!("{name}: the allocator reserved at most {most}."),
        })
    };
    curves(trace).into_iter().filter(|curve| devices.contains(&curve.device)).filter_map(note).collect()
}

/// Bytes at a position by the points of a curve; `None` before the first point.
fn bytes_at(points: &[(u32, u64)], position: u32) -> Option<u64> {
    let known = points.partition_point(|(from, _)| *from <= position);
    points[..known].last().map(|(_, bytes)| *bytes)
}

/// Sentence on the growth of reserved memory while much of it was unused; `None` if little was. The unused blocks wait
/// for another stream, are too small, or belong to another pool or stream.
fn growth_while_free(trace: &MemoryTrace, curve: &Curve, held: &[(u32, u64)], most: u64) -> Option<String> {
    let growths = held.windows(2).map(|pair| (pair[1].0, pair[0].1, pair[1].1.saturating_sub(pair[0].1)));
    let large = growths.filter(|(.., growth)| *growth as f64 >= MIN_GROWTH * most as f64);
    let requests = requests_of(trace, curve.device);
    let unused = large.filter_map(|(since, before, growth)| {
        let (at, bytes) = *requests.get(requests.partition_point(|(call, _)| *call < since))?;
        let in_use = curve.at(at).saturating_sub(bytes);
        Some((before.saturating_sub(in_use), std::cmp::Reverse(at), growth, since))
    });
    let (unused, std::cmp::Reverse(at), growth, since) = unused.max()?;
    let waiting = trace.awaiting_bytes(curve.device, MemoryCallId(since)).min(unused);
    let stack = trace.calls.stack.get(at as usize).copied().unwrap_or(MemoryStackId::NONE);
    let place = Some(place_text(trace, stack)).filter(|place| !place.is_empty());
    let place = place.map_or_else(String::new, |place| format!(" ({place})"));
    (unused as f64 >= MIN_UNUSED * most as f64).then(|| {
        format!(
            "At call {}{place} the allocator requested {} from the device, although {} of the allocator's reserved \
             memory were {}",
            count(u64::from(at)),
            bytes(growth),
            bytes(unused),
            why_unused(unused, waiting),
        )
    })
}

/// State of unused reserved memory and the reason why a request could not use it. `waiting` bytes of it are freed
/// memory that another stream may still use.
fn why_unused(unused: u64, waiting: u64) -> String {
    if waiting == 0 {
        return "free. The free blocks were too small, or belonged to another pool or stream.".to_owned();
    }
    let others =
        if waiting < unused { " The others were too small, or belonged to another pool or stream." } else { "" };
    format!(
        "not in use by the program. Of these, {} waited for another stream that uses the freed memory \
         (record_stream).{others}",
        bytes(waiting)
    )
}

/// Calls that allocate on a device (by number) with the allocated bytes, in order.
fn requests_of(trace: &MemoryTrace, device: MemoryDeviceId) -> Vec<(u32, u64)> {
    let here = trace.objects.ids().filter(|object| device_of(trace, *object) == device);
    let made = |object: MemoryObjectId| {
        let call = trace.objects.allocated_by[object.index()].some()?;
        Some((call.0, trace.objects.bytes[object.index()]))
    };
    let mut requests: Vec<(u32, u64)> = here.filter_map(made).collect();
    requests.sort_unstable();
    requests
}

/// Number and bytes of objects that are older than the records.
fn preexisting(trace: &MemoryTrace) -> (usize, u64) {
    let objects = &trace.objects;
    let older = || (0..objects.len()).filter(|row| objects.allocated_by[*row].is_none());
    (older().count(), older().map(|row| objects.bytes[row]).fold(0, u64::saturating_add))
}

/// Note on objects that existed before the recording began; `None` without such objects or without a history.
fn history_note(trace: &MemoryTrace) -> Option<String> {
    let (objects, sum) = preexisting(trace);
    let is_late = objects > 0 && !trace.calls.is_empty();
    is_late.then(|| {
        let objects = if objects == 1 { "1 object".to_owned() } else { format!("{} objects", count(objects)) };
        format!(
            "{objects} ({}) existed before the recording began, and count as live from the start of the recording. \
             Earlier peaks are unknown.",
            bytes(sum)
        )
    })
}
