//! PyTorch: operators of ATen by what they do. Names are facts of its registry (`native_functions.yaml`).

pub(crate) mod constants;

/// How names of ATen's operators begin.
pub(crate) const PREFIX: &str = "aten::";

/// How names of data types begin where they are spelled as in C++.
pub(crate) const DATA_TYPE: &str = "c10::";

/// Copy elements into a tensor that is there.
pub(crate) const COPY: &str = "aten::copy_";
/// Change type or device, if need be: the outer operator, and the one that copies.
pub(crate) const TO: &str = "aten::to";
pub(crate) const TO_COPY: &str = "aten::_to_copy";
/// Copy as it is.
pub(crate) const CLONE: &str = "aten::clone";
/// Read elements by index.
pub(crate) const INDEX: &str = "aten::index";
/// Join tensors along a dimension.
pub(crate) const CAT: &str = "aten::cat";
/// Hand a tensor out that was made of Python values.
pub(crate) const LIFT_FRESH: &str = "aten::lift_fresh";
/// Pad sequences to the longest one.
pub(crate) const PAD_SEQUENCE: &str = "aten::pad_sequence";
/// Add to a tensor in place.
pub(crate) const ADD_IN_PLACE: &str = "aten::add_";
/// Set a tensor, or each of a list, to zero.
pub(crate) const ZERO: &str = "aten::zero_";
pub(crate) const FOREACH_ZERO: &str = "aten::_foreach_zero_";
/// How names of operators on lists of tensors begin.
pub(crate) const FOREACH: &str = "aten::_foreach_";

/// Look rows of a table up; the backward of that with a dense gradient.
pub(crate) const EMBEDDING: &[&str] =
    &["aten::embedding", "aten::embedding_bag", "aten::_embedding_bag", "aten::index_select"];
pub(crate) const EMBEDDING_BACKWARD: &[&str] =
    &["aten::embedding_dense_backward", "aten::_embedding_bag_dense_backward"];
/// Make another tensor of the same values, or write them into one.
pub(crate) const COPIES: &[&str] = &[COPY, CLONE, "aten::detach", "detach"];
/// Multiply by a matrix, or turn it for that.
pub(crate) const MULTIPLIES: &[&str] =
    &["aten::linear", "aten::matmul", "aten::mm", "aten::addmm", "aten::t", "aten::transpose", "aten::einsum"];

/// Cross entropy: its parts, its whole, and how names of the loss itself begin.
pub(crate) const LOG_SOFTMAX: &str = "aten::_log_softmax";
pub(crate) const LOG_SOFTMAX_BACKWARD: &str = "aten::_log_softmax_backward_data";
pub(crate) const CROSS_ENTROPY: &str = "aten::cross_entropy_loss";
pub(crate) const NLL_LOSS: &str = "aten::nll_loss";

/// Multiply batches of matrices.
pub(crate) const BATCHED_PRODUCTS: &[&str] = &["aten::bmm", "aten::baddbmm", "aten::baddbmm_"];
/// Softmax, forward and backward.
pub(crate) const SOFTMAX: &[&str] = &["aten::_softmax", "aten::_softmax_backward_data", "aten::_safe_softmax"];
/// What attention written out runs between its products besides softmax: scale, mask, casts, copies, dropout, and their
/// backward.
pub(crate) const BETWEEN_PRODUCTS: &[&str] = &[
    "aten::mul",
    "aten::mul_",
    "aten::div",
    "aten::div_",
    "aten::add",
    ADD_IN_PLACE,
    "aten::sub",
    "aten::rsub",
    "aten::maximum",
    "aten::where",
    "aten::eq",
    "aten::fill_",
    "aten::masked_fill",
    "aten::masked_fill_",
    COPY,
    "aten::native_dropout",
    "aten::native_dropout_backward",
    "aten::_fused_dropout",
    "aten::_masked_scale",
    "aten::bernoulli_",
];

/// Apply a layer: inputs from the second on are parameters.
pub(crate) const LAYERS: &[&str] =
    &["aten::linear", "aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::_convolution", "aten::convolution"];

