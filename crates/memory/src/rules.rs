//! Thresholds.

/// From when on something is a pattern. The defaults are those of DrGPUM's paper and artifact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Kernels between an allocation and the first use that make it early.
    pub early_kernels: u32,
    /// Kernels between the last use and the free that make it late.
    pub late_kernels: u32,
    /// Kernels between two uses that make an object idle.
    pub idle_kernels: u32,
    /// Rounds in which a line leaves memory behind, from which on that is a leak though nobody saw the end.
    pub leak_rounds: u32,
    /// By which share of the larger one two objects may differ in size, for one to reuse the other.
    pub size_tolerance: f64,
    /// Share of bytes that kernels touch below which an object is overallocated.
    pub accessed_share: f64,
    /// Fragmentation of the bytes that are not touched above which shrinking is too difficult to be suggested.
    pub fragmentation: f64,
    /// Coefficient of variation of access counts above which access is not uniform.
    pub variation: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            early_kernels: 1,
            late_kernels: 1,
            idle_kernels: 1,
            leak_rounds: 5,
            size_tolerance: 0.1,
            accessed_share: 0.8,
            fragmentation: 0.8,
            variation: 0.2,
        }
    }
}
