//! Read a Parquet file: whole into memory, checked against the manifest, then the requested columns.

use crate::Error;
use crate::manifest::TableEntry;
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, UInt32Type};
use arrow_array::{Array, DictionaryArray, PrimitiveArray, RecordBatch, StringArray};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::RowGroupMetaData;
use stackline_model::{StrId, StringTable};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Parquet file of a table, read into memory and checked against the manifest.
pub(crate) struct TableFile {
    path: PathBuf,
    data: Bytes,
    metadata: ArrowReaderMetadata,
    rows: usize,
}

impl TableFile {
    /// Open `FOLDER/NAME.parquet`. `None` if the file does not exist.
    pub(crate) fn open(folder: &Path, name: &str, entry: &TableEntry) -> Result<Option<Self>, Error> {
        let path = folder.join(format!("{name}.parquet"));
        let data = match std::fs::read(&path) {
            Ok(data) => Bytes::from(data),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io(&path, "read")(e)),
        };
        verify(&path, &data, entry)?;
        let metadata = decode_step(&path, || ArrowReaderMetadata::load(&data, ArrowReaderOptions::new()))?;
        let rows = metadata.metadata().file_metadata().num_rows();
        if u64::try_from(rows) != Ok(entry.rows) || entry.rows >= u64::from(u32::MAX) {
            let detail = format!("the file has {rows} rows, but the manifest lists {}", entry.rows);
            return Err(Error::damaged(&path, detail));
        }
        Ok(Some(Self { rows: entry.rows as usize, path, data, metadata }))
    }

    /// Number of rows of the table.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Create the error that this file is damaged, with details.
    pub(crate) fn damaged(&self, detail: impl std::fmt::Display) -> Error {
        Error::damaged(&self.path, detail)
    }

    /// Number of rows of each row group in a Parquet file.
    pub(crate) fn groups(&self) -> impl Iterator<Item = usize> {
        self.metadata.metadata().row_groups().iter().map(rows_of)
    }

    /// Pass the named columns to `use_batch`, in batches of at most `batch_rows` rows that do not span row groups, so
    /// that dictionaries stay as stored. Columns are in the order of `columns`.
    pub(crate) fn read(
        &self,
        columns: &[&str],
        batch_rows: usize,
        mut use_batch: impl FnMut(&Batch<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut seen = 0;
        for (group, rows) in self.groups().enumerate() {
            self.read_group(group, columns, batch_rows, &mut use_batch)?;
            seen += rows;
        }
        if seen == self.rows {
            Ok(())
        } else {
            Err(self.damaged(format!("the file contains only {seen} of {} rows", self.rows)))
        }
    }

    /// Read the named columns of one row group of a Parquet file, in batches ([`Self::read`]).
    pub(crate) fn read_group(
        &self,
        group: usize,
        columns: &[&str],
        batch_rows: usize,
        mut use_batch: impl FnMut(&Batch<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mask, order) = self.projection(columns)?;
        let rows = self.metadata.metadata().row_groups().get(group).map_or(0, rows_of);
        let mut reader = decode_step(&self.path, || {
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.data.clone(), self.metadata.clone())
                .with_projection(mask)
                .with_row_groups(vec![group])
                .with_batch_size(batch_rows.min(rows).max(1))
                .build()
        })?;
        let mut seen = 0;
        while let Some(batch) = decode_step(&self.path, || Ok(reader.next().transpose()?))? {
            seen += batch.num_rows();
            use_batch(&Batch { file: self, batch: &batch, order: &order })?;
        }
        if seen == rows {
            Ok(())
        } else {
            Err(self.damaged(format!("row group {group} has only {seen} of {rows} rows")))
        }
    }

    /// True if the file has a column: files of earlier versions may lack it.
    pub(crate) fn has_column(&self, name: &str) -> bool {
        self.metadata.schema().fields().iter().any(|field| field.name() == name)
    }

    /// Columns of the file to read, and the position of each of `columns` among them.
    fn projection(&self, columns: &[&str]) -> Result<(ProjectionMask, Vec<usize>), Error> {
        let schema = self.metadata.schema();
        let mut roots = Vec::with_capacity(columns.len());
        for name in columns {
            let found = schema.fields().iter().position(|f| f.name() == name);
            roots.push(found.ok_or_else(|| self.damaged(format!("column '{name}' is missing")))?);
        }
        let order = roots.iter().map(|r| roots.iter().filter(|o| *o < r).count()).collect();
        Ok((ProjectionMask::roots(self.metadata.parquet_schema(), roots), order))
    }
}

