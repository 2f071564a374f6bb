//! Chores of this repository, run as `cargo run -p xtask -- NAME`.
#![forbid(unsafe_code)]
fn main() {}
