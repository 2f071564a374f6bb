//! Writer of the event table and of the string table.

use super::Files;
use crate::columns::{Column, Packing};
use crate::plan::{Names, Plan};
use crate::{Error, event_columns};
use arrow_array::{StringArray, UInt32Array};
use arrow_schema::DataType;
use stackline_model::{StringTable, Trace};
use std::sync::Arc;

/// Write the event table with its wide columns, the time order, and the string table.
pub(super) fn write(trace: &Trace, plan: &Plan, names: &Names, files: &mut Files) -> Result<(), Error> {
    let (_, shapes, _) = trace.attrs.columns();
    let mut columns = event_columns::columns(trace);
    columns.push(Column::new("shape", DataType::UInt32, false, Packing::Dictionary, |r| {
        Ok(Arc::new(UInt32Array::from_iter_values(shapes[r].iter().map(|s| s.0))))
    }));
    columns.extend(super::attrs::wide_columns(trace, plan, names));
    files.write_table("events", trace.events.len(), &columns)?;
    write_order(trace, files)?;
    strings("strings", &trace.strings, files)
}

/// Write the string table, in the order of the handles.
pub(super) fn strings(table: &str, strings: &StringTable, files: &mut Files) -> Result<(), Error> {
    let strings: Vec<&str> = strings.iter().collect();
    let text = Column::new("text", DataType::Utf8, false, Packing::Delta, |r| {
        let bytes: usize = strings[r.clone()].iter().map(|s| s.len()).sum();
        i32::try_from(bytes).map_err(|_| "the text of one row group exceeds 2 GiB".to_owned())?;
        Ok(Arc::new(StringArray::from_iter_values(&strings[r])))
    });
    files.write_table(table, strings.len(), &[text])
}

/// Write the time order of events per track, so that opening a run does not sort. A trace that was never indexed has
/// none.
fn write_order(trace: &Trace, files: &mut Files) -> Result<(), Error> {
    let order = trace.track_order();
    if order.len() != trace.events.len() {
        return Ok(());
    }
    let event = Column::new("event", DataType::UInt32, false, Packing::Delta, |r| {
        Ok(Arc::new(UInt32Array::from_iter_values(order[r].iter().map(|e| e.0))))
    });
    files.write_table("track_order", order.len(), &[event])
}
