//! What there is of memory: devices, peaks, streams, waste, failed requests.

use crate::memory::{Memory, StreamLane, Why};
use crate::queries::tiles::{BUCKETS, WHOLE, whole_level};
use crate::{Answer, Arguments, Opened, QueryError};
use serde_json::{Value, json};
use stackline_memory::tables;
use stackline_model::{MemoryCallKind, MemoryDeviceId};

/// Most rows of a table, and most phases.
const ROWS: usize = 300;

pub(crate) fn answer(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let memory = super::memory(opened, arguments)?;
    let trace = &memory.trace;
    let mut all = vec![tables::peaks_table(trace, &memory.peaks)];
    let composition = tables::composition_table(trace, &memory.peaks);
    all.extend(Some(composition).filter(|table| !tables::is_unknown(table)));
    all.extend(tables::out_of_memory_table(trace).map(|table| super::cut(table, ROWS)));
    if !memory.matches.is_empty() {
        all.push(super::cut(tables::waste_table(trace, &memory.matches), ROWS));
    }
    super::printed(memory, &all, page(memory))
}

fn page(memory: &Memory) -> Value {
    let trace = &memory.trace;
    let phase = |phase: &stackline_model::MemoryPhase| json!({"name": super::text(trace, phase.name), "first": phase.first.index(), "end": phase.end.index()});
    let peak = |peak: &tables::NamedPeak| json!({"name": peak.name, "device": peak.device.0, "call": peak.peak.position.index(), "bytes": peak.peak.bytes});
    json!({
        "end": memory.end(),
        "whole": {"level": whole_level(i64::from(memory.end())), "first": 0, "last": WHOLE - 1},
        "buckets": BUCKETS,
        "has_times": memory.has_times,
        "kinds": MemoryCallKind::ALL.map(MemoryCallKind::name),
        "why": Why::ALL,
        "devices": devices(memory),
        "peaks": memory.peaks.iter().map(peak).collect::<Vec<_>>(),
        "lanes": memory.lanes.iter().map(|lane| of_lane(memory, lane)).collect::<Vec<_>>(),
        "streams_left_out": memory.without_lane.0,
        "calls_left_out": memory.without_lane.1,
        "phases": trace.phases.iter().take(ROWS).map(phase).collect::<Vec<_>>(),
        "suggestions": tables::listed(&memory.ranked, memory.combination.as_ref()).len(),
        "has_segments": !trace.segments.is_empty(),
        "out_of_memory": trace.out_of_memory.len(),
    })
}

/// The devices that have a curve, that with the highest peak first.
fn devices(memory: &Memory) -> Vec<Value> {
    let total = |device: MemoryDeviceId| memory.trace.devices.get(device.index()).map_or(0, |known| known.total_bytes);
    let device = |device: MemoryDeviceId| json!({"device": device.0, "name": super::device_name(&memory.trace, device), "total_bytes": total(device)});
    let place = |device: MemoryDeviceId| memory.peaks.iter().position(|peak| peak.device == device);
    let mut devices: Vec<MemoryDeviceId> = memory.curves.iter().map(|curve| curve.device).collect();
    devices.sort_by_key(|&device| place(device).unwrap_or(usize::MAX));
    devices.into_iter().map(device).collect()
}

fn of_lane(memory: &Memory, lane: &StreamLane) -> Value {
    json!({
        "stream": lane.stream.0, "name": super::stream_name(&memory.trace, lane.stream), "calls": lane.calls,
        "kinds": lane.kinds,
    })
}
