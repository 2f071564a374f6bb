//! Arguments of events, from the wide columns of the event table and the long table.

use super::long::{LongRows, LongTable};
use super::table::{Batch, DictionaryValues, TableFile};
use super::{Attributes, Files};
use crate::Error;
use crate::attr_type;
use crate::write::table::ROW_GROUP;
use arrow_array::types::{Float64Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, BooleanArray, Int32Array};
use rustc_hash::FxHashMap;
use stackline_model::{AttrLayout, AttrLayoutId, AttrTable, AttrType, StrId, StringTable};
use std::path::PathBuf;
use std::slice::IterMut;
use std::sync::{Mutex, PoisonError};
use std::vec::IntoIter;

/// Rows per batch of wide columns; about sixty columns are in memory at once, per thread.
const BATCH: usize = 32 * 1024;

/// Argument in a layout: key, type, and the location of its values.
struct Field {
    key: StrId,
    kind: AttrType,
    is_selected: bool,
    /// Index in the list of wide columns to read; `None` for values in the long table.
    wide: Option<usize>,
}

/// Argument layouts of a trace, and the wide columns that have to be read.
struct Layout {
    shapes: Vec<Vec<Field>>,
    /// Wide columns to read: name and type.
    columns: Vec<(String, AttrType)>,
}

/// Plan for reading the arguments of all events: layouts, the layout of each event, and the long table.
pub(super) struct Plan {
    folder: PathBuf,
    layout: Layout,
    /// Layout of each event.
    shape: Vec<AttrLayoutId>,
    long: LongTable,
    /// True if values of the long table are needed.
    needs_long: bool,
}

impl Plan {
    /// Plan the reading of event arguments: read layouts and the long table.
    pub(super) fn new(
        events: Option<&TableFile>,
        strings: &StringTable,
        files: &Files<'_>,
        selection: &Attributes,
    ) -> Result<Self, Error> {
        let shape = events.map_or(Ok(Vec::new()), super::events::shapes)?;
        let layout = match files.required("shapes")? {
            Some(file) => layout(strings, &file, selection, !files.long_arguments)?,
            None => Layout { shapes: Vec::new(), columns: Vec::new() },
        };
        if shape.iter().any(|s| s.index() >= layout.shapes.len()) {
            return Err(Error::damaged(&files.folder, "an event refers to argument names that shapes.parquet lacks"));
        }
        let needs_long = layout.shapes.iter().flatten().any(|f| f.is_selected && f.wide.is_none());
        let long = match files.required("attributes")? {
            Some(file) if needs_long => LongTable::read(strings, file)?,
            _ => LongTable::default(),
        };
        Ok(Self { folder: files.folder.clone(), layout, shape, long, needs_long })
    }

    /// Allocate a slot for every selected argument value.
    pub(super) fn allocate_values(&self) -> Result<Vec<u64>, Error> {
        let selected_counts = self.selected_counts();
        let count: usize = self.shape.iter().map(|s| selected_counts[s.index()]).sum();
        let too_many = |_| Error::damaged(&self.folder, format!("not enough memory to read {count} event arguments"));
        // A failed allocation of zeros would abort the program; a fallible reservation reports it.
        Vec::<u64>::new().try_reserve_exact(count).map_err(too_many)?;
        Ok(vec![0; count])
    }

    /// Number of selected arguments of an event, for each layout.
    fn selected_counts(&self) -> Vec<usize> {
        self.layout.shapes.iter().map(|fields| fields.iter().filter(|f| f.is_selected).count()).collect()
    }

    /// Divide the reading into one part per row group, each of which fills its range of `values`.
    pub(super) fn parts<'a>(
        &'a self,
        events: Option<&'a TableFile>,
        strings: &'a StringTable,
        values: &'a mut [u64],
    ) -> Result<Parts<'a>, Error> {
        let (selected_counts, mut rest, mut first, mut long) = (self.selected_counts(), values, 0, 0);
        let mut parts = Vec::new();
        for (group, rows) in events.iter().flat_map(|file| file.groups()).enumerate() {
            let shape = &self.shape[first..first + rows];
            let (values, after) = rest.split_at_mut(shape.iter().map(|s| selected_counts[s.index()]).sum());
            let part = Part { group, first, shape, values, long: self.long.part(long, first + rows) };
            (rest, first, long) = (after, first + rows, part.long.end);
            parts.push(part);
        }
        self.long.check_end(long)?;
        Ok(Parts { plan: self, file: events, strings, left: Mutex::new(parts.into_iter()), error: Mutex::default() })
    }

    /// Build the table of event arguments, after all values were read.
    pub(super) fn table(self, values: Vec<u64>) -> Result<AttrTable, Error> {
        drop(self.long);
        let shapes = self.layout.shapes.iter().map(|fields| selected_layout(fields)).collect();
        AttrTable::from_columns(shapes, self.shape, values).map_err(|e| Error::damaged(&self.folder, e))
    }
}

