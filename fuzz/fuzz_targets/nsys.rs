//! Coverage-guided fuzzing with the check of `fuzz/checks/nsys.rs`.
#![no_main]

#[path = "../checks/nsys.rs"]
mod nsys;
#[path = "../../crates/ingest/tests/common/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| nsys::check(data));
