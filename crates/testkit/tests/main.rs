//! Integration tests of this crate, in one binary: linked once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::iter_over_hash_type,
    reason = "tests fail by panicking, and say what they skip"
)]

mod damage;
mod derivable;
mod edits;
mod exact;
mod findings;
mod full_queues;
mod help;
mod injected_faults_support;
mod methods;
mod programs;
mod ties;
mod walker;
mod what_if;
mod what_if_damaged;
mod what_if_support;
