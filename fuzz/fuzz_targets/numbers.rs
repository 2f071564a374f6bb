//! Coverage-guided fuzzing with the check of `fuzz/checks/numbers.rs`.
#![no_main]

#[path = "../checks/numbers.rs"]
mod numbers;
#[path = "../../crates/ingest/tests/common/oracle.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| numbers::check(data));
