//! Scans of database tables into traces by process.

use super::processes::Processes;
use super::row::ROWS_BETWEEN_CHECKS;
use crate::diagnostics;
use rustc_hash::FxHashMap;
use stackline_model::ReadReport;
use stackline_sqlite::{Database, Row, Stop};

/// Limit on the length of a name, in bytes.
const LONGEST_NAME: usize = 64 << 10;

/// Strings by number, as the tables of several formats contain them.
pub(crate) type Texts = FxHashMap<i64, Box<str>>;

/// Pass each row of a table to `take`. An error that makes the table unreadable is stored.
pub(crate) fn rows(
    file: &Database,
    table: &str,
    columns: &[&str],
    processes: &mut Processes<'_>,
    mut take: impl FnMut(&Row<'_>, &mut Processes<'_>),
) {
    let mut looked = 0_u32;
    let read = file.rows(table, columns, |row| {
        looked = looked.wrapping_add(1);
        if looked.is_multiple_of(ROWS_BETWEEN_CHECKS) && processes.options.is_cancelled() {
            return Err(Stop);
        }
        take(row, processes);
        Ok(())
    });
    processes.note_damage(table, read);
}

/// Read a string table into a map from numbers to strings of at most 64 KiB; `columns` are those of number and string.
pub(crate) fn texts(file: &Database, table: &str, columns: [&str; 2], processes: &mut Processes<'_>) -> Texts {
    let mut texts = Texts::default();
    rows(file, table, &columns, processes, |row, _| {
        // The table may contain all output of a program, but names are short.
        if let (Some(id), Some(text)) = (row.i64(0), row.text(1).filter(|text| text.len() <= LONGEST_NAME)) {
            texts.insert(id, text.into());
        }
    });
    texts
}

/// Count a row that is named `called` (its kind), because its string is missing in the file, or it has no name.
pub(crate) fn note_nameless(ids: &[Option<i64>], called: &str, processes: &mut Processes<'_>) {
    match ids.iter().flatten().next() {
        Some(&id) => processes.count_nameless(called, id),
        None => processes.count(diagnostics::ROW_WITHOUT_NAME, called),
    }
}

/// Count the truncation of a file, with the number of missing pages.
pub(crate) fn note_truncation(file: &Database, processes: &mut Processes<'_>) {
    if file.is_cut() {
        let missing = file.missing_end().map_or_else(String::new, |missing| missing.to_string());
        processes.count(diagnostics::TRUNCATED, &missing);
    }
}

/// Check if a database table has no rows.
pub(crate) fn is_empty(file: &Database, table: &str) -> bool {
    let mut is_empty = true;
    let read = file.rows(table, &[], |_| {
        is_empty = false;
        Err(Stop)
    });
    // An unreadable table may have rows.
    is_empty && read.is_ok()
}

/// Count the tables with data that is not read.
pub(crate) fn note_unread(file: &Database, is_read: impl Fn(&str) -> bool, report: &mut ReadReport) {
    for table in file.tables().filter(|table| !is_read(table)) {
        if !is_empty(file, table) {
            diagnostics::TABLE_NOT_READ.count(report, None, table);
        }
    }
    report.sort();
}
