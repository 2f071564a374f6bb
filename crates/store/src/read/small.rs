//! Read tracks, processes, GPU operations, links, stacks, steps and top-level entries of the source.

use super::Files;
use super::table::{Batch, DictionaryValues, TableFile, Text};
use crate::Error;
use crate::write::table::ROW_GROUP;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type};
use arrow_array::{Array, StringArray};
use stackline_model::{
    EventId, GpuTable, Key, LinkKind, Process, ProcessId, StackId, Step, StrId, StringTable, Trace, Track, TrackKind,
    TrackTable,
};

/// Read the processes and tracks of a trace.
pub(super) fn tracks(trace: &mut Trace, files: &Files<'_>) -> Result<(), Error> {
    let mut processes = Vec::new();
    if let Some(file) = files.required("processes")? {
        let columns = ["pid", "pid_number", "name", "labels", "sort_index"];
        file.read(&columns, ROW_GROUP, |batch| {
            let (name, labels) = (batch.text(2)?, batch.text(3)?);
            let keys = Keys::new(&file, batch, 0)?;
            let sort = batch.numbers::<Int64Type>(4)?;
            for row in 0..batch.rows() {
                let pid = keys.get(row, &trace.strings)?;
                let name = interned(&file, &name, row, &trace.strings)?;
                let labels = interned(&file, &labels, row, &trace.strings)?;
                processes.push(Process { pid, name, labels, sort_index: sort.is_valid(row).then(|| sort.value(row)) });
            }
            Ok(())
        })?;
    }
    let mut tracks = Vec::new();
    if let Some(file) = files.required("tracks")? {
        file.read(TRACK_COLUMNS, ROW_GROUP, |batch| push_tracks(&file, batch, &trace.strings, &mut tracks))?;
    }
    trace.tracks = TrackTable::from_rows(processes, tracks).map_err(|e| Error::damaged(&files.folder, e))?;
    Ok(())
}

const TRACK_COLUMNS: &[&str] =
    &["thread", "thread_number", "process", "kind", "name", "sort_index", "device", "stream"];

/// Add the tracks in a batch of rows.
fn push_tracks(
    file: &TableFile,
    batch: &Batch<'_>,
    strings: &StringTable,
    tracks: &mut Vec<Track>,
) -> Result<(), Error> {
    let keys = Keys::new(file, batch, 0)?;
    let process = batch.values::<UInt32Type>(2)?;
    let (kind, name) = (batch.text(3)?, batch.text(4)?);
    let sort = batch.numbers::<Int64Type>(5)?;
    let (device, stream) = (batch.numbers::<Int32Type>(6)?, batch.numbers::<Int64Type>(7)?);
    for (row, process) in process.iter().enumerate() {
        let kind = kind.get(row).and_then(track_kind).ok_or_else(|| file.damaged("a track has no known kind"))?;
        tracks.push(Track {
            process: ProcessId(*process),
            tid: keys.get(row, strings)?,
            kind,
            name: interned(file, &name, row, strings)?,
            sort_index: sort.is_valid(row).then(|| sort.value(row)),
            device: if device.is_valid(row) { device.value(row) } else { -1 },
            stream: if stream.is_valid(row) { stream.value(row) } else { -1 },
        });
    }
    Ok(())
}

/// Track kind with this stable name; `None` for an unknown name.
fn track_kind(text: &str) -> Option<TrackKind> {
    (0..=u8::MAX).map_while(TrackKind::from_u8).find(|k| k.name() == text)
}

/// Handle of a row's text in a column, none for null; an error if the text is not in the string table.
fn interned(file: &TableFile, text: &Text<'_>, row: usize, strings: &StringTable) -> Result<StrId, Error> {
    match text.get(row) {
        None => Ok(StrId::NONE),
        Some(text) => {
            strings.find(text).ok_or_else(|| file.damaged("the table refers to a text that strings.parquet lacks"))
        }
    }
}

/// Process or thread keys in a batch of rows: text, and the number if the key is one. See `key_columns` of the writer.
struct Keys<'a> {
    file: &'a TableFile,
    text: &'a StringArray,
    number: &'a arrow_array::Int64Array,
}

impl<'a> Keys<'a> {
    /// Read the text column of keys, and the adjacent column of their numbers.
    fn new(file: &'a TableFile, batch: &Batch<'a>, column: usize) -> Result<Self, Error> {
        Ok(Self { file, text: batch.plain_text(column)?, number: batch.numbers::<Int64Type>(column + 1)? })
    }

    /// Key of a row: number if there is one, else text, else none.
    fn get(&self, row: usize, strings: &StringTable) -> Result<Key, Error> {
        if self.number.is_valid(row) {
            return Ok(Key::Int(self.number.value(row)));
        }
        if self.text.is_null(row) {
            return Ok(Key::None);
        }
        let found = strings.find(self.text.value(row));
        found.map(Key::Str).ok_or_else(|| self.file.damaged("the table refers to a text that strings.parquet lacks"))
    }
}

