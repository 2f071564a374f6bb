//! Coverage-guided fuzzing of what `fuzz/checks/symbols.rs` says.
#![no_main]

#[path = "../checks/symbols.rs"]
mod symbols;

libfuzzer_sys::fuzz_target!(|data: &[u8]| symbols::check(data));
