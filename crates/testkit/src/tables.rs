//! Values of the columns of result tables, for assertions in tests.

use stackline_model::{Table, Values};

/// Values of a text column of a table, one per row; empty for rows without a value.
///
/// # Panics
/// If the table has no text column of this name.
#[track_caller]
#[must_use]
pub fn texts(table: &Table, column: &str) -> Vec<String> {
    match table.column(column).map(|found| &found.values) {
        Some(Values::Str(values)) => values.iter().map(|value| value.clone().unwrap_or_default()).collect(),
        other => panic!("{}: {column} is no text column: {other:?}", table.name),
    }
}

/// Values of an integer column of a table, one per row; -1 for rows without a value.
///
/// # Panics
/// If the table has no integer column of this name.
#[track_caller]
#[must_use]
pub fn integers(table: &Table, column: &str) -> Vec<i64> {
    match table.column(column).map(|found| &found.values) {
        Some(Values::I64(values)) => values.iter().map(|value| value.unwrap_or(-1)).collect(),
        other => panic!("{}: {column} is no integer column: {other:?}", table.name),
    }
}

#[cfg(test)]
mod tests {
    use super::{integers, texts};
    use stackline_model::{Table, Unit};

    #[test]
    fn rows_without_a_value_are_kept() {
        let table =
            Table::new("t", "T").text("name", [Some("a".to_owned()), None]).i64("count", Unit::None, [None, Some(2)]);
        assert_eq!(
            (texts(&table, "name"), integers(&table, "count")),
            (vec!["a".to_owned(), String::new()], vec![-1, 2])
        );
    }
}
