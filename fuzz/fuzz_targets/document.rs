//! Coverage-guided fuzzing with the check of `fuzz/checks/document.rs`.
#![no_main]

#[path = "../checks/document.rs"]
mod document;
#[path = "../../crates/ingest/tests/common/oracle.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| document::check(data));
