//! Names of kernels that TorchInductor generates: `triton_poi_fused__unsafe_view_add_3` runs `_unsafe_view` and `add`.
//!
//! Inductor joins the names of the original ATen operators by `_`, each once and in ascending order (`get_fused_kernel_name`, with its
//! default `descriptive_names = "original_aten"`). Names of operators contain `_` themselves, so the parts are found by known names and by
//! the order: a part that would not ascend belongs to the name before it.

/// First parts of names, without the category of the kernel.
const PREFIX: &str = "triton_";
/// What follows the category.
const FUSED: &str = "fused";

/// Operators with `_` in their names that Inductor fuses; a name that is not here is split at each `_`. From ATen's
/// `native_functions.yaml`, PyTorch's functional collectives, and vLLM's custom operators.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward", "_cdist_forward", "_embedding_bag", "_flash_attention_forward",
    "_fused_rms_norm", "_fused_rms_norm_backward", "_local_scalar_dense", "_log_softmax", "_log_softmax_backward_data",
    "_native_batch_norm_legit", "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training", "_reshape_alias",
    "_safe_softmax", "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_cudnn_attention_backward",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_mm", "_softmax", "_softmax_backward_data", "_to_copy", "_unsafe_index",
    "_unsafe_index_put", "_unsafe_masked_index", "_unsafe_view", "_weight_norm_interface",
    "adaptive_avg_pool2d", "all_gather_into_tensor", "all_reduce", "all_to_all_single", "avg_pool2d", "avg_pool2d_backward",
    "batch_norm", "binary_cross_entropy", "binary_cross_entropy_backward", "binary_cross_entropy_with_logits", "bitwise_and",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "broadcast_to", "clamp_max", "clamp_min",
    "constant_pad_nd", "convert_element_type", "convolution_backward", "copy_", "cross_entropy_loss", "cudnn_batch_norm",
    "cudnn_batch_norm_backward", "diag_embed", "embedding_backward", "embedding_dense_backward", "empty_like", "empty_strided",
    "expand_as", "floor_divide", "full_like", "gelu_backward", "glu_backward", "grid_sampler_2d", "group_norm", "hardsigmoid_backward",
    "hardswish_backward", "hardtanh_backward", "huber_loss", "huber_loss_backward", "index_add", "index_copy", "index_fill",
    "index_put", "index_put_", "index_select", "inductor_lookup_seed", "inductor_random", "inductor_seeds", "kl_div", "layer_norm",
    "leaky_relu", "leaky_relu_backward", "lift_fresh", "lift_fresh_copy", "linalg_vector_norm", "log_softmax", "logical_and",
    "logical_not", "logical_or", "logical_xor", "masked_fill", "masked_scatter", "max_pool2d_with_indices",
    "max_pool2d_with_indices_backward", "moe_forward", "mse_loss", "mse_loss_backward", "native_batch_norm",
    "native_batch_norm_backward", "native_dropout", "native_dropout_backward", "native_group_norm", "native_group_norm_backward",
    "native_layer_norm", "native_layer_norm_backward", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros",
    "nll_loss", "nll_loss2d_backward", "nll_loss2d_forward", "nll_loss_backward", "nll_loss_forward", "one_hot", "ones_like",
    "pixel_shuffle", "rand_like", "randint_like", "randn_like", "reduce_scatter_tensor", "reflection_pad2d", "repeat_interleave",
    "rms_norm", "scalar_tensor", "scaled_dot_product_attention", "scatter_add", "scatter_reduce", "select_backward",
    "select_scatter", "sigmoid_backward", "silu_and_mul", "silu_backward", "slice_backward", "slice_scatter", "smooth_l1_loss",
    "smooth_l1_loss_backward", "softplus_backward", "split_with_sizes", "tanh_backward", "threshold_backward", "true_divide",
    "unified_attention", "unified_attention_with_output", "unsafe_split", "upsample_bicubic2d", "upsample_bilinear2d",
    "upsample_nearest2d", "var_mean", "view_as", "view_as_complex", "view_as_real", "wait_tensor", "zeros_like",
];

/// The original operators of a kernel of Inductor by its name, in the order of the name. None of other kernels, and of those whose name
/// tells none (`triton_poi_fused_0`).
pub(crate) fn original_operators(kernel: &str) -> Option<Vec<String>> {
    let (_category, rest) = kernel.strip_prefix(PREFIX)?.split_once('_')?;
    let (joined, number) = rest.strip_prefix(FUSED)?.rsplit_once('_')?;
    let is_numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let operators = split(joined.strip_prefix('_').filter(|_| is_numbered)?);
    (!operators.is_empty()).then_some(operators)
}

