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

mod arrow;
mod calls;
mod common;
mod crash;
mod damage;
mod foreign;
mod memory;
mod round_trip;
mod versions;
