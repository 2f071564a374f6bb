//! Coverage-guided fuzzing with the check of `fuzz/checks/xplane.rs`.
#![no_main]

#[path = "../checks/xplane.rs"]
mod xplane;
#[path = "../../crates/ingest/tests/common/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| xplane::check(data));
