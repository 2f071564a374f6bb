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

mod compiled;
mod descriptors;
mod execs;
mod extremes;
mod forward_links;
mod frames;
mod full_disk;
mod garbage_collection;
mod limits;
mod many_recordings;
mod memory;
mod modules;
mod overhead;
mod profiler_comparison;
mod samples;
mod shapes;
mod short_processes;
mod side_effects;
mod skipped_steps;
mod small_stacks;
mod soak;
mod span_names;
mod support;
mod tensor_names;
mod thread_names;
mod times;
mod unwritable_messages;
mod waits;
