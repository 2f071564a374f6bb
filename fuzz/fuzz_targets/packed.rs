//! Coverage-guided fuzzing with the check of `fuzz/checks/packed.rs`.
#![no_main]

#[path = "../checks/packed.rs"]
mod packed;
#[path = "../../crates/ingest/tests/common/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| packed::check(data));
