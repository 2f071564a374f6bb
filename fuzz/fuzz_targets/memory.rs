//! Coverage-guided fuzzing of what `fuzz/checks/memory.rs` says.
#![no_main]

#[path = "../checks/memory.rs"]
mod memory;

libfuzzer_sys::fuzz_target!(|data: &[u8]| memory::check(data));
