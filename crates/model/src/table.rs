//! Result tables: output of analyses, input of presenters.

use serde::{Deserialize, Serialize};

/// Unit of a column's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// No unit: names, counts, ids.
    None,
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Bytes.
    Bytes,
    /// Percent, 0 to 100.
    Percent,
    /// Gigabytes (10^9 bytes) per second.
    GBps,
    /// Gibibytes (2^30 bytes) per second.
    GiBps,
    /// Mebibytes.
    MiB,
}

impl Unit {
    /// Every unit.
    pub const ALL: [Self; 9] =
        [Self::None, Self::Ns, Self::Us, Self::Ms, Self::Bytes, Self::Percent, Self::GBps, Self::GiBps, Self::MiB];

    /// Suffix of a unit for people, empty for [`Unit::None`].
    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Ns => "ns",
            Self::Us => "µs",
            Self::Ms => "ms",
            Self::Bytes => "B",
            Self::Percent => "%",
            Self::GBps => "GB/s",
            Self::GiBps => "GiB/s",
            Self::MiB => "MiB",
        }
    }
}

/// Values of a column; `None` for a row without a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Values {
    /// Integers.
    I64(Vec<Option<i64>>),
    /// Numbers.
    F64(Vec<Option<f64>>),
    /// Text.
    Str(Vec<Option<String>>),
    /// Booleans.
    Bool(Vec<Option<bool>>),
}

impl Values {
    /// Number of rows in a column of a result table.
    pub fn len(&self) -> usize {
        match self {
            Self::I64(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::Str(v) => v.len(),
            Self::Bool(v) => v.len(),
        }
    }

    /// True if a column of a result table has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Column of a result table: name, unit and values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Stable name: the key in JSON and the header in CSV. Part of the versioned schema.
    pub name: String,
    /// Unit of its numbers.
    pub unit: Unit,
    /// Values.
    pub values: Values,
}

/// A result table. Columns are equally long.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Table {
    /// Stable name, such as `kernel_summary`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Columns in display order.
    pub columns: Vec<Column>,
    /// Notes in sentences (coverage, definitions, missing results).
    pub notes: Vec<String>,
}

impl Table {
    /// Create an empty result table with a name and a title.
    pub fn new(name: &str, title: &str) -> Self {
        Self { name: name.to_owned(), title: title.to_owned(), ..Self::default() }
    }

    /// Add a column of integers to a result table (chainable).
    #[must_use]
    pub fn i64(self, name: &str, unit: Unit, values: impl IntoIterator<Item = impl Into<Option<i64>>>) -> Self {
        self.with(name, unit, Values::I64(values.into_iter().map(Into::into).collect()))
    }

    /// Add a column of floating-point numbers to a result table (chainable).
    #[must_use]
    pub fn f64(self, name: &str, unit: Unit, values: impl IntoIterator<Item = impl Into<Option<f64>>>) -> Self {
        self.with(name, unit, Values::F64(values.into_iter().map(Into::into).collect()))
    }

    /// Add a column of text to a result table (chainable).
    #[must_use]
    pub fn text(self, name: &str, values: impl IntoIterator<Item = impl Into<Option<String>>>) -> Self {
        self.with(name, Unit::None, Values::Str(values.into_iter().map(Into::into).collect()))
    }

    /// Add a column of booleans to a result table (chainable).
    #[must_use]
    pub fn bool(self, name: &str, values: impl IntoIterator<Item = impl Into<Option<bool>>>) -> Self {
        self.with(name, Unit::None, Values::Bool(values.into_iter().map(Into::into).collect()))
    }

    /// Add a column of values with a unit to a result table (chainable).
    #[must_use]
    pub fn with(mut self, name: &str, unit: Unit, values: Values) -> Self {
        debug_assert!(self.columns.iter().all(|c| c.values.len() == values.len()), "column {name} differs in length");
        self.columns.push(Column { name: name.to_owned(), unit, values });
        self
    }

    /// Add a note to a result table (chainable).
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Number of rows of a result table.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |c| c.values.len())
    }

    /// Column of a result table with this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }
}
