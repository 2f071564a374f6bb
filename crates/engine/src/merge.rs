//! Join tables of several traces: tables of equal names become one, with the rank as first column.

use stackline_model::{Column, Table, Unit, Values};
use std::collections::{HashMap, HashSet};

/// Join one list of tables per rank into one list. Tables and columns are in order of first appearance, rows are rank
/// after rank. A column that a rank lacks is empty in its rows. Tables of a single rank are unchanged.
pub fn concatenate(per_rank: Vec<(i64, Vec<Table>)>) -> Vec<Table> {
    if per_rank.len() <= 1 {
        return per_rank.into_iter().flat_map(|(_, tables)| tables).collect();
    }
    let mut names: Vec<String> = Vec::new();
    for table in per_rank.iter().flat_map(|(_, tables)| tables) {
        if !names.contains(&table.name) {
            names.push(table.name.clone());
        }
    }
    names.iter().map(|name| one(name, &per_rank)).collect()
}

/// Join the tables with one name into one table with a first column `rank`.
fn one(name: &str, per_rank: &[(i64, Vec<Table>)]) -> Table {
    let parts: Vec<(i64, &Table)> = per_rank
        .iter()
        .flat_map(|(rank, tables)| tables.iter().filter(|t| t.name == name).map(|t| (*rank, t)))
        .collect();
    let title = parts.first().map_or("", |(_, t)| &t.title);
    let ranks = parts.iter().flat_map(|(rank, t)| std::iter::repeat_n(*rank, t.rows()));
    let mut table = Table::new(name, title).i64("rank", Unit::None, ranks);
    let mut heads: Vec<(&str, Unit)> = Vec::new();
    for column in parts.iter().flat_map(|(_, t)| &t.columns) {
        if !heads.iter().any(|(n, _)| *n == column.name) {
            heads.push((&column.name, column.unit));
        }
    }
    for (column, unit) in heads {
        let values = concatenate_values(parts.iter().map(|(_, t)| (t.column(column), t.rows())));
        // An existing column `rank` is renamed.
        let column = if column == "rank" { "rank_in_file" } else { column };
        table = table.with(column, unit, values);
    }
    table.notes = notes(&parts);
    table
}

/// Merge the notes of the tables of all ranks: notes of all ranks appear once, others with their rank.
fn notes(parts: &[(i64, &Table)]) -> Vec<String> {
    let mut tables: HashMap<&str, usize> = HashMap::new();
    for (_, table) in parts {
        let distinct: HashSet<&str> = table.notes.iter().map(String::as_str).collect();
        distinct.into_iter().for_each(|note| *tables.entry(note).or_default() += 1);
    }
    let (mut notes, mut known) = (Vec::new(), HashSet::new());
    for (rank, table) in parts {
        for note in &table.notes {
            let is_shared = tables.get(note.as_str()) == Some(&parts.len());
            let text = if is_shared { note.clone() } else { format!("Rank {rank}: {note}") };
            if known.insert(text.clone()) {
                notes.push(text);
            }
        }
    }
    notes
}

/// Concatenate the values of one column of several tables, each given with its number of rows. Integers and
/// floating-point numbers become floating-point; any other mixture becomes text.
fn concatenate_values<'a>(parts: impl Iterator<Item = (Option<&'a Column>, usize)> + Clone) -> Values {
    let present = || parts.clone().filter_map(|(c, _)| c.map(|c| &c.values)).filter(|v| !v.is_empty());
    // Without any row, the type of the first trace remains, so that programs find the columns that they expect.
    if present().next().is_none() {
        let empty = parts.clone().find_map(|(c, _)| c.map(|c| c.values.clone()));
        return empty.unwrap_or(Values::I64(Vec::new()));
    }
    if present().all(|v| matches!(v, Values::I64(_))) {
        return Values::I64(fill(parts, |v, i| if let Values::I64(v) = v { v[i] } else { None }));
    }
    if present().all(|v| matches!(v, Values::I64(_) | Values::F64(_))) {
        return Values::F64(fill(parts, |v, i| match v {
            Values::I64(v) => v[i].map(|v| v as f64),
            Values::F64(v) => v[i],
            _ => None,
        }));
    }
    if present().all(|v| matches!(v, Values::Bool(_))) {
        return Values::Bool(fill(parts, |v, i| if let Values::Bool(v) = v { v[i] } else { None }));
    }
    Values::Str(fill(parts, |v, i| match v {
        Values::Str(v) => v[i].clone(),
        Values::I64(v) => v[i].map(|v| v.to_string()),
        Values::F64(v) => v[i].map(|v| v.to_string()),
        Values::Bool(v) => v[i].map(|v| v.to_string()),
    }))
}

/// Concatenate converted values of a column; a table that lacks the column gives `None` for each of its rows.
fn fill<'a, T: Clone>(
    parts: impl Iterator<Item = (Option<&'a Column>, usize)>,
    value: impl Fn(&Values, usize) -> Option<T>,
) -> Vec<Option<T>> {
    let mut out = Vec::new();
    for (column, rows) in parts {
        match column {
            Some(column) => out.extend((0..rows).map(|i| value(&column.values, i))),
            None => out.resize(out.len() + rows, None),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_stacked_with_their_gaps() {
        let a = Table::new("t", "T").i64("n", Unit::None, [1, 2]).note("same").note("only a");
        let b = Table::new("t", "T").f64("n", Unit::None, [2.5]).text("x", [Some("y".to_owned())]).note("same");
        let merged = concatenate(vec![(4, vec![a]), (0, vec![b, Table::new("u", "U")])]);
        assert_eq!(merged.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["t", "u"]);
        let t = &merged[0];
        assert_eq!(t.column("rank").map(|c| &c.values), Some(&Values::I64(vec![Some(4), Some(4), Some(0)])));
        assert_eq!(t.column("n").map(|c| &c.values), Some(&Values::F64(vec![Some(1.0), Some(2.0), Some(2.5)])));
        assert_eq!(t.column("x").map(|c| &c.values), Some(&Values::Str(vec![None, None, Some("y".to_owned())])));
        assert_eq!(t.notes, ["same", "Rank 4: only a"]);
    }

    #[test]
    fn columns_without_rows_keep_their_type() {
        let none = || Table::new("t", "T").text("name", Vec::<String>::new()).f64("us", Unit::Us, Vec::<f64>::new());
        let merged = concatenate(vec![(0, vec![none()]), (1, vec![none()])]);
        assert_eq!(merged[0].column("name").map(|c| &c.values), Some(&Values::Str(vec![])));
        assert_eq!(merged[0].column("us").map(|c| &c.values), Some(&Values::F64(vec![])));
    }

    #[test]
    fn single_ranks_are_unchanged() {
        let a = Table::new("t", "T").i64("n", Unit::None, [1]);
        assert_eq!(concatenate(vec![(4, vec![a.clone()])]), [a]);
    }
}