/// Read the table of GPU operations.
pub(super) fn gpu(files: &Files<'_>) -> Result<GpuTable, Error> {
    let mut gpu = GpuTable::default();
    let Some(file) = files.required("gpu")? else { return Ok(gpu) };
    let columns =
        ["event", "correlation", "device", "stream", "launch", "operator", "python", "module", "annotation", "step"];
    file.read(&columns, ROW_GROUP, |batch| {
        batch.push_handles(0, &mut gpu.event, EventId)?;
        batch.push_or::<Int64Type>(1, &mut gpu.correlation, -1)?;
        batch.push_or::<Int32Type>(2, &mut gpu.device, -1)?;
        batch.push_or::<Int64Type>(3, &mut gpu.stream, -1)?;
        batch.push_handles(4, &mut gpu.launch, EventId)?;
        batch.push_handles(5, &mut gpu.operator, EventId)?;
        batch.push_handles(6, &mut gpu.python, EventId)?;
        batch.push_handles(7, &mut gpu.module, EventId)?;
        batch.push_handles(8, &mut gpu.annotation, EventId)?;
        batch.push_or::<UInt32Type>(9, &mut gpu.step, u32::MAX)
    })?;
    Ok(gpu)
}

/// Read the training steps of a trace.
pub(super) fn steps(trace: &mut Trace, files: &Files<'_>) -> Result<(), Error> {
    let Some(file) = files.required("steps")? else { return Ok(()) };
    let steps = &mut trace.steps;
    file.read(&["number", "event", "start_ns", "end_ns"], ROW_GROUP, |batch| {
        let (number, start) = (batch.values::<Int64Type>(0)?, batch.values::<Int64Type>(2)?);
        let end = batch.values::<Int64Type>(3)?;
        let mut events = Vec::new();
        batch.push_handles(1, &mut events, EventId)?;
        steps.extend((0..batch.rows()).map(|i| Step {
            number: number[i],
            event: events[i],
            start: start[i],
            end: end[i],
        }));
        Ok(())
    })
}

/// Read the links between events. In old runs each kind has its own table.
pub(super) fn links(trace: &mut Trace, files: &mut Files<'_>, (is_old, with_flows): (bool, bool)) -> Result<(), Error> {
    if is_old {
        if with_flows {
            push_links("flows", Some(LinkKind::Flow), trace, files)?;
        }
        return push_links("backward", Some(LinkKind::Backward), trace, files);
    }
    push_links("links", None, trace, files)?;
    let is_sound = trace.links.check().is_ok();
    if is_sound && !with_flows {
        trace.links.set(LinkKind::Flow, []);
    }
    Ok(())
}

/// Read the links of one table: all of one kind, or each of the kind in its row.
fn push_links(name: &str, kind: Option<LinkKind>, trace: &mut Trace, files: &mut Files<'_>) -> Result<(), Error> {
    let Some(file) = files.optional(name)? else { return Ok(()) };
    let (links, strings) = (&mut trace.links, &trace.strings);
    let (mut texts, mut kinds) = (DictionaryValues::default(), DictionaryValues::default());
    let columns: Vec<&str> = ["from", "to", "category"].into_iter().chain(kind.is_none().then_some("kind")).collect();
    file.read(&columns, ROW_GROUP, |batch| {
        batch.push_handles(0, &mut links.from, EventId)?;
        batch.push_handles(1, &mut links.to, EventId)?;
        batch.text(2)?.push_interned(&mut links.category, &mut texts, strings)?;
        match kind {
            Some(kind) => links.kind.resize(links.from.len(), kind),
            None => batch.text(3)?.push_mapped(&mut links.kind, LinkKind::Flow, &mut kinds, LinkKind::from_name)?,
        }
        Ok(())
    })
}

/// Read the optional tables of stacks and of top-level entries.
pub(super) fn side_tables(trace: &mut Trace, files: &mut Files<'_>) -> Result<(), Error> {
    stacks(trace, files)?;
    if let Some(file) = files.optional("entries")? {
        file.read(&["key", "json"], ROW_GROUP, |batch| {
            let (key, json) = (batch.plain_text(0)?, batch.plain_text(1)?);
            let rows = (0..batch.rows()).map(|i| (key.value(i).to_owned(), json.value(i).to_owned()));
            trace.meta.entries.extend(rows);
            Ok(())
        })?;
    }
    Ok(())
}

/// Read the call paths that events have: the prefix tree of frames, and the stack of each event.
fn stacks(trace: &mut Trace, files: &mut Files<'_>) -> Result<(), Error> {
    let (frames, events) = (files.optional("frames")?, files.optional("event_stacks")?);
    // Without frames, the stacks of events have no meaning.
    let Some(frames) = frames else { return Ok(()) };
    let (stacks, strings) = (&mut trace.stacks, &trace.strings);
    let (mut names, mut categories) = (DictionaryValues::default(), DictionaryValues::default());
    frames.read(&["parent", "frame", "category"], ROW_GROUP, |batch| {
        let (mut parent, mut name, mut category) = (Vec::new(), Vec::new(), Vec::new());
        batch.push_handles(0, &mut parent, StackId)?;
        batch.text(1)?.push_interned(&mut name, &mut names, strings)?;
        batch.text(2)?.push_interned(&mut category, &mut categories, strings)?;
        for (parent, texts) in parent.into_iter().zip(name.into_iter().zip(category)) {
            stacks.push(parent, texts, strings);
        }
        Ok(())
    })?;
    let Some(events) = events else { return Ok(()) };
    events.read(&["event", "stack"], ROW_GROUP, |batch| {
        batch.push_handles(0, &mut stacks.event, EventId)?;
        batch.push_handles(1, &mut stacks.stack, StackId)
    })
}
