//! Coverage-guided fuzzing with the check of `fuzz/checks/chrome.rs`.
#![no_main]

#[path = "../checks/chrome.rs"]
mod chrome;
#[path = "../../crates/ingest/tests/common/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| chrome::check(data));
