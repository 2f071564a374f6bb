//! Coverage-guided fuzzing of what `fuzz/checks/drgpum.rs` says.
#![no_main]

#[path = "../checks/drgpum.rs"]
mod drgpum;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drgpum::check(data));
