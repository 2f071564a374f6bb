//! Readers and writers of memory traces ([`stackline_model::MemoryTrace`]): one file or folder per format.

mod drgpum;
mod execution_trace;
pub(crate) mod formats;
mod json;
mod kineto;
pub mod pickle;
mod snapshot;
pub mod text;
mod timeline;
pub mod values;
mod viz;

/// A PiB: no machine's memory is larger, and sums of what is smaller stay far from the end of 64 bits.
const MOST_BYTES: u64 = 1 << 50;

/// What to give who asks for memory.
pub const WHAT_IS_READ: &str = "give a PyTorch memory snapshot (`torch.cuda.memory._dump_snapshot()`), a torch.profiler trace with \
    profile_memory=True, an execution trace, a recording (`stackline record --mode trace --memory`), or memory text \
    (docs/formats/memory-text.md)";

pub use formats::{
    asked_for_memory, count_memory_files, files_of_memory, is_memory_file, one_trace, read_bytes, read_path,
};
pub use kineto::from_trace;
