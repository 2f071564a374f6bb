//! JSON for programs: one document per command, documented in `docs/schemas/`, versioned in its `schema` key.
//!
//! Rows are objects whose keys are the columns in display order. Numbers keep full precision; values that are
//! no number (NaN, infinite) are null. The read report is always there.

use crate::TraceInfo;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use stackline_model::{Column, ReadReport, Table, TraceSet, Values};
use std::io::{self, Write};

/// Version of a command's JSON schema. `docs/schemas/README.md` lists the keys that each version renamed.
pub fn schema_version(command: &str) -> u32 {
    match command {
        "critical-path" | "findings" | "memory-ranks" => 2,
        _ => 1,
    }
}

/// Writes the items of a list one after the other.
type WriteItems<'a> = dyn Fn(&mut dyn Write) -> io::Result<()> + 'a;

/// Value of a JSON key that only one command's documents have.
pub enum Extra<'a> {
    /// A value; of a list each item gets a line.
    Value(Value),
    /// A list that is made while it is written.
    List(Box<WriteItems<'a>>),
}

impl<'a> Extra<'a> {
    /// Value of a document key that is a JSON list, created while it is written, so that only one item is in memory.
    pub fn list<I: Iterator<Item: Serialize>>(items: impl Fn() -> I + 'a) -> Self {
        Self::List(Box::new(move |out| write_list(out, "  ", items())))
    }
}

impl From<Value> for Extra<'_> {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl std::fmt::Debug for Extra<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(value) => value.fmt(f),
            Self::List(_) => f.write_str("[..]"),
        }
    }
}

/// JSON document of a command.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// Schema name, such as `report`.
    pub command: &'a str,
    /// Schema version ([`schema_version`]): changes when a key changes its meaning or goes away.
    pub version: u32,
    /// The traces, in order.
    pub traces: &'a [TraceInfo],
    /// Traces with their read reports, in the same order.
    pub set: &'a TraceSet,
    /// Keys of this command alone, written after `traces`.
    pub extra: &'a [(&'a str, Extra<'a>)],
    /// Tables.
    pub tables: &'a [Table],
}

/// Write a JSON document, with a line break at its end. One line per row, trace and problem, so that documents can be
/// read and compared line by line.
pub fn write(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    let schema = format!("stackline/{}/{}", document.command, document.version);
    write!(out, "{{\n  \"schema\": {}", text(&schema)?)?;
    out.write_all(b",\n  \"traces\": ")?;
    write_list(out, "  ", document.traces)?;
    for (key, value) in document.extra {
        write!(out, ",\n  {}: ", text(key)?)?;
        match value {
            Extra::Value(Value::Array(items)) => write_list(out, "  ", items)?,
            Extra::Value(other) => out.write_all(text(other)?.as_bytes())?,
            Extra::List(write) => write(out)?,
        }
    }
    out.write_all(b",\n  \"tables\": {")?;
    for (i, table) in document.tables.iter().enumerate() {
        out.write_all(if i > 0 { b",\n" } else { b"\n" })?;
        write_table(table, out)?;
    }
    out.write_all(if document.tables.is_empty() { b"},\n" } else { b"\n  },\n" })?;
    out.write_all(b"  \"read_report\": ")?;
    write_list(out, "  ", document.set.traces.iter().map(|t| Report { trace: &t.meta.name, report: &t.report }))?;
    out.write_all(b"\n}\n")
}

/// Format a value as compact JSON text.
fn text(value: &(impl Serialize + ?Sized)) -> io::Result<String> {
    serde_json::to_string(value).map_err(io::Error::from)
}

/// Write a JSON list with one item per line.
fn write_list(out: &mut dyn Write, indent: &str, items: impl IntoIterator<Item = impl Serialize>) -> io::Result<()> {
    out.write_all(b"[")?;
    let mut any = false;
    let mut line = Vec::new();
    for item in items {
        line.clear();
        write!(line, "{}\n{indent}  ", if any { "," } else { "" })?;
        serde_json::to_writer(&mut line, &item).map_err(io::Error::from)?;
        out.write_all(&line)?;
        any = true;
    }
    if any { write!(out, "\n{indent}]") } else { out.write_all(b"]") }
}

fn write_table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let heads: Vec<ColumnHead<'_>> = table.columns.iter().map(ColumnHead::from).collect();
    writeln!(out, "    {}: {{", text(&table.name)?)?;
    writeln!(out, "      \"title\": {},", text(&table.title)?)?;
    out.write_all(b"      \"columns\": ")?;
    write_list(out, "      ", &heads)?;
    out.write_all(b",\n      \"rows\": ")?;
    write_list(out, "      ", (0..table.rows()).map(|row| Row(table, row)))?;
    out.write_all(b",\n      \"notes\": ")?;
    write_list(out, "      ", &table.notes)?;
    out.write_all(b"\n    }")
}

#[derive(Serialize)]
struct ColumnHead<'a> {
    name: &'a str,
    unit: stackline_model::Unit,
}

impl<'a> From<&'a Column> for ColumnHead<'a> {
    fn from(column: &'a Column) -> Self {
        Self { name: &column.name, unit: column.unit }
    }
}

/// Table row that serializes to a JSON object, with the column names as keys.
struct Row<'a>(&'a Table, usize);

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(table, row) = *self;
        let mut map = serializer.serialize_map(Some(table.columns.len()))?;
        for column in &table.columns {
            match &column.values {
                Values::I64(v) => map.serialize_entry(&column.name, &v[row])?,
                Values::F64(v) => map.serialize_entry(&column.name, &v[row].filter(|f| f.is_finite()))?,
                Values::Str(v) => map.serialize_entry(&column.name, &v[row])?,
                Values::Bool(v) => map.serialize_entry(&column.name, &v[row])?,
            }
        }
        map.end()
    }
}

/// Trace name and read report, as an object of the JSON document.
#[derive(Serialize)]
struct Report<'a> {
    trace: &'a str,
    #[serde(flatten)]
    report: &'a ReadReport,
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::{Severity, Trace, Unit};

    #[test]
    fn json_documents_keep_order_precision_and_report() {
        let mut trace = Trace::default();
        trace.meta.name = "rank0.json".into();
        trace.report.count("bare_quote", Severity::Repaired, "A quote was not escaped.", Some(17), "\"x");
        let infos = [TraceInfo::new(&trace, 0)];
        let set = TraceSet { traces: vec![trace] };
        let table = Table::new("t", "Title")
            .text("name", [Some("b\u{1}\"".to_owned()), None])
            .i64("big", Unit::Ns, [i64::MAX, i64::MIN])
            .f64("share", Unit::Percent, [Some(0.1), Some(f64::NAN)])
            .bool("yes", [true, false])
            .note("A note.");
        let extra = [
            ("method", serde_json::json!("hta").into()),
            ("path", serde_json::json!([{"at": "start"}, {"at": "end"}]).into()),
            ("same", Extra::list(|| ["start", "end"].into_iter().map(|at| serde_json::json!({"at": at})))),
            ("none", Extra::list(std::iter::empty::<i64>)),
        ];
        let tables = [table];
        let document =
            Document { command: "test", version: 1, traces: &infos, set: &set, extra: &extra, tables: &tables };
        let mut out = Vec::new();
        write(&document, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
