//! Write tracks, processes, GPU operations, links, stacks, steps and top-level entries of the source.

use super::Files;
use crate::Error;
use crate::columns::{Column, Packing, dictionary, handles, interned, nullable, text_type};
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, Int64Array, StringArray, UInt32Array};
use arrow_schema::DataType;
use stackline_model::{EventId, Key, LinkKind, StrId, Trace, TrackKind};
use std::ops::Range;
use std::sync::Arc;

/// Write the small tables of a trace: tracks, processes, GPU operations, links, stacks, steps, and top-level entries of
/// the source.
pub(super) fn write(trace: &Trace, files: &mut Files) -> Result<(), Error> {
    tracks(trace, files)?;
    processes(trace, files)?;
    gpu(trace, files)?;
    links(trace, files)?;
    stacks(trace, files)?;
    steps(trace, files)?;
    let entries = &trace.meta.entries;
    let columns = [
        Column::new("key", DataType::Utf8, false, Packing::Delta, |r| {
            Ok(Arc::new(StringArray::from_iter_values(entries[r].iter().map(|e| &e.0))))
        }),
        Column::new("json", DataType::Utf8, false, Packing::Delta, |r| {
            Ok(Arc::new(StringArray::from_iter_values(entries[r].iter().map(|e| &e.1))))
        }),
    ];
    files.write_table("entries", entries.len(), &columns)
}

/// Arrow column of row numbers that refer to another table, with nulls.
fn refs<'a>(name: &str, column: impl Fn(Range<usize>) -> Vec<u32> + 'a) -> Column<'a> {
    Column::new(name, DataType::UInt32, true, Packing::Delta, move |r| Ok(handles(column(r).into_iter())))
}

/// Arrow column of interned texts, with a dictionary.
fn text<'a>(name: &str, trace: &'a Trace, column: impl Fn(usize) -> StrId + 'a) -> Column<'a> {
    Column::new(name, text_type(), true, Packing::Dictionary, move |r| interned(r.map(|i| column(i).0), &trace.strings))
}

/// Arrow column of integers that repeat, with a dictionary.
fn ints<'a>(name: &str, column: impl Fn(usize) -> Option<i64> + 'a) -> Column<'a> {
    Column::new(name, DataType::Int64, true, Packing::Dictionary, move |r| {
        Ok(Arc::new(Int64Array::from_iter(r.map(&column))))
    })
}

/// Arrow column of the table's own row numbers.
fn row_number(name: &str) -> Column<'static> {
    Column::new(name, DataType::UInt32, false, Packing::Delta, |r| {
        Ok(Arc::new(UInt32Array::from_iter_values(r.map(|i| i as u32))))
    })
}

/// Two Arrow columns of a process or thread key: text for people, and the number if the key is one (which distinguishes
/// `7` from `"7"`).
fn key_columns<'a>(name: &str, trace: &'a Trace, key: impl Fn(usize) -> Key + Copy + 'a) -> [Column<'a>; 2] {
    let as_text = Column::new(name, DataType::Utf8, true, Packing::Dictionary, move |r: Range<usize>| {
        let label = |i| (key(i) != Key::None).then(|| trace.key_text(key(i)));
        Ok(Arc::new(StringArray::from_iter(r.map(label))) as ArrayRef)
    });
    [as_text, ints(&format!("{name}_number"), move |i| key(i).as_int())]
}

/// Write the table of tracks.
fn tracks(trace: &Trace, files: &mut Files) -> Result<(), Error> {
    let rows = &trace.tracks.tracks;
    let [thread, number] = key_columns("thread", trace, |i| rows[i].tid);
    let columns = [
        row_number("track"),
        refs("process", |r| rows[r].iter().map(|t| t.process.0).collect()),
        thread,
        number,
        Column::new("kind", text_type(), true, Packing::Dictionary, |r| {
            dictionary(rows[r].iter().map(|t| t.kind as u32), |k| TrackKind::from_u8(k as u8).map(TrackKind::name))
        }),
        text("name", trace, |i| rows[i].name),
        ints("sort_index", |i| rows[i].sort_index),
        Column::new("device", DataType::Int32, true, Packing::Dictionary, |r| {
            Ok(nullable::<i32, Int32Type>(rows[r].iter().map(|t| t.device), -1))
        }),
        Column::new("stream", DataType::Int64, true, Packing::Dictionary, |r| {
            Ok(nullable::<i64, Int64Type>(rows[r].iter().map(|t| t.stream), -1))
        }),
    ];
    files.write_table("tracks", rows.len(), &columns)
}

