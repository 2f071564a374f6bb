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

mod common;
mod containers;
mod corpus_oracle;
mod damage;
#[path = "common/expected.rs"]
mod expected;
mod forms;
mod fuzz;
#[path = "common/invariants.rs"]
mod invariants;
mod memory_text;
mod nsys;
mod nsys_gaps;
#[path = "common/oracle.rs"]
mod oracle;
mod profiles;
mod random;
mod recording;
mod recording_damage;
mod recording_memory;
mod recording_parts;
mod recording_trace;
mod regressions;
mod repairs;
mod rocprofv3;
mod rpd;
mod sniffing;
mod steps;
mod xplane;
