//! Memory traces: calls, objects, accesses and the allocator's side, a table each.

use super::cells::{numbers32, numbers64, rows, text, times, truths, words};
use super::{Files, WriteOptions, events};
use crate::manifest::MemoryEntry;
use crate::{Error, commit};
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, MemoryBlockState, MemoryCallId, MemoryCallKind, MemoryObjectKind,
    MemorySegmentEventKind, MemoryTrace,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Writes one memory trace into a folder of its own.
pub(super) fn write(trace: &MemoryTrace, folder: PathBuf, options: &WriteOptions) -> Result<MemoryEntry, Error> {
    std::fs::create_dir(&folder).map_err(Error::io(&folder, "create"))?;
    let mut files = Files { folder, options, tables: BTreeMap::new() };
    events::strings("memory_strings", &trace.strings, &mut files)?;
    places(trace, &mut files)?;
    stacks(trace, &mut files)?;
    calls(trace, &mut files)?;
    objects(trace, &mut files)?;
    accesses(trace, &mut files)?;
    segments(trace, &mut files)?;
    said(trace, &mut files)?;
    if options.sync {
        commit::sync_dir(&files.folder)?;
    }
    Ok(MemoryEntry { tables: files.tables, ..MemoryEntry::new(trace) })
}

/// Devices, streams and phases.
fn places(trace: &MemoryTrace, files: &mut Files<'_>) -> Result<(), Error> {
    let (devices, streams, phases) = (&trace.devices, &trace.streams, &trace.phases);
    let columns = [
        rows("device", |at| at as u32),
        text("name", &trace.strings, |at| devices[at].name),
        numbers64("total_bytes", |at| Some(devices[at].total_bytes)),
    ];
    files.put("memory_devices", devices.len(), &columns)?;
    let columns = [
        rows("stream", |at| at as u32),
        rows("device", |at| streams[at].device.0),
        numbers64("key", |at| Some(streams[at].key)),
    ];
    files.put("memory_streams", streams.len(), &columns)?;
    let columns = [
        text("name", &trace.strings, |at| phases[at].name),
        rows("first_call", |at| phases[at].first.0),
        rows("end_call", |at| phases[at].end.0),
    ];
    files.put("memory_phases", phases.len(), &columns)
}

fn stacks(trace: &MemoryTrace, files: &mut Files<'_>) -> Result<(), Error> {
    let stacks = &trace.stacks;
    let frames = &stacks.frames;
    let columns = [
        rows("frame", |at| at as u32),
        text("function", &trace.strings, |at| frames[at].function),
        text("file", &trace.strings, |at| frames[at].file),
        numbers32("line", |at| Some(frames[at].line)),
    ];
    files.put("memory_frames", frames.len(), &columns)?;
    let columns = [
        rows("stack", |at| at as u32),
        rows("parent", |at| stacks.parent[at].0),
        rows("frame", |at| stacks.frame[at].0),
    ];
    files.put("memory_stacks", stacks.frame.len(), &columns)
}

fn calls(trace: &MemoryTrace, files: &mut Files<'_>) -> Result<(), Error> {
    let calls = &trace.calls;
    let columns = [
        rows("call", |at| at as u32),
        words(
            "kind",
            |at| calls.kind[at] as u32,
            |kind| MemoryCallKind::ALL.get(kind as usize).map(|kind| kind.name()),
        ),
        times("start_ns", |at| calls.start_ns[at]),
        numbers64("duration_ns", |at| Some(calls.duration_ns[at])),
        rows("stream", |at| calls.stream[at].0),
        text("name", &trace.strings, |at| calls.name[at]),
        rows("stack", |at| calls.stack[at].0),
        numbers32("flags", |at| Some(u32::from(calls.flags[at]))),
        rows("target", |at| calls.target[at]),
    ];
    files.put("memory_calls", calls.len(), &columns)
}

fn objects(trace: &MemoryTrace, files: &mut Files<'_>) -> Result<(), Error> {
    let (objects, strings) = (&trace.objects, &trace.strings);
    let columns = [
        rows("object", |at| at as u32),
        numbers64("address", |at| Some(objects.address[at])),
        numbers64("bytes", |at| Some(objects.bytes[at])),
        numbers64("requested", |at| Some(objects.requested[at])),
        rows("device", |at| objects.device[at].0),
        rows("stream", |at| objects.stream[at].0),
        text("pool", strings, |at| objects.pool[at]),
        rows("stack", |at| objects.stack[at].0),
        text("name", strings, |at| objects.name[at]),
        text("module", strings, |at| objects.module[at]),
        text("operator", strings, |at| objects.operator[at]),
        text("dtype", strings, |at| objects.dtype[at]),
        text("shape", strings, |at| objects.shape[at]),
        words(
            "kind",
            |at| objects.kind[at] as u32,
            |kind| MemoryObjectKind::ALL.get(kind as usize).map(|kind| kind.name()),
        ),
        rows("allocated_by", |at| objects.allocated_by[at].0),
        rows("freed_by", |at| objects.freed_by[at].0),
    ];
    files.put("memory_objects", objects.len(), &columns)
}

