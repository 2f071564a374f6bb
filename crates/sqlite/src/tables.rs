//! Plain tables of a file, and their columns.

use crate::record::Value;
use crate::{Error, Row, quoted, values};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// Limit on the number of tables.
const MOST_TABLES: usize = 4096;
/// Limit on the columns by which void rows are recognized: SQLite limits the length of a condition.
const MOST_CHECKED: usize = 100;

/// A column of a plain table.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// True if rows that were written before the column was added have a default as its value.
    pub(crate) has_default: bool,
    /// True for an integer primary key, which usually is the number of the row.
    is_row_number: bool,
}

/// List the plain tables of a database with their columns. SQLite itself, not the text of the schema, identifies
/// virtual tables and views.
pub(crate) fn tables(connection: &Connection) -> Result<BTreeMap<String, Vec<Column>>, Error> {
    let mut names = Vec::new();
    {
        let mut statement = connection.prepare("PRAGMA main.table_list")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let values = values(row, 3);
            let row = Row { values: &values };
            let [schema, name, kind] = [0, 1, 2].map(|column| row.text(column).unwrap_or_default());
            if schema == "main" && kind == "table" && !name.starts_with("sqlite_") && names.len() < MOST_TABLES {
                names.push(name.into_owned());
            }
        }
    }
    let mut tables = BTreeMap::new();
    for name in names {
        let mut statement = connection.prepare(&format!("PRAGMA main.table_info({})", quoted(&name)))?;
        let mut rows = statement.query([])?;
        let mut columns = Vec::new();
        while let Some(row) = rows.next()? {
            let values = values(row, 6);
            let row = Row { values: &values };
            let has_default = row.value(4) != Value::Null;
            let is_integer = row.text(2).is_some_and(|kind| kind.eq_ignore_ascii_case("INTEGER"));
            let is_row_number = is_integer && row.i64(5).is_some_and(|place| place > 0);
            columns.extend(row.text(1).map(|name| Column { name: name.into_owned(), has_default, is_row_number }));
        }
        tables.insert(name, columns);
    }
    Ok(tables)
}

/// SQL condition of void rows of a table with these columns. SQLite takes the missing end of a truncated file's last
/// page as zeros, which it reads as rows with the number 0 and without values. Columns with a default do not show that.
pub(crate) fn condition_of_void_rows(columns: &[Column]) -> String {
    let is_void = |column: &Column| {
        let name = quoted(&column.name);
        // SQLite takes `IS NULL` as false without reading the value if the column is declared as not null.
        let is_null = format!("typeof({name}) = 'null'");
        if column.is_row_number { format!("({name} = 0 OR {is_null})") } else { is_null }
    };
    let checked = columns.iter().filter(|column| !column.has_default).take(MOST_CHECKED);
    let parts: Vec<String> = checked.map(is_void).collect();
    if parts.is_empty() { "0".to_owned() } else { parts.join(" AND ") }
}
