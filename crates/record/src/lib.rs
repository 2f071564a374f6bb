//! Recorder of a program's calls, samples and memory: the library inside a recorded process.
//!
//! The library is loaded as a Python extension module (see [`extension`]) and receives operators and call paths from
//! `DLMonitor`. The library keeps a calling context tree per thread, and appends changes to its stream twice a second.

#![allow(unsafe_code, reason = "FFI: each use has a SAFETY comment")]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "print macros panic if the program's output cannot be written"
)]

mod client_words;
mod cpu_usage;
mod description;
mod descriptors;
mod event_queue;
pub mod extension;
mod folded_names;
mod folding;
mod forward_links;
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
mod spare_states;
mod standard_error;
mod state;
mod stream;
mod stream_file;
mod tensors;
mod tree;
mod window;

pub use options::RUN;