fn accesses(trace: &MemoryTrace, files: &mut Files<'_>) -> Result<(), Error> {
    let accesses = &trace.accesses;
    // The calls' own column says only where the accesses of each end.
    let call_of = |row: usize| MemoryCallId::new(trace.calls.access_end.partition_point(|end| *end as usize <= row)).0;
    let columns = [
        rows("access", |at| at as u32),
        rows("call", call_of),
        rows("object", |at| accesses.object[at].0),
        words(
            "mode",
            |at| accesses.get(at).mode as u32,
            |mode| AccessMode::ALL.get(mode as usize).map(|mode| mode.name()),
        ),
        words(
            "evidence",
            |at| accesses.get(at).evidence as u32,
            |evidence| AccessEvidence::ALL.get(evidence as usize).map(|evidence| evidence.name()),
        ),
        words(
            "extent",
            |at| accesses.get(at).extent as u32,
            |extent| AccessExtent::ALL.get(extent as usize).map(|extent| extent.name()),
        ),
    ];
    files.put("memory_accesses", accesses.len(), &columns)?;
    let columns = [
        rows("access", |at| accesses.range_row[at]),
        numbers64("begin", |at| Some(accesses.range[at].begin)),
        numbers64("end", |at| Some(accesses.range[at].end)),
        numbers32("times", |at| Some(accesses.range[at].times)),
    ];
    files.put("memory_ranges", accesses.range.len(), &columns)
}

/// The caching allocator's segments, their blocks, and what happened to them.
fn segments(trace: &MemoryTrace, files: &mut Files<'_>) -> Result<(), Error> {
    let (events, segments, blocks) = (&trace.segment_events, &trace.segments, &trace.blocks);
    let columns = [
        words(
            "kind",
            |at| events[at].kind as u32,
            |kind| MemorySegmentEventKind::ALL.get(kind as usize).map(|kind| kind.name()),
        ),
        rows("before_call", |at| events[at].before.0),
        times("time_ns", |at| events[at].time_ns),
        rows("device", |at| events[at].device.0),
        rows("stream", |at| events[at].stream.0),
        numbers64("address", |at| Some(events[at].address)),
        numbers64("bytes", |at| Some(events[at].bytes)),
        rows("stack", |at| events[at].stack.0),
    ];
    files.put("memory_segment_events", events.len(), &columns)?;
    let columns = [
        rows("segment", |at| at as u32),
        rows("device", |at| segments[at].device.0),
        rows("stream", |at| segments[at].stream.0),
        numbers64("address", |at| Some(segments[at].address)),
        numbers64("bytes", |at| Some(segments[at].bytes)),
        truths("small", |at| segments[at].small),
        truths("expandable", |at| segments[at].expandable),
        text("pool", &trace.strings, |at| segments[at].pool),
        rows("stack", |at| segments[at].stack.0),
        numbers64("first_block", |at| Some(segments[at].blocks.start as u64)),
        numbers64("end_block", |at| Some(segments[at].blocks.end as u64)),
    ];
    files.put("memory_segments", segments.len(), &columns)?;
    let states = |state: u32| MemoryBlockState::ALL.get(state as usize).map(|state| state.name());
    let columns = [
        rows("block", |at| at as u32),
        numbers64("address", |at| Some(blocks[at].address)),
        numbers64("bytes", |at| Some(blocks[at].bytes)),
        numbers64("requested", |at| Some(blocks[at].requested)),
        words("state", |at| blocks[at].state as u32, states),
        rows("object", |at| blocks[at].object.0),
        rows("stack", |at| blocks[at].stack.0),
    ];
    files.put("memory_blocks", blocks.len(), &columns)
}

/// What the source itself said: totals and failed requests.
fn said(trace: &MemoryTrace, files: &mut Files<'_>) -> Result<(), Error> {
    let (totals, failed) = (&trace.totals, &trace.out_of_memory);
    let columns = [
        rows("after_call", |at| totals[at].after.0),
        times("time_ns", |at| totals[at].time_ns),
        rows("device", |at| totals[at].device.0),
        numbers64("allocated", |at| Some(totals[at].allocated)),
        numbers64("reserved", |at| Some(totals[at].reserved)),
    ];
    files.put("memory_totals", totals.len(), &columns)?;
    let columns = [
        rows("before_call", |at| failed[at].before.0),
        times("time_ns", |at| failed[at].time_ns),
        rows("device", |at| failed[at].device.0),
        rows("stream", |at| failed[at].stream.0),
        numbers64("requested", |at| Some(failed[at].requested)),
        numbers64("device_free", |at| failed[at].device_free),
        rows("stack", |at| failed[at].stack.0),
    ];
    files.put("memory_out_of_memory", failed.len(), &columns)
}
