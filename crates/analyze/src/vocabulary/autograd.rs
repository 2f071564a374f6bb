//! PyTorch's autograd: how nodes of its graph are called in traces of all years.

use stackline_model::names::BACKWARD_NODE;

/// How names of spans of autograd's engine begin.
pub(crate) const ENGINE: &str = "autograd::engine::";

/// Nodes that end a graph, as they were called with (until 2021) and without their namespace.
const ACCUMULATE: [&str; 2] = ["torch::autograd::AccumulateGrad", "torch::autograd::CopySlices"];

/// Whether an operator is a node of the backward graph that autograd's engine runs: a span of the engine, or, in traces
/// that have none, the node itself (`NllLossBackward`, `AddBackward0`, `torch::autograd::AccumulateGrad`).
#[must_use]
pub fn is_node(name: &str) -> bool {
    name.starts_with(BACKWARD_NODE) || ACCUMULATE.contains(&name) || is_backward_class(name)
}

/// The node that a span of the engine runs; of any other name, the name.
pub(crate) fn node_name(name: &str) -> &str {
    name.strip_prefix(BACKWARD_NODE).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(name)
}

/// Whether a name is that of a class of nodes: capital first, no namespace, `Backward` and perhaps a number last.
fn is_backward_class(name: &str) -> bool {
    let class = name.trim_end_matches(|c: char| c.is_ascii_digit());
    class.strip_suffix("Backward").is_some_and(|stem| {
        stem.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
            && stem.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Whether a name is that of a node that puts a gradient into its parameter.
pub(crate) fn is_accumulation(name: &str) -> bool {
    name.contains("AccumulateGrad")
}

/// Whether a thread's name is that of one on which autograd runs backward passes of a device, and nothing else.
pub(crate) fn is_device_thread(name: &str) -> bool {
    name.starts_with("pt_autograd_")
}

#[cfg(test)]
mod tests {
    use super::is_node;

    #[test]
    fn nodes_of_all_years() {
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
