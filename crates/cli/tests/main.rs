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

mod agent_numbers;
mod calls;
mod common;
mod consumers;
mod corpus_readings;
mod deep_stacks;
mod deterministic_output;
mod diff;
mod diff_without_steps;
mod docs;
mod errors;
mod fault_handlers;
mod faulty_interpreters;
mod findings;
mod findings_baselines;
mod findings_calls;
mod findings_programs;
#[path = "common/findings.rs"]
mod findings_support;
mod first_lines;
mod inferred_steps;
mod inputs;
mod interrupts;
#[path = "common/json_schema.rs"]
mod json_schema;
#[path = "common/junit.rs"]
mod junit;
mod memory;
mod memory_diff;
mod memory_files;
mod memory_gate;
mod memory_inputs;
mod missing_data;
mod profile_units;
mod profiler_cycles;
mod record;
mod record_processes;
mod recorded_programs;
mod report_cache;
mod report_for_agent;
mod schemas;
mod snapshots;
mod torchrun;
mod view;
mod what_if_messages;
