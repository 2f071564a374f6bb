//! Query of the memory overview: devices, peaks, streams, waste, failed requests.

use crate::memory::{Memory, StreamLane, WasteReason};
use crate::prefetch::{Stage, one_empty_set};
use crate::queries::tiles::Whole;
use crate::tile_levels::BUCKETS;
use crate::{Answer, Arguments, OpenRun, QueryError};
use serde::Serialize;
use stackline_memory::tables;
use stackline_model::{MemoryCallKind, MemoryDeviceId, MemoryPhase};

/// Most rows of a table, and most phases.
const ROWS: usize = 300;

/// Data of the Memory page: devices, peaks, streams, phases and numbers of items.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct MemoryPage<'a> {
    /// Number of calls: where curves and lives end.
    end: u32,
    whole: Whole,
    /// Buckets of a tile.
    buckets: i64,
    /// Calls have times.
    has_times: bool,
    /// Names of the kinds of calls that the column `kind` of `memory-calls` numbers.
    kinds: Vec<&'static str>,
    /// Names of the reasons that the column `waste_why` of `memory-objects` numbers.
    why: Vec<&'static str>,
    devices: Vec<Device>,
    peaks: Vec<Peak<'a>>,
    lanes: Vec<Stream<'a>>,
    streams_left_out: usize,
    calls_left_out: u64,
    phases: Vec<Phase>,
    /// Number of suggestions to show.
    suggestions: usize,
    has_segments: bool,
    /// Requests that failed for lack of memory.
    out_of_memory: usize,
}

/// Device of a memory trace; `total_bytes` is its capacity, 0 if unknown.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Device {
    device: u32,
    name: String,
    total_bytes: u64,
}

/// Peak of the memory in use: bytes, and the call that reaches it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Peak<'a> {
    name: &'a str,
    device: u32,
    call: usize,
    bytes: u64,
}

/// Stream of a memory trace with its number of calls, in total and of each kind.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[cfg_attr(test, ts(rename = "StreamLane"))]
struct Stream<'a> {
    stream: u32,
    name: String,
    calls: u32,
    kinds: &'a [u32],
}

/// Phase of the program in a memory trace: first call, and the call after the last.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Phase {
    name: Option<String>,
    first: usize,
    end: usize,
}

/// Answer the query for the memory overview.
pub(crate) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let memory = super::memory(opened, arguments)?;
    let trace = &memory.trace;
    let mut all = vec![tables::peaks_table(trace, &memory.peaks)];
    let composition = tables::composition_table(trace, &memory.peaks);
    all.extend(Some(composition).filter(|table| !tables::is_unknown(table)));
    all.extend(tables::out_of_memory_table(trace).map(|table| super::truncate_rows(table, ROWS)));
    if !memory.matches.is_empty() {
        all.push(super::truncate_rows(tables::waste_table(trace, &memory.matches), ROWS));
    }
    super::printed(memory, &all, &page(memory))
}

/// Data of the Memory page, in addition to the tables.
fn page(memory: &Memory) -> MemoryPage<'_> {
    let trace = &memory.trace;
    let phase = |phase: &MemoryPhase| Phase {
        name: super::text(trace, phase.name),
        first: phase.first.index(),
        end: phase.end.index(),
    };
    MemoryPage {
        end: memory.end(),
        whole: Whole::with_length(i64::from(memory.end())),
        buckets: BUCKETS,
        has_times: memory.has_times,
        kinds: MemoryCallKind::ALL.map(MemoryCallKind::name).into(),
        why: WasteReason::ALL.into(),
        devices: devices(memory),
        peaks: memory.peaks.iter().map(peak).collect(),
        lanes: memory.lanes.iter().map(|lane| of_lane(memory, lane)).collect(),
        streams_left_out: memory.without_lane.0,
        calls_left_out: memory.without_lane.1,
        phases: trace.phases.iter().take(ROWS).map(phase).collect(),
        suggestions: tables::listed(&memory.ranked, memory.combination.as_ref()).len(),
        has_segments: !trace.segments.is_empty(),
        out_of_memory: trace.out_of_memory.len(),
    }
}

fn peak(peak: &tables::NamedPeak) -> Peak<'_> {
    let call = peak.peak.position.index();
    Peak { name: &peak.name, device: peak.device.0, call, bytes: peak.peak.bytes }
}

/// Devices with a memory curve, with name and capacity, the one with the highest peak first.
fn devices(memory: &Memory) -> Vec<Device> {
    let total = |device: MemoryDeviceId| memory.trace.devices.get(device.index()).map_or(0, |known| known.total_bytes);
    let device = |device: MemoryDeviceId| Device {
        device: device.0,
        name: super::device_name(&memory.trace, device),
        total_bytes: total(device),
    };
    memory.devices().into_iter().map(device).collect()
}

fn of_lane<'a>(memory: &Memory, lane: &'a StreamLane) -> Stream<'a> {
    let name = super::stream_name(&memory.trace, lane.stream);
    Stream { stream: lane.stream.0, name, calls: lane.calls, kinds: &lane.kinds }
}

/// Prefetched arguments of the query for the memory overview, by part of the page.
pub(crate) fn first(_: &OpenRun, stage: Stage) -> Vec<Arguments> {
    if stage == Stage::Memory { one_empty_set() } else { Vec::new() }
}
