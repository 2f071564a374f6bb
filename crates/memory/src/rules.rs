//! Thresholds for detecting patterns of wasted memory.

/// Thresholds of the patterns of wasted memory. Defaults are those of DrGPUM's paper and artifact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Least number of kernels between an allocation and the first use, for an early allocation.
    pub early_kernels: u32,
    /// Least number of kernels between the last use and the free, for a late deallocation.
    pub late_kernels: u32,
    /// Least number of kernels between two uses, for temporary idleness.
    pub idle_kernels: u32,
    /// Least number of iterations in which a line leaves memory, for a leak without the end of the program.
    pub leak_iterations: u32,
    /// Maximum difference of two sizes for a reuse, as a share of the larger one.
    pub size_tolerance: f64,
    /// Share of accessed bytes below which an object is overallocated.
    pub accessed_share: f64,
    /// Fragmentation of the unused bytes above which shrinking is not suggested.
    pub fragmentation: f64,
    /// Coefficient of variation of access counts above which access is non-uniform.
    pub variation: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            early_kernels: 1,
            late_kernels: 1,
            idle_kernels: 1,
            leak_iterations: 5,
            size_tolerance: 0.1,
            accessed_share: 0.8,
            fragmentation: 0.8,
            variation: 0.2,
        }
    }
}
