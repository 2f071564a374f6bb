//! The model's tables as Arrow: events, GPU operations, tracks.

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, RecordBatchReader, StringArray, UInt32Array};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use stackline_engine::Progress;
use stackline_model::{EventId, GpuOpId, Trace, TraceSet, TrackId};
use stackline_store::arrow::{EventOptions, EventReader};
use std::collections::HashMap;
use std::sync::Arc;

/// Rows per batch. Most traces fit into one batch, so that consumers get contiguous columns.
const BATCH_ROWS: usize = 1 << 20;

/// A schema and its batches.
pub(crate) type Batches = (SchemaRef, Vec<RecordBatch>);

/// Arrow table of the events of all traces; if `arguments`, with columns for the arguments of events.
pub(crate) fn events(
    set: Arc<TraceSet>,
    ranks: Vec<i64>,
    arguments: bool,
    watch: &Progress,
) -> Result<Batches, ArrowError> {
    let reader = EventReader::new(set, &EventOptions { arguments, batch_rows: BATCH_ROWS, ranks });
    let schema = reader.schema();
    // After an interrupt the rows are discarded: stop reading.
    let batches: Result<Vec<_>, _> = reader.take_while(|_| !watch.is_cancelled()).collect();
    Ok((schema, batches?))
}

/// Note about arguments that have no column in [`events`]; `None` if all have one.
pub(crate) fn omitted_arguments_note(set: &TraceSet) -> Option<String> {
    let left_out = EventReader::omitted_arguments(set);
    let shown: Vec<&str> = left_out.iter().take(3).map(|(key, _)| key.as_str()).collect();
    let more = if left_out.len() > shown.len() { ", ..." } else { "" };
    (!left_out.is_empty()).then(|| {
        format!(
            "{} rarely used event arguments have no column in this table ({}{more}); Run.save writes all arguments to \
             the table attrs of the run directory",
            left_out.len(),
            shown.join(", ")
        )
    })
}

/// Arrow table of the GPU operations of all traces, each with its launch call, operator, module and step.
pub(crate) fn gpu_ops(set: &TraceSet, ranks: &[i64]) -> Result<Batches, ArrowError> {
    let rows = Rows::new(set, ranks, |t| t.gpu.ids());
    let event = |t: &Trace, g: GpuOpId| t.gpu.event[g.index()];
    let mut table = TableBuilder::new(&rows);
    table.handles("event", |t, g| t.gpu.event[g.index()]);
    table.text("name", |t, g| Some(t.name(event(t, g))));
    table.text("kind", |t, g| Some(t.kind(event(t, g)).name()));
    table.ints("start_ns", "ns", |t, g| Some(t.events.start[event(t, g).index()]));
    table.ints("dur_ns", "ns", |t, g| Some(t.events.dur[event(t, g).index()]));
    table.ints("device", "", |t, g| (t.gpu.device[g.index()] >= 0).then(|| i64::from(t.gpu.device[g.index()])));
    table.ints("stream", "", |t, g| (t.gpu.stream[g.index()] >= 0).then(|| t.gpu.stream[g.index()]));
    table.ints("correlation", "", |t, g| (t.gpu.correlation[g.index()] >= 0).then(|| t.gpu.correlation[g.index()]));
    table.ints("step", "", |t, g| t.steps.get(t.gpu.step[g.index()] as usize).map(|s| s.number));
    table.handles("launch", |t, g| t.gpu.launch[g.index()]);
    table.text("launch_name", |t, g| t.gpu.launch[g.index()].some().map(|e| t.name(e)));
    table.ints("launch_start_ns", "ns", |t, g| t.gpu.launch[g.index()].some().map(|e| t.events.start[e.index()]));
    table.handles("operator", |t, g| t.gpu.operator[g.index()]);
    table.text("operator_name", |t, g| t.gpu.operator[g.index()].some().map(|e| t.name(e)));
    table.handles("module", |t, g| t.gpu.module[g.index()]);
    table.text("module_name", |t, g| t.gpu.module[g.index()].some().map(|e| t.name(e)));
    table.handles("python", |t, g| t.gpu.python[g.index()]);
    table.text("python_name", |t, g| t.gpu.python[g.index()].some().map(|e| t.name(e)));
    table.handles("annotation", |t, g| t.gpu.annotation[g.index()]);
    table.text("annotation_name", |t, g| t.gpu.annotation[g.index()].some().map(|e| t.name(e)));
    table.finish()
}

