//! Queries: what the page, editors and programs ask of an opened run. An answer is a JSON document with typed columns
//! where there are many values, and depends on nothing but the run and the arguments, so that it can be kept.
//!
//! A query is one file in `queries/` and one line in [`ALL`].
#![forbid(unsafe_code)]

mod alike;
mod answer;
mod arguments;
mod boxes;
mod counters;
mod critical_path;
mod derived;
mod error;
mod failed_checks;
mod first;
mod launched;
mod memory;
mod names;
mod nearest;
mod next;
mod opened;
mod places;
mod queries;
mod report;
mod rows;
mod source;
mod source_roots;

pub use answer::{Answer, Column};
pub use arguments::Arguments;
pub use derived::Source;
pub use error::QueryError;
pub use failed_checks::FailedCheck;
pub use memory::memory_summary;
pub use opened::Opened;
pub use queries::{ALL, Query, READ_FILES, ask};
pub use report::{Content, INSTEAD_OF_OPERATORS, OfTrace, PathSummary};
pub use source_roots::SourceRoots;
