//! Names of overheads that CUPTI reports: most are work of the profiler, some are CUDA's own and also occur without a
//! profiler.

/// Overheads of CUDA's runtime, by their names in Kineto and Nsight Systems.
const RUNTIME_OVERHEADS: &[&str] =
    &[COMMAND_BUFFER_FULL, "Driver Compiler", "Lazy Function Loading", "Runtime Triggered Module Loading"];

/// Overhead of a call that waits for space in the launch queue.
pub const COMMAND_BUFFER_FULL: &str = "Command Buffer Full";

/// Test by its name if a CUPTI overhead is CUDA's own, not the profiler's.
pub fn is_runtime_overhead(overhead: &str) -> bool {
    RUNTIME_OVERHEADS.contains(&overhead)
}
