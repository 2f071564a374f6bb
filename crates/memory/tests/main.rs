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

mod actions;
mod advice;
mod allocator;
mod common;
mod composition;
mod damaged;
mod gpu_snapshots;
mod growth;
mod initial_memory;
mod large;
mod out_of_memory;
mod random;
mod scenarios;
mod snapshots;
mod sources;
mod timeline;
mod unordered;
mod weights;
mod workspaces;
