//! Names of PyTorch's C++ frames in the notation of its profiler: `aten::div`, `MeanBackward0`.
//!
//! Memory snapshots with `stacks="all"` contain symbols of libtorch. Their arguments and template parameters name other
//! functions, so only the qualified name before them counts.

/// Namespace of the functions that run operators, before the operator's name and overload.
const OPERATORS: &str = "at::_ops::";

/// Lower-case overloads at the end of names in `at::_ops`. Upper-case ones (`Tensor`, `Scalar_out`) are recognized by
/// their case.
const OVERLOADS: [&str; 18] = [
    "_memory_format",
    "_correction",
    "_generator",
    "_dimname",
    "_layout",
    "_device",
    "_dtype",
    "_other",
    "_names",
    "_value",
    "_self",
    "_dim",
    "_int",
    "_out",
    "_src",
    "_source",
    "_default",
    "_mode",
];

/// Operator that a C++ entry function dispatches: `div` of `at::_ops::div_Tensor::call(at::Tensor const&, …)`, which
/// the profiler calls `aten::div`. None for other functions.
pub fn operator(function: &str) -> Option<&str> {
    let (name, _) = qualified(function).strip_prefix(OPERATORS)?.split_once("::")?;
    let is_overload = |at: &usize| name.as_bytes().get(at + 1).is_some_and(u8::is_ascii_uppercase);
    let mut name =
        name.match_indices('_').map(|(at, _)| at).find(|at| *at > 0 && is_overload(at)).map_or(name, |at| &name[..at]);
    while let Some(shorter) =
        OVERLOADS.iter().find_map(|end| name.strip_suffix(end)).filter(|shorter| !shorter.is_empty())
    {
        name = shorter;
    }
    Some(name)
}

/// Node of the autograd graph that a C++ function runs: `MeanBackward0` of
/// `torch::autograd::generated::MeanBackward0::apply(…)`, `AccumulateGrad`, the user's class of
/// `torch::autograd::CppNode<MyFunction>::apply(…)`. None for other functions.
pub fn autograd_node(function: &str) -> Option<&str> {
    if let Some(rest) = function.strip_prefix("torch::autograd::CppNode<") {
        return rest.split_once(">::apply").map(|(class, _)| last_part(class));
    }
    let name = qualified(function).strip_prefix("torch::autograd::")?;
    let name = name.strip_prefix("generated::").unwrap_or(name);
    let first = name.split("::").next().unwrap_or(name);
    let first = first.split_once("_apply_functional").map_or(first, |(node, _)| node);
    let digits = first.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_node = digits.ends_with("Backward") || digits.ends_with("Backwards") || first == "AccumulateGrad";
    is_node.then_some(first)
}

/// True if a C++ function, or a span, is the engine that runs the backward pass.
pub fn is_autograd_engine(function: &str) -> bool {
    is_native_autograd_engine(function) || function.starts_with("autograd::engine::")
}

/// True if a function is a C++ function of the engine that runs the backward pass.
pub fn is_native_autograd_engine(function: &str) -> bool {
    function.starts_with("torch::autograd::Engine::")
}

/// True if a C++ function belongs to the allocator, to call-path capture, or to generic tensor creation: it does not
/// identify the caller.
pub fn is_allocation_plumbing(function: &str) -> bool {
    const PARTS: [&str; 10] = [
        "CapturedTraceback",
        "unwind::unwind",
        "gather_with_cpp",
        "__libc_start",
        "CachingAllocator",
        "CachingHostAllocator",
        "at::detail::",
        "_empty_generic",
        "_empty_strided_generic",
        "c10::impl::wrap_kernel_functor",
    ];
    PARTS.iter().any(|part| function.contains(part)) || function == "_start" || function.starts_with("c10::Allocator::")
}

/// True if a C++ function is autocast's copy of an argument into a lower precision. Copies of weights are cached until
/// the outermost `autocast` ends; other copies live while they are used.
pub fn is_autocast_copy(function: &str) -> bool {
    function.starts_with("at::autocast::cached_cast(")
}

/// Qualified name of a C++ function, without its arguments, template parameters and return type.
pub fn qualified(function: &str) -> &str {
    let function = function.split_once(['(', '<']).map_or(function, |(name, _)| name);
    function.rsplit_once(' ').map_or(function, |(_, name)| name)
}

/// Last part of a qualified C++ name, without its namespaces.
fn last_part(class: &str) -> &str {
    class.rsplit("::").next().unwrap_or(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_lose_their_overloads() {
        for (name, expected) in [
            ("div_Tensor::call", "div"),
            ("add__Tensor::redispatch", "add_"),
            ("_to_copy::call", "_to_copy"),
            ("sum_dim_IntList::redispatch", "sum"),
            ("pow_Tensor_Scalar::call", "pow"),
            ("to_dtype_layout::call", "to"),
            ("empty_memory_format::call", "empty"),
            ("empty_strided::call", "empty_strided"),
            ("zeros_like::call", "zeros_like"),
            ("linalg_vector_norm::call", "linalg_vector_norm"),
            ("_log_softmax_backward_data::call", "_log_softmax_backward_data"),
            ("native_layer_norm_backward::call", "native_layer_norm_backward"),
            ("__and___Tensor::call", "__and__"),
            ("_foreach_mul__Scalar::call", "_foreach_mul_"),
            ("mean_dim::call", "mean"),
        ] {
            assert_eq!(operator(&format!("at::_ops::{name}(at::Tensor const&, std::vector<int>)")), Some(expected));
        }
        for other in ["at::native::div(at::Tensor const&)", "f<at::_ops::div_Tensor::call>()", "at::_ops::", "", "step"]
        {
            assert_eq!(operator(other), None, "{other}");
        }
    }

    #[test]
    fn nodes_of_every_kind() {
        for (function, expected) in [
            ("torch::autograd::generated::MeanBackward0::apply(std::vector<at::Tensor> &&)", "MeanBackward0"),
            (
                "torch::autograd::generated::SelectBackward0_apply_functional(std::vector<at::Tensor>)",
                "SelectBackward0",
            ),
            ("torch::autograd::CopyBackwards_apply_functional(std::vector<at::Tensor>)", "CopyBackwards"),
            ("torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)", "AccumulateGrad"),
            ("torch::autograd::CppNode<my::Attention>::apply(std::vector<at::Tensor>&&)", "Attention"),
            ("torch::autograd::generated::NllLossBackward::apply()", "NllLossBackward"),
        ] {
            assert_eq!(autograd_node(function), Some(expected));
        }
        for other in [
            "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::generated::MulBackward0>&)",
            "torch::autograd::Node::operator()(std::vector<at::Tensor>&&)",
            "MyBackward",
        ] {
            assert_eq!(autograd_node(other), None, "{other}");
        }
        assert!(is_autograd_engine("torch::autograd::Engine::thread_main(std::shared_ptr<int> const&)"));
    }

    #[test]
    fn allocation_plumbing_has_no_operator() {
        let malloc = "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(signed char, unsigned long, CUstream_st*)";
        assert!(
            is_allocation_plumbing(malloc) && is_allocation_plumbing("at::detail::empty_cuda(c10::ArrayRef<long>)")
        );
        assert!(!is_allocation_plumbing("at::cuda::getNewWorkspace()") && !is_allocation_plumbing("step"));
        assert!(is_autocast_copy("at::autocast::cached_cast(c10::ScalarType, at::Tensor const&, c10::DeviceType)"));
    }
}
