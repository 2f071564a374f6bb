//! Coverage-guided fuzzing of what `fuzz/checks/profiles.rs` says.
#![no_main]

#[path = "../checks/profiles.rs"]
mod profiles;

libfuzzer_sys::fuzz_target!(|data: &[u8]| profiles::check(data));
