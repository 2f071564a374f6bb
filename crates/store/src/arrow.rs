//! Conversion to Arrow: result tables and events as record batches, for Python. No other module exposes Arrow types, so
//! that an update of Arrow affects two crates.

use crate::columns::Column;
use crate::event_columns;
use crate::plan::{Names, Plan};
use crate::write::memory::tables;
use crate::{Error, export, wide};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_array::{UInt32Array, new_null_array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use rustc_hash::FxHashSet;
use stackline_model::{AttrType, MemoryTrace, Table, Trace, TraceSet};
use std::collections::HashMap;
use std::sync::Arc;

/// Convert a result table to one Arrow record batch. Field metadata contain units; schema metadata contain the table's
/// name, title and notes (`name`, `title`, `notes`: a JSON list).
pub fn table_batch(table: &Table) -> Result<RecordBatch, Error> {
    let wrong = |detail: String| Error::Table { name: table.name.clone(), detail };
    let rows = export::check(table)?;
    let columns: Vec<Column<'_>> = table.columns.iter().map(export::column).collect();
    let arrays = columns.iter().map(|c| (c.make)(0..rows)).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    let notes = serde_json::Value::from(table.notes.clone()).to_string();
    let metadata = [("name", table.name.clone()), ("title", table.title.clone()), ("notes", notes)];
    let metadata: HashMap<String, String> = metadata.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    let fields: Vec<Field> = columns.iter().map(|c| c.field.clone()).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, arrays, &options).map_err(|e| wrong(e.to_string()))
}

/// Convert a table of a memory trace to an Arrow record batch, as in a run directory (`memory_calls`, `memory_objects`
/// …); `None` for an unknown name.
pub fn memory_batch(trace: &MemoryTrace, name: &str) -> Option<Result<RecordBatch, Error>> {
    let table = tables(trace).find(|table| table.name == name)?;
    let wrong = |detail: String| Error::Table { name: name.to_owned(), detail };
    let make = || {
        let arrays = table.columns.iter().map(|column| (column.make)(0..table.rows)).collect::<Result<Vec<_>, _>>()?;
        let fields: Vec<Field> = table.columns.iter().map(|column| column.field.clone()).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|error| error.to_string())
    };
    Some(make().map_err(wrong))
}

/// Names of the tables that [`memory_batch`] converts.
pub fn memory_tables() -> Vec<&'static str> {
    tables(&MemoryTrace::default()).map(|table| table.name).collect()
}

/// Columns and batch size of an [`EventReader`].
#[derive(Clone, Debug)]
pub struct EventOptions {
    /// Include arguments, one column `args:KEY` per key and type.
    pub arguments: bool,
    /// Number of rows per batch.
    pub batch_rows: usize,
    /// Rank of each trace in the caller's numbering; missing ones are taken from the file.
    pub ranks: Vec<i64>,
}

impl Default for EventOptions {
    fn default() -> Self {
        Self { arguments: false, batch_rows: 64 * 1024, ranks: Vec::new() }
    }
}

/// Events of all traces as record batches, created one at a time. Columns are those of the event table of a run
/// directory, after `trace` (index in the set) and `rank`.
pub struct EventReader {
    set: Arc<TraceSet>,
    batch_rows: usize,
    ranks: Vec<i64>,
    schema: SchemaRef,
    /// Key, type and name of the argument columns.
    arguments: Vec<(String, AttrType)>,
    trace: usize,
    row: usize,
    /// Plan of the current trace, if arguments are included.
    plan: Option<(usize, Plan)>,
}

impl EventReader {
    /// Create a reader over all traces of `set`, with the columns that `options` select.
    pub fn new(set: Arc<TraceSet>, options: &EventOptions) -> Self {
        let columns = if options.arguments { Names::from_traces(&set).columns } else { Vec::new() };
        let no_trace = Trace::default();
        let mut fields = vec![Field::new("trace", DataType::UInt32, false), Field::new("rank", DataType::Int64, true)];
        fields.extend(event_columns::columns(&no_trace).into_iter().map(|c| c.field));
        let mut arguments = Vec::new();
        for (key, kind, name) in columns {
            fields.push(Field::new(name, wide::data_type(kind), true));
            arguments.push((key, kind));
        }
        let schema = Arc::new(Schema::new(fields));
        let (batch_rows, ranks) = (options.batch_rows.max(1), options.ranks.clone());
        Self { set, batch_rows, ranks, schema, arguments, trace: 0, row: 0, plan: None }
    }

    /// Arguments without a column, because others are more frequent: key and type, in order of appearance. Run
    /// directories are complete: they store these in the table `attributes`.
    pub fn omitted_arguments(set: &TraceSet) -> Vec<(String, AttrType)> {
        let mut left_out = Vec::new();
        let mut seen: FxHashSet<(String, AttrType)> =
            Names::from_traces(set).columns.into_iter().map(|(key, kind, _)| (key, kind)).collect();
        for trace in &set.traces {
            for (key, kind) in crate::plan::fields(trace) {
                let field = (trace.strings.get(key).to_owned(), kind);
                if seen.insert(field.clone()) {
                    left_out.push(field);
                }
            }
        }
        left_out
    }

    /// Next batch of rows, within one trace; `None` after the last event of the last trace.
    fn batch(&mut self) -> Result<Option<RecordBatch>, String> {
        let set = Arc::clone(&self.set);
        while let Some(trace) = set.traces.get(self.trace) {
            let (from, rows) = (self.row, trace.events.len());
            if from >= rows {
                (self.trace, self.row) = (self.trace + 1, 0);
                continue;
            }
            let to = rows.min(from + self.batch_rows);
            self.row = to;
            let count = to - from;
            let rank = self.ranks.get(self.trace).copied().or(trace.meta.rank);
            let mut arrays: Vec<ArrayRef> = vec![
                Arc::new(UInt32Array::from_value(self.trace as u32, count)),
                Arc::new(Int64Array::from_iter(std::iter::repeat_n(rank, count))),
            ];
            for column in event_columns::columns(trace) {
                arrays.push((column.make)(from..to)?);
            }
            self.push_arguments(trace, from, to, &mut arrays)?;
            let batch = RecordBatch::try_new(self.schema.clone(), arrays).map_err(|e| e.to_string())?;
            return Ok(Some(batch));
        }
        Ok(None)
    }

    /// Append the argument columns of a range of events to the arrays of a batch; missing arguments are null.
    fn push_arguments(
        &mut self,
        trace: &Trace,
        from: usize,
        to: usize,
        arrays: &mut Vec<ArrayRef>,
    ) -> Result<(), String> {
        if self.arguments.is_empty() {
            return Ok(());
        }
        let current = self.trace;
        let plan = match self.plan.take() {
            Some((index, plan)) if index == current => plan,
            _ => Plan::from_trace(trace),
        };
        for (key, kind) in &self.arguments {
            let key = trace.strings.find(key);
            let column = plan.columns.iter().find(|c| Some(c.key) == key && c.kind == *kind);
            arrays.push(match column {
                Some(column) => wide::array(trace, &plan, column, from..to)?,
                None => new_null_array(&wide::data_type(*kind), to - from),
            });
        }
        self.plan = Some((current, plan));
        Ok(())
    }
}

impl Iterator for EventReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().map_err(ArrowError::InvalidArgumentError).transpose()
    }
}

impl RecordBatchReader for EventReader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl std::fmt::Debug for EventReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventReader").field("trace", &self.trace).field("row", &self.row).finish_non_exhaustive()
    }
}