/// Parts of the event arguments that remain to be read ([`Plan::parts`]).
pub(super) struct Parts<'a> {
    plan: &'a Plan,
    file: Option<&'a TableFile>,
    strings: &'a StringTable,
    left: Mutex<IntoIter<Part<'a>>>,
    /// Error of the first failed row group; threads do not finish in the order of groups.
    error: Mutex<Option<(usize, Error)>>,
}

/// Part of the reading: the events of one row group, and the destination of their values.
struct Part<'a> {
    group: usize,
    /// First event.
    first: usize,
    shape: &'a [AttrLayoutId],
    values: &'a mut [u64],
    long: LongRows<'a>,
}

impl Parts<'_> {
    /// Number of parts of the event arguments that are not read yet.
    pub(super) fn count(&self) -> usize {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Read parts of the event arguments until none is left. Any number of threads may run it concurrently.
    pub(super) fn read_parts(&self) {
        let next = || self.left.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(part) = next() {
            let group = part.group;
            if let Err(error) = self.read(part) {
                *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new().into_iter();
                let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
                if first.as_ref().is_none_or(|&(other, _)| group < other) {
                    *first = Some((group, error));
                }
            }
        }
    }

    /// Return the error of the first row group that could not be read, if any.
    pub(super) fn result(self) -> Result<(), Error> {
        self.error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Read the argument values of one row group's events, from wide columns and the long table.
    fn read(&self, part: Part<'_>) -> Result<(), Error> {
        let (columns, shape) = (&self.plan.layout.columns, part.shape);
        let mut merge = Merge {
            shapes: &self.plan.layout.shapes,
            skip_long: !self.plan.needs_long,
            long: part.long,
            values: part.values.iter_mut(),
        };
        match self.file {
            Some(file) if !columns.is_empty() => {
                let names: Vec<&str> = columns.iter().map(|c| c.0.as_str()).collect();
                let mut meanings: Vec<DictionaryValues<StrId>> =
                    names.iter().map(|_| DictionaryValues::default()).collect();
                let mut done = 0;
                file.read_group(part.group, &names, BATCH, |batch| {
                    let kinds = columns.iter().enumerate().zip(&mut meanings);
                    let wide = kinds.map(|((i, c), texts)| WideValues::new(batch, i, c.1, texts, self.strings));
                    let wide = wide.collect::<Result<Vec<_>, _>>()?;
                    let too_many =
                        || file.damaged("the table of event arguments has more rows than the trace has events");
                    let rows = shape.get(done..done + batch.rows()).ok_or_else(too_many)?;
                    merge.rows(rows, part.first + done, &wide)?;
                    done += batch.rows();
                    Ok(())
                })?;
            }
            _ => merge.rows(shape, part.first, &[])?,
        }
        merge.long.finish()
    }
}

/// Layout of only the selected arguments.
fn selected_layout(fields: &[Field]) -> AttrLayout {
    AttrLayout { fields: fields.iter().filter(|f| f.is_selected).map(|f| (f.key, f.kind)).collect() }
}

/// Read the argument layouts from their table. `has_wide`: true if some fields are columns of the event table.
fn layout(strings: &StringTable, file: &TableFile, selection: &Attributes, has_wide: bool) -> Result<Layout, Error> {
    let mut layout = Layout { shapes: Vec::new(), columns: Vec::new() };
    let mut index: FxHashMap<String, usize> = FxHashMap::default();
    let wrong = || file.damaged("an event argument has an invalid name, type, column or position");
    let columns = &["shape", "position", "key", "type", "column"][..if has_wide { 5 } else { 4 }];
    file.read(columns, ROW_GROUP, |batch| {
        let column = if has_wide { Some(batch.plain_text(4)?) } else { None };
        let (ids, positions) = (batch.values::<UInt32Type>(0)?, batch.numbers::<UInt32Type>(1)?);
        let (keys, types) = (batch.text(2)?, batch.text(3)?);
        for (row, &id) in ids.iter().enumerate() {
            if id as usize == layout.shapes.len() {
                layout.shapes.push(Vec::new());
            }
            let current = layout.shapes.len();
            let fields = layout.shapes.last_mut().filter(|_| id as usize + 1 == current).ok_or_else(wrong)?;
            if positions.is_null(row) {
                continue;
            }
            let text = keys.get(row).filter(|_| positions.value(row) as usize == fields.len()).ok_or_else(wrong)?;
            let key = strings.find(text).ok_or_else(wrong)?;
            let kind = types.get(row).and_then(attr_type::from_name).ok_or_else(wrong)?;
            let is_selected = selection.selects(text);
            let name = column.filter(|c| c.is_valid(row)).map(|c| c.value(row));
            let wide = name.map(|name| match index.get(name) {
                // An unselected column is not read, so its index does not matter.
                _ if !is_selected => Ok(usize::MAX),
                Some(&found) if layout.columns[found].1 == kind => Ok(found),
                Some(_) => Err(wrong()),
                None => {
                    index.insert(name.to_owned(), layout.columns.len());
                    layout.columns.push((name.to_owned(), kind));
                    Ok(layout.columns.len() - 1)
                }
            });
            fields.push(Field { key, kind, is_selected, wide: wide.transpose()? });
        }
        Ok(())
    })?;
    Ok(layout)
}

/// Values of one wide column in a batch of rows, by type.
enum WideValues<'a> {
    Int(&'a [i64]),
    Uint(&'a [u64]),
    Float(&'a [f64]),
    Bool(&'a BooleanArray),
    /// Key per row, and the handle of each key's text.
    Text(&'a Int32Array, &'a [StrId]),
}

impl<'a> WideValues<'a> {
    /// Values of a column of a batch with this argument type; text is converted to handles.
    fn new(
        batch: &Batch<'a>,
        column: usize,
        kind: AttrType,
        meanings: &'a mut DictionaryValues<StrId>,
        strings: &StringTable,
    ) -> Result<Self, Error> {
        Ok(match kind {
            AttrType::Uint => Self::Uint(batch.numbers::<UInt64Type>(column)?.values()),
            AttrType::Float => Self::Float(batch.numbers::<Float64Type>(column)?.values()),
            AttrType::Bool => Self::Bool(batch.bools(column)?),
            AttrType::Str | AttrType::Json => {
                let text = batch.text(column)?;
                meanings.update(&text, |text| strings.find(text))?;
                Self::Text(text.keys(), &meanings.table)
            }
            AttrType::Int | AttrType::Null => Self::Int(batch.numbers::<Int64Type>(column)?.values()),
        })
    }

    /// Raw value (64 bits) of a row.
    fn raw(&self, row: usize) -> u64 {
        match self {
            Self::Int(v) => v[row] as u64,
            Self::Uint(v) => v[row],
            Self::Float(v) => v[row].to_bits(),
            Self::Bool(v) => u64::from(v.value(row)),
            Self::Text(keys, handles) => {
                let handle = keys.is_valid(row).then(|| handles.get(keys.value(row) as usize)).flatten();
                u64::from(handle.map_or(u32::MAX, |h| h.0))
            }
        }
    }
}

/// Merge of the values of wide columns and of the long table into one list, in the order of events.
struct Merge<'a> {
    shapes: &'a [Vec<Field>],
    skip_long: bool,
    long: LongRows<'a>,
    /// Destination of the values.
    values: IterMut<'a, u64>,
}

impl Merge<'_> {
    /// Write the values of the events from `first` on to the list. `shape` has the layout of each event; `columns`
    /// start at the same event.
    fn rows(&mut self, shape: &[AttrLayoutId], first: usize, columns: &[WideValues<'_>]) -> Result<(), Error> {
        for (row, id) in shape.iter().enumerate() {
            for (position, field) in self.shapes[id.index()].iter().enumerate() {
                let raw = match field.wide {
                    Some(column) if field.is_selected => columns[column].raw(row),
                    None if !self.skip_long => {
                        let raw = self.long.take(first + row, position, field.kind)?;
                        if !field.is_selected {
                            continue;
                        }
                        raw
                    }
                    _ => continue,
                };
                if let Some(value) = self.values.next() {
                    *value = raw;
                }
            }
        }
        Ok(())
    }
}
