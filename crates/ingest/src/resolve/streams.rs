//! Stream numbers, and overlapping operations of a stream.

use crate::byte_offsets::{ByteOffsets, ProblemTally};
use crate::diagnostics;
use crate::sources::device_rows;
use stackline_model::{AttrValue, Device, EventId, Key, Trace, TrackKind, Vendor};

/// Set device and stream number of each stream track, from the arguments of its first event with them, else from the
/// process and thread IDs, which old traces write as text ("stream 7").
pub(super) fn set_numbers(trace: &mut Trace) {
    let mut numbers = vec![(None, None); trace.tracks.len()];
    {
        let (device, stream) = (trace.attr("device"), trace.attr("stream"));
        let number = |value: Option<AttrValue>| match value {
            Some(AttrValue::Str(text)) => trace.strings.get(text).trim().parse().ok(),
            other => other.and_then(AttrValue::as_i64),
        };
        for event in trace.events.ids() {
            let track = trace.events.track[event.index()];
            let slot = &mut numbers[track.index()];
            if (slot.0.is_none() || slot.1.is_none()) && trace.tracks.get(track).kind == TrackKind::Stream {
                slot.0 = slot.0.or_else(|| number(device.get(event)));
                slot.1 = slot.1.or_else(|| number(stream.get(event)));
            }
        }
    }
    for (i, (device, stream)) in numbers.into_iter().enumerate() {
        let track = &trace.tracks.tracks[i];
        if track.kind != TrackKind::Stream {
            continue;
        }
        let pid = trace.tracks.processes[track.process.index()].pid;
        let device = device.or_else(|| device_rows::device_number(trace, track)).or_else(|| key_number(trace, pid));
        let device = device.and_then(|d: i64| i32::try_from(d).ok());
        let stream = stream.or_else(|| key_number(trace, track.tid));
        let track = &mut trace.tracks.tracks[i];
        track.device = device.unwrap_or(-1);
        track.stream = stream.unwrap_or(-1);
    }
}

/// Number of a process or thread key, or the number at the end of the key's text; `None` without one.
fn key_number(trace: &Trace, key: Key) -> Option<i64> {
    match key {
        Key::Int(number) => Some(number),
        Key::Str(text) => {
            let text = trace.strings.get(text).trim();
            let digits = text.len() - text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            text[text.len() - digits..].parse().ok()
        }
        Key::None => None,
    }
}

/// Largest overlap that is clock noise, in ns (seen on MI300).
const NOISE_NS: i64 = 3_000;

/// Count overlaps of operations on one stream, as programmatic dependent launch (NVIDIA compute capability 9 and
/// above), clock noise, or too long durations. With `clip`, overlapping operations other than dependent launches are
/// cut at the start of the next operation.
pub(super) fn check_overlaps(trace: &mut Trace, places: &ByteOffsets, clip: bool) {
    let dependent_launch = has_dependent_launch(trace);
    let [mut noise, mut dependent, mut overlaps, mut clipped] = [(); 4].map(|()| ProblemTally::default());
    for track in trace.tracks.ids() {
        if trace.tracks.get(track).kind != TrackKind::Stream {
            continue;
        }
        let is_work = |e: &EventId| trace.kind(*e).is_gpu_work() && trace.events.is_plausible(*e);
        let work: Vec<EventId> = trace.track_events(track).iter().copied().filter(is_work).collect();
        let mut longest: Option<EventId> = None;
        for event in work {
            let start = trace.events.start[event.index()];
            // Compare with the earlier operation that ends last: a too long duration may cover many operations.
            let Some(previous) = longest else {
                longest = Some(event);
                continue;
            };
            let overlap = trace.events.end(previous) - start;
            if overlap > 0 {
                let by_design = dependent_launch && overlap < 10 * NOISE_NS;
                let kind = match by_design {
                    true => &mut dependent,
                    false if overlap < NOISE_NS => &mut noise,
                    false => &mut overlaps,
                };
                kind.add(previous, || {
                    format!("{} overlaps the next operation of its stream by {overlap} ns", trace.name(previous))
                });
                if clip && !by_design && start > trace.events.start[previous.index()] {
                    trace.events.dur[previous.index()] = start - trace.events.start[previous.index()];
                    clipped.add(previous, || trace.name(previous).to_owned());
                }
            }
            if trace.events.end(event) >= trace.events.end(previous) {
                longest = Some(event);
            }
        }
    }
    let report = &mut trace.report;
    noise.report(diagnostics::OVERLAP_NOISE, places, report);
    dependent.report(diagnostics::OVERLAP_PDL, places, report);
    overlaps.report(diagnostics::OVERLAP, places, report);
    clipped.report(diagnostics::CLIPPED, places, report);
}

/// Check if any device of the trace has programmatic dependent launch.
fn has_dependent_launch(trace: &Trace) -> bool {
    let is_capable = |device: &Device| {
        device.vendor == Some(Vendor::Nvidia) && device.compute_capability.is_some_and(|(major, _)| major >= 9)
    };
    trace.meta.devices().iter().any(is_capable)
}
