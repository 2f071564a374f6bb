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

mod asked_first;
mod common;
mod compared;
mod memory;
mod numbers;
mod questions;
mod source_text;
mod windows;
mod zoomed;
