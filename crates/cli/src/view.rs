//! Smaller tables for a screenful: chosen columns, the largest rows.

use stackline_model::{Column, Table, Values};

/// The named columns of a table, in this order; names that it lacks are skipped.
pub(crate) fn select(table: &Table, columns: &[&str]) -> Table {
    let columns = columns.iter().filter_map(|name| table.column(name)).cloned().collect();
    Table { columns, ..table.clone() }
}

/// The rows with these numbers, in this order.
pub(crate) fn rows(table: &Table, rows: &[usize]) -> Table {
    let columns = table.columns.iter().map(|c| Column { values: take(&c.values, rows), ..c.clone() }).collect();
    Table { columns, ..table.clone() }
}

fn take(values: &Values, rows: &[usize]) -> Values {
    match values {
        Values::I64(v) => Values::I64(rows.iter().map(|&r| v[r]).collect()),
        Values::F64(v) => Values::F64(rows.iter().map(|&r| v[r]).collect()),
        Values::Str(v) => Values::Str(rows.iter().map(|&r| v[r].clone()).collect()),
        Values::Bool(v) => Values::Bool(rows.iter().map(|&r| v[r]).collect()),
    }
}

/// The `count` rows with the largest values of a column that are above zero, largest first; earlier rows first where
/// equal. The table says how many there are.
pub(crate) fn top(table: &Table, by: &str, count: usize) -> Table {
    let values: Vec<f64> = (0..table.rows()).map(|r| number(table, by, r).unwrap_or(0.0)).collect();
    let mut order: Vec<usize> = (0..table.rows()).filter(|&r| values[r] > 0.0).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    let all = order.len();
    order.truncate(count);
    let mut top = rows(table, &order);
    top.title = if all > count { format!("{}: the top {count} of {all}", table.title) } else { table.title.clone() };
    top
}

/// A number of a table.
pub(crate) fn number(table: &Table, column: &str, row: usize) -> Option<f64> {
    match &table.column(column)?.values {
        Values::I64(v) => v.get(row).copied()?.map(|v| v as f64),
        Values::F64(v) => v.get(row).copied()?,
        _ => None,
    }
}

/// A text of a table.
pub(crate) fn text<'a>(table: &'a Table, column: &str, row: usize) -> Option<&'a str> {
    match &table.column(column)?.values {
        Values::Str(v) => v.get(row)?.as_deref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::Unit;

    #[test]
    fn the_largest_rows_come_first() {
        let names = ["a", "b", "c", "d"].map(|n| Some(n.to_owned()));
        let table = Table::new("t", "T").text("name", names).i64("n", Unit::None, [Some(1), Some(5), None, Some(5)]);
        let top = select(&top(&table, "n", 2), &["name", "missing"]);
        assert_eq!(top.columns.len(), 1);
        assert_eq!((text(&top, "name", 0), text(&top, "name", 1)), (Some("b"), Some("d")));
        assert_eq!(top.title, "T: the top 2 of 3");
    }
}
