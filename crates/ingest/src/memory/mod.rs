//! Readers and writers of memory traces ([`stackline_model::MemoryTrace`]): one file or folder per format.

mod drgpum;
mod execution_trace;
mod json;
mod kineto;
mod open;
pub mod pickle;
mod snapshot;
pub mod text;
mod timeline;
pub mod values;
mod viz;

/// A PiB: no machine's memory is larger, and sums of what is smaller stay far from the end of 64 bits.
const MOST_BYTES: u64 = 1 << 50;

pub use kineto::from_trace;
pub use open::{is_memory, is_memory_file, read_bytes, read_path};
