//! Names of PyTorch's autograd: graph nodes in traces of all versions, and threads.

use stackline_model::names::BACKWARD_NODE;

/// Name prefix of spans of autograd's engine.
pub const ENGINE: &str = "autograd::engine::";

/// Nodes that end a graph, by their names with namespace (until 2021).
const ACCUMULATE: [&str; 2] = ["torch::autograd::AccumulateGrad", "torch::autograd::CopySlices"];

/// Test if an operator is a node of the backward graph that autograd's engine runs.
///
/// Such an operator is a span of the engine or, in traces without such spans, the node itself (`NllLossBackward`,
/// `AddBackward0`, `torch::autograd::AccumulateGrad`).
#[must_use]
pub fn is_node(name: &str) -> bool {
    name.starts_with(BACKWARD_NODE) || ACCUMULATE.contains(&name) || is_backward_class(name)
}

/// Name of the node in the name of an autograd engine's span; other names are returned unchanged.
pub fn node_name(name: &str) -> &str {
    name.strip_prefix(BACKWARD_NODE).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(name)
}

/// Test if a name is the class of an autograd node: upper case first, no namespace, `Backward` with an optional number
/// at the end.
fn is_backward_class(name: &str) -> bool {
    let class = name.trim_end_matches(|c: char| c.is_ascii_digit());
    class.strip_suffix("Backward").is_some_and(|stem| {
        stem.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
            && stem.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Test if a name is that of an autograd node that accumulates a gradient into its parameter.
pub fn is_accumulation(name: &str) -> bool {
    name.contains("AccumulateGrad")
}

/// Test if a thread name is that of a thread on which autograd only runs backward passes of a device.
pub fn is_device_thread(name: &str) -> bool {
    name.starts_with("pt_autograd_")
}

#[cfg(test)]
mod tests {
    use super::is_node;

    #[test]
    fn node_names_of_all_pytorch_versions() {
        for name in [
            "autograd::engine::evaluate_function: MmBackward0",
            "MmBackward0",
            "NllLossBackward",
            "CudnnBatchNormBackward",
            "ReluBackward1",
            "torch::autograd::AccumulateGrad",
        ] {
            assert!(is_node(name), "{name}");
        }
        for name in ["aten::nll_loss_backward", "Backward", "loss.backward", "FlashAttnFuncBackward.apply", "aten::mm"]
        {
            assert!(!is_node(name), "{name}");
        }
    }
}
