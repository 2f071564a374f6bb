//! Coverage-guided fuzzing with the check of `fuzz/checks/profiles.rs`.
#![no_main]

#[path = "../checks/profiles.rs"]
mod profiles;

libfuzzer_sys::fuzz_target!(|data: &[u8]| profiles::check(data));
