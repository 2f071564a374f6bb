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

mod baseline;
mod common;
mod memory;
mod numbers;
mod prefetch;
mod queries;
mod source_text;
mod windows;
mod zoomed;
