//! Read-only access to SQLite files of other profilers.
//!
//! A file may contain views, triggers and virtual tables, which run code of their author. Only plain tables are read,
//! in one scan each, so no such code runs, and functions in the schema of a file are not trusted. The file is opened as
//! immutable: it is not locked, and no other file is written. Pages in the plain form are decoded without SQLite.
//!
//! ```no_run
//! let file = stackline_sqlite::Database::open("report.sqlite".as_ref())?;
//! file.rows("StringIds", &["id", "value"], |row| {
//!     println!("{:?} is {:?}", row.i64(0), row.text(1));
//!     Ok(())
//! })?;
//! # Ok::<(), stackline_sqlite::Error>(())
//! ```
#![forbid(unsafe_code)]

mod pages;
mod record;
mod tables;

use pages::{Fault, Pages, ScanResult};
use record::{Plan, Value};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tables::{Column, tables};

/// First bytes of each SQLite file.
pub const MAGIC: &[u8] = b"SQLite format 3\0";

/// Smallest size of a row in a file, in bytes: a pointer to it, its length and its number.
const SMALLEST_ROW: u64 = 4;

/// Error of reading a file or table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of SQLite.
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The pages of the file form a cycle, which only occurs in damaged files.
    #[error("the file is damaged: it refers to more rows or text than its size allows")]
    Endless,
    /// The file is truncated within rows of the table.
    #[error("rows skipped because the file ends within them: {rows}")]
    CutRows {
        /// Number of skipped rows.
        rows: u64,
    },
    /// The file is truncated, and an unknown number of the table's last rows is missing.
    #[error("the file ends before the last rows of the table")]
    CutTable,
    /// The caller's function ended the scan.
    #[error("reading the file was canceled before it finished")]
    Stopped,
}

/// Returned by a row function to end the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop;

/// One row of a scan. Columns are numbered in the requested order.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    values: &'a [Value<'a>],
}

impl<'a> Row<'a> {
    /// Read an integer from a row; `None` if the value is null, missing from the table, or of another type. Text with
    /// an integer counts, because columns without a type keep the written type.
    #[must_use]
    #[inline]
    pub fn i64(&self, column: usize) -> Option<i64> {
        match self.value(column) {
            Value::Int(value) => Some(value),
            Value::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
            _ => None,
        }
    }

    /// Read a number with a fraction, or an integer, from a row; `None` if the value is null, missing from the table,
    /// or of another type.
    #[must_use]
    pub fn f64(&self, column: usize) -> Option<f64> {
        match self.value(column) {
            Value::Real(value) => Some(value),
            Value::Int(value) => Some(value as f64),
            _ => None,
        }
    }

    /// Read text from a row; `None` if the value is null, missing from the table, or of another type. Bytes that are
    /// not UTF-8 become U+FFFD.
    #[must_use]
    pub fn text(&self, column: usize) -> Option<std::borrow::Cow<'a, str>> {
        match self.value(column) {
            Value::Text(text) => Some(String::from_utf8_lossy(text)),
            _ => None,
        }
    }

    /// Size of the texts and blobs in a row, in bytes.
    fn length(&self) -> u64 {
        let of_value = |value: &Value<'_>| match value {
            Value::Text(bytes) | Value::Blob(bytes) => bytes.len() as u64,
            _ => 0,
        };
        self.values.iter().map(of_value).sum()
    }

    /// Value of a column; null if the row has no such column.
    fn value(&self, column: usize) -> Value<'a> {
        self.values.get(column).copied().unwrap_or(Value::Null)
    }
}

/// Values of the first `columns` columns of a row that SQLite read.
fn values<'r>(row: &'r rusqlite::Row<'_>, columns: usize) -> Vec<Value<'r>> {
    let value = |column| match row.get_ref(column).unwrap_or(ValueRef::Null) {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Int(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Text(bytes) => Value::Text(bytes),
        ValueRef::Blob(bytes) => Value::Blob(bytes),
    };
    (0..columns).map(value).collect()
}

/// Number and size of the pages that are missing at the end of a truncated file. Displayed as a part of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingEnd {
    /// Number of pages of the complete file.
    pub pages: u64,
    /// Number of pages that are missing, or of which the end is missing.
    pub missing: u64,
    /// Size of a page in bytes.
    pub page_bytes: u64,
}

impl std::fmt::Display for MissingEnd {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pages, missing, page_bytes } = self;
        let verb = if *missing == 1 { "is" } else { "are" };
        write!(out, "{missing} of the file's {pages} pages of {page_bytes} bytes {verb} missing or incomplete")
    }
}

/// Open SQLite file, with the list of its plain tables.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    /// Columns of each plain table.
    tables: BTreeMap<String, Vec<Column>>,
    /// True if SQLite accepts the file only as a truncated one.
    is_damaged: bool,
    missing_end: Option<MissingEnd>,
    /// Size of the file in bytes.
    size: u64,
    /// Pages of a file in the plain form.
    pages: Option<Pages>,
}

