//! Classification of names by rules: operator categories, communication kernels, collectives, element sizes of data
//! types. Other code calls this module instead of matching names.

use crate::vocabulary::aten;
use crate::vocabulary::categories::{NATIVE_KERNEL_PREFIX, NATIVE_KERNELS, OPERATOR_PREFIXES, OPERATORS};

/// Category of operators that match no rule.
pub const OTHER: &str = "other";

/// Category of an operator that launches GPU work: by its name, else by its first kernel if native to PyTorch, else
/// [`OTHER`].
pub fn operator_category(name: &str, first_kernel: Option<&str>) -> &'static str {
    if let Some((category, _)) = OPERATORS.iter().find(|(_, names)| names.contains(&name)) {
        return category;
    }
    if let Some((_, category)) = OPERATOR_PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return category;
    }
    let native = first_kernel.filter(|k| k.starts_with(NATIVE_KERNEL_PREFIX));
    let rule = native.and_then(|kernel| NATIVE_KERNELS.iter().find(|(part, _)| kernel.contains(part)));
    rule.map_or(OTHER, |(_, category)| category)
}

/// Parts of the names of runtime calls that replay a graph, in lower case.
const GRAPH_LAUNCHES: &[&str] = &["cudagraph", "graphlaunch"];

/// Category of kernels launched outside of any operator, by the name of the launch call: `graph` for replayed graphs,
/// otherwise `runtime`.
pub fn bare_launch_category(launch: &str) -> &'static str {
    let launch = launch.to_lowercase();
    if GRAPH_LAUNCHES.iter().any(|part| launch.contains(part)) { "graph" } else { "runtime" }
}

/// Test if TraceLens classifies a kernel as communication: its name contains `nccl` or `rccl`. Stackline's
/// classification is [`crate::kernel_type::RULES`].
pub fn is_tracelens_communication(name: &str) -> bool {
    name.as_bytes().windows(4).any(|w| w.eq_ignore_ascii_case(b"nccl") || w.eq_ignore_ascii_case(b"rccl"))
}

/// Test if a Python frame belongs to the second forward pass of `torch.utils.checkpoint` (recomputation).
pub(crate) fn is_recompute_frame(name: &str) -> bool {
    name.contains("torch/utils/checkpoint.py") && name.contains("recompute_fn")
}

/// Test if the name of an event is that of a `torch.nn.Module` call, in the profiler's notation.
pub fn is_module_call(name: &str) -> bool {
    name.starts_with(stackline_model::names::MODULE_PREFIX)
}

/// A family of collectives: the data volume and the bandwidth factor of nccl-tests (`doc/PERFORMANCE.md` there).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Collective {
    /// Stable name.
    pub name: &'static str,
    /// Names in frameworks and kernels, lower case, without separators.
    aliases: &'static [&'static str],
    /// True if the message size is that of the output, false for the input.
    pub sized_by_output: bool,
    /// Factor from algorithm to bus bandwidth: `factor * (n - 1) / n` where this is `Some`, else 1.
    ring_factor: Option<f64>,
}

/// Families, the longer names first where one contains another.
const COLLECTIVES: &[Collective] = &[
    // The last two are custom kernels of inference engines, whose records lack the collective's name.
    collective("all_reduce", &["allreduce", "crossdevicereduce", "quickreduce"], false, Some(2.0)),
    collective("reduce_scatter", &["reducescatter"], false, Some(1.0)),
    collective("all_gather", &["allgather"], true, Some(1.0)),
    // Dispatch and combine of mixtures of experts: DeepEP and its relatives, TensorRT-LLM.
    collective(
        "all_to_all",
        &[
            "alltoall",
            "moea2a",
            "moecomm",
            "deepep",
            "hybridep",
            "dpskep",
            "epdispatch",
            "epcombine",
            "pplx",
            "notifydispatch",
            "cachednotify",
        ],
        false,
        Some(1.0),
    ),
    collective("broadcast", &["broadcast"], false, None),
    collective("send_recv", &["sendrecv", "send", "recv"], false, None),
    collective("gather", &["gather"], true, Some(1.0)),
    collective("scatter", &["scatter"], false, Some(1.0)),
    collective("reduce", &["reduce"], false, None),
];