/// Do nothing but read a value of the GPU.
pub(crate) const READS: &[&str] = &["aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"];
/// Read the size of their result.
pub(crate) const READS_SIZE: &[&str] = &["aten::nonzero", "aten::_unique2"];

/// Put a batch together.
pub(crate) const COLLATES: &[&str] = &["aten::stack", CAT];
/// Gather tensors into one.
pub(crate) const GATHERS: &[&str] =
    &["aten::stack", CAT, "aten::concat", "aten::hstack", "aten::vstack", "aten::column_stack"];

/// On a CPU, divide their work among threads, however it is shaped.
pub(crate) const THREADED: [&str; 14] = [
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    "aten::_softmax",
    "aten::addmm",
    "aten::baddbmm",
    "aten::bmm",
    "aten::convolution_backward",
    "aten::mkldnn_convolution",
    "aten::mkldnn_linear",
    "aten::mm",
    "aten::native_batch_norm",
    "aten::native_layer_norm",
    "aten::native_layer_norm_backward",
    "aten::thnn_conv2d",
];

/// How names of operators begin that only GPUs have.
pub(crate) const OF_GPUS: [&str; 6] = [
    "aten::cudnn_",
    "aten::miopen_",
    "aten::_fused_",
    "aten::_efficient_attention",
    "aten::_flash_attention",
    "aten::_cudnn_",
];

/// An operator's name without [`PREFIX`]; `None` if it is none of ATen's.
pub(crate) fn short_name(operator: &str) -> Option<&str> {
    operator.strip_prefix(PREFIX)
}

/// Whether an operator, or a node of autograd, is attention as one: its work grows with the square of sequences' lengths.
pub(crate) fn is_attention(operator: &str) -> bool {
    let name = operator.replace('_', "").to_ascii_lowercase();
    ["scaleddotproduct", "flashattention", "efficientattention", "cudnnattention"]
        .iter()
        .any(|part| name.contains(part))
}

/// Whether an operator is one step of a recurrent layer, of which there is an operator for the whole sequence.
pub(crate) fn is_recurrent_cell(operator: &str) -> bool {
    matches!(short_name(operator), Some("lstm_cell" | "gru_cell" | "rnn_tanh_cell" | "rnn_relu_cell"))
}

/// Whether an operator may multiply a matrix of each sample with another one of it.
pub(crate) fn is_batched_product(operator: &str) -> bool {
    matches!(short_name(operator), Some("bmm" | "baddbmm" | "matmul" | "einsum"))
}

/// Whether an operator is a softmax, or its backward.
pub(crate) fn is_softmax(operator: &str) -> bool {
    short_name(operator).is_some_and(|name| name.contains("softmax"))
}

/// Whether an operator copies a tensor into another order of elements.
pub(crate) fn reorders(operator: &str) -> bool {
    operator == CLONE || matches!(short_name(operator), Some("contiguous" | "reshape"))
}

/// Whether an operator copies a tensor to another type or device.
pub(crate) fn converts(operator: &str) -> bool {
    operator == TO || operator == TO_COPY
}

/// Whether an operator computes gradients, by its own name.
pub(crate) fn is_backward(operator: &str) -> bool {
    short_name(operator).is_some_and(|name| name.ends_with("_backward"))
}

/// Whether an operator is a convolution of cuDNN or MIOpen, forward or backward.
pub(crate) fn is_gpu_convolution(operator: &str) -> bool {
    short_name(operator).is_some_and(|name| {
        name.starts_with("cudnn_convolution")
            || name.starts_with("miopen_convolution")
            || name.starts_with("miopen_depthwise_convolution")
            || matches!(name, "_convolution" | "convolution_backward")
    })
}

#[cfg(test)]
mod tests {
    use super::is_gpu_convolution;

    #[test]
    fn convolutions_of_gpus() {
        for name in ["aten::cudnn_convolution_transpose", "aten::miopen_convolution", "aten::convolution_backward"] {
            assert!(is_gpu_convolution(name), "{name}");
        }
        assert!(!is_gpu_convolution("aten::conv2d") && !is_gpu_convolution("aten::mkldnn_convolution"));
    }
}
