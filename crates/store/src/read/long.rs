//! Read the long table: arguments of events without their own column.

use super::table::{DictionaryValues, TableFile};
use crate::Error;
use crate::attr_type;
use crate::write::table::ROW_GROUP;
use arrow_array::types::{Float64Type, Int64Type, UInt32Type, UInt64Type};
use stackline_model::{AttrType, StringTable};

/// All rows of the long table of arguments, by event and position.
#[derive(Default)]
pub(super) struct LongTable {
    file: Option<TableFile>,
    event: Vec<u32>,
    position: Vec<u32>,
    kind: Vec<AttrType>,
    raw: Vec<u64>,
}

impl LongTable {
    /// Read all rows of the long table of arguments.
    pub(super) fn read(strings: &StringTable, file: TableFile) -> Result<Self, Error> {
        let mut long = Self::default();
        let (mut kinds, mut texts) = (DictionaryValues::default(), DictionaryValues::default());
        file.read(&["event", "position", "type", "int", "uint", "float", "text"], ROW_GROUP, |batch| {
            let from = long.kind.len();
            long.event.extend_from_slice(batch.values::<UInt32Type>(0)?);
            long.position.extend_from_slice(batch.values::<UInt32Type>(1)?);
            batch.text(2)?.push_mapped(&mut long.kind, AttrType::Null, &mut kinds, attr_type::from_name)?;
            let (ints, uints) = (batch.numbers::<Int64Type>(3)?, batch.numbers::<UInt64Type>(4)?);
            let floats = batch.numbers::<Float64Type>(5)?;
            let mut text = Vec::with_capacity(batch.rows());
            batch.text(6)?.push_interned(&mut text, &mut texts, strings)?;
            long.raw.extend(long.kind[from..].iter().enumerate().map(|(row, kind)| match kind {
                AttrType::Null => 0,
                AttrType::Bool | AttrType::Int => ints.value(row) as u64,
                AttrType::Uint => uints.value(row),
                AttrType::Float => floats.value(row).to_bits(),
                AttrType::Str | AttrType::Json => u64::from(text[row].0),
            }));
            Ok(())
        })?;
        long.file = Some(file);
        Ok(long)
    }

    /// Next part of the rows: those from row `from` on that belong to events below `end`.
    pub(super) fn part(&self, from: usize, end: usize) -> LongRows<'_> {
        let rows = self.event[from..].partition_point(|&event| (event as usize) < end);
        LongRows { long: self, next: from, end: from + rows }
    }

    /// Check that the parts up to row `end` cover all rows.
    pub(super) fn check_end(&self, end: usize) -> Result<(), Error> {
        let rows = self.event.len();
        if rows == end {
            Ok(())
        } else {
            Err(self.damaged(format!("the table of event arguments has {rows} values, but the events require {end}")))
        }
    }

    /// Create the error that the long table is damaged, with details.
    fn damaged(&self, detail: String) -> Error {
        match &self.file {
            Some(file) => file.damaged(detail),
            None => Error::damaged("attributes.parquet".as_ref(), "the manifest does not list this table"),
        }
    }
}

/// Range of rows of the long table, which are taken in order.
pub(super) struct LongRows<'a> {
    long: &'a LongTable,
    next: usize,
    /// End of the range (exclusive).
    pub(super) end: usize,
}

impl LongRows<'_> {
    /// Take the value of the next row. An error if the row has another event, position or type.
    pub(super) fn take(&mut self, event: usize, position: usize, kind: AttrType) -> Result<u64, Error> {
        let (long, i) = (self.long, self.next);
        self.next += 1;
        let stored = long.event.get(i).zip(long.position.get(i)).zip(long.kind.get(i));
        match stored {
            Some(((&e, &p), &k)) if e as usize == event && p as usize == position && k == kind => Ok(long.raw[i]),
            _ => Err(long.damaged(format!(
                "row {i} of the table of event arguments is not argument {position} of event {event}, as expected"
            ))),
        }
    }

    /// Check that all rows of the long table of arguments were taken.
    pub(super) fn finish(self) -> Result<(), Error> {
        let (next, end) = (self.next, self.end);
        if next == end {
            Ok(())
        } else {
            Err(self.long.damaged(format!("row {next} of the table of event arguments belongs to no event")))
        }
    }
}
