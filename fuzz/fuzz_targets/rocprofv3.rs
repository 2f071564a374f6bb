//! Coverage-guided fuzzing of what `fuzz/checks/rocprofv3.rs` says.
#![no_main]

#[path = "../checks/rocprofv3.rs"]
mod rocprofv3;
#[path = "../../crates/ingest/tests/common/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| rocprofv3::check(data));
