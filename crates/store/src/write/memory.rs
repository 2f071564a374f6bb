//! Write memory traces: one table each for calls, objects, accesses and data of the allocator.

use super::cells::{booleans, numbers32, numbers64, rows, text, times, words};
use super::{Files, WriteOptions, events};
use crate::columns::Column;
use crate::manifest::MemoryEntry;
use crate::{Error, commit};
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, FrameKind, MemoryBlockState, MemoryCallId, MemoryCallKind,
    MemoryObjectKind, MemorySegmentEventKind, MemoryTrace,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Write one memory trace into its own folder.
pub(super) fn write(trace: &MemoryTrace, folder: PathBuf, options: &WriteOptions) -> Result<MemoryEntry, Error> {
    std::fs::create_dir(&folder).map_err(Error::io(&folder, "create"))?;
    let mut files = Files { folder, options, tables: BTreeMap::new() };
    events::strings("memory_strings", &trace.strings, &mut files)?;
    for table in tables(trace) {
        files.write_table(table.name, table.rows, &table.columns)?;
    }
    if options.sync {
        commit::sync_dir(&files.folder)?;
    }
    Ok(MemoryEntry { tables: files.tables, ..MemoryEntry::new(trace) })
}

/// Table of a memory trace to write: name, number of rows and columns.
pub(crate) struct MemoryTable<'a> {
    pub(crate) name: &'static str,
    pub(crate) rows: usize,
    pub(crate) columns: Vec<Column<'a>>,
}

impl<'a> MemoryTable<'a> {
    /// Create a table of this many rows.
    fn new(name: &'static str, rows: usize, columns: Vec<Column<'a>>) -> Self {
        Self { name, rows, columns }
    }
}

/// All tables of a memory trace except the strings.
pub(crate) fn tables(trace: &MemoryTrace) -> impl Iterator<Item = MemoryTable<'_>> {
    [devices_and_phases, stacks, calls, objects, accesses, segments, allocator_data, delayed_frees]
        .into_iter()
        .flat_map(move |tables_of| tables_of(trace))
}

/// Tables of the devices, streams and phases of a memory trace.
fn devices_and_phases(trace: &MemoryTrace) -> Vec<MemoryTable<'_>> {
    let (devices, streams, phases) = (&trace.devices, &trace.streams, &trace.phases);
    let columns = vec![
        rows("device", move |at| at as u32),
        text("name", &trace.strings, move |at| devices[at].name),
        numbers64("total_bytes", move |at| Some(devices[at].total_bytes)),
    ];
    let first = MemoryTable::new("memory_devices", devices.len(), columns);
    let columns = vec![
        rows("stream", move |at| at as u32),
        rows("device", move |at| streams[at].device.0),
        numbers64("key", move |at| Some(streams[at].key)),
    ];
    let second = MemoryTable::new("memory_streams", streams.len(), columns);
    let columns = vec![
        text("name", &trace.strings, move |at| phases[at].name),
        rows("first_call", move |at| phases[at].first.0),
        rows("end_call", move |at| phases[at].end.0),
    ];
    vec![first, second, MemoryTable::new("memory_phases", phases.len(), columns)]
}

/// Tables of the frames and call paths of a memory trace.
fn stacks(trace: &MemoryTrace) -> Vec<MemoryTable<'_>> {
    let stacks = &trace.stacks;
    let frames = &stacks.frames;
    let columns = vec![
        rows("frame", move |at| at as u32),
        text("function", &trace.strings, move |at| frames[at].function()),
        text("file", &trace.strings, move |at| frames[at].file().into()),
        numbers32("line", move |at| Some(frames[at].line().unwrap_or(0))),
        words(
            "kind",
            move |at| frames[at].kind() as u32,
            |kind| FrameKind::ALL.get(kind as usize).map(|kind| kind.name()),
        ),
    ];
    let first = MemoryTable::new("memory_frames", frames.len(), columns);
    let columns = vec![
        rows("stack", move |at| at as u32),
        rows("parent", move |at| stacks.parent[at].0),
        rows("frame", move |at| stacks.frame[at].0),
    ];
    vec![first, MemoryTable::new("memory_stacks", stacks.frame.len(), columns)]
}

