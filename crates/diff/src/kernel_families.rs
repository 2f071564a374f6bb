//! Kernel families, such as matrix multiplication, by kernel name, common to libraries of different vendors. The rules
//! are data; the first match wins.

use stackline_model::{EventId, EventKind, Trace};
use stackline_timeline::kernel_type::{KernelType, RULES, by_name, is_fill};

/// Families with parts of kernel names in lower case, any of which must match.
const FAMILIES: &[(&str, &[&str])] = &[
    ("attention", &["flash", "attn_fwd", "attn_bwd", "attention", "fmha", "sdpa", "bwd_kernel_dk_dv", "bwd_kernel_dq"]),
    ("convolution", &["conv", "miopensp3", "winograd", "wgrad", "dgrad", "naive_conv", "im2col", "col2im"]),
    (
        "gemm",
        &[
            "gemm",
            "cijk_",
            "nvjet",
            "xmma",
            "cutlass",
            "cublas",
            "gemv",
            "splitk",
            "matmul",
            "mfma",
            "hgemm",
            "dot_kernel",
        ],
    ),
    (
        "normalization",
        &["layer_norm", "layernorm", "batch_norm", "batchnorm", "rms_norm", "rmsnorm", "group_norm", "bn_fw", "bn_bw"],
    ),
    ("softmax", &["softmax"]),
    ("optimizer", &["multi_tensor_apply", "adam", "sgd"]),
    ("loss", &["nll_loss", "cross_entropy"]),
    ("embedding", &["embedding"]),
    ("pooling", &["pool"]),
    ("sort", &["sort", "topk", "radix", "scan"]),
    ("index", &["index", "gather", "scatter", "nonzero", "where"]),
    ("concatenation", &["catarray", "cat_"]),
    ("reduction", &["reduce"]),
    ("random", &["philox", "distribution", "dropout", "random"]),
    ("elementwise", &["elementwise", "pointwise", "triton_poi"]),
    ("triton", &["triton_"]),
];

/// Family of a GPU operation. The families `copy`, `fill` and `communication` are found by record and library,
/// arithmetic by name; everything else is `other`.
#[must_use]
pub(crate) fn kernel_family(trace: &Trace, event: EventId) -> &'static str {
    match trace.kind(event) {
        EventKind::Memcpy => return "copy",
        EventKind::Memset => return "fill",
        _ => {}
    }
    let name = trace.name(event);
    match by_name(RULES, name) {
        KernelType::Communication => "communication",
        KernelType::Memory if is_fill(trace, event) => "fill",
        KernelType::Memory => "copy",
        _ => arithmetic(name),
    }
}

/// Family of a computing kernel by its name; `other` if no rule matches.
fn arithmetic(name: &str) -> &'static str {
    // "convert" does not indicate a convolution.
    let name = name.to_ascii_lowercase().replace("convert", "");
    let found = FAMILIES.iter().find(|(_, parts)| parts.iter().any(|part| name.contains(part)));
    found.map_or("other", |(family, _)| family)
}

#[cfg(test)]
mod tests {
    use super::arithmetic;

    #[test]
    fn nvidia_and_amd_names() {
        for (family, names) in [
            (
                "gemm",
                &["sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV", "nvjet_tst_128x"]
                    [..],
            ),
            ("attention", &["void pytorch_flash::flash_fwd_kernel<x>", "attn_fwd", "fmha_cutlassF_bf16"]),
            ("elementwise", &["void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>"]),
            ("reduction", &["void at::native::reduce_kernel<512, 1>"]),
            ("normalization", &["void at::native::(anonymous namespace)::vectorized_layer_norm_kernel"]),
            ("convolution", &["miopenSp3AsmConv_v30_3_1", "implicit_convolve_sgemm"]),
            ("other", &["my_kernel", "void cudnn::ops::convertTensor_kernel<float>"]),
        ] {
            for name in names {
                assert_eq!(arithmetic(name), family, "{name}");
            }
        }
    }
}
