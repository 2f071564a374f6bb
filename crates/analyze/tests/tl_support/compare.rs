//! Comparing one of our tables with one of TraceLens'.

use super::{Csv, python};
use serde_json::Value;
use stackline_model::{Table, Values};
use stackline_timeline::gpu_view::Definition;
use stackline_timeline::vocabulary::categories::TRACELENS_OTHER;
use std::collections::BTreeMap;

pub(crate) type Convert = fn(&str) -> String;

pub(crate) fn plain(cell: &str) -> String {
    cell.to_owned()
}

/// Python tuples as the JSON that our tables have.
pub(crate) fn literal(cell: &str) -> String {
    if cell.is_empty() { String::new() } else { python(cell).to_string() }
}

pub(crate) fn lower_bool(cell: &str) -> String {
    cell.to_lowercase()
}

pub(crate) fn unknown_is_empty(cell: &str) -> String {
    if cell == "Unknown" { String::new() } else { cell.to_owned() }
}

pub(crate) fn module(cell: &str) -> String {
    if cell == "NA" { String::new() } else { cell.trim().trim_start_matches("nn.Module: ").to_owned() }
}

/// `{'a', 'b'}` or `['a']` as `a, b`.
pub(crate) fn set(cell: &str) -> String {
    let mut names: Vec<String> =
        cell.trim_matches(|c| "{}[]".contains(c)).split(", ").map(|n| n.trim_matches('\'').to_owned()).collect();
    names.sort();
    names.join(", ")
}

/// `['aten::mm', 'nn.Module: B_0', 'nn.Module: A_0']` as `A_0 > B_0`.
pub(crate) fn call_stack(cell: &str) -> String {
    let Value::Array(names) = python(cell) else { panic!("{cell}") };
    let path = names.iter().skip(1).rev().map(|n| n.as_str().unwrap().trim_start_matches("nn.Module: ").to_owned());
    path.collect::<Vec<_>>().join(" > ")
}

pub(crate) fn cell(table: &Table, column: &str, row: usize) -> String {
    let column = table.column(column).unwrap_or_else(|| panic!("{} has no column {column}", table.name));
    match &column.values {
        Values::I64(v) => v[row].map_or_else(String::new, |v| v.to_string()),
        Values::F64(v) => v[row].map_or_else(String::new, |v| v.to_string()),
        Values::Bool(v) => v[row].map_or_else(String::new, |v| v.to_string()),
        Values::Str(v) => v[row].clone().unwrap_or_default(),
    }
}

/// JSON text with the spacing that `serde_json` writes.
pub(crate) fn canonical(text: &str) -> String {
    let json = text.starts_with(['[', '{']).then(|| serde_json::from_str::<Value>(text).ok()).flatten();
    json.map_or_else(|| text.to_owned(), |v| v.to_string())
}

pub(crate) fn same(a: &str, b: &str) -> bool {
    close(a, b, 0.0, 1e-6)
}

pub(crate) fn close(a: &str, b: &str, absolute: f64, relative: f64) -> bool {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= absolute + relative * b.abs().max(1e-9),
        _ => canonical(a) == canonical(b),
    }
}

