//! Reader of memory traces from the tables of a run directory.

use super::table::{Batch, DictionaryValues};
use super::{Files, events};
use crate::manifest::MemoryEntry;
use crate::write::table::ROW_GROUP;
use crate::{Error, manifest, read_manifest};
use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, ByteRange, DelayedFree, Frame, FrameId, FrameKind, FrameTable,
    MemoryBlock, MemoryBlockState, MemoryCallId, MemoryCallKind, MemoryDevice, MemoryDeviceId, MemoryKindChange,
    MemoryObjectId, MemoryObjectKind, MemoryPhase, MemorySegment, MemorySegmentEvent, MemorySegmentEventKind,
    MemoryStackId, MemoryStacks, MemoryStream, MemoryStreamId, MemoryTotals, MemoryTrace, OutOfMemory, StrId,
    StringTable,
};
use std::path::Path;

/// Read all memory traces of a run; an empty list if it has none.
///
/// # Errors
/// If the run or one of the tables is damaged.
pub fn read_memory(run: &Path) -> Result<Vec<MemoryTrace>, Error> {
    let manifest = read_manifest(run)?;
    (0..manifest.memory.len()).map(|index| read_memory_at(run, index)).collect()
}

/// Read one memory trace of a run; the first is the most informative.
///
/// # Errors
/// If the run or one of the tables is damaged, or the index is too large.
pub fn read_memory_at(run: &Path, index: usize) -> Result<MemoryTrace, Error> {
    let manifest = read_manifest(run)?;
    let count = manifest.memory.len();
    let entry = manifest.memory.get(index).ok_or(Error::NoSuchTrace { index, count })?;
    read(run, index, entry)
}

/// Read and check the memory trace of a manifest entry.
fn read(run: &Path, index: usize, entry: &MemoryEntry) -> Result<MemoryTrace, Error> {
    let (folder, tables) = (manifest::memory_dir(run, index), &entry.tables);
    let files = Files { folder, tables, long_arguments: false, missing: Vec::new() };
    let mut trace = MemoryTrace {
        label: entry.label.clone(),
        saw_end: entry.saw_end,
        has_accesses: entry.has_accesses,
        allocator_settings: entry.allocator_settings,
        report: entry.report.clone(),
        ..MemoryTrace::default()
    };
    events::strings("memory_strings", &mut trace.strings, &files)?;
    devices_and_phases(&mut trace, &files)?;
    stacks(&mut trace, &files)?;
    calls(&mut trace, &files)?;
    objects(&mut trace, &files)?;
    accesses(&mut trace, &files)?;
    segments(&mut trace, &files)?;
    allocator_data(&mut trace, &files)?;
    delayed_frees(&mut trace, &files)?;
    trace.check().map_err(|detail| Error::damaged(&files.folder, detail))?;
    Ok(trace)
}

/// Read a text column of a batch as handles of known strings; null becomes none.
fn texts(batch: &Batch<'_>, column: usize, strings: &StringTable) -> Result<Vec<StrId>, Error> {
    let mut out = Vec::with_capacity(batch.rows());
    batch.text(column)?.push_interned(&mut out, &mut DictionaryValues::default(), strings)?;
    Ok(out)
}

/// Read a column of row handles of a batch; null becomes none.
fn handles<H: Copy>(batch: &Batch<'_>, column: usize, make: impl Fn(u32) -> H) -> Result<Vec<H>, Error> {
    let mut out = Vec::with_capacity(batch.rows());
    batch.push_handles(column, &mut out, make)?;
    Ok(out)
}

