//! Strings and the event table.

use super::Files;
use super::table::{Batch, TableFile};
use crate::Error;
use crate::write::table::ROW_GROUP;
use arrow_array::Array;
use arrow_array::types::{Int64Type, UInt8Type, UInt32Type};
use stackline_model::{EventId, EventKind, EventTable, Phase, ShapeId, Trace, TrackId};

/// Reads the string table; the handles come out as they were.
pub(super) fn strings(trace: &mut Trace, files: &Files<'_>) -> Result<(), Error> {
    let Some(file) = files.required("strings")? else { return Ok(()) };
    let mut next = 0;
    file.read(&["text"], ROW_GROUP, |batch| {
        let texts = batch.plain_text(0)?;
        for row in 0..texts.len() {
            if trace.strings.intern(texts.value(row)).0 != next {
                return Err(file.damaged(format!("text {next} occurs twice")));
            }
            next += 1;
        }
        Ok(())
    })
}

const COLUMNS: &[&str] =
    &["start_ns", "dur_ns", "track", "name", "category", "kind", "phase", "flags", "source_index", "parent", "shape"];

/// Reads the events, and the shape of each event's arguments.
pub(super) fn read(trace: &mut Trace, files: &Files<'_>) -> Result<Vec<ShapeId>, Error> {
    let Some(file) = files.required("events")? else { return Ok(Vec::new()) };
    let (mut events, mut shape) = with_capacity(&file);
    file.read(COLUMNS, ROW_GROUP, |batch| push(trace, batch, &mut events, &mut shape))?;
    trace.events = events;
    Ok(shape)
}

fn with_capacity(file: &TableFile) -> (EventTable, Vec<ShapeId>) {
    // A file that lies about its size must not make us reserve what it says.
    let rows = file.rows().min(1 << 24);
    let events = EventTable {
        start: Vec::with_capacity(rows),
        dur: Vec::with_capacity(rows),
        track: Vec::with_capacity(rows),
        name: Vec::with_capacity(rows),
        category: Vec::with_capacity(rows),
        kind: Vec::with_capacity(rows),
        phase: Vec::with_capacity(rows),
        flags: Vec::with_capacity(rows),
        source_index: Vec::with_capacity(rows),
        parent: Vec::with_capacity(rows),
    };
    (events, Vec::with_capacity(rows))
}

fn push(trace: &Trace, batch: &Batch<'_>, events: &mut EventTable, shape: &mut Vec<ShapeId>) -> Result<(), Error> {
    events.start.extend_from_slice(batch.values::<Int64Type>(0)?);
    events.dur.extend_from_slice(batch.values::<Int64Type>(1)?);
    events.track.extend(batch.values::<UInt32Type>(2)?.iter().map(|t| TrackId(*t)));
    batch.text(3)?.push_interned(&mut events.name, &trace.strings)?;
    batch.text(4)?.push_interned(&mut events.category, &trace.strings)?;
    batch.text(5)?.push_mapped(&mut events.kind, EventKind::Other, EventKind::from_name)?;
    batch.text(6)?.push_mapped(&mut events.phase, Phase::Other, Phase::from_name)?;
    events.flags.extend_from_slice(batch.values::<UInt8Type>(7)?);
    events.source_index.extend_from_slice(batch.values::<UInt32Type>(8)?);
    batch.push_handles(9, &mut events.parent, EventId)?;
    shape.extend(batch.values::<UInt32Type>(10)?.iter().map(|s| ShapeId(*s)));
    Ok(())
}
