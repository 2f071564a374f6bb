//! What the tests of HTA's tables have in common: the corpus and cells of tables.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, dead_code, reason = "shared by several tests")]

use stackline_model::{Table, Trace, Values};
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The corpus; `None` (with the reason printed) where it is missing and need not be there.
pub(crate) fn corpus() -> Option<PathBuf> {
    let path = std::env::var_os("STACKLINE_CORPUS").map_or_else(|| root().join("../shared/corpus"), PathBuf::from);
    if path.join("kineto").is_dir() {
        return Some(path);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "the corpus is missing at {}", path.display());
    println!("skipped: no corpus at {} (set STACKLINE_CORPUS)", path.display());
    None
}

pub(crate) fn read(path: &Path) -> Trace {
    let options = stackline_ingest::ReadOptions::default();
    let set = stackline_ingest::read_paths(&[path.to_path_buf()], &options).unwrap_or_else(|e| panic!("{e}"));
    set.traces.into_iter().next().unwrap_or_else(|| panic!("{} has no trace", path.display()))
}

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
