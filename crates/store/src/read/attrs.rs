//! Arguments of events: put together from the wide columns of the event table and the long table of all others.

use super::events::MAX_RESERVE;
use super::table::{Batch, Meanings, TableFile};
use super::{Attributes, Files};
use crate::Error;
use crate::attr_type;
use crate::write::table::ROW_GROUP;
use arrow_array::types::{Float64Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, BooleanArray, Int32Array};
use rustc_hash::FxHashMap;
use stackline_model::{AttrTable, AttrType, Shape, ShapeId, StrId, StringTable};

/// Rows per batch of wide columns: some sixty of them are in memory at once.
const BATCH: usize = 32 * 1024;

/// A field of a shape and where its values are.
struct Field {
    key: StrId,
    kind: AttrType,
    wanted: bool,
    /// Position in the list of wide columns to read; `None` if its values are in the long table.
    wide: Option<usize>,
}

struct Layout {
    shapes: Vec<Vec<Field>>,
    /// Names of the wide columns to read, and their types.
    columns: Vec<(String, AttrType)>,
}

/// Reads the arguments of `events` that are wanted.
pub(super) fn read(
    events: Option<&TableFile>,
    strings: &StringTable,
    files: &Files<'_>,
    selection: &Attributes,
) -> Result<AttrTable, Error> {
    let shape = events.map_or(Ok(Vec::new()), super::events::shapes)?;
    let layout = match files.required("shapes")? {
        Some(file) => layout(strings, &file, selection, !files.long_arguments)?,
        None => Layout { shapes: Vec::new(), columns: Vec::new() },
    };
    let wants_long = layout.shapes.iter().flatten().any(|f| f.wanted && f.wide.is_none());
    let long = match files.required("attributes")? {
        Some(file) if wants_long => Long::read(strings, file)?,
        _ => Long::default(),
    };
    let mut merge = Merge { layout: &layout, long, skip_long: !wants_long, values: Vec::new() };
    let missing = || Error::damaged(&files.folder, "an event's arguments have no shape");
    if shape.iter().any(|s| s.index() >= layout.shapes.len()) {
        return Err(missing());
    }
    let wanted: Vec<usize> = layout.shapes.iter().map(|fields| fields.iter().filter(|f| f.wanted).count()).collect();
    merge.values.reserve(shape.iter().map(|s| wanted[s.index()]).sum::<usize>().min(MAX_RESERVE));
    if layout.columns.is_empty() {
        if wants_long {
            merge.rows(&shape, 0, &[])?;
        }
    } else if let Some(file) = events {
        wide(strings, file, &shape, &mut merge)?;
    }
    let values = merge.finish()?;
    let shapes = layout.shapes.iter().map(|fields| reduced(fields)).collect();
    AttrTable::from_columns(shapes, shape, values).map_err(|e| Error::damaged(&files.folder, e))
}

fn reduced(fields: &[Field]) -> Shape {
    Shape { fields: fields.iter().filter(|f| f.wanted).map(|f| (f.key, f.kind)).collect() }
}

/// Reads the shapes. `has_wide` tells whether some fields are columns of the event table.
fn layout(strings: &StringTable, file: &TableFile, selection: &Attributes, has_wide: bool) -> Result<Layout, Error> {
    let mut layout = Layout { shapes: Vec::new(), columns: Vec::new() };
    let mut index: FxHashMap<String, usize> = FxHashMap::default();
    let wrong = || file.damaged("its rows contradict each other");
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
            let wanted = selection.wants(text);
            let name = column.filter(|c| c.is_valid(row)).map(|c| c.value(row));
            let wide = name.map(|name| match index.get(name) {
                // A column that is not wanted is not read; then its number does not matter.
                _ if !wanted => Ok(usize::MAX),
                Some(&found) if layout.columns[found].1 == kind => Ok(found),
                Some(_) => Err(wrong()),
                None => {
                    index.insert(name.to_owned(), layout.columns.len());
                    layout.columns.push((name.to_owned(), kind));
                    Ok(layout.columns.len() - 1)
                }
            });
            fields.push(Field { key, kind, wanted, wide: wide.transpose()? });
        }
        Ok(())
    })?;
    Ok(layout)
}