/// Arrow table of the tracks (threads, streams, counters) of all traces.
pub(crate) fn tracks(set: &TraceSet, ranks: &[i64]) -> Result<Batches, ArrowError> {
    let rows = Rows::new(set, ranks, |t| t.tracks.ids());
    let mut table = TableBuilder::new(&rows);
    table.handles("track", |_, id| EventId(id.0));
    table.text("kind", |t, id| Some(t.tracks.get(id).kind.name()));
    table.owned("process", |t: &Trace, id: TrackId| t.key_text(t.tracks.pid(id)));
    table.text("process_name", |t, id| {
        let process = t.tracks.processes.get(t.tracks.get(id).process.index())?;
        process.name.is_some().then(|| t.strings.get(process.name))
    });
    table.owned("thread", |t, id| t.key_text(t.tracks.get(id).tid));
    table.text("name", |t, id| t.tracks.get(id).name.some().map(|name| t.strings.get(name)));
    table.ints("device", "", |t, id| (t.tracks.get(id).device >= 0).then(|| i64::from(t.tracks.get(id).device)));
    table.ints("stream", "", |t, id| (t.tracks.get(id).stream >= 0).then(|| t.tracks.get(id).stream));
    table.ints("events", "", |t, id| Some(t.track_events(id).len() as i64));
    table.finish()
}

/// Row ids of one table of the data model, such as events, for each trace, with the ranks.
struct Rows<'a, I> {
    set: &'a TraceSet,
    ranks: &'a [i64],
    ids: Vec<Vec<I>>,
}

impl<'a, I: Copy> Rows<'a, I> {
    fn new<T: Iterator<Item = I>>(set: &'a TraceSet, ranks: &'a [i64], ids: impl Fn(&'a Trace) -> T) -> Self {
        Self { set, ranks, ids: set.traces.iter().map(|t| ids(t).collect()).collect() }
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &'a Trace, I)> + '_ {
        let traces = self.set.traces.iter().zip(&self.ids).enumerate();
        traces.flat_map(|(at, (trace, ids))| ids.iter().map(move |&id| (at, trace, id)))
    }

    fn len(&self) -> usize {
        self.ids.iter().map(Vec::len).sum()
    }
}

/// Builder of Arrow columns, each a function of (trace, row).
struct TableBuilder<'a, 'r, I> {
    rows: &'r Rows<'a, I>,
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
    refused: Option<ArrowError>,
}

impl<'a, 'r, I: Copy> TableBuilder<'a, 'r, I> {
    fn new(rows: &'r Rows<'a, I>) -> Self {
        let mut table = Self { rows, fields: Vec::new(), arrays: Vec::new(), refused: None };
        let traces = UInt32Array::from_iter_values(rows.iter().map(|(at, _, _)| at as u32));
        let ranks = Int64Array::from_iter(rows.iter().map(|(at, _, _)| rows.ranks.get(at).copied()));
        table.push("trace", "", Arc::new(traces));
        table.push("rank", "", Arc::new(ranks));
        table
    }

    fn push(&mut self, name: &str, unit: &str, array: ArrayRef) {
        let mut field = Field::new(name, array.data_type().clone(), true);
        if !unit.is_empty() {
            field = field.with_metadata(HashMap::from([("unit".to_owned(), unit.to_owned())]));
        }
        self.fields.push(field);
        self.arrays.push(array);
    }

    fn ints(&mut self, name: &str, unit: &str, value: impl Fn(&'a Trace, I) -> Option<i64>) {
        let array = Int64Array::from_iter(self.rows.iter().map(|(_, trace, id)| value(trace, id)));
        self.push(name, unit, Arc::new(array));
    }

    /// Add a column of event row numbers to an Arrow table, null for none.
    fn handles(&mut self, name: &str, value: impl Fn(&'a Trace, I) -> EventId) {
        let array = UInt32Array::from_iter(self.rows.iter().map(|(_, trace, id)| value(trace, id).some().map(|e| e.0)));
        self.push(name, "", Arc::new(array));
    }

    /// Add a text column to an Arrow table, dictionary-encoded.
    fn text(&mut self, name: &str, value: impl Fn(&'a Trace, I) -> Option<&'a str>) {
        let mut builder = StringDictionaryBuilder::<UInt32Type>::new();
        for (_, trace, id) in self.rows.iter() {
            match value(trace, id) {
                Some(text) => {
                    if let Err(error) = builder.append(text) {
                        self.refused.get_or_insert(error);
                    }
                }
                None => builder.append_null(),
            }
        }
        self.push(name, "", Arc::new(builder.finish()));
    }

    /// Add a text column to an Arrow table, not dictionary-encoded, whose texts are computed row by row.
    fn owned(&mut self, name: &str, value: impl Fn(&'a Trace, I) -> String) {
        let array = StringArray::from_iter_values(self.rows.iter().map(|(_, trace, id)| value(trace, id)));
        self.push(name, "", Arc::new(array));
    }

    fn finish(self) -> Result<Batches, ArrowError> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        let schema = Arc::new(Schema::new(self.fields));
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), self.arrays, &options)?;
        Ok((schema, vec![batch]))
    }
}
