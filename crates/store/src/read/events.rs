//! Reader of the string table and of the event table of a run directory.

use super::Files;
use super::table::{Batch, DictionaryValues, TableFile};
use crate::Error;
use crate::write::table::ROW_GROUP;
use arrow_array::Array;
use arrow_array::types::{Int64Type, UInt8Type, UInt32Type};
use stackline_model::{AttrLayoutId, EventId, EventKind, EventTable, Level, Phase, StrId, StringTable, TrackId};

/// Read the string table; handles keep their values.
pub(super) fn strings(table: &str, strings: &mut StringTable, files: &Files<'_>) -> Result<(), Error> {
    let Some(file) = files.required(table)? else { return Ok(()) };
    let mut next = 0;
    file.read(&["text"], ROW_GROUP, |batch| {
        let texts = batch.plain_text(0)?;
        for row in 0..texts.len() {
            if strings.intern(texts.value(row)).0 != next {
                return Err(file.damaged(format!("text {next} occurs twice")));
            }
            next += 1;
        }
        Ok(())
    })
}

const COLUMNS: &[&str] =
    &["start_ns", "dur_ns", "track", "name", "category", "kind", "phase", "flags", "source_index", "parent"];

/// Level column, which old runs lack.
const LEVEL: &str = "level";

/// Read the event table without arguments. Without a level column, levels follow from kinds.
pub(super) fn read(file: &TableFile, strings: &StringTable, has_levels: bool) -> Result<EventTable, Error> {
    let mut reading = EventColumns::new(file);
    let columns: Vec<&str> = COLUMNS.iter().copied().chain(has_levels.then_some(LEVEL)).collect();
    file.read(&columns, BATCH, |batch| reading.push(strings, batch, has_levels))?;
    Ok(reading.events)
}

/// Read the handle of each event's argument layout.
pub(super) fn shapes(file: &TableFile) -> Result<Vec<AttrLayoutId>, Error> {
    let mut shape = Vec::with_capacity(file.rows().min(MAX_RESERVE));
    file.read(&["shape"], BATCH, |batch| {
        shape.extend(batch.values::<UInt32Type>(0)?.iter().map(|s| AttrLayoutId(*s)));
        Ok(())
    })?;
    Ok(shape)
}

/// Read the stored time order of events; `None` for runs of format version 1, which lack it.
pub(super) fn order(files: &mut Files<'_>) -> Result<Option<Vec<EventId>>, Error> {
    let Some(file) = files.optional("track_order")? else { return Ok(None) };
    let mut order = Vec::with_capacity(file.rows().min(MAX_RESERVE));
    file.read(&["event"], BATCH, |batch| batch.push_handles(0, &mut order, EventId))?;
    Ok(Some(order))
}

/// Rows per batch, small enough that its arrays stay in the cache until they are copied.
const BATCH: usize = 32 * 1024;
/// Limit of reservations, because the size in a damaged file may be wrong.
const MAX_RESERVE: usize = 1 << 24;

/// Event table while its batches are read, with the converted dictionaries.
struct EventColumns {
    events: EventTable,
    names: DictionaryValues<StrId>,
    categories: DictionaryValues<StrId>,
    kinds: DictionaryValues<EventKind>,
    levels: DictionaryValues<Level>,
    phases: DictionaryValues<Phase>,
}

impl EventColumns {
    /// Create empty columns with room for the rows of a file.
    fn new(file: &TableFile) -> Self {
        let rows = file.rows().min(MAX_RESERVE);
        let events = EventTable {
            start: Vec::with_capacity(rows),
            dur: Vec::with_capacity(rows),
            track: Vec::with_capacity(rows),
            name: Vec::with_capacity(rows),
            category: Vec::with_capacity(rows),
            kind: Vec::with_capacity(rows),
            level: Vec::with_capacity(rows),
            phase: Vec::with_capacity(rows),
            flags: Vec::with_capacity(rows),
            source_index: Vec::with_capacity(rows),
            parent: Vec::with_capacity(rows),
        };
        Self {
            events,
            names: DictionaryValues::default(),
            categories: DictionaryValues::default(),
            kinds: DictionaryValues::default(),
            levels: DictionaryValues::default(),
            phases: DictionaryValues::default(),
        }
    }

    /// Append the rows of a batch to the event table.
    fn push(&mut self, strings: &StringTable, batch: &Batch<'_>, has_levels: bool) -> Result<(), Error> {
        let e = &mut self.events;
        e.start.extend_from_slice(batch.values::<Int64Type>(0)?);
        e.dur.extend_from_slice(batch.values::<Int64Type>(1)?);
        e.track.extend(batch.values::<UInt32Type>(2)?.iter().map(|t| TrackId(*t)));
        batch.text(3)?.push_interned(&mut e.name, &mut self.names, strings)?;
        batch.text(4)?.push_interned(&mut e.category, &mut self.categories, strings)?;
        batch.text(5)?.push_mapped(&mut e.kind, EventKind::Other, &mut self.kinds, EventKind::from_name)?;
        batch.text(6)?.push_mapped(&mut e.phase, Phase::Other, &mut self.phases, Phase::from_name)?;
        e.flags.extend_from_slice(batch.values::<UInt8Type>(7)?);
        e.source_index.extend_from_slice(batch.values::<UInt32Type>(8)?);
        batch.push_handles(9, &mut e.parent, EventId)?;
        if has_levels {
            return batch.text(10)?.push_mapped(&mut e.level, Level::Other, &mut self.levels, Level::from_name);
        }
        let known = e.level.len();
        e.level.extend(e.kind[known..].iter().map(|kind| kind.level()));
        Ok(())
    }
}
