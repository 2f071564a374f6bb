//! The registry of analyses: one file each, one line each in [`ALL`].

mod coverage;

use crate::Analysis;

/// Every registered analysis, in the order of `--help`.
#[rustfmt::skip]
pub const ALL: &[Analysis] = &[
    coverage::COVERAGE,
];

/// The analysis with this name.
pub fn find(name: &str) -> Option<&'static Analysis> {
    ALL.iter().find(|a| a.name == name)
}
