//! Coverage-guided fuzzing with the check of `fuzz/checks/memory.rs`.
#![no_main]

#[path = "../checks/memory.rs"]
mod memory;

libfuzzer_sys::fuzz_target!(|data: &[u8]| memory::check(data));
