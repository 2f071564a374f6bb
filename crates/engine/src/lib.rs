//! The engine: opens anything, picks ranks, runs analyses over one or many traces, puts their tables together.
//!
//! The command line and the Python package are thin users of this crate. Results never depend on the number of threads.
//!
//! ```no_run
//! use stackline_engine::{OpenOptions, RunOptions, open, run};
//! let set = open(&["trace.json.gz".into()], &OpenOptions::default())?;
//! let analyses: Vec<_> = stackline_analyze::analyses::ALL.iter().collect();
//! let tables = run(&set, &analyses, &RunOptions::default())?;
//! # Ok::<(), stackline_engine::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod cache;
mod calls;
mod clocks;
mod diff;
mod error;
mod map;
mod memory;
mod memory_findings;
mod merge;
mod names;
mod open;
mod parts;
mod ranks;
mod run;
mod symbols;
mod watch;

pub use calls::{has_calls, merge_calls, open_calls, open_calls_watched};
pub use clocks::{CollectiveEnds, RankClock, rank_clock_table, rank_clocks};
pub use diff::profiles;
pub use error::Error;
pub use map::{Mapped, map, open_and_map};
pub use memory::{
    all_memory, if_any, is_memory_alone, keeps_memory, memory_beside, memory_of, memory_of_processes, memory_of_rank,
    memory_within, only_memory, open_memory, open_memory_of_rank,
};
pub use memory_findings::{
    findings_of_memory, findings_with_known_memory, findings_with_memory, memory_findings, memory_rules,
};
pub use merge::concatenate;
pub use names::nearest;
pub use open::{OpenOptions, is_complete, is_run, note_lost, note_skipped, open, open_ranks, save, save_with};
pub use parts::Parts;
pub use ranks::{Job, ranks, select_rank};
pub use run::{OF_WHOLE_TRACE, RunOptions, check_steps, run, run_one, run_trace};
pub use stackline_store::WriteOptions;
pub use watch::Watch;
