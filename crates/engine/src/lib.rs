//! Engine: open any input, select ranks, run analyses over one or many traces, and join their tables.
//!
//! The command line and the Python package are built on this crate. Results do not depend on the number of threads.
//!
//! ```no_run
//! use stackline_engine::{OpenOptions, Run, RunOptions, run};
//! let set = Run::open(&["trace.json.gz".into()], &OpenOptions::default())?.traces()?;
//! let analyses: Vec<_> = stackline_analyze::analyses::ALL.iter().collect();
//! let tables = run(&set, &analyses, &RunOptions::default())?;
//! # Ok::<(), stackline_engine::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod cache;
mod calls;
mod clocks;
mod cycles;
mod diff;
mod error;
mod map;
mod memory;
mod memory_findings;
mod merge;
mod names;
mod open;
mod progress;
mod ranks;
mod requirements;
mod run;
mod run_analyses;
mod symbols;

pub use calls::{merge_calls, save_profile};
pub use clocks::{CollectiveEnds, RANK_CLOCKS, RankClock, rank_clock_table, rank_clocks};
pub use diff::{profile_of_calls, profiles};
pub use error::Error;
pub use map::{Mapped, map};
pub use memory_findings::{
    findings_of_memory, findings_with_known_memory, findings_with_memory, memory_findings, memory_rules,
};
pub use merge::concatenate;
pub use names::nearest;
pub use open::{LeftOut, OpenOptions, is_complete, is_run, note_left_out, save, save_with};
pub use progress::Progress;
pub use ranks::{Job, position_of_rank, rank_conflict, ranks};
pub use requirements::{Lacks, Part};
pub use run::{Run, is_read_once};
pub use run_analyses::{OF_WHOLE_TRACE, RunOptions, check_cycles, check_steps, run, run_one, run_trace};
pub use stackline_ingest::diagnostics::{earlier_processes, older_cycles};
pub use stackline_store::WriteOptions;