/// A comparison of one reference table with ours.
pub(crate) struct Comparison<'a> {
    label: String,
    reference: &'a Csv,
    ours: &'a Table,
    /// Columns that identify a row: theirs, ours, conversion.
    keys: Vec<(&'a str, &'a str, Convert)>,
    /// Numbers: theirs, ours, factor to ours.
    pub(crate) numbers: Vec<(&'a str, &'a str, f64)>,
    /// Other text.
    texts: Vec<(&'a str, &'a str, Convert)>,
    /// Column of ours by which both are sorted, and theirs.
    order: Option<(&'a str, &'a str, f64)>,
    /// Maximum error of a sum by TraceLens' rounding of time stamps, in µs per GPU operation; 0 to reproduce it.
    rounding: f64,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(trace: &str, reference: &'a Csv, ours: &'a Table, keys: &[(&'a str, &'a str, Convert)]) -> Self {
        let label = format!("{trace}/{}", ours.name);
        let keys = keys.iter().copied().filter(|(theirs, ..)| reference.has(theirs)).collect();
        Self { label, reference, ours, keys, numbers: vec![], texts: vec![], order: None, rounding: 0.0 }
    }

    pub(crate) fn numbers(mut self, columns: &[(&'a str, &'a str, f64)]) -> Self {
        self.numbers.extend(columns);
        self
    }

    pub(crate) fn texts(mut self, columns: &[(&'a str, &'a str, Convert)]) -> Self {
        self.texts.extend(columns.iter().filter(|(theirs, ..)| self.reference.has(theirs)));
        self
    }

    pub(crate) fn order(mut self, theirs: &'a str, ours: &'a str, factor: f64) -> Self {
        self.order = Some((theirs, ours, factor));
        self
    }

    pub(crate) fn rounding(mut self, definition: Definition) -> Self {
        // Starts and ends beyond 2^42 µs are rounded to multiples of 2^-10 µs; operators launch up to a dozen kernels.
        self.rounding = if definition == Definition::Exact { 12.0 / 1024.0 } else { 0.0 };
        self
    }

    /// True if a number of ours agrees with theirs, rounding considered.
    fn agrees(&self, column: &str, row: usize, ours: &str, theirs: &str) -> bool {
        if self.rounding == 0.0 {
            return same(ours, theirs);
        }
        let operations = match self.ours.column("count") {
            Some(_) => cell(self.ours, "count", row).parse().unwrap(),
            None => 1000.0,
        };
        match column {
            // A deviation may be all rounding.
            c if c.contains("_std_") => true,
            c if c.ends_with("percent") => close(ours, theirs, 1e-3, 1e-3),
            c if c.ends_with("_us") => close(ours, theirs, self.rounding * operations, 1e-6),
            c if c.ends_with("_ms") => close(ours, theirs, self.rounding * operations / 1e3, 1e-6),
            _ => same(ours, theirs),
        }
    }

    /// Compares all cells; returns how many. `skip` leaves out rows of ours by index.
    pub(crate) fn run(&self, failures: &mut Vec<String>, skip: &dyn Fn(&Table, usize) -> bool) -> usize {
        let mut index: BTreeMap<String, usize> = BTreeMap::new();
        for row in (0..self.ours.rows()).filter(|&r| !skip(self.ours, r)) {
            let key: Vec<String> =
                self.keys.iter().map(|(_, ours, _)| canonical(&cell(self.ours, ours, row))).collect();
            index.insert(key.join("\u{1f}"), row);
        }
        let mut fail = |text: String| failures.push(format!("{}: {text}", self.label));
        if index.len() != self.reference.rows.len() {
            fail(format!("{} rows, the reference has {}", index.len(), self.reference.rows.len()));
        }
        let mut compared = 0;
        for row in 0..self.reference.rows.len() {
            let key: Vec<String> =
                self.keys.iter().map(|(theirs, _, convert)| convert(self.reference.get(row, theirs))).collect();
            compared += key.len();
            let Some(&at) = index.get(&key.join("\u{1f}")) else {
                fail(format!("no row {key:?}"));
                continue;
            };
            let numbers = self.numbers.iter().map(|&(theirs, ours, factor)| {
                let text = self.reference.get(row, theirs);
                (ours, text.parse::<f64>().map_or_else(|_| text.to_owned(), |v| (v * factor).to_string()))
            });
            let texts =
                self.texts.iter().map(|&(theirs, ours, convert)| (ours, convert(self.reference.get(row, theirs))));
            for (ours, theirs) in numbers.chain(texts) {
                let value = cell(self.ours, ours, at);
                compared += 1;
                if !self.agrees(ours, at, &value, &theirs) {
                    fail(format!("{ours} of {key:?} is {value}, not {theirs}"));
                }
            }
            if let Some((theirs, ours, factor)) = self.order {
                let theirs = self.reference.get(row, theirs).parse::<f64>().unwrap() * factor;
                let agrees = |row| self.agrees(ours, row, &cell(self.ours, ours, row), &theirs.to_string());
                if row >= self.ours.rows() || !agrees(row) {
                    fail(format!("row {row} is not in the order of {ours}"));
                }
            }
        }
        compared
    }
}

/// Puts attention where TraceLens has it, so that the other columns can be compared.
pub(crate) fn tracelens_categories(mut table: Table) -> Table {
    let names = ["name", "operator"].iter().find_map(|c| table.column(c)).map(|c| c.values.clone());
    let column = table.columns.iter_mut().find(|c| c.name == "category" || c.name == "categories");
    if let (Some(Values::Str(names)), Some(column)) = (names, column)
        && let Values::Str(categories) = &mut column.values
    {
        for (name, category) in names.iter().zip(categories) {
            if name.as_deref().is_some_and(|n| TRACELENS_OTHER.contains(&n)) {
                *category = Some("other".to_owned());
            }
        }
    }
    table
}

pub(crate) fn keep(_: &Table, _: usize) -> bool {
    false
}
