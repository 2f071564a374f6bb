//! Names of TorchInductor's kernels: `triton_poi_fused__unsafe_view_add_3` runs `_unsafe_view` and `add`.
//!
//! Inductor joins the names of the original ATen operators by `_`, each once and in ascending order
//! (`get_fused_kernel_name`, with its default `descriptive_names = "original_aten"`). Operator names contain `_`
//! themselves, so they are separated by known names and by the order: a part that would not ascend belongs to the
//! previous name.

mod names;

use names::NAMES;

/// First part of names, before the category of the kernel.
const PREFIX: &str = "triton_";
/// Part of names after the category.
const FUSED: &str = "fused";

/// Number of parts of the longest known name, separated by `_`.
const MOST_PARTS: usize = 9;

/// Original operators of an Inductor kernel by its name, in the order of the name, and true if all of them are known
/// ([`NAMES`]). Unknown ones may be parts of a name, or several. None for other kernels, and for names without
/// operators (`triton_poi_fused_0`).
pub(crate) fn original_operators(kernel: &str) -> Option<(Vec<String>, bool)> {
    let (_category, rest) = kernel.strip_prefix(PREFIX)?.split_once('_')?;
    let (joined, number) = rest.strip_prefix(FUSED)?.rsplit_once('_')?;
    let is_numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let operators = split_operators(joined.strip_prefix('_').filter(|_| is_numbered)?);
    let are_known = operators.iter().all(|name| is_known(name) || name.strip_suffix('_').is_some_and(is_known));
    (!operators.is_empty()).then_some((operators, are_known))
}

/// Split operator names that are joined by `_`. Adjacent unknown parts form one name.
fn split_operators(joined: &str) -> Vec<String> {
    let parts: Vec<&str> = joined.split('_').collect();
    let mut operators: Vec<String> = Vec::new();
    let (mut at, mut was_known) = (0, true);
    while at < parts.len() {
        // Underscores sort before letters: after a letter, an empty part is the end of a name (`copy_`), else the begin
        // of one.
        let is_end = parts[at].is_empty() && operators.last().is_some_and(|last| !last.starts_with('_'));
        let (count, is_known) = if is_end { (1, was_known) } else { first_name_length(&parts[at..]) };
        let name = parts[at..at + count].join("_");
        match operators.last_mut() {
            Some(last) if is_end || *last >= name || !is_known && !was_known => {
                last.push('_');
                last.push_str(&name);
            }
            _ => operators.push(name),
        }
        (at, was_known) = (at + count, is_known);
    }
    operators.retain(|name| !name.is_empty());
    operators
}

/// Number of parts of the first operator name in `parts`, and true if the name is known. The longest known name is
/// taken, else one part with its leading underscore.
fn first_name_length(parts: &[&str]) -> (usize, bool) {
    let least = if parts[0].is_empty() { 2.min(parts.len()) } else { 1 };
    let is_name = |count: &usize| is_known(&parts[..*count].join("_"));
    let known = (1..=parts.len().min(MOST_PARTS)).rev().find(is_name);
    (known.unwrap_or(least), known.is_some())
}

/// True if a text is the name of an operator that Inductor fuses ([`NAMES`]).
fn is_known(name: &str) -> bool {
    NAMES.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn operators(kernel: &str) -> String {
        original_operators(kernel).unwrap_or_default().0.join(" ")
    }

    /// Kernel names of the corpus.
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
    }

    #[test]
    fn operators_of_aten_with_underscores_are_one_each() {
        for (kernel, expected) in [
            ("triton_poi_fused_add_nan_to_num_0", "add nan_to_num"),
            ("triton_per_fused_log_sigmoid_forward_sum_1", "log_sigmoid_forward sum"),
            ("triton_poi_fused_as_strided_mul_0", "as_strided mul"),
            ("triton_poi_fused_avg_pool3d_relu_2", "avg_pool3d relu"),
            ("triton_poi_fused_add_max_pool3d_with_indices_2", "add max_pool3d_with_indices"),
            ("triton_poi_fused_adaptive_max_pool2d_add_2", "adaptive_max_pool2d add"),
            ("triton_poi_fused_cat_pixel_unshuffle_2", "cat pixel_unshuffle"),
            ("triton_poi_fused__grouped_mm_add_2", "_grouped_mm add"),
            ("triton_poi_fused_mul_quantize_per_tensor_2", "mul quantize_per_tensor"),
        ] {
            assert_eq!(operators(kernel), expected, "{kernel}");
            assert!(original_operators(kernel).is_some_and(|(_, are_known)| are_known), "{kernel}");
        }
    }

    #[test]
    fn unknown_parts_are_one_guessed_name() {
        for (kernel, expected) in [
            ("triton_poi_fused__unknown_thing_add_3", "_unknown_thing add"),
            ("triton_poi_fused_add_big_new_thing_mul_3", "add big_new_thing mul"),
            ("triton_poi_fused_add_my_custom_copy_view_7", "add my_custom_copy view"),
        ] {
            assert_eq!(operators(kernel), expected, "{kernel}");
            assert!(original_operators(kernel).is_some_and(|(_, are_known)| !are_known), "{kernel}");
        }
    }

    /// A damaged file may have very long names.
    #[test]
    fn parsing_time_is_linear_in_name_length() {
        let kernel = format!("triton_poi_fused_{}0", "a_".repeat(200_000));
        assert_eq!(
            original_operators(&kernel).map(|(operators, are_known)| (operators.len(), are_known)),
            Some((1, false))
        );
    }

    #[test]
    fn other_names_have_no_operators() {
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
    fn known_names_are_sorted_and_bounded() {
        assert!(NAMES.is_sorted_by(|a, b| a < b));
        assert_eq!(NAMES.iter().map(|name| name.split('_').count()).max(), Some(MOST_PARTS));
    }

    proptest! {
        /// Any set of known names, joined as by Inductor, is restored, unless two of them form a known name.
        #[test]
        fn known_names_are_recognized(chosen in prop::collection::btree_set(0..NAMES.len(), 1..6)) {
            let names: Vec<&str> = chosen.into_iter().map(|at| NAMES[at]).collect();
            let joined = names.join("_");
            let is_ambiguous = NAMES.iter().any(|known| joined.contains(known) && !names.iter().any(|name| name.contains(known)));
            prop_assume!(!is_ambiguous && names.iter().all(|name| !name.ends_with('_')));
            prop_assert_eq!(operators(&format!("triton_poi_fused_{joined}_0")), names.join(" "));
        }
    }
}
