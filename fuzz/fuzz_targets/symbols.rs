//! Coverage-guided fuzzing with the check of `fuzz/checks/symbols.rs`.
#![no_main]

#[path = "../checks/symbols.rs"]
mod symbols;

libfuzzer_sys::fuzz_target!(|data: &[u8]| symbols::check(data));