impl Database {
    /// Open an SQLite file. A truncated file is opened with the available data.
    ///
    /// # Errors
    /// If the file cannot be opened, or its list of tables cannot be read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        match Self::open_as(path, false) {
            Err(Error::Sqlite(error)) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                Self::open_as(path, true)
            }
            opened => opened,
        }
    }

    /// Open an SQLite file; `is_cut` permits a truncated one. SQLite accepts a truncated file only with a writable
    /// schema, which has no effect on a read-only file.
    fn open_as(path: &Path, is_cut: bool) -> Result<Self, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(immutable_uri(path), flags)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, !is_cut)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, is_cut)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        let tables = tables(&connection)?;
        let size = path.metadata().map_or(0, |meta| meta.len());
        let (missing_end, pages) = (pages::missing_end(path), Pages::open(path));
        Ok(Self { connection, tables, is_damaged: is_cut, missing_end, size, pages })
    }

    /// True if the file is truncated: tables may end too early or be missing.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_damaged || self.missing_end.is_some()
    }

    /// Missing end of a truncated file, by the number of pages in its header or by an incomplete last page.
    #[must_use]
    pub fn missing_end(&self) -> Option<MissingEnd> {
        self.missing_end
    }

    /// Check if the database has a plain table of this name.
    #[must_use]
    pub fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// Names of the plain tables of a database, ascending.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    /// Check if a database table has a column.
    #[must_use]
    pub fn has_column(&self, table: &str, column: &str) -> bool {
        self.column(table, column).is_some()
    }

    /// Column of a table by name; `None` if the table or the column is missing.
    fn column(&self, table: &str, column: &str) -> Option<&Column> {
        self.tables.get(table)?.iter().find(|own| own.name == column)
    }

    /// Pass these columns of each row of a table to `take`, in file order. Columns that the table lacks are null, and a
    /// missing table has no rows.
    ///
    /// # Errors
    /// If the file is damaged or truncated, or `take` stops the scan. Other rows have been passed then: of a truncated
    /// file all that it has, otherwise the earlier ones.
    pub fn rows(
        &self,
        table: &str,
        columns: &[&str],
        mut take: impl FnMut(&Row<'_>) -> Result<(), Stop>,
    ) -> Result<(), Error> {
        if !self.has(table) {
            return Ok(());
        }
        let mut columns: Vec<Option<&Column>> = columns.iter().map(|name| self.column(table, name)).collect();
        if columns.is_empty() {
            columns.push(None);
        }
        let mut names: Vec<String> =
            columns.iter().map(|own| own.map_or_else(|| "NULL".to_owned(), |own| quoted(&own.name))).collect();
        let has_default: Vec<bool> = columns.iter().map(|own| own.is_some_and(|own| own.has_default)).collect();
        let select = |names: &[String]| format!("SELECT {} FROM {} NOT INDEXED", names.join(", "), quoted(table));
        // SQLite would follow cyclic pages without end.
        let (mut count, mut text) = (0_u64, 0_u64);
        let mut take = |values: &[Value<'_>]| {
            let row = Row { values };
            count += 1;
            text += row.length();
            if count > self.size / SMALLEST_ROW || text > self.size {
                return Err(Error::Endless);
            }
            take(&row).map_err(|Stop| Error::Stopped)
        };
        let mut passed = 0;
        if let Some(pages) = &self.pages
            && let Some(plan) = Plan::new(&self.connection, &select(&names), &has_default)
        {
            match pages.scan(&plan, &mut take)? {
                ScanResult { fault: None, cut: 0, .. } => return Ok(()),
                ScanResult { fault: None, cut, .. } => return Err(Error::CutRows { rows: cut }),
                ScanResult { fault: Some(Fault::Deviation), cut: 0, passed: rows } => passed = rows,
                ScanResult { fault: Some(_), .. } => return Err(Error::CutTable),
            }
        }
        if self.missing_end.is_some() {
            names.push(tables::condition_of_void_rows(self.tables.get(table).map_or(&[], Vec::as_slice)));
        }
        self.rows_by_sqlite(&select(&names), columns.len(), passed, &mut take)
    }

    /// Run a query with SQLite, and pass its rows after the first `passed` ones to `take`.
    ///
    /// In truncated files, the query has one more column, which is true for rows that are not passed on, because the
    /// file ends within them.
    fn rows_by_sqlite(
        &self,
        query: &str,
        columns: usize,
        passed: u64,
        take: &mut impl FnMut(&[Value<'_>]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut statement = self.connection.prepare(query)?;
        let mut rows = statement.query([])?;
        let (mut at, mut cut) = (0, 0);
        while let Some(row) = rows.next()? {
            at += 1;
            // The function that takes the rows does not count those within which the file ends.
            if at > self.size / SMALLEST_ROW {
                return Err(Error::Endless);
            }
            if at <= passed {
                continue;
            }
            if self.missing_end.is_some() && row.get(columns).unwrap_or(false) {
                cut += 1;
            } else {
                take(&values(row, columns))?;
            }
        }
        if cut > 0 { Err(Error::CutRows { rows: cut }) } else { Ok(()) }
    }
}

/// Path of a database's write-ahead log (`-wal`) or journal (`-journal`) that is not empty: a writer is still active or
/// has stopped. `None` without one.
#[must_use]
pub fn unmerged_log(path: &Path) -> Option<PathBuf> {
    ["-wal", "-journal"].into_iter().find_map(|end| {
        let mut log = path.as_os_str().to_owned();
        log.push(end);
        let log = PathBuf::from(log);
        log.metadata().is_ok_and(|meta| meta.len() > 0).then_some(log)
    })
}

/// Quote a name of a table or column for SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// URI that opens a database file as immutable.
fn immutable_uri(path: &Path) -> String {
    let mut address = String::from("file:");
    for (at, &byte) in path.as_os_str().as_encoded_bytes().iter().enumerate() {
        match byte {
            // A name after two slashes would be a host.
            b'/' if at == 1 => address.push_str("%2F"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => address.push(byte as char),
            _ => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address + "?immutable=1"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(sql: &str) -> (tempfile::TempDir, Database) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b%?#.sqlite");
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let file = Database::open(&path).unwrap();
        (folder, file)
    }

    fn numbers(file: &Database, table: &str, column: &str) -> Vec<Option<i64>> {
        let mut found = Vec::new();
        file.rows(table, &[column], |row| {
            found.push(row.i64(0));
            Ok(())
        })
        .unwrap();
        found
    }

    #[test]
    fn rows_are_in_order_and_missing_columns_are_null() {
        let (_folder, file) =
            file("CREATE TABLE t (a, \"b \"\"c\"); INSERT INTO t VALUES (3, 'x'), ('7', NULL), (2.5, 'y')");
        assert_eq!(numbers(&file, "t", "a"), [Some(3), Some(7), None]);
        assert_eq!(numbers(&file, "t", "z"), [None, None, None]);
        assert_eq!(numbers(&file, "none", "a"), []);
        let mut rows = 0;
        file.rows("t", &[], |_| {
            rows += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(rows, 3);
        let mut texts = Vec::new();
        let stopped = file.rows("t", &["b \"c"], |row| {
            texts.push(row.text(0).map(std::borrow::Cow::into_owned));
            if texts.len() == 2 { Err(Stop) } else { Ok(()) }
        });
        assert!(matches!(stopped, Err(Error::Stopped)));
        assert_eq!(texts, [Some("x".to_owned()), None]);
    }

    #[test]
    fn only_plain_tables_are_listed_and_no_file_is_written() {
        let (folder, file) = file(
            "CREATE TABLE t (a); INSERT INTO t VALUES (1); CREATE VIEW v AS SELECT abs(a) FROM t;
             CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END; CREATE INDEX i ON t (a)",
        );
        assert_eq!(file.tables().collect::<Vec<_>>(), ["t"]);
        assert_eq!(numbers(&file, "v", "abs(a)"), []);
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn cyclic_pages_end() {
        let rows = (0..2000).map(|i| format!("({i}, '{}')", "x".repeat(20))).collect::<Vec<_>>().join(", ");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sqlite");
        let sql = format!("PRAGMA page_size = 512; CREATE TABLE t (a, b); INSERT INTO t VALUES {rows}");
        Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        // All children of the root, an interior page, become its first one's.
        let root = 512;
        assert_eq!(bytes[root], 5);
        let cells = usize::from(u16::from_be_bytes([bytes[root + 3], bytes[root + 4]]));
        let cell = |bytes: &[u8], i: usize| {
            root + usize::from(u16::from_be_bytes([bytes[root + 12 + 2 * i], bytes[root + 13 + 2 * i]]))
        };
        let first = cell(&bytes, 0);
        let child = bytes[first..first + 4].to_vec();
        for i in 1..cells {
            let at = cell(&bytes, i);
            bytes[at..at + 4].copy_from_slice(&child);
        }
        std::fs::write(&path, &bytes).unwrap();
        let file = Database::open(&path).unwrap();
        let mut count = 0;
        let read = file.rows("t", &["b"], |_| {
            count += 1;
            Ok(())
        });
        assert!(count <= bytes.len() / 4, "{count}");
        drop(read);
    }

    #[test]
    fn virtual_tables_are_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sqlite");
        let writer = Connection::open(&path).unwrap();
        let sql = "CREATE TABLE t (a); CREATE VIRTUAL TABLE v USING rtree(id, low, high);
            PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = 2 WHERE name = 'v'";
        writer.execute_batch(sql).unwrap();
        drop(writer);
        assert!(!Database::open(&path).unwrap().has("v"));
    }

    #[test]
    fn non_databases_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sqlite");
        std::fs::write(&path, [MAGIC, &[0; 600]].concat()).unwrap();
        assert!(Database::open(&path).is_err());
        assert!(Database::open(&folder.path().join("missing")).is_err());
    }
}
