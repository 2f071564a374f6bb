//! Kernel names of collectives in inference engines (vLLM, SGLang, TensorRT-LLM, FlashInfer, AITER, Transformer
//! Engine), and in PyTorch's symmetric memory.

use crate::kernel_type::KernelType::Communication;
use crate::kernel_type::NameTest::{Contains, ContainsAnyCase};
use crate::kernel_type::Rule;

/// Names of collective kernels of inference engines. Most poll flags of the other devices before and after a reduction.
pub(super) const RULES: &[Rule] = &[
    (Contains("cross_device_reduce"), Communication),
    (Contains("cross_device_all_gather"), Communication),
    // AITER: the first step of its fused all-reduce, and its own reduce-scatter and all-gather.
    (Contains("cross_device_store"), Communication),
    (Contains("reduce_scatter_split_"), Communication),
    (Contains("reduce_scatter_first_dim"), Communication),
    (Contains("aiter::reduce_scatter"), Communication),
    (Contains("allgather_naive"), Communication),
    (Contains("allgather_vec"), Communication),
    (Contains("allgather_lastdim"), Communication),
    (Contains("aiter::allgather"), Communication),
    (ContainsAnyCase("quickreduce"), Communication),
    (Contains("quick_reduce"), Communication),
    (Contains("one_shot_all_reduce"), Communication),
    (Contains("two_shot_all_reduce"), Communication),
    (Contains("shot_allreduce"), Communication),
    (Contains("oneshot_allreduce"), Communication),
    (Contains("twoshot_allreduce"), Communication),
    (Contains("mnnvl_allreduce"), Communication),
    (Contains("multimem_all_reduce"), Communication),
    (Contains("multimem_one_shot"), Communication),
    (Contains("multimem_all_gather"), Communication),
    // TensorRT-LLM and FlashInfer: oneShotAllReduceKernel, allreduce_fusion_kernel_oneshot_lamport, moeAllToAllKernel.
    (ContainsAnyCase("shotAllReduce"), Communication),
    (ContainsAnyCase("allreduce_fusion"), Communication),
    (ContainsAnyCase("allreduceFusion"), Communication),
    (ContainsAnyCase("customAllReduce"), Communication),
    (ContainsAnyCase("moeAllToAll"), Communication),
    (ContainsAnyCase("moeA2A"), Communication),
    (ContainsAnyCase("moe_comm::"), Communication),
    (ContainsAnyCase("userbuffers"), Communication),
    // Barriers of symmetric memory, which wait for the other devices.
    (Contains("symm_mem"), Communication),
    (Contains("symmetric_memory::"), Communication),
    (Contains("wait_signal_kernel"), Communication),
    (Contains("put_signal_kernel"), Communication),
    // Kernels of Flux that poll until a tile of another device has arrived.
    (Contains("wait_geq_kernel"), Communication),
    (Contains("block_barrier"), Communication),
    (Contains("barrier_all_ranks"), Communication),
];
