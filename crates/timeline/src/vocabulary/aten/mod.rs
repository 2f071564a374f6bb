//! Names of PyTorch's ATen operators, grouped by function. Names are facts of its registry (`native_functions.yaml`).

pub mod constants;

/// Name prefix of ATen operators.
pub const PREFIX: &str = "aten::";

/// Name prefix of data types in C++ spelling.
pub(crate) const DATA_TYPE: &str = "c10::";

/// Copy of elements into an existing tensor.
pub const COPY: &str = "aten::copy_";
/// Conversion of type or device: the outer operator.
pub const TO: &str = "aten::to";
/// Copy of a conversion, called by [`TO`].
pub const TO_COPY: &str = "aten::_to_copy";
/// Copy without conversion.
pub const CLONE: &str = "aten::clone";
/// Read of elements by index.
pub const INDEX: &str = "aten::index";
/// Concatenation of tensors along a dimension.
pub const CAT: &str = "aten::cat";
/// Return of a tensor that was created from Python values.
pub const LIFT_FRESH: &str = "aten::lift_fresh";
/// Padding of sequences to the longest one.
pub const PAD_SEQUENCE: &str = "aten::pad_sequence";
/// In-place addition to a tensor.
pub const ADD_IN_PLACE: &str = "aten::add_";
/// Zeroing of a tensor.
pub const ZERO: &str = "aten::zero_";
/// Zeroing of each tensor of a list.
pub const FOREACH_ZERO: &str = "aten::_foreach_zero_";
/// Name prefix of operators on lists of tensors.
pub const FOREACH: &str = "aten::_foreach_";

/// Lookup of table rows.
pub const EMBEDDING: &[&str] =
    &["aten::embedding", "aten::embedding_bag", "aten::_embedding_bag", "aten::index_select"];
/// Backward of a lookup, with a dense gradient.
pub const EMBEDDING_BACKWARD: &[&str] = &["aten::embedding_dense_backward", "aten::_embedding_bag_dense_backward"];
/// Operators that create another tensor with the same values, or write them into one.
pub const COPIES: &[&str] = &[COPY, CLONE, "aten::detach", "detach"];
/// Matrix multiplication, and the transposition for it.
pub const MULTIPLIES: &[&str] =
    &["aten::linear", "aten::matmul", "aten::mm", "aten::addmm", "aten::t", "aten::transpose", "aten::einsum"];

/// First part of cross entropy.
pub const LOG_SOFTMAX: &str = "aten::_log_softmax";
/// Backward of [`LOG_SOFTMAX`].
pub const LOG_SOFTMAX_BACKWARD: &str = "aten::_log_softmax_backward_data";
/// Cross entropy as a whole.
pub const CROSS_ENTROPY: &str = "aten::cross_entropy_loss";
/// Name prefix of the loss of cross entropy.
pub const NLL_LOSS: &str = "aten::nll_loss";

/// Batched matrix multiplication.
pub const BATCHED_PRODUCTS: &[&str] = &["aten::bmm", "aten::baddbmm", "aten::baddbmm_"];
/// Softmax, forward and backward.
pub const SOFTMAX: &[&str] = &["aten::_softmax", "aten::_softmax_backward_data", "aten::_safe_softmax"];
/// Operators between the products of unfused attention, except softmax: scale, mask, casts, copies, dropout, and their
/// backward.
pub const BETWEEN_PRODUCTS: &[&str] = &[
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

/// Layer operators, whose inputs from the second on are parameters.
pub const LAYERS: &[&str] =
    &["aten::linear", "aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::_convolution", "aten::convolution"];

/// Operators that only read a value from the GPU.
pub const READS: &[&str] = &["aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"];
/// Operators that read the size of their result from the GPU.
pub const READS_SIZE: &[&str] = &["aten::nonzero", "aten::_unique2"];

/// Operators that assemble a batch.
pub const COLLATES: &[&str] = &["aten::stack", CAT];
/// Operators that gather tensors into one.
pub const GATHERS: &[&str] =
    &["aten::stack", CAT, "aten::concat", "aten::hstack", "aten::vstack", "aten::column_stack"];

/// Operators that are multithreaded on CPUs, for all shapes.
pub const THREADED: [&str; 14] = [
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

/// Name prefixes of operators that exist only on GPUs.
pub const GPU_ONLY: [&str; 6] = [
    "aten::cudnn_",
    "aten::miopen_",
    "aten::_fused_",
    "aten::_efficient_attention",
    "aten::_flash_attention",
    "aten::_cudnn_",
];

/// Operator name without [`PREFIX`]; `None` for operators outside ATen.
pub fn short_name(operator: &str) -> Option<&str> {
    operator.strip_prefix(PREFIX)
}

/// Test if an operator, or an autograd node, is fused attention, whose work grows with the square of the sequence
/// length.
pub fn is_attention(operator: &str) -> bool {
    let name = operator.replace('_', "").to_ascii_lowercase();
    ["scaleddotproduct", "flashattention", "efficientattention", "cudnnattention"]
        .iter()
        .any(|part| name.contains(part))
}

/// Test if an operator is one time step of a recurrent layer, for which an operator for whole sequences exists.
pub fn is_recurrent_cell(operator: &str) -> bool {
    matches!(short_name(operator), Some("lstm_cell" | "gru_cell" | "rnn_tanh_cell" | "rnn_relu_cell"))
}

/// Test if an operator may be a batched matrix product, which multiplies two matrices of each sample.
pub fn is_batched_product(operator: &str) -> bool {
    matches!(short_name(operator), Some("bmm" | "baddbmm" | "matmul" | "einsum"))
}

/// Test if an operator is a softmax, forward or backward.
pub fn is_softmax(operator: &str) -> bool {
    short_name(operator).is_some_and(|name| name.contains("softmax"))
}

/// Test if an operator may copy a tensor into another memory layout: `clone`, `contiguous` or `reshape`.
pub fn reorders(operator: &str) -> bool {
    operator == CLONE || matches!(short_name(operator), Some("contiguous" | "reshape"))
}

/// Test if an operator copies a tensor to another type or device.
pub fn converts(operator: &str) -> bool {
    operator == TO || operator == TO_COPY
}

/// Test by its name if an ATen operator computes gradients.
pub fn is_backward(operator: &str) -> bool {
    short_name(operator).is_some_and(|name| name.ends_with("_backward"))
}

/// Test if an operator is a convolution of cuDNN or MIOpen, or an ATen operator that may run one, forward or backward.
pub fn is_gpu_convolution(operator: &str) -> bool {
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
    fn gpu_convolutions() {
        for name in ["aten::cudnn_convolution_transpose", "aten::miopen_convolution", "aten::convolution_backward"] {
            assert!(is_gpu_convolution(name), "{name}");
        }
        assert!(!is_gpu_convolution("aten::conv2d") && !is_gpu_convolution("aten::mkldnn_convolution"));
    }
}