fn wide(strings: &StringTable, file: &TableFile, shape: &[ShapeId], merge: &mut Merge<'_>) -> Result<(), Error> {
    let names: Vec<&str> = merge.layout.columns.iter().map(|c| c.0.as_str()).collect();
    let mut done = 0;
    let mut meanings: Vec<Meanings<StrId>> = names.iter().map(|_| Meanings::default()).collect();
    file.read(&names, BATCH, |batch| {
        let kinds = merge.layout.columns.iter().enumerate().zip(&mut meanings);
        let columns = kinds.map(|((i, c), texts)| Wide::of(batch, i, c.1, texts, strings));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let rows = shape.get(done..done + batch.rows()).ok_or_else(|| file.damaged("it has too many rows"))?;
        merge.rows(rows, done, &columns)?;
        done += batch.rows();
        Ok(())
    })
}

/// A batch of one wide column.
enum Wide<'a> {
    Int(&'a [i64]),
    Uint(&'a [u64]),
    Float(&'a [f64]),
    Bool(&'a BooleanArray),
    /// Key per row, and the handle of each key's text.
    Text(&'a Int32Array, &'a [StrId]),
}

impl<'a> Wide<'a> {
    fn of(
        batch: &Batch<'a>,
        column: usize,
        kind: AttrType,
        meanings: &'a mut Meanings<StrId>,
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

/// The long table.
#[derive(Default)]
struct Long {
    file: Option<TableFile>,
    event: Vec<u32>,
    position: Vec<u32>,
    kind: Vec<AttrType>,
    raw: Vec<u64>,
    next: usize,
}

impl Long {
    fn read(strings: &StringTable, file: TableFile) -> Result<Self, Error> {
        let mut long = Self::default();
        let (mut kinds, mut texts) = (Meanings::default(), Meanings::default());
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

    /// The next value, which must be the one of this event and position.
    fn take(&mut self, event: usize, position: usize, kind: AttrType) -> Result<u64, Error> {
        let i = self.next;
        self.next += 1;
        let stored = self.event.get(i).zip(self.position.get(i)).zip(self.kind.get(i));
        match stored {
            Some(((&e, &p), &k)) if e as usize == event && p as usize == position && k == kind => Ok(self.raw[i]),
            _ => Err(self.damaged(format!("row {i} is not the argument {position} of event {event}"))),
        }
    }

    fn damaged(&self, detail: String) -> Error {
        match &self.file {
            Some(file) => file.damaged(detail),
            None => Error::damaged("attributes.parquet".as_ref(), "the manifest does not name the table"),
        }
    }
}

/// Puts the values of all events in order.
struct Merge<'a> {
    layout: &'a Layout,
    long: Long,
    skip_long: bool,
    values: Vec<u64>,
}

impl Merge<'_> {
    /// `shape` of the rows from event `first` on; `columns` start at the same event.
    fn rows(&mut self, shape: &[ShapeId], first: usize, columns: &[Wide<'_>]) -> Result<(), Error> {
        for (row, id) in shape.iter().enumerate() {
            for (position, field) in self.layout.shapes[id.index()].iter().enumerate() {
                let raw = match field.wide {
                    Some(column) if field.wanted => columns[column].raw(row),
                    None if !self.skip_long => {
                        let raw = self.long.take(first + row, position, field.kind)?;
                        if !field.wanted {
                            continue;
                        }
                        raw
                    }
                    _ => continue,
                };
                self.values.push(raw);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<u64>, Error> {
        if self.skip_long || self.long.next == self.long.raw.len() {
            return Ok(self.values);
        }
        Err(self.long.damaged(format!("it has {} values, {} were expected", self.long.raw.len(), self.long.next)))
    }
}
