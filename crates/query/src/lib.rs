//! Queries of the page, editors and programs to an opened run. An answer is a JSON document with typed columns
//! where there are many values, and depends on nothing but the run and the arguments, so that it can be kept.
//!
//! A query is one file in `queries/` and one entry in [`ALL`].
#![forbid(unsafe_code)]

mod answer;
mod arguments;
mod baseline_steps;
mod cache;
mod counter_tracks;
mod critical_path;
mod error;
mod excerpt;
mod failed_checks;
mod launch_links;
mod memory;
mod names;
mod nearest;
mod path_mapping;
mod prefetch;
mod prefetch_later;
mod prefetch_order;
mod queries;
mod report;
mod run;
mod slices;
mod source_names;
mod source_roots;
mod source_settings;
mod stage_questions;
mod tile_levels;
mod track_layout;

pub use answer::{Answer, Column};
pub use arguments::Arguments;
pub use cache::Source;
pub use error::QueryError;
pub use failed_checks::{CHECKS_OF_COLLECTIVES, CHECKS_OF_PATHS, FailedCheck, RunChecks};
pub use memory::memory_summary;
pub use queries::{ALL, Query, READ_FILES, run_query};
pub use report::{Content, INSTEAD_OF_OPERATORS, OfTrace, PathOptions, PathSummary};
pub use run::OpenRun;
pub use source_roots::SourceRoots;
