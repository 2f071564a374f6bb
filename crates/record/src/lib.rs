//! What runs inside a watched process.
//!
//! It is loaded as a Python extension module (see [`extension`]), asks `DLMonitor` for operators and call paths, keeps
//! a calling context tree per thread, and appends to a stream of its own what changed, twice a second.

#![allow(unsafe_code, reason = "FFI: each module that needs it says why it is sound")]
#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic where the program's output cannot be written")]

mod cpu_usage;
mod description;
mod descriptors;
mod event_queue;
pub mod extension;
mod folding;
mod frames;
mod memory;
mod modules;
mod names;
mod native_frames;
mod options;
mod output;
mod overhead;
mod paths;
mod prefetch;
mod process;
mod python_path_cache;
mod recorder;
mod samples;
mod session;
mod shapes;
mod slots;
mod standard_error;
mod state;
mod stream;
mod stream_file;
mod tensors;
mod tree;
mod window;

pub use options::RUN;
