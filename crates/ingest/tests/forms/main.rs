//! Small documents made by hand, each for one form of the `chrome` format, with the rows that it must give.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "helpers of tests")]

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod common;

mod categories;
mod codes;
mod dump;
mod identity;
mod kineto;
mod launches;
mod plain;
mod spans;
mod streams;
