//! Effects of operators on their tensors' memory (views, writes, updates), by the operators' names.

use super::operators::Input;
use stackline_model::AccessMode;

/// Operators that create a view of another tensor's memory, without accesses.
const VIEWS: &[&str] = &[
    "H",
    "T",
    "_conj",
    "_neg_view",
    "_reshape_alias",
    "_unsafe_view",
    "adjoint",
    "alias",
    "align_as",
    "align_to",
    "as_strided",
    "as_strided_",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_to",
    "chunk",
    "conj",
    "contiguous",
    "detach",
    "detach_",
    "diagonal",
    "dsplit",
    "expand",
    "expand_as",
    "flatten",
    "hsplit",
    "imag",
    "is_same_size",
    "lift",
    "lift_fresh",
    "mH",
    "mT",
    "matrix_H",
    "moveaxis",
    "movedim",
    "narrow",
    "numpy_T",
    "permute",
    "positive",
    "ravel",
    "real",
    "refine_names",
    "rename",
    "rename_",
    "requires_grad_",
    "reshape",
    "reshape_as",
    "resize_",
    "resolve_conj",
    "resolve_neg",
    "result_type",
    "select",
    "set_",
    "set_data",
    "size",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "squeeze_",
    "stride",
    "swapaxes",
    "swapaxes_",
    "swapdims",
    "swapdims_",
    "t",
    "t_",
    "tensor_split",
    "to",
    "transpose",
    "transpose_",
    "unbind",
    "unflatten",
    "unfold",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "unsqueeze",
    "unsqueeze_",
    "values",
    "view",
    "view_as",
    "view_as_complex",
    "view_as_real",
    "vsplit",
];

/// Operators that take the sizes of a tensor and leave the rest to inner operators.
const SIZE_OF_INPUT: &[&str] = &[
    "full_like",
    "new_full",
    "new_ones",
    "new_zeros",
    "ones_like",
    "rand_like",
    "randint_like",
    "randn_like",
    "zeros_like",
];

/// Operators that create a tensor without writing it.
const EMPTIES: &[&str] =
    &["empty", "empty_like", "empty_permuted", "empty_quantized", "empty_strided", "new_empty", "new_empty_strided"];

/// Operators that write their first argument without reading it.
const FILLS: &[&str] = &[
    "bernoulli_",
    "cauchy_",
    "copy_",
    "exponential_",
    "eye_",
    "fill_",
    "geometric_",
    "log_normal_",
    "normal_",
    "random_",
    "uniform_",
    "zero_",
    "_foreach_zero_",
    "_foreach_copy_",
];

/// Arguments that operators read and write, which neither name nor position shows.
const UPDATED: &[(&str, &[u8])] = &[
    ("aten::native_batch_norm", &[3, 4]),
    ("aten::_native_batch_norm_legit", &[3, 4]),
    ("aten::cudnn_batch_norm", &[3, 4]),
    ("aten::miopen_batch_norm", &[3, 4]),
    ("aten::_fused_adam_", &[0, 2, 3, 4, 5]),
    ("aten::_fused_adamw_", &[0, 2, 3, 4, 5]),
    ("aten::_fused_sgd_", &[0, 2]),
    ("aten::_fused_adagrad_", &[0, 2, 3]),
];

/// Check if an operator reads and writes an argument although its name does not show it.
fn updates(name: &str, argument: u8) -> bool {
    UPDATED.iter().any(|(known, arguments)| *known == name && arguments.contains(&argument))
}

/// Operators that return no tensor.
const RETURN_NUMBERS: &[&str] =
    &["_local_scalar_dense", "equal", "is_nonzero", "item", "allclose", "_assert_async", "is_set_to"];

/// Check if an operator returns no tensor by design.
pub(super) fn only_returns_numbers(name: &str) -> bool {
    name.strip_prefix("aten::").is_some_and(|own| RETURN_NUMBERS.contains(&own))
}

/// Effect of an operator on the memory of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// No access: the operator creates a view or only allocates. Inner operators may do more.
    Nothing,
    /// Read all arguments.
    Reads,
    /// Write the first argument and read the others.
    Fills,
    /// Read and write the first argument, and read the others.
    Updates,
}

/// Determine an operator's effect on memory by its name with the namespace, such as `aten::add_`. A name without a
/// namespace is PyTorch's own, too (`detach`).
pub(super) fn effect(name: &str) -> Effect {
    let (space, own) = name.split_once("::").unwrap_or(("aten", name));
    let is_aten = space == "aten";
    if is_aten && [VIEWS, EMPTIES, SIZE_OF_INPUT].iter().any(|names| names.contains(&own)) {
        Effect::Nothing
    } else if is_aten && FILLS.contains(&own) {
        Effect::Fills
    } else if own.ends_with('_') && !own.ends_with("__") || INPLACE_WITHOUT_MARK.contains(&own) {
        Effect::Updates
    } else {
        Effect::Reads
    }
}

/// Operators that change their first argument, which their names do not show.
const INPLACE_WITHOUT_MARK: &[&str] = &["__iadd__", "__imul__", "__isub__", "__iand__", "__ior__", "__ixor__"];

/// Access mode of an input by the operator's effect, name and output argument; a partly written output is both.
pub(super) fn access_mode(effect: Effect, name: &str, (input, whole): (Input, bool), output: Option<u8>) -> AccessMode {
    match effect {
        _ if updates(name, input.argument) => AccessMode::Both,
        Effect::Fills if input.argument == 0 => AccessMode::Write,
        Effect::Updates if input.argument == 0 => AccessMode::Both,
        // If a part is written, the rest keeps its content.
        _ if output == Some(input.argument) => {
            if whole {
                AccessMode::Write
            } else {
                AccessMode::Both
            }
        }
        _ => AccessMode::Read,
    }
}

#[cfg(test)]
mod tests {
    use super::{Effect, effect};

    #[test]
    fn effects_follow_from_operator_names() {
        let names = [
            "aten::view",
            "detach",
            "aten::as_strided_",
            "aten::zeros_like",
            "aten::mm",
            "aten::add_",
            "aten::zero_",
            "aten::__iadd__",
            "mine::view",
        ];
        let expected = [
            Effect::Nothing,
            Effect::Nothing,
            Effect::Nothing,
            Effect::Nothing,
            Effect::Reads,
            Effect::Updates,
            Effect::Fills,
            Effect::Updates,
            Effect::Reads,
        ];
        assert_eq!(names.map(effect), expected);
    }
}
