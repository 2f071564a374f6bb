//! Integration tests of this crate in one binary, which is linked once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::iter_over_hash_type,
    reason = "tests fail by panicking, and say what they skip"
)]

mod memory_findings;
mod memory_processes;
mod opened_runs;
mod rank_clocks;