/// Names of operators that are joined by `_`.
fn split(joined: &str) -> Vec<String> {
    let parts: Vec<&str> = joined.split('_').collect();
    let mut operators: Vec<String> = Vec::new();
    let mut at = 0;
    while at < parts.len() {
        // Underscores sort before letters: behind a letter an empty part is the end of a name (`copy_`), else the begin of one.
        let is_end = parts[at].is_empty() && operators.last().is_some_and(|last| !last.starts_with('_'));
        let count = if is_end { 1 } else { length(&parts[at..]) };
        let name = parts[at..at + count].join("_");
        match operators.last_mut() {
            Some(last) if is_end || *last >= name => {
                last.push('_');
                last.push_str(&name);
            }
            _ => operators.push(name),
        }
        at += count;
    }
    operators.retain(|name| !name.is_empty());
    operators
}

/// How many parts the first name has: as many as the longest known one, else one, with the underscore that it begins with.
fn length(parts: &[&str]) -> usize {
    let least = if parts[0].is_empty() { 2.min(parts.len()) } else { 1 };
    let is_known = |count: &usize| NAMES.contains(&parts[..*count].join("_").as_str());
    (least + 1..=parts.len()).rev().find(is_known).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn operators(kernel: &str) -> String {
        original_operators(kernel).unwrap_or_default().join(" ")
    }

    /// Names of the corpus.
    #[test]
    fn kernels_of_real_programs() {
        for (kernel, expected) in [
            ("triton_red_fused_add_mean_mul_pow_rsqrt_0", "add mean mul pow rsqrt"),
            ("triton_red_fused__unsafe_view_add_mean_mul_pow_rsqrt_1", "_unsafe_view add mean mul pow rsqrt"),
            ("triton_poi_fused__unsafe_view_mul_silu_2", "_unsafe_view mul silu"),
            (
                "triton_per_fused__unsafe_view_add_clone_convolution_native_layer_norm_slice_transpose_view_5",
                "_unsafe_view add clone convolution native_layer_norm slice transpose view",
            ),
            (
                "triton_poi_fused__scaled_dot_product_flash_attention_cat_transpose_view_10",
                "_scaled_dot_product_flash_attention cat transpose view",
            ),
            ("triton_poi_fused_constant_pad_nd_moe_forward_0", "constant_pad_nd moe_forward"),
            ("triton_poi_fused__to_copy_1", "_to_copy"),
            (
                "triton_poi_fused_add_bitwise_and_bitwise_not_bitwise_or_ge_lt_mul_sub_0",
                "add bitwise_and bitwise_not bitwise_or ge lt mul sub",
            ),
            ("triton_poi_fused_0", ""),
        ] {
            assert_eq!(operators(kernel), expected, "{kernel}");
        }
    }

    #[test]
    fn parts_that_do_not_ascend_belong_to_the_name_before() {
        assert_eq!(operators("triton_poi_fused_add_my_custom_copy_view_7"), "add my_custom_copy view");
        assert_eq!(operators("triton_poi_fused_add_copy__mul_3"), "add copy_ mul");
        assert_eq!(operators("triton_poi_fused_add_copy__3"), "add copy_");
        assert_eq!(operators("triton_poi_fused__unknown_thing_add_3"), "_unknown thing_add");
    }

    #[test]
    fn other_names_tell_nothing() {
        for name in [
            "triton__0d1d2d3de",
            "triton_poi_fused_add_mul",
            "gemm_fused_add_0",
            "triton_poi_",
            "triton_poi_fused_add_0d1d2de",
        ] {
            assert_eq!(original_operators(name), None, "{name}");
        }
    }

    #[test]
    fn known_names_are_sorted_and_have_underscores() {
        assert!(NAMES.is_sorted() && NAMES.iter().all(|name| name.contains('_')));
    }

    proptest! {
        /// Whatever set of known names and single words is joined, as Inductor joins them, comes back, unless two of them are one known name.
        #[test]
        fn known_names_come_back(chosen in prop::collection::btree_set(0..NAMES.len() + 6, 1..6)) {
            let words = ["abs", "cat", "exp", "mm", "relu", "view"];
            let name = |at: usize| NAMES.get(at).copied().unwrap_or_else(|| words[at - NAMES.len()]);
            let mut names: Vec<&str> = chosen.into_iter().map(name).collect();
            names.sort_unstable();
            let joined = names.join("_");
            let is_ambiguous = NAMES.iter().any(|known| joined.contains(known) && !names.iter().any(|name| name.contains(known)));
            prop_assume!(!is_ambiguous && names.iter().all(|name| !name.ends_with('_')));
            prop_assert_eq!(operators(&format!("triton_poi_fused_{joined}_0")), names.join(" "));
        }
    }
}
