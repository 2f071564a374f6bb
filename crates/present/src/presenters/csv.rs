//! CSV (RFC 4180): full precision, one header line, empty where there is no value.

use stackline_model::{Table, Values};
use std::io::{self, Write};

/// Write one result table as CSV with a header line.
pub fn write(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let header: Vec<String> = table.columns.iter().map(|c| field(&c.name)).collect();
    writeln!(out, "{}", header.join(","))?;
    for row in 0..table.rows() {
        for (i, column) in table.columns.iter().enumerate() {
            if i > 0 {
                out.write_all(b",")?;
            }
            write_value(&column.values, row, out)?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Write several tables, each after a line `# name`, separated by empty lines. A single table has no such line, so that
/// it is plain CSV.
pub fn write_all(tables: &[Table], out: &mut dyn Write) -> io::Result<()> {
    for (i, table) in tables.iter().enumerate() {
        if tables.len() > 1 {
            writeln!(out, "{}# {}", if i > 0 { "\n" } else { "" }, table.name)?;
        }
        write(table, out)?;
    }
    Ok(())
}

fn write_value(values: &Values, row: usize, out: &mut dyn Write) -> io::Result<()> {
    match values {
        Values::I64(v) => v[row].map_or(Ok(()), |v| write!(out, "{v}")),
        Values::F64(v) => v[row].map_or(Ok(()), |v| write!(out, "{v}")),
        Values::Bool(v) => v[row].map_or(Ok(()), |v| write!(out, "{v}")),
        Values::Str(v) => v[row].as_deref().map_or(Ok(()), |v| out.write_all(field(v).as_bytes())),
    }
}

/// Quote a CSV field where necessary.
pub fn field(text: &str) -> String {
    let plain = !text.contains([',', '"', '\n', '\r']) && !text.starts_with('#');
    if plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::Unit;

    #[test]
    fn fields_are_quoted_where_needed() {
        let name = [Some("a,b".to_owned()), Some("say \"x\"\n".to_owned()), None];
        let table = Table::new("t", "").text("name", name).f64("v", Unit::None, [Some(0.1), None, Some(1e-7)]);
        let mut out = Vec::new();
        write(&table, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "name,v\n\"a,b\",0.1\n\"say \"\"x\"\"\n\",\n,0.0000001\n");
        let mut two = Vec::new();
        write_all(&[table.clone(), table], &mut two).unwrap();
        assert_eq!(String::from_utf8(two).unwrap().matches("# t\n").count(), 2);
    }
}
