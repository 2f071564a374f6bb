//! Coverage-guided fuzzing with the check of `fuzz/checks/rocprofv3.rs`.
#![no_main]

#[path = "../checks/rocprofv3.rs"]
mod rocprofv3;
#[path = "../../crates/ingest/tests/common/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| rocprofv3::check(data));