/// Write the table of processes.
fn processes(trace: &Trace, files: &mut Files) -> Result<(), Error> {
    let rows = &trace.tracks.processes;
    let [pid, number] = key_columns("pid", trace, |i| rows[i].pid);
    let columns = [
        row_number("process"),
        pid,
        number,
        text("name", trace, |i| rows[i].name),
        text("labels", trace, |i| rows[i].labels),
        ints("sort_index", |i| rows[i].sort_index),
    ];
    files.write_table("processes", rows.len(), &columns)
}

/// Write the table of GPU operations.
fn gpu<'a>(trace: &'a Trace, files: &mut Files) -> Result<(), Error> {
    let g = &trace.gpu;
    let events = |name, values: &'a [EventId]| refs(name, move |r| values[r].iter().map(|e| e.0).collect());
    let columns = [
        events("event", &g.event),
        Column::new("correlation", DataType::Int64, true, Packing::Delta, |r| {
            Ok(nullable::<i64, Int64Type>(g.correlation[r].iter().copied(), -1))
        }),
        Column::new("device", DataType::Int32, true, Packing::Dictionary, |r| {
            Ok(nullable::<i32, Int32Type>(g.device[r].iter().copied(), -1))
        }),
        Column::new("stream", DataType::Int64, true, Packing::Dictionary, |r| {
            Ok(nullable::<i64, Int64Type>(g.stream[r].iter().copied(), -1))
        }),
        events("launch", &g.launch),
        events("operator", &g.operator),
        events("python", &g.python),
        events("module", &g.module),
        events("annotation", &g.annotation),
        refs("step", |r| g.step[r].to_vec()),
    ];
    files.write_table("gpu", g.len(), &columns)
}

/// Write the table of links between events.
fn links(trace: &Trace, files: &mut Files) -> Result<(), Error> {
    let links = &trace.links;
    let columns = [
        Column::new("kind", text_type(), true, Packing::Dictionary, |r| {
            dictionary(links.kind[r].iter().map(|k| *k as u32), |k| LinkKind::from_u8(k as u8).map(LinkKind::name))
        }),
        refs("from", |r| links.from[r].iter().map(|e| e.0).collect()),
        refs("to", |r| links.to[r].iter().map(|e| e.0).collect()),
        text("category", trace, |i| links.category[i]),
    ];
    files.write_table("links", links.len(), &columns)
}

/// Write the tables of stack frames, and of the events with stacks.
fn stacks(trace: &Trace, files: &mut Files) -> Result<(), Error> {
    let s = &trace.stacks;
    let frames = [
        row_number("stack"),
        refs("parent", |r| s.parent[r].iter().map(|p| p.0).collect()),
        text("frame", trace, |i| s.name[i]),
        text("category", trace, |i| s.category[i]),
    ];
    files.write_table("frames", s.parent.len(), &frames)?;
    let of_events = [
        refs("event", |r| s.event[r].iter().map(|e| e.0).collect()),
        refs("stack", |r| s.stack[r].iter().map(|e| e.0).collect()),
    ];
    files.write_table("event_stacks", s.event.len(), &of_events)
}

/// Write the table of steps.
fn steps(trace: &Trace, files: &mut Files) -> Result<(), Error> {
    let rows = &trace.steps;
    let columns = [
        row_number("step"),
        ints("number", |i| Some(rows[i].number)),
        refs("event", |r| rows[r].iter().map(|s| s.event.0).collect()),
        ints("start_ns", |i| Some(rows[i].start)),
        ints("end_ns", |i| Some(rows[i].end)),
    ];
    files.write_table("steps", rows.len(), &columns)
}