/// Read a column of enumeration names as values of the enumeration; a null is an error.
fn words<T: Copy + PartialEq>(
    batch: &Batch<'_>,
    column: usize,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<Vec<T>, Error> {
    let mut out = Vec::with_capacity(batch.rows());
    let find = |text: &str| all.iter().position(|known| name(*known) == text);
    batch.text(column)?.push_mapped(&mut out, usize::MAX, &mut DictionaryValues::default(), find)?;
    let known = |at: usize| all.get(at).copied().ok_or_else(|| batch.null_error(column));
    out.into_iter().map(known).collect()
}

/// Read the tables of devices, streams and phases of a memory trace.
fn devices_and_phases(trace: &mut MemoryTrace, files: &Files<'_>) -> Result<(), Error> {
    files.read("memory_devices", &["name", "total_bytes"], |_, batch| {
        let (names, bytes) = (texts(batch, 0, &trace.strings)?, batch.values::<UInt64Type>(1)?);
        let rows = names.into_iter().zip(bytes);
        trace.devices.extend(rows.map(|(name, &total_bytes)| MemoryDevice { name, total_bytes }));
        Ok(())
    })?;
    files.read("memory_streams", &["device", "key"], |_, batch| {
        let (devices, keys) = (handles(batch, 0, MemoryDeviceId)?, batch.values::<UInt64Type>(1)?);
        trace.streams.extend(devices.into_iter().zip(keys).map(|(device, &key)| MemoryStream { device, key }));
        Ok(())
    })?;
    files.read("memory_phases", &["name", "first_call", "end_call"], |_, batch| {
        let names = texts(batch, 0, &trace.strings)?;
        let (first, end) = (handles(batch, 1, MemoryCallId)?, handles(batch, 2, MemoryCallId)?);
        let phase = |row: usize| MemoryPhase { name: names[row], first: first[row], end: end[row] };
        trace.phases.extend((0..batch.rows()).map(phase));
        Ok(())
    })
}

/// Read the frames of a memory trace's call paths. The column `kind` is optional: tables of earlier versions and of
/// other programs lack it.
fn frames(files: &Files<'_>, strings: &StringTable) -> Result<FrameTable, Error> {
    let mut frames = FrameTable::new();
    let Some(file) = files.required("memory_frames")? else { return Ok(frames) };
    let columns = ["function", "file", "line", "kind"];
    let has_kinds = file.has_column(columns[3]);
    file.read(&columns[..if has_kinds { 4 } else { 3 }], ROW_GROUP, |batch| {
        let (function, file) = (texts(batch, 0, strings)?, texts(batch, 1, strings)?);
        let line = batch.values::<UInt32Type>(2)?;
        let kinds = if has_kinds { words(batch, 3, FrameKind::ALL, FrameKind::name)? } else { Vec::new() };
        for row in 0..batch.rows() {
            let (function, file, line) = (function[row], file[row], line[row]);
            frames.push(match kinds.get(row) {
                Some(&kind) => Frame::with_line(kind, function, file, line),
                None => Frame::of_line(function, file, line, strings),
            });
        }
        Ok(())
    })?;
    Ok(frames)
}

/// Read the frames and call paths of a memory trace.
fn stacks(trace: &mut MemoryTrace, files: &Files<'_>) -> Result<(), Error> {
    let frames = frames(files, &trace.strings)?;
    let (mut parent, mut frame) = (Vec::new(), Vec::new());
    files.read("memory_stacks", &["parent", "frame"], |_, batch| {
        batch.push_handles(0, &mut parent, MemoryStackId)?;
        batch.push_handles(1, &mut frame, FrameId)
    })?;
    trace.stacks = MemoryStacks::from_columns(frames, parent, frame);
    Ok(())
}

/// Read the memory-related calls of a memory trace, without the ends of their accesses.
fn calls(trace: &mut MemoryTrace, files: &Files<'_>) -> Result<(), Error> {
    let columns = ["kind", "start_ns", "duration_ns", "stream", "name", "stack", "flags", "target"];
    let (calls, strings) = (&mut trace.calls, &trace.strings);
    files.read("memory_calls", &columns, |file, batch| {
        calls.kind.extend(words(batch, 0, &MemoryCallKind::ALL, MemoryCallKind::name)?);
        calls.start_ns.extend_from_slice(batch.values::<Int64Type>(1)?);
        calls.duration_ns.extend_from_slice(batch.values::<UInt64Type>(2)?);
        batch.push_handles(3, &mut calls.stream, MemoryStreamId)?;
        calls.name.extend(texts(batch, 4, strings)?);
        batch.push_handles(5, &mut calls.stack, MemoryStackId)?;
        for &flags in batch.values::<UInt32Type>(6)? {
            let flags = u8::try_from(flags)
                .map_err(|_| file.damaged(format!("{flags} is not a valid value for the flags of a memory call")))?;
            calls.flags.push(flags);
        }
        batch.push_handles(7, &mut calls.target, |target| target)
    })
}

/// Read the memory objects and their changes of kind.
fn objects(trace: &mut MemoryTrace, files: &Files<'_>) -> Result<(), Error> {
    let columns = [
        "address",
        "bytes",
        "requested",
        "device",
        "stream",
        "pool",
        "stack",
        "name",
        "module",
        "operator",
        "dtype",
        "shape",
        "kind",
        "allocated_by",
        "freed_by",
    ];
    let (objects, strings) = (&mut trace.objects, &trace.strings);
    files.read("memory_objects", &columns, |_, batch| {
        let numbers = [&mut objects.address, &mut objects.bytes, &mut objects.requested];
        for (column, numbers) in numbers.into_iter().enumerate() {
            numbers.extend_from_slice(batch.values::<UInt64Type>(column)?);
        }
        batch.push_handles(3, &mut objects.device, MemoryDeviceId)?;
        batch.push_handles(4, &mut objects.stream, MemoryStreamId)?;
        objects.pool.extend(texts(batch, 5, strings)?);
        batch.push_handles(6, &mut objects.stack, MemoryStackId)?;
        let named =
            [&mut objects.name, &mut objects.module, &mut objects.operator, &mut objects.dtype, &mut objects.shape];
        for (column, named) in (7..).zip(named) {
            named.extend(texts(batch, column, strings)?);
        }
        objects.kind.extend(words(batch, 12, &MemoryObjectKind::ALL, MemoryObjectKind::name)?);
        batch.push_handles(13, &mut objects.allocated_by, MemoryCallId)?;
        batch.push_handles(14, &mut objects.freed_by, MemoryCallId)
    })?;
    let changes = &mut trace.kind_changes;
    files.read("memory_kind_changes", &["object", "before_call", "kind"], |_, batch| {
        let (objects, before) = (handles(batch, 0, MemoryObjectId)?, handles(batch, 1, MemoryCallId)?);
        let kinds = words(batch, 2, &MemoryObjectKind::ALL, MemoryObjectKind::name)?;
        let rows = objects.into_iter().zip(before).zip(kinds);
        changes.extend(rows.map(|((object, before), kind)| MemoryKindChange { object, before, kind }));
        Ok(())
    })
}

/// Read the accesses to memory objects with their byte ranges, and set the end of each call's accesses.
fn accesses(trace: &mut MemoryTrace, files: &Files<'_>) -> Result<(), Error> {
    // Number of accesses per call first, then end positions.
    let mut ends = vec![0_u32; trace.calls.len()];
    let (accesses, mut last) = (&mut trace.accesses, 0);
    let columns = ["call", "object", "mode", "evidence", "extent"];
    files.read("memory_accesses", &columns, |file, batch| {
        for &call in batch.values::<UInt32Type>(0)? {
            let count = ends.get_mut(call as usize).filter(|_| call >= last);
            *count.ok_or_else(|| file.damaged("a memory access refers to a call that does not exist, or accesses are not in the order of their calls"))? += 1;
            last = call;
        }
        let object = handles(batch, 1, MemoryObjectId)?;
        let mode = words(batch, 2, &AccessMode::ALL, AccessMode::name)?;
        let evidence = words(batch, 3, &AccessEvidence::ALL, AccessEvidence::name)?;
        let extent = words(batch, 4, &AccessExtent::ALL, AccessExtent::name)?;
        for row in 0..batch.rows() {
            accesses.push_row(object[row], mode[row], evidence[row], extent[row]);
        }
        Ok(())
    })?;
    let mut end = 0;
    for count in &mut ends {
        end += *count;
        *count = end;
    }
    trace.calls.access_end = ends;
    files.read("memory_ranges", &["access", "begin", "end", "times"], |_, batch| {
        let (begin, end) = (batch.values::<UInt64Type>(1)?, batch.values::<UInt64Type>(2)?);
        let times = batch.values::<UInt32Type>(3)?;
        accesses.range_row.extend_from_slice(batch.values::<UInt32Type>(0)?);
        let range = |row: usize| ByteRange { begin: begin[row], end: end[row], times: times[row] };
        accesses.range.extend((0..batch.rows()).map(range));
        Ok(())
    })
}

/// Read the segment events, segments and blocks of the caching allocator.
fn segments(trace: &mut MemoryTrace, files: &Files<'_>) -> Result<(), Error> {
    let columns = ["kind", "before_call", "time_ns", "device", "stream", "address", "bytes", "stack"];
    files.read("memory_segment_events", &columns, |_, batch| {
        let kind = words(batch, 0, &MemorySegmentEventKind::ALL, MemorySegmentEventKind::name)?;
        let (before, time_ns) = (handles(batch, 1, MemoryCallId)?, batch.values::<Int64Type>(2)?);
        let (device, stream) = (handles(batch, 3, MemoryDeviceId)?, handles(batch, 4, MemoryStreamId)?);
        let (address, bytes) = (batch.values::<UInt64Type>(5)?, batch.values::<UInt64Type>(6)?);
        let stack = handles(batch, 7, MemoryStackId)?;
        trace.segment_events.extend((0..batch.rows()).map(|row| MemorySegmentEvent {
            kind: kind[row],
            before: before[row],
            time_ns: time_ns[row],
            device: device[row],
            stream: stream[row],
            address: address[row],
            bytes: bytes[row],
            stack: stack[row],
        }));
        Ok(())
    })?;
    let columns =
        ["device", "stream", "address", "bytes", "small", "expandable", "pool", "stack", "first_block", "end_block"];
    files.read("memory_segments", &columns, |_, batch| {
        let (device, stream) = (handles(batch, 0, MemoryDeviceId)?, handles(batch, 1, MemoryStreamId)?);
        let (address, bytes) = (batch.values::<UInt64Type>(2)?, batch.values::<UInt64Type>(3)?);
        let (small, expandable) = (batch.bools(4)?, batch.bools(5)?);
        let (pool, stack) = (texts(batch, 6, &trace.strings)?, handles(batch, 7, MemoryStackId)?);
        let (first, end) = (batch.values::<UInt64Type>(8)?, batch.values::<UInt64Type>(9)?);
        let block = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        trace.segments.extend((0..batch.rows()).map(|row| MemorySegment {
            device: device[row],
            stream: stream[row],
            address: address[row],
            bytes: bytes[row],
            small: small.value(row),
            expandable: expandable.value(row),
            pool: pool[row],
            stack: stack[row],
            blocks: block(first[row])..block(end[row]),
        }));
        Ok(())
    })?;
    blocks(trace, files)
}

/// Read the blocks of the caching allocator's segments.
fn blocks(trace: &mut MemoryTrace, files: &Files<'_>) -> Result<(), Error> {
    let columns = ["address", "bytes", "requested", "state", "object", "stack"];
    files.read("memory_blocks", &columns, |_, batch| {
        let (address, bytes) = (batch.values::<UInt64Type>(0)?, batch.values::<UInt64Type>(1)?);
        let requested = batch.values::<UInt64Type>(2)?;
        let state = words(batch, 3, &MemoryBlockState::ALL, MemoryBlockState::name)?;
        let (object, stack) = (handles(batch, 4, MemoryObjectId)?, handles(batch, 5, MemoryStackId)?);
        trace.blocks.extend((0..batch.rows()).map(|row| MemoryBlock {
            address: address[row],
            bytes: bytes[row],
            requested: requested[row],
            state: state[row],
            object: object[row],
            stack: stack[row],
        }));
        Ok(())
    })
}

/// Read the frees that took effect later than requested; older files have none.
fn delayed_frees(trace: &mut MemoryTrace, files: &Files<'_>) -> Result<(), Error> {
    files.read("memory_delayed_frees", &["object", "until_call"], |_, batch| {
        let (objects, until) = (handles(batch, 0, MemoryObjectId)?, handles(batch, 1, MemoryCallId)?);
        let rows = objects.into_iter().zip(until);
        trace.delayed_frees.extend(rows.map(|(object, until)| DelayedFree { object, until }));
        Ok(())
    })
}

/// Read the caching allocator's totals, and failed requests.
fn allocator_data(trace: &mut MemoryTrace, files: &Files<'_>) -> Result<(), Error> {
    let columns = ["after_call", "time_ns", "device", "allocated", "reserved"];
    files.read("memory_totals", &columns, |_, batch| {
        let (after, time_ns) = (handles(batch, 0, MemoryCallId)?, batch.values::<Int64Type>(1)?);
        let device = handles(batch, 2, MemoryDeviceId)?;
        let (allocated, reserved) = (batch.values::<UInt64Type>(3)?, batch.values::<UInt64Type>(4)?);
        trace.totals.extend((0..batch.rows()).map(|row| MemoryTotals {
            after: after[row],
            time_ns: time_ns[row],
            device: device[row],
            allocated: allocated[row],
            reserved: reserved[row],
        }));
        Ok(())
    })?;
    failed_requests(trace, files)
}

/// Read the failed requests. Older files lack the last two columns: their requests follow all segment events before the
/// same call.
fn failed_requests(trace: &mut MemoryTrace, files: &Files<'_>) -> Result<(), Error> {
    let Some(file) = files.required("memory_out_of_memory")? else { return Ok(()) };
    let columns =
        ["before_call", "time_ns", "device", "stream", "requested", "device_free", "stack", "segment_events", "pool"];
    let is_complete = columns.iter().all(|column| file.has_column(column));
    file.read(&columns[..if is_complete { columns.len() } else { 7 }], ROW_GROUP, |batch| {
        let (before, time_ns) = (handles(batch, 0, MemoryCallId)?, batch.values::<Int64Type>(1)?);
        let (device, stream) = (handles(batch, 2, MemoryDeviceId)?, handles(batch, 3, MemoryStreamId)?);
        let (requested, free) = (batch.values::<UInt64Type>(4)?, batch.numbers::<UInt64Type>(5)?);
        let (stack, free) = (handles(batch, 6, MemoryStackId)?, free.iter().collect::<Vec<_>>());
        let (events, pool) = if is_complete {
            let events = batch.values::<UInt64Type>(7)?;
            let events = events.iter().map(|&events| usize::try_from(events).unwrap_or(usize::MAX));
            (events.collect::<Vec<usize>>(), texts(batch, 8, &trace.strings)?)
        } else {
            let until = |before: &MemoryCallId| trace.segment_events.partition_point(|event| event.before <= *before);
            (before.iter().map(until).collect::<Vec<usize>>(), vec![StrId::NONE; batch.rows()])
        };
        trace.out_of_memory.extend((0..batch.rows()).map(|row| OutOfMemory {
            before: before[row],
            segment_events: events[row],
            time_ns: time_ns[row],
            device: device[row],
            stream: stream[row],
            requested: requested[row],
            device_free: free[row],
            pool: pool[row],
            stack: stack[row],
        }));
        Ok(())
    })
}