/// Number of rows of a row group, as its metadata state; a wrong number is rejected as soon as it is read.
fn rows_of(group: &RowGroupMetaData) -> usize {
    usize::try_from(group.num_rows()).unwrap_or_default()
}

/// Check size and checksum of a file against the manifest.
fn verify(path: &Path, data: &[u8], entry: &TableEntry) -> Result<(), Error> {
    if let Some(bytes) = entry.bytes
        && bytes != data.len() as u64
    {
        return Err(Error::damaged(path, format!("the file has {} bytes, but the manifest lists {bytes}", data.len())));
    }
    match &entry.crc32 {
        Some(stored) if *stored != format!("{:08x}", crc32fast::hash(data)) => {
            Err(Error::damaged(path, "the checksum does not match the content of the file"))
        }
        _ => Ok(()),
    }
}

/// Run a step of the Parquet decoder. Files without checksum (version 1), or malicious ones, may have unexpected
/// content; any failure becomes an error of the file.
fn decode_step<T>(path: &Path, step: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Error::damaged(path, error)),
        Err(_) => Err(Error::damaged(path, "the Parquet decoder failed")),
    }
}

/// Batch of rows of the requested columns.
pub(crate) struct Batch<'a> {
    file: &'a TableFile,
    batch: &'a RecordBatch,
    order: &'a [usize],
}

impl<'a> Batch<'a> {
    /// Number of rows of the batch.
    pub(crate) fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Create the error that a column has the wrong type.
    fn unexpected_type(&self, column: usize) -> Error {
        let column = self.order[column];
        let schema = self.batch.schema();
        let field = schema.field(column);
        self.file.damaged(format!("column '{}' has the wrong type {}", field.name(), field.data_type()))
    }

    /// Create the error that a column has null values, but requires a value in each row.
    pub(crate) fn null_error(&self, column: usize) -> Error {
        self.file.damaged(format!("column {column} has empty values, but requires a value in each row"))
    }

    /// Numeric column of a batch of rows, possibly with nulls.
    pub(crate) fn numbers<T: ArrowPrimitiveType>(&self, column: usize) -> Result<&'a PrimitiveArray<T>, Error> {
        let array = self.batch.column(self.order[column]);
        array.as_primitive_opt::<T>().ok_or_else(|| self.unexpected_type(column))
    }

    /// Values of a numeric column of a batch; nulls are an error.
    pub(crate) fn values<T: ArrowPrimitiveType>(&self, column: usize) -> Result<&'a [T::Native], Error> {
        let array = self.numbers::<T>(column)?;
        if array.null_count() > 0 {
            return Err(self.null_error(column));
        }
        Ok(array.values())
    }

    /// Boolean column of a batch of rows.
    pub(crate) fn bools(&self, column: usize) -> Result<&'a arrow_array::BooleanArray, Error> {
        self.batch.column(self.order[column]).as_boolean_opt().ok_or_else(|| self.unexpected_type(column))
    }

    /// Text column of a batch of rows that is not dictionary-encoded.
    pub(crate) fn plain_text(&self, column: usize) -> Result<&'a StringArray, Error> {
        self.batch.column(self.order[column]).as_string_opt::<i32>().ok_or_else(|| self.unexpected_type(column))
    }

    /// Dictionary-encoded text column of a batch of rows.
    pub(crate) fn text(&self, column: usize) -> Result<Text<'a>, Error> {
        let array = self.batch.column(self.order[column]);
        let array = array.as_dictionary_opt::<Int32Type>().ok_or_else(|| self.unexpected_type(column))?;
        let texts = array.values().as_string_opt::<i32>().ok_or_else(|| self.unexpected_type(column))?;
        Ok(Text { file: self.file, array, texts })
    }

    /// Append the row handles in a column of a batch to a list; null becomes "none".
    pub(crate) fn push_handles<H: Copy>(
        &self,
        column: usize,
        out: &mut Vec<H>,
        make: impl Fn(u32) -> H,
    ) -> Result<(), Error> {
        push_nullable(self.numbers::<UInt32Type>(column)?, out, make(u32::MAX), make);
        Ok(())
    }

    /// Append the numbers in a column of a batch to a list; null becomes `none`.
    pub(crate) fn push_or<T: ArrowPrimitiveType>(
        &self,
        column: usize,
        out: &mut Vec<T::Native>,
        none: T::Native,
    ) -> Result<(), Error> {
        push_nullable(self.numbers::<T>(column)?, out, none, |v| v);
        Ok(())
    }
}

