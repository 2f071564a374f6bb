//! Names of operators by category, for all frameworks, as in TraceLens.

/// Category by operator name. Names of operators are facts of the frameworks' registries. Categories are those of
/// TraceLens' reports, so that tables can be compared.
pub const OPERATORS: &[(&str, &[&str])] = &[
    ("GEMM", &["aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm"]),
    ("GEMM", &["tex_ts::te_gemm_ts", "vllm::gemm_with_dynamic_quant", "trtllm::cublas_scaled_mm"]),
    ("GEMM", &["bitsandbytes::int8_linear_matmul", "aiter::gemm_a4w4", "aiter::_gemm_a4w4_asm"]),
    ("CONV_fwd", &["aten::convolution", "aten::miopen_convolution", "aten::cudnn_convolution"]),
    ("CONV_fwd", &["ConvBias_", "ConvBiasReLU_"]),
    ("CONV_bwd", &["aten::convolution_backward", "ConvBias_Backward", "ConvBiasReLU_Backward"]),
    ("NORM_fwd", &["aten::batch_norm", "aten::native_batch_norm", "aten::miopen_batch_norm"]),
    ("NORM_fwd", &["aten::cudnn_batch_norm", "aten::layer_norm", "aten::native_layer_norm"]),
    ("NORM_fwd", &["aten::group_norm", "aten::native_group_norm", "aten::instance_norm"]),
    ("NORM_fwd", &["aten::_fused_rms_norm", "aiter::_groupnorm_run"]),
    ("NORM_bwd", &["aten::batch_norm_backward", "aten::native_batch_norm_backward"]),
    ("NORM_bwd", &["aten::miopen_batch_norm_backward", "aten::cudnn_batch_norm_backward"]),
    ("NORM_bwd", &["aten::layer_norm_backward", "aten::native_layer_norm_backward"]),
    ("NORM_bwd", &["aten::group_norm_backward", "aten::native_group_norm_backward"]),
    ("NORM_bwd", &["aten::instance_norm_backward", "aten::_fused_rms_norm_backward"]),
    ("RMSNorm", &["aiter::rms_norm", "aiter::rmsnorm", "aiter::add_rmsnorm", "aiter::rmsnorm2d_fwd_with_add_ck"]),
    ("SDPA_fwd", &["aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_cudnn_attention"]),
    ("SDPA_fwd", &["aten::_scaled_dot_product_efficient_attention", "aten::_efficient_attention_forward"]),
    ("SDPA_fwd", &["aten::_flash_attention_forward", "aten::_cudnn_attention_forward", "FlashAttnFunc"]),
    ("SDPA_fwd", &["flash_attn::_flash_attn_forward", "flash_attn::_flash_attn_varlen_forward", "flash_attn_3::fwd"]),
    ("SDPA_fwd", &["aiter::_flash_attn_forward", "aiter::mha_fwd", "aiter::fmha_v3_fwd"]),
    ("SDPA_bwd", &["aten::_scaled_dot_product_flash_attention_backward", "aten::_flash_attention_backward"]),
    ("SDPA_bwd", &["aten::_scaled_dot_product_cudnn_attention_backward", "aten::_cudnn_attention_backward"]),
    ("SDPA_bwd", &["aten::_scaled_dot_product_efficient_attention_backward"]),
    ("SDPA_bwd", &["aten::_efficient_attention_backward", "FlashAttnFuncBackward", "aiter::mha_bwd"]),
    ("SDPA_bwd", &["flash_attn::_flash_attn_backward", "flash_attn::_flash_attn_varlen_backward"]),
    ("InferenceAttention", &["vllm::unified_attention_with_output", "_C_cache_ops::reshape_and_cache_flash"]),
    ("InferenceAttention", &["sglang::store_cache"]),
    ("RoPE_fwd", &["FusedRoPEFunc", "sgl_kernel::rotary_embedding"]),
    ("RoPE_bwd", &["FusedRoPEFuncBackward"]),
    ("CrossEntropy_fwd", &["CrossEntropyFunction"]),
    ("CrossEntropy_bwd", &["CrossEntropyFunctionBackward"]),
    ("elementwise", &["aten::copy", "aten::copy_", "aten::clamp_min", "aten::clamp_min_", "aten::clamp_max"]),
    ("elementwise", &["aten::clamp_max_", "aten::sigmoid", "aten::rsqrt", "aten::silu", "aten::neg", "aten::pow"]),
    ("elementwise", &["aten::div", "aten::div_", "aten::mul", "aten::mul_", "aten::add", "aten::add_"]),
    ("elementwise", &["aten::sigmoid_backward", "aten::threshold_backward", "aten::gelu", "sgl_kernel::silu_and_mul"]),
    ("elementwise", &["aten::upsample_nearest1d", "aten::upsample_nearest2d", "aten::upsample_nearest3d"]),
    ("reduce", &["aten::sum", "aten::mean", "aten::max", "aten::min", "aten::norm", "aten::linalg_norm", "aten::std"]),
    ("reduce", &["aten::var", "aten::logsumexp", "aten::cumsum", "aten::cumprod", "aten::amin", "aten::amax"]),
];

/// Category by name prefix, in this order after [`OPERATORS`].
pub(crate) const OPERATOR_PREFIXES: &[(&str, &str)] =
    &[("triton", "triton"), ("record_param_comms", "record_param_comms")];

/// Category by a part of a native PyTorch kernel's name, in this order, for operators that are not listed.
pub(crate) const NATIVE_KERNELS: &[(&str, &str)] =
    &[("elementwise", "elementwise"), ("reduce", "reduce"), ("multi_tensor_apply", "multi_tensor_apply")];

/// Namespace of PyTorch's native kernels.
pub const NATIVE_NAMESPACE: &str = "at::native::";

/// Name prefix of PyTorch's native kernels.
pub(crate) const NATIVE_KERNEL_PREFIX: &str = "void at::native";

/// Operators above that TraceLens classifies as [`crate::classify::OTHER`].
pub const TRACELENS_OTHER: &[&str] = &[
    "aten::_flash_attention_forward",
    "aten::_flash_attention_backward",
    "aten::_cudnn_attention_forward",
    "aten::_cudnn_attention_backward",
];
