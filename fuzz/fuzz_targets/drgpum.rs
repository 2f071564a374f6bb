//! Coverage-guided fuzzing with the check of `fuzz/checks/drgpum.rs`.
#![no_main]

#[path = "../checks/drgpum.rs"]
mod drgpum;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drgpum::check(data));