/// Append the converted values of an array to a list; null becomes `none`.
fn push_nullable<T: ArrowPrimitiveType, O: Copy>(
    array: &PrimitiveArray<T>,
    out: &mut Vec<O>,
    none: O,
    make: impl Fn(T::Native) -> O,
) {
    let Some(nulls) = array.nulls().filter(|n| n.null_count() > 0) else {
        out.extend(array.values().iter().map(|v| make(*v)));
        return;
    };
    if nulls.null_count() == array.len() {
        out.extend(std::iter::repeat_n(none, array.len()));
        return;
    }
    let from = out.len();
    out.extend(array.values().iter().map(|v| make(*v)));
    let (new, mut gap) = (&mut out[from..], 0);
    for (start, end) in nulls.valid_slices() {
        new[gap..start].fill(none);
        gap = end;
    }
    new[gap..].fill(none);
}

/// Dictionary-encoded text column of a batch of rows.
pub(crate) struct Text<'a> {
    file: &'a TableFile,
    array: &'a DictionaryArray<Int32Type>,
    texts: &'a StringArray,
}

/// Converted values of a column's distinct texts, kept between batches: all batches of a row group share a dictionary.
pub(crate) struct DictionaryValues<T> {
    dictionary: Option<StringArray>,
    pub(crate) table: Vec<T>,
}

impl<T> Default for DictionaryValues<T> {
    fn default() -> Self {
        Self { dictionary: None, table: Vec::new() }
    }
}

impl<T> DictionaryValues<T> {
    /// Convert each distinct text of `column` with `map`, unless the previous batch has the same dictionary.
    pub(crate) fn update<'t>(
        &mut self,
        column: &Text<'t>,
        mut map: impl FnMut(&'t str) -> Option<T>,
    ) -> Result<(), Error> {
        let texts = column.texts;
        let same = |old: &StringArray| {
            // The old array is still alive, so equal addresses mean equal contents.
            old.len() == texts.len()
                && old.value_offsets().as_ptr() == texts.value_offsets().as_ptr()
                && old.value_data().as_ptr() == texts.value_data().as_ptr()
        };
        // A column of nulls has a dictionary with an empty text without references.
        if column.array.null_count() == column.array.len() || self.dictionary.as_ref().is_some_and(same) {
            return Ok(());
        }
        self.dictionary = None;
        self.table.clear();
        self.table.reserve(texts.len());
        for i in 0..texts.len() {
            let text = texts.value(i);
            self.table.push(map(text).ok_or_else(|| column.unknown_text(text))?);
        }
        self.dictionary = Some(texts.clone());
        Ok(())
    }
}

impl<'a> Text<'a> {
    /// Append the value of `map` for each row's text. Null becomes `none`.
    pub(crate) fn push_mapped<T: Copy>(
        &self,
        out: &mut Vec<T>,
        none: T,
        meanings: &mut DictionaryValues<T>,
        map: impl FnMut(&'a str) -> Option<T>,
    ) -> Result<(), Error> {
        meanings.update(self, map)?;
        let table = &meanings.table[..];
        push_nullable(self.array.keys(), out, none, |key| table.get(key as usize).copied().unwrap_or(none));
        Ok(())
    }

    /// Append the interned text of each row in a column to a list of string handles.
    pub(crate) fn push_interned(
        &self,
        out: &mut Vec<StrId>,
        meanings: &mut DictionaryValues<StrId>,
        strings: &StringTable,
    ) -> Result<(), Error> {
        self.push_mapped(out, StrId::NONE, meanings, |text| strings.find(text))
    }

    /// Index of each row's text among the distinct texts of the dictionary; null without a text.
    pub(crate) fn keys(&self) -> &'a PrimitiveArray<Int32Type> {
        self.array.keys()
    }

    /// Create the error that a column contains an unknown text, which is shortened.
    fn unknown_text(&self, text: &str) -> Error {
        let short: String = text.chars().take(60).collect();
        self.file.damaged(format!("a column contains the invalid value '{short}'"))
    }

    /// Text of a row in a column, `None` for null.
    pub(crate) fn get(&self, row: usize) -> Option<&'a str> {
        self.array.key(row).filter(|k| *k < self.texts.len()).map(|k| self.texts.value(k))
    }
}
