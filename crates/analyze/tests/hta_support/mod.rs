//! Shared parts of the tests of HTA's tables: cells of tables.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, reason = "shared by several tests")]

use stackline_model::{Table, Values};

/// A cell as a number; `None` if it has no value.
pub(crate) fn number(table: &Table, column: &str, row: usize) -> Option<f64> {
    let column = table.column(column).unwrap_or_else(|| panic!("{} has no column {column}", table.name));
    match &column.values {
        Values::I64(v) => v[row].map(|i| i as f64),
        Values::F64(v) => v[row],
        other => panic!("{column:?} is {other:?}, not numbers"),
    }
}

pub(crate) fn text(table: &Table, column: &str, row: usize) -> String {
    match &table.column(column).unwrap_or_else(|| panic!("{} has no column {column}", table.name)).values {
        Values::Str(v) => v[row].clone().unwrap_or_default(),
        other => panic!("{column} is {other:?}, not text"),
    }
}