/// Table of the memory-related calls.
fn calls(trace: &MemoryTrace) -> Vec<MemoryTable<'_>> {
    let calls = &trace.calls;
    let columns = vec![
        rows("call", move |at| at as u32),
        words(
            "kind",
            move |at| calls.kind[at] as u32,
            |kind| MemoryCallKind::ALL.get(kind as usize).map(|kind| kind.name()),
        ),
        times("start_ns", move |at| calls.start_ns[at]),
        numbers64("duration_ns", move |at| Some(calls.duration_ns[at])),
        rows("stream", move |at| calls.stream[at].0),
        text("name", &trace.strings, move |at| calls.name[at]),
        rows("stack", move |at| calls.stack[at].0),
        numbers32("flags", move |at| Some(u32::from(calls.flags[at]))),
        rows("target", move |at| calls.target[at]),
    ];
    vec![MemoryTable::new("memory_calls", calls.len(), columns)]
}

/// Tables of the memory objects, and of their changes of kind.
fn objects(trace: &MemoryTrace) -> Vec<MemoryTable<'_>> {
    let (objects, strings) = (&trace.objects, &trace.strings);
    let columns = vec![
        rows("object", move |at| at as u32),
        numbers64("address", move |at| Some(objects.address[at])),
        numbers64("bytes", move |at| Some(objects.bytes[at])),
        numbers64("requested", move |at| Some(objects.requested[at])),
        rows("device", move |at| objects.device[at].0),
        rows("stream", move |at| objects.stream[at].0),
        text("pool", strings, move |at| objects.pool[at]),
        rows("stack", move |at| objects.stack[at].0),
        text("name", strings, move |at| objects.name[at]),
        text("module", strings, move |at| objects.module[at]),
        text("operator", strings, move |at| objects.operator[at]),
        text("dtype", strings, move |at| objects.dtype[at]),
        text("shape", strings, move |at| objects.shape[at]),
        words(
            "kind",
            move |at| objects.kind[at] as u32,
            |kind| MemoryObjectKind::ALL.get(kind as usize).map(|kind| kind.name()),
        ),
        rows("allocated_by", move |at| objects.allocated_by[at].0),
        rows("freed_by", move |at| objects.freed_by[at].0),
    ];
    let changes = &trace.kind_changes;
    let kinds = |kind| MemoryObjectKind::ALL.get(kind as usize).map(|kind: &MemoryObjectKind| kind.name());
    let of_changes = vec![
        rows("object", move |at| changes[at].object.0),
        rows("before_call", move |at| changes[at].before.0),
        words("kind", move |at| changes[at].kind as u32, kinds),
    ];
    vec![
        MemoryTable::new("memory_objects", objects.len(), columns),
        MemoryTable::new("memory_kind_changes", changes.len(), of_changes),
    ]
}

/// Tables of the accesses to memory objects, and of their byte ranges.
fn accesses(trace: &MemoryTrace) -> Vec<MemoryTable<'_>> {
    let accesses = &trace.accesses;
    // The calls' column has only the end of each call's accesses.
    let call_of =
        move |row: usize| MemoryCallId::new(trace.calls.access_end.partition_point(|end| *end as usize <= row)).0;
    let columns = vec![
        rows("access", move |at| at as u32),
        rows("call", call_of),
        rows("object", move |at| accesses.object[at].0),
        words(
            "mode",
            move |at| accesses.get(at).mode as u32,
            |mode| AccessMode::ALL.get(mode as usize).map(|mode| mode.name()),
        ),
        words(
            "evidence",
            move |at| accesses.get(at).evidence as u32,
            |evidence| AccessEvidence::ALL.get(evidence as usize).map(|evidence| evidence.name()),
        ),
        words(
            "extent",
            move |at| accesses.get(at).extent as u32,
            |extent| AccessExtent::ALL.get(extent as usize).map(|extent| extent.name()),
        ),
    ];
    let first = MemoryTable::new("memory_accesses", accesses.len(), columns);
    let columns = vec![
        rows("access", move |at| accesses.range_row[at]),
        numbers64("begin", move |at| Some(accesses.range[at].begin)),
        numbers64("end", move |at| Some(accesses.range[at].end)),
        numbers32("times", move |at| Some(accesses.range[at].times)),
    ];
    vec![first, MemoryTable::new("memory_ranges", accesses.range.len(), columns)]
}

