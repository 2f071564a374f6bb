//! Readers and writers of memory traces ([`stackline_model::MemoryTrace`]): one file or folder per format.

mod open;
pub mod pickle;
mod snapshot;
pub mod text;
pub mod values;

pub use open::{is_memory, read_bytes, read_path};
