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

/// 1 PiB: no machine has more memory, and sums of smaller sizes stay far below the 64-bit limit.
const MOST_BYTES: u64 = 1 << 50;

/// Advice for callers that requested memory: all supported inputs.
pub(crate) const SUPPORTED_INPUTS: &str = "give a PyTorch memory snapshot (`torch.cuda.memory._dump_snapshot()`), a torch.profiler trace with \
    profile_memory=True, an execution trace, a recording (`stackline record --mode trace --memory`), or memory text \
    (docs/formats/memory-text.md)";

pub use formats::{
    as_memory_error, count_memory_files, files_of_memory, format_of, is_memory_file, one_trace, read_bytes, read_path,
    several_memory_traces,
};
pub use kineto::from_trace;