/// Family of collectives from its name, aliases, message side and bandwidth factor.
const fn collective(
    name: &'static str,
    aliases: &'static [&'static str],
    sized_by_output: bool,
    ring_factor: Option<f64>,
) -> Collective {
    Collective { name, aliases, sized_by_output, ring_factor }
}

impl Collective {
    /// Find the family of a collective, by a part of the collective's or its kernel's name; `None` for other names.
    pub fn find(name: &str) -> Option<&'static Self> {
        let plain: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).flat_map(char::to_lowercase).collect();
        // PyTorch's `_allgather_base`, `reduce_scatter_tensor_coalesced` and NCCL's `ncclDevKernel_AllReduce_Sum_…` all
        // contain the plain name.
        COLLECTIVES.iter().find(|c| c.aliases.iter().any(|alias| plain.contains(alias)))
    }

    /// Ratio of bus bandwidth to algorithm bandwidth for `ranks` ranks.
    pub fn bus_factor(&self, ranks: i64) -> f64 {
        match self.ring_factor {
            Some(factor) if ranks > 0 => factor * (ranks - 1) as f64 / ranks as f64,
            _ => 1.0,
        }
    }
}

/// Bytes per element of a data type, by the profiler's spelling; `None` for unknown types.
pub fn element_bytes(dtype: &str) -> Option<i64> {
    let lower = dtype.to_ascii_lowercase();
    let name = lower.strip_prefix(aten::DATA_TYPE).unwrap_or(&lower);
    Some(match name {
        "bool" | "byte" | "char" | "int8" | "uint8" | "unsigned char" | "signed char" => 1,
        n if n.starts_with("float8") => 1,
        "half" | "bfloat16" | "short" | "float16" | "short int" => 2,
        "float" | "int" | "float32" | "int32" | "complexhalf" => 4,
        "double" | "long" | "float64" | "int64" | "long int" | "complexfloat" => 8,
        "complexdouble" => 16,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::categories::TRACELENS_OTHER;

    #[test]
    fn operators() {
        assert_eq!(operator_category("aten::mm", None), "GEMM");
        assert_eq!(operator_category("triton_poi_fused_0", None), "triton");
        assert_eq!(operator_category("x::y", Some("void at::native::reduce_kernel<512>")), "reduce");
        assert_eq!(operator_category("x::y", Some("reduce_kernel")), OTHER);
        assert_eq!(bare_launch_category("hipGraphLaunch"), "graph");
        assert_eq!(bare_launch_category("cudaLaunchKernel"), "runtime");
        let mut names: Vec<&str> = OPERATORS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "an operator is listed twice");
        assert!(TRACELENS_OTHER.iter().all(|n| names.contains(n)));
    }

    #[test]
    fn collectives() {
        let name = |n| Collective::find(n).map(|c| c.name);
        assert_eq!(name("_allgather_base"), Some("all_gather"));
        assert_eq!(name("reduce_scatter_tensor_coalesced"), Some("reduce_scatter"));
        assert_eq!(
            name("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
            Some("all_reduce")
        );
        assert_eq!(name("all_to_allv"), Some("all_to_all"));
        assert_eq!(name("ncclKernel_SendRecv_RING_SIMPLE"), Some("send_recv"));
        assert_eq!(name("void vllm::cross_device_reduce_1stage<float>()"), Some("all_reduce"));
        assert_eq!(name("void deep_ep::intranode::combine<8>()"), Some("all_to_all"));
        assert_eq!(name("barrier"), None);
        assert_eq!(Collective::find("allreduce").unwrap().bus_factor(8), 1.75);
        assert_eq!(Collective::find("broadcast").unwrap().bus_factor(8), 1.0);
        assert!(is_tracelens_communication("ncclKernel_AllReduce") && is_tracelens_communication("RCCLx"));
        assert!(!is_tracelens_communication("gemm"));
    }

    #[test]
    fn element_sizes() {
        for (name, bytes) in [("BFloat16", 2), ("c10::Half", 2), ("Long", 8), ("Float8_e4m3fn", 1), ("float", 4)] {
            assert_eq!(element_bytes(name), Some(bytes), "{name}");
        }
        assert_eq!(element_bytes("Scalar"), None);
    }
}
