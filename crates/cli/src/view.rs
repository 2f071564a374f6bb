//! Tables reduced to selected columns and the largest rows.

use stackline_model::{Column, Table, Values};

/// Keep the named columns of a table, in this order; skip names that the table lacks.
pub(crate) fn select(table: &Table, columns: &[&str]) -> Table {
    let columns = columns.iter().filter_map(|name| table.column(name)).cloned().collect();
    Table { columns, ..table.clone() }
}

/// Copy a table with only the given rows, in the given order.
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

/// Copy a table with only the `count` rows that have the largest positive values in a column, largest first. Rows with
/// equal values keep their order. If rows are omitted, the title states the number of all.
pub(crate) fn top(table: &Table, by: &str, count: usize) -> Table {
    let values: Vec<f64> = (0..table.rows()).map(|r| number(table, by, r).unwrap_or(0.0)).collect();
    let mut order: Vec<usize> = (0..table.rows()).filter(|&r| values[r] > 0.0).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    let all = order.len();
    order.truncate(count);
    let mut top = rows(table, &order);
    top.title =
        if all > count { format!("{}: the {count} largest of {all} rows", table.title) } else { table.title.clone() };
    top
}

/// Tables of time of GPUs alone.
const OF_GPU: [&str; 5] =
    ["coverage", "ops_summary_by_category", "ops_summary", "ops_unique_args", "ops_unique_args_kernels"];

/// Remove tables, columns and rows about GPUs, for programs that use no GPU.
pub(crate) fn without_gpu(tables: Vec<Table>) -> Vec<Table> {
    let is_about_it = |name: &str| ["gpu", "launch", "kernel"].iter().any(|part| name.contains(part));
    let is_zero_or_empty = |column: &Column| match &column.values {
        Values::I64(values) => values.iter().flatten().all(|&value| value == 0),
        Values::F64(values) => values.iter().flatten().all(|&value| value == 0.0),
        Values::Str(_) | Values::Bool(_) => false,
    };
    let kept = |table: Table| {
        let host: Vec<usize> = (0..table.rows())
            .filter(|&row| text(&table, "measure", row).is_none_or(|name| !is_about_it(name)))
            .collect();
        let mut table = rows(&table, &host);
        let gone: Vec<Column> = table.columns.extract_if(.., |c| is_about_it(&c.name) && is_zero_or_empty(c)).collect();
        table.notes.retain(|note| !note.starts_with("Coverage") && !gone.iter().any(|c| note.starts_with(&c.name)));
        table
    };
    tables.into_iter().filter(|table| !OF_GPU.contains(&table.name.as_str())).map(kept).collect()
}

/// Numeric value of a table cell; none if the cell is empty or text.
pub(crate) fn number(table: &Table, column: &str, row: usize) -> Option<f64> {
    match &table.column(column)?.values {
        Values::I64(v) => v.get(row).copied()?.map(|v| v as f64),
        Values::F64(v) => v.get(row).copied()?,
        _ => None,
    }
}

/// Text value of a table cell; none if the cell is empty or a number.
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
    fn programs_without_a_gpu_have_no_gpu_columns() {
        let steps = Table::new("steps", "Steps: time and GPU work")
            .text("measure", ["time", "gpu_busy"].map(|n| Some(n.to_owned())))
            .i64("time_us", Unit::Us, [Some(0), Some(0)])
            .f64("gpu_busy_us", Unit::Us, [Some(0.0), None])
            .i64("launched_kernels", Unit::None, [Some(0), Some(1)])
            .note("gpu_busy_us: time in which any GPU runs anything.")
            .note("All times are of the host.");
        let none = Table::new("ops_summary", "GPU time by operator").i64("gpu_us", Unit::Us, [None; 0]);
        let coverage = Table::new("coverage", "How much is known").i64("operations", Unit::None, [Some(0)]);
        let shown = without_gpu(vec![steps.clone(), none, coverage]);
        let [table] = shown.as_slice() else { panic!("{shown:?}") };
        let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!((columns.as_slice(), table.rows()), (["measure", "time_us"].as_slice(), 1));
        assert_eq!(table.notes, ["All times are of the host."]);
        // Columns with values other than zero are shown, independent of their meaning.
        let odd = Table { columns: steps.columns[1..].to_vec(), ..steps };
        assert!(without_gpu(vec![odd]).iter().any(|table| table.column("launched_kernels").is_some()));
    }

    #[test]
    fn largest_rows_are_first() {
        let names = ["a", "b", "c", "d"].map(|n| Some(n.to_owned()));
        let table = Table::new("t", "T").text("name", names).i64("n", Unit::None, [Some(1), Some(5), None, Some(5)]);
        let top = select(&top(&table, "n", 2), &["name", "missing"]);
        assert_eq!(top.columns.len(), 1);
        assert_eq!((text(&top, "name", 0), text(&top, "name", 1)), (Some("b"), Some("d")));
        assert_eq!(top.title, "T: the 2 largest of 3 rows");
    }
}
