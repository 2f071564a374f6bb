//! What CUPTI calls overheads: most are the profiler's own work, some are CUDA's, and would be there without a profiler.

/// Overheads of CUDA's runtime, as Kineto and Nsight Systems name them.
const OF_RUNTIME: &[&str] =
    &[COMMAND_BUFFER_FULL, "Driver Compiler", "Lazy Function Loading", "Runtime Triggered Module Loading"];

/// A call waits for room in the queue of launches.
pub(crate) const COMMAND_BUFFER_FULL: &str = "Command Buffer Full";

/// Whether an overhead of this name is CUDA's own.
pub(crate) fn is_of_runtime(overhead: &str) -> bool {
    OF_RUNTIME.contains(&overhead)
}
