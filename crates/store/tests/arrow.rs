//! Conversion to Arrow: the result equals the model.

use crate::common;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{Array, RecordBatch, RecordBatchReader};
use common::{random, sample};
use stackline_model::{Table, TraceSet, Unit, Values};
use stackline_store::arrow::{EventOptions, EventReader, table_batch};
use std::sync::Arc;

fn table() -> Table {
    Table::new("kernel_summary", "Kernels by time")
        .text("name", ["gemm".to_owned(), "naïve \u{1F680}".to_owned()])
        .i64("count", Unit::None, [Some(3), None])
        .f64("total", Unit::Us, [1.5, -0.0])
        .bool("is_collective", [Some(true), None])
        .note("90 % of the GPU time is covered.")
}

fn check(batch: &RecordBatch) {
    assert_eq!((batch.num_rows(), batch.num_columns()), (2, 4));
    assert_eq!(batch.column(0).as_string::<i32>().value(1), "naïve \u{1F680}");
    let count = batch.column(1).as_primitive::<Int64Type>();
    assert_eq!((count.value(0), count.is_null(1)), (3, true));
    assert_eq!(batch.column(2).as_primitive::<Float64Type>().value(0), 1.5);
    assert!(batch.column(3).as_boolean().value(0) && batch.column(3).is_null(1));
    assert_eq!(batch.schema().field(2).metadata()["unit"], "µs");
}

#[test]
fn result_tables_survive_as_batch() {
    let batch = table_batch(&table()).unwrap();
    check(&batch);
    let schema = batch.schema();
    assert_eq!(schema.metadata()["name"], "kernel_summary");
    assert_eq!(schema.metadata()["notes"], "[\"90 % of the GPU time is covered.\"]");
    // No rows, no columns.
    let empty = Table::new("none", "Nothing").f64("x", Unit::Ns, Vec::<f64>::new());
    assert_eq!(table_batch(&empty).unwrap().num_columns(), 1);
    assert_eq!(table_batch(&Table::default()).unwrap().num_rows(), 0);
}

#[test]
fn inconsistent_tables_are_refused() {
    let mut uneven = table();
    uneven.columns[1].values = Values::I64(vec![None]);
    assert!(table_batch(&uneven).unwrap_err().to_string().contains("column count has 1 rows, not 2"));
    let twice = table().i64("name", Unit::None, [1, 2]);
    assert!(table_batch(&twice).unwrap_err().to_string().contains("two columns are named name"));
}

#[test]
fn arguments_without_a_column_are_reported() {
    let few = TraceSet { traces: vec![sample()] };
    assert!(EventReader::omitted_arguments(&few).is_empty());
    let set = Arc::new(TraceSet { traces: vec![random::key_per_record(300)] });
    let left_out = EventReader::omitted_arguments(&set);
    let options = EventOptions { arguments: true, ranks: vec![9], ..EventOptions::default() };
    let mut reader = EventReader::new(set, &options);
    let schema = reader.schema();
    assert!(!left_out.is_empty());
    assert_eq!(schema.fields().iter().filter(|f| f.name().starts_with("args:")).count(), 128);
    let batch = reader.next().unwrap().unwrap();
    assert_eq!(batch["rank"].as_primitive::<Int64Type>().value(0), 9, "as the caller numbers them");
}

#[test]
fn events_of_all_traces_arrive_in_batches() {
    let set = Arc::new(TraceSet { traces: vec![sample(), random::long(150_000), random::many_keys(3)] });
    let options = EventOptions { arguments: true, batch_rows: 40_000, ranks: Vec::new() };
    let reader = EventReader::new(set.clone(), &options);
    let columns = reader.schema();
    let stream = RecordBatchStreamReader::try_new(FFI_ArrowArrayStream::new(Box::new(reader))).unwrap();
    let mut seen = [0usize; 3];
    for batch in stream.map(Result::unwrap) {
        assert_eq!(batch.schema(), columns);
        assert!(batch.num_rows() <= 40_000);
        let index = batch["trace"].as_primitive::<UInt32Type>().value(0) as usize;
        let trace = &set.traces[index];
        let start = batch["start_ns"].as_primitive::<Int64Type>();
        let names = batch["name"].as_dictionary::<Int32Type>();
        let texts = names.values().as_string::<i32>();
        let correlations = batch["args:correlation"].as_primitive::<Int64Type>();
        for row in (0..batch.num_rows()).step_by(97) {
            let event = stackline_model::EventId((seen[index] + row) as u32);
            assert_eq!(start.value(row), trace.events.start[event.index()]);
            assert_eq!(texts.value(names.key(row).unwrap()), trace.name(event));
            let correlation = correlations.is_valid(row).then(|| correlations.value(row));
            assert_eq!(correlation, trace.attr("correlation").i64(event));
        }
        let rank = batch["rank"].as_primitive::<Int64Type>();
        assert_eq!(rank.is_valid(0).then(|| rank.value(0)), trace.meta.rank);
        seen[index] += batch.num_rows();
    }
    assert_eq!(seen, [9, 150_000, 3000]);
    let plain = EventReader::new(set, &EventOptions::default());
    assert!(plain.schema().fields().iter().all(|f| !f.name().starts_with("args:")));
    assert_eq!(plain.map(|b| b.unwrap().num_rows()).sum::<usize>(), 153_009);
}
