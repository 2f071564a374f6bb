//! Kernel names of all producers by use: optimizers, and kernels with a fixed number of blocks.

/// Name parts of kernels that update many tensors at once, and of operators that launch them.
const MULTI_TENSOR: &[&str] = &["multi_tensor_apply", "foreach", "triton_", "FusedAdam", "multi_tensor", "_fused_"];

/// Name parts of kernels that only optimizers launch: PyTorch's, Apex's and DeepSpeed's.
const OPTIMIZER: &[&str] = &["multi_tensor_apply", "FusedAdam", "fused_adam", "FusedSgd"];

/// Name parts, in lower case, of kernels that use a fixed part of the GPU by design. Their blocks process one work item
/// after another, or leave multiprocessors to concurrent work. The kernels of communication
/// libraries have rules of their own.
const FIXED_GRID: &[&str] = &[
    "persistent",
    "cooperative",
    "streamk",
    "stream_k",
    "flash",
    "fmha",
    "deep_ep",
    "deepep",
    "all_reduce",
    "allreduce",
    "all_gather",
    "allgather",
    "reduce_scatter",
];

/// Test by its name if a kernel updates many tensors at once, or if an operator launches such kernels.
pub fn is_multi_tensor(name: &str) -> bool {
    contains_any(name, MULTI_TENSOR)
}

/// Test by its name if only an optimizer launches a kernel.
pub fn is_optimizer(kernel: &str) -> bool {
    contains_any(kernel, OPTIMIZER)
}

/// Test by its name if a kernel's number of blocks is fixed by design, as for persistent kernels.
pub fn has_fixed_grid(kernel: &str) -> bool {
    contains_any(&kernel.to_ascii_lowercase(), FIXED_GRID)
}

fn contains_any(name: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::{has_fixed_grid, is_multi_tensor, is_optimizer};

    #[test]
    fn kernels_are_recognized_by_their_use() {
        let apply = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<512>(int)";
        assert!(is_multi_tensor(apply) && is_optimizer(apply) && !has_fixed_grid(apply));
        assert!(is_multi_tensor("aten::_fused_adamw_") && is_optimizer("aten::_fused_adamw_"));
        assert!(is_multi_tensor("aten::_foreach_add") && !is_optimizer("aten::_foreach_add"));
        assert!(!is_multi_tensor("void at::native::vectorized_elementwise_kernel<4>(int)"));
        let gemm = "cutlass_80_tensorop_StreamK_gemm";
        assert!(has_fixed_grid(gemm) && !has_fixed_grid("cutlass_80_tensorop_gemm") && !is_optimizer(gemm));
    }
}
