//! Scans of a database's tables into traces of processes.

use super::processes::Processes;
use super::row::ROWS_BETWEEN_CHECKS;
use crate::diagnostics;
use rustc_hash::FxHashMap;
use stackline_model::ReadReport;
use stackline_sqlite::{Database, Row, Stop};

/// Longer texts are no names.
const LONGEST_NAME: usize = 64 << 10;

/// Texts by their number, as tables of several formats hold them.
pub(crate) type Texts = FxHashMap<i64, Box<str>>;

/// Gives `take` each row of a table. What makes the table unreadable is noted.
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

/// Reads the table of texts: columns of their numbers and of the texts themselves.
pub(crate) fn texts(file: &Database, table: &str, columns: [&str; 2], processes: &mut Processes<'_>) -> Texts {
    let mut texts = Texts::default();
    rows(file, table, &columns, processes, |row, _| {
        // All that a program printed may be one of them; names are short.
        if let (Some(id), Some(text)) = (row.i64(0), row.text(1).filter(|text| text.len() <= LONGEST_NAME)) {
            texts.insert(id, text.into());
        }
    });
    texts
}

/// Counts a row that is called after what it is: it names a text that the file does not hold, or none.
pub(crate) fn note_nameless(ids: &[Option<i64>], called: &str, processes: &mut Processes<'_>) {
    match ids.iter().flatten().next() {
        Some(&id) => processes.count_nameless(called, id),
        None => processes.count(diagnostics::ROW_WITHOUT_NAME, called),
    }
}

/// Whether a table has no rows.
pub(crate) fn is_empty(file: &Database, table: &str) -> bool {
    let mut is_empty = true;
    let read = file.rows(table, &[], |_| {
        is_empty = false;
        Err(Stop)
    });
    // What cannot be read is not known to be empty.
    is_empty && read.is_ok()
}

/// Says which tables hold something that is not read.
pub(crate) fn note_unread(file: &Database, is_read: impl Fn(&str) -> bool, report: &mut ReadReport) {
    for table in file.tables().filter(|table| !is_read(table)) {
        if !is_empty(file, table) {
            diagnostics::TABLE_NOT_READ.count(report, None, table);
        }
    }
    report.sort();
}
