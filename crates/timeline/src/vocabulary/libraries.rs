//! Kernel and span names of communication libraries: NCCL, RCCL, HCCL, oneCCL, UCC, MSCCL and MSCCL++, NVSHMEM and ROC
//! SHMEM.

use crate::kernel_type::KernelType::Communication;
use crate::kernel_type::NameTest::{Contains, ContainsAnyCase, Prefix};
use crate::kernel_type::Rule;

/// Name prefixes of spans of CPU collectives, as PyTorch's process groups write them.
pub(crate) const HOST_SPANS: &[&str] = &["gloo:", "mpi:", "ucc:"];

/// Names of kernels of communication libraries.
pub(super) const RULES: &[Rule] = &[
    // RCCL names its kernels after NCCL's.
    (ContainsAnyCase("nccl"), Communication),
    (ContainsAnyCase("rccl"), Communication),
    (Prefix("hccl"), Communication),
    // HCCL in traces of torch_npu: collectives (`hcom_allReduce__…`), and reductions on streams within them.
    (Prefix("hcom_"), Communication),
    (Prefix("Reduce_Inline"), Communication),
    (Contains("oneccl"), Communication),
    (ContainsAnyCase("mscclKernel"), Communication),
    (Contains("msccl::"), Communication),
    (Contains("mscclpp"), Communication),
    (Prefix("ucc_"), Communication),
    (Contains("ucc::"), Communication),
    // Waits of NVSHMEM poll a flag in memory until another device sets it: `nvshmemi_wait_until`,
    // `signal_wait_until_on_stream`.
    (ContainsAnyCase("nvshmem"), Communication),
    (Contains("signal_wait_until"), Communication),
    // Barriers of NVSHMEM, whose kernel names lack the library's name: `barrier_on_stream_kernel_threadgroup`.
    (Contains("barrier_on_stream_kernel"), Communication),
    (Contains("barrier_all_on_stream"), Communication),
    (Contains("sync_on_stream_kernel"), Communication),
    (Contains("rocshmem"), Communication),
    (Contains("roc_shmem"), Communication),
];
