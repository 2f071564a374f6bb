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

mod absence;
mod agent_numbers;
mod calls;
mod common;
mod consumers;
mod diff;
mod diff_without_steps;
mod docs;
mod errors;
mod fault_handlers;
mod findings;
mod findings_calls;
mod findings_kept;
mod findings_programs;
#[path = "common/findings.rs"]
mod findings_support;
mod first_lines;
mod foreign;
mod inputs;
mod interrupts;
#[path = "common/json_schema.rs"]
mod json_schema;
#[path = "common/junit.rs"]
mod junit;
mod memory;
mod memory_diff;
mod memory_gate;
mod memory_inputs;
mod memory_several;
mod messages;
mod own_rules;
mod profiler_cycles;
mod record;
mod record_processes;
mod report_cache;
mod report_for_agent;
mod same_bytes;
mod schemas;
mod snapshots;
mod torchrun;
mod view;