/// Tables of the caching allocator's segments, their blocks, and segment events.
fn segments(trace: &MemoryTrace) -> Vec<MemoryTable<'_>> {
    let (events, segments, blocks) = (&trace.segment_events, &trace.segments, &trace.blocks);
    let columns = vec![
        words(
            "kind",
            move |at| events[at].kind as u32,
            |kind| MemorySegmentEventKind::ALL.get(kind as usize).map(|kind| kind.name()),
        ),
        rows("before_call", move |at| events[at].before.0),
        times("time_ns", move |at| events[at].time_ns),
        rows("device", move |at| events[at].device.0),
        rows("stream", move |at| events[at].stream.0),
        numbers64("address", move |at| Some(events[at].address)),
        numbers64("bytes", move |at| Some(events[at].bytes)),
        rows("stack", move |at| events[at].stack.0),
    ];
    let first = MemoryTable::new("memory_segment_events", events.len(), columns);
    let columns = vec![
        rows("segment", move |at| at as u32),
        rows("device", move |at| segments[at].device.0),
        rows("stream", move |at| segments[at].stream.0),
        numbers64("address", move |at| Some(segments[at].address)),
        numbers64("bytes", move |at| Some(segments[at].bytes)),
        booleans("small", move |at| segments[at].small),
        booleans("expandable", move |at| segments[at].expandable),
        text("pool", &trace.strings, move |at| segments[at].pool),
        rows("stack", move |at| segments[at].stack.0),
        numbers64("first_block", move |at| Some(segments[at].blocks.start as u64)),
        numbers64("end_block", move |at| Some(segments[at].blocks.end as u64)),
    ];
    let second = MemoryTable::new("memory_segments", segments.len(), columns);
    let states = |state: u32| MemoryBlockState::ALL.get(state as usize).map(|state| state.name());
    let columns = vec![
        rows("block", move |at| at as u32),
        numbers64("address", move |at| Some(blocks[at].address)),
        numbers64("bytes", move |at| Some(blocks[at].bytes)),
        numbers64("requested", move |at| Some(blocks[at].requested)),
        words("state", move |at| blocks[at].state as u32, states),
        rows("object", move |at| blocks[at].object.0),
        rows("stack", move |at| blocks[at].stack.0),
    ];
    vec![first, second, MemoryTable::new("memory_blocks", blocks.len(), columns)]
}

/// Table of the frees that took effect later than requested.
fn delayed_frees(trace: &MemoryTrace) -> Vec<MemoryTable<'_>> {
    let frees = &trace.delayed_frees;
    let columns = vec![rows("object", move |at| frees[at].object.0), rows("until_call", move |at| frees[at].until.0)];
    vec![MemoryTable::new("memory_delayed_frees", frees.len(), columns)]
}

/// Tables of the caching allocator's total bytes over time, and of failed requests.
fn allocator_data(trace: &MemoryTrace) -> Vec<MemoryTable<'_>> {
    let (totals, failed) = (&trace.totals, &trace.out_of_memory);
    let columns = vec![
        rows("after_call", move |at| totals[at].after.0),
        times("time_ns", move |at| totals[at].time_ns),
        rows("device", move |at| totals[at].device.0),
        numbers64("allocated", move |at| Some(totals[at].allocated)),
        numbers64("reserved", move |at| Some(totals[at].reserved)),
    ];
    let first = MemoryTable::new("memory_totals", totals.len(), columns);
    let columns = vec![
        rows("before_call", move |at| failed[at].before.0),
        times("time_ns", move |at| failed[at].time_ns),
        rows("device", move |at| failed[at].device.0),
        rows("stream", move |at| failed[at].stream.0),
        numbers64("requested", move |at| Some(failed[at].requested)),
        numbers64("device_free", move |at| failed[at].device_free),
        rows("stack", move |at| failed[at].stack.0),
        numbers64("segment_events", move |at| Some(failed[at].segment_events as u64)),
        text("pool", &trace.strings, move |at| failed[at].pool),
    ];
    vec![first, MemoryTable::new("memory_out_of_memory", failed.len(), columns)]
}
