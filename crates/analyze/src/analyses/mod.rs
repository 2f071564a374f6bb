//! The registry of analyses: one file each, one line each in [`ALL`].

use crate::Analysis;

/// Every registered analysis, in the order of `--help`.
pub const ALL: &[Analysis] = &[];

/// The analysis with this name.
pub fn find(name: &str) -> Option<&'static Analysis> {
    ALL.iter().find(|a| a.name == name)
}
