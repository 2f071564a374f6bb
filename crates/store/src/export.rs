//! Result tables as Arrow columns.

use crate::Error;
use crate::columns::{Column, Packing};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow_schema::DataType;
use stackline_model::{Table, Values};
use std::collections::HashMap;
use std::sync::Arc;

/// Check that the columns of a result table are equally long and have different names, and return the number of rows.
pub(crate) fn check(table: &Table) -> Result<usize, Error> {
    let wrong = |detail: String| Error::Table { name: table.name.clone(), detail };
    let rows = table.rows();
    for (i, column) in table.columns.iter().enumerate() {
        if column.values.len() != rows {
            return Err(wrong(format!("column {} has {} rows, not {rows}", column.name, column.values.len())));
        }
        if table.columns[..i].iter().any(|c| c.name == column.name) {
            return Err(wrong(format!("two columns are named {}", column.name)));
        }
    }
    Ok(rows)
}

/// Convert a column of a result table to an Arrow column.
pub(crate) fn column(column: &stackline_model::Column) -> Column<'_> {
    let name = &column.name;
    let mut made = match &column.values {
        Values::I64(v) => Column::new(name, DataType::Int64, true, Packing::Dictionary, |r| {
            Ok(Arc::new(Int64Array::from_iter(v[r].iter().copied())) as ArrayRef)
        }),
        Values::F64(v) => Column::new(name, DataType::Float64, true, Packing::Dictionary, |r| {
            Ok(Arc::new(Float64Array::from_iter(v[r].iter().copied())) as ArrayRef)
        }),
        Values::Str(v) => Column::new(name, DataType::Utf8, true, Packing::Dictionary, |r| {
            let bytes: usize = v[r.clone()].iter().flatten().map(String::len).sum();
            i32::try_from(bytes).map_err(|_| "the text of one row group exceeds 2 GiB".to_owned())?;
            Ok(Arc::new(StringArray::from_iter(v[r].iter().map(Option::as_deref))) as ArrayRef)
        }),
        Values::Bool(v) => Column::new(name, DataType::Boolean, true, Packing::Dictionary, |r| {
            Ok(Arc::new(BooleanArray::from_iter(v[r].iter().copied())) as ArrayRef)
        }),
    };
    let unit = column.unit.suffix();
    if !unit.is_empty() {
        made.field = made.field.with_metadata(HashMap::from([("unit".to_owned(), unit.to_owned())]));
    }
    made
}
