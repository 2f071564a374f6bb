//! Names of kernels, operators, modules and Python frames in real traces, for simulated programs.

pub(crate) const KERNELS: &[&str] = &[
    "nvjet_tst_128x256x64_2x1_v_bz_TNT",
    "ampere_sgemm_128x64_nn",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_64x3_tn_align8>(cutlass::Params)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >(float)",
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 64, 4> >(pytorch_flash::Flash_fwd_params)",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)",
    "triton_poi_fused_add_mul_0",
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*)",
];

/// Operators that launch one or two kernels.
pub(crate) const OPERATORS: &[&str] = &[
    "aten::addmm",
    "aten::mm",
    "aten::add",
    "aten::mul",
    "aten::gelu",
    "aten::native_layer_norm",
    "aten::_softmax",
    "aten::_scaled_dot_product_flash_attention",
];

/// Operators without GPU work.
pub(crate) const CHEAP: &[&str] = &["aten::view", "aten::t", "aten::empty", "aten::as_strided", "aten::reshape"];

/// Nodes of the autograd graph.
pub(crate) const NODES: &[&str] = &[
    "AddmmBackward0",
    "MmBackward0",
    "AddBackward0",
    "MulBackward0",
    "GeluBackward0",
    "NativeLayerNormBackward0",
    "SoftmaxBackward0",
    "ScaledDotProductFlashAttentionBackward0",
];

/// Modules; each instance gets a number.
pub(crate) const MODULES: &[&str] = &["Linear", "LayerNorm", "GELU", "Block", "Attention", "MLP"];

pub(crate) const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
pub(crate) const RUN_BACKWARD: &str = "<built-in method run_backward of torch._C._EngineBase object at 0x7f52d1a3c6f0>";
pub(crate) const ACQUIRE: &str = "<method 'acquire' of '_thread.lock' objects>";
pub(crate) const RELEASE: &str = "<method 'release' of '_thread.lock' objects>";
pub(crate) const QUEUE_GET: &str = "multiprocessing/queues.py(100): get";
pub(crate) const PINNED_GET: &str = "queue.py(154): get";
pub(crate) const QUEUE_PUT: &str = "multiprocessing/queues.py(86): put";
pub(crate) const FETCH: &str = "torch/utils/data/_utils/fetch.py(47): fetch";
pub(crate) const PIN: &str = "torch/utils/data/_utils/pin_memory.py(37): do_one_step";
