//! Runtime and driver calls of CUDA and HIP that allocate or free memory.

/// Names of the calls, without the suffix `_v2`.
const CALLS: &[&str] = &[
    "cudaMalloc",
    "cudaFree",
    "cudaMallocHost",
    "cudaHostAlloc",
    "cudaFreeHost",
    "cudaMallocManaged",
    "cuMemAlloc",
    "cuMemFree",
    "cuMemCreate",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemRelease",
    "hipMalloc",
    "hipFree",
    "hipHostMalloc",
    "hipHostFree",
    "hipExtMallocWithFlags",
];

/// Test by its name if a runtime or driver call allocates or frees memory. Calls that take it from a pool in the order
/// of a stream (`cudaMallocAsync`) are no such calls.
pub fn is_allocation(call: &str) -> bool {
    CALLS.contains(&call.strip_suffix("_v2").unwrap_or(call))
}

#[cfg(test)]
mod tests {
    use super::is_allocation;

    #[test]
    fn suffixes_of_versions_do_not_matter() {
        for call in ["cudaMalloc", "cuMemAlloc_v2", "cuMemFree", "hipFree"] {
            assert!(is_allocation(call), "{call}");
        }
        for call in ["cudaMallocAsync", "cudaLaunchKernel", "cuMemAllocAsync_v2", ""] {
            assert!(!is_allocation(call), "{call}");
        }
    }
}
