//! Analyses: functions from a trace model to tables. An analysis never prints, plots or reads files.
//!
//! Each analysis is one file in `analyses/` with a [`Analysis`] constant, registered by one line in `analyses/mod.rs`.
//! It processes one trace; the engine runs it over all ranks and merges their tables.
#![forbid(unsafe_code)]

pub mod analyses;
pub mod checks;
pub mod hta_rows;
mod missing_operations;
mod op_groups;
pub mod summary;

use stackline_model::{Table, Trace};
use stackline_timeline::{DefaultWindow, Scope};

/// A registered analysis: a function from a trace to tables, with name, description, default window and commands.
#[derive(Clone, Copy)]
pub struct Analysis {
    /// Stable name, such as `kernel_summary`; its documentation is `docs/analyses/<name with dashes>.md`.
    pub name: &'static str,
    /// One-line description for `--help` and lists.
    pub about: &'static str,
    /// Names of the tables that it may return.
    pub tables: &'static [&'static str],
    /// Default window, for calls without a scope.
    pub window: DefaultWindow,
    /// Commands that print its tables.
    pub commands: &'static [TableCommand],
    /// Tables that these commands print where the user names none.
    pub display: Display,
    /// Entry point. Missing data gives an empty table with a note, never an error.
    pub run: fn(&Trace, &Scope) -> Vec<Table>,
}

/// Command of the command line that prints the tables of analyses, such as `stackline kernels`. Analyses appear in the
/// order of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableCommand {
    /// `stackline steps`.
    Steps,
    /// `stackline kernels`.
    Kernels,
    /// `stackline operators`.
    Operators,
    /// `stackline collectives`.
    Collectives,
    /// `stackline timeline`.
    Timeline,
    /// `stackline check`.
    Check,
}

/// Selection of the tables of an analysis that its commands print as text if the user names no tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Display {
    /// All tables.
    All,
    /// All but these, which have a row per operation or point in time, or many columns. JSON output has them.
    Except(&'static [&'static str]),
    /// None: the analysis has a row per record and runs only for `--table NAME`.
    OnRequest,
}

impl Analysis {
    /// Test if commands omit this table of the analysis in text output unless the user names it (see
    /// [`Display::Except`]).
    pub fn hides(&self, table: &str) -> bool {
        matches!(self.display, Display::Except(tables) if tables.contains(&table))
    }
}

impl std::fmt::Debug for Analysis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Analysis({})", self.name)
    }
}
