//! Classification of GPU operations by name and kind. The rules are data; the first match wins.

use crate::kernel_type::NameTest::{Contains, ContainsAnyCase, Exact, Prefix, PrefixThen};
use crate::vocabulary::xla;
use stackline_model::{AttrColumn, AttrValue, EventId, EventKind, StrId, Trace};

/// Type of a GPU operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelType {
    /// Arithmetic.
    Computation,
    /// Communication with other devices or hosts of the job.
    Communication,
    /// Copies and fills.
    Memory,
    /// None of these, such as synchronization markers on streams in HTA's rows.
    Other,
}

impl KernelType {
    /// Name of the kernel type in lower case, such as `computation`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Computation => "computation",
            Self::Communication => "communication",
            Self::Memory => "memory",
            Self::Other => "other",
        }
    }
}

/// Test of a GPU operation's name: equality, prefix or contained text.
#[derive(Clone, Copy, Debug)]
pub enum NameTest {
    /// The name equals this text.
    Exact(&'static str),
    /// The name starts with this text.
    Prefix(&'static str),
    /// The name contains this text.
    Contains(&'static str),
    /// The name contains this non-empty text in any case (ASCII).
    ContainsAnyCase(&'static str),
    /// The name starts with the first text and contains the second one after it.
    PrefixThen(&'static str, &'static str),
}

impl NameTest {
    /// Test if a name meets this condition.
    fn matches(self, name: &str) -> bool {
        match self {
            Exact(e) => name == e,
            Prefix(p) => name.starts_with(p),
            Contains(c) => name.contains(c),
            ContainsAnyCase(c) => name.as_bytes().windows(c.len()).any(|w| w.eq_ignore_ascii_case(c.as_bytes())),
            PrefixThen(p, c) => name.strip_prefix(p).is_some_and(|rest| rest.contains(c)),
        }
    }
}

/// One rule: the type of names that match the test.
pub type Rule = (NameTest, KernelType);

use KernelType::{Communication, Computation, Memory, Other};

/// HTA 0.6.1's rules in its order: communication, memory, names that its computation pattern excludes; all other names
/// are computation. The rules lack AMD's copy names (`CopyHostToDevice` is computation) and collectives other than
/// NCCL's and HCCL's. Any name that starts with `hip` is communication. They are unchanged, so that numbers are equal.
pub const HTA_RULES: &[Rule] = &[
    (Prefix("nccl"), Communication),
    (Prefix("hip"), Communication),
    (Prefix("hccl"), Communication),
    (Contains("ncclKernel"), Communication),
    (Prefix("Memcpy"), Memory),
    (Prefix("Memset"), Memory),
    (Prefix("dma"), Memory),
    (Contains("Memcpy"), Other),
    (Contains("Memset"), Other),
    (Contains("dma"), Other),
    (Contains("Sync"), Other),
    (Prefix("Stream Wait Event"), Other),
    (PrefixThen("cuda", "LaunchKernel"), Other),
    (Prefix("runFunction"), Other),
    (Prefix("job_exe"), Other),
    (Prefix("packet"), Other),
    (Prefix("pe_exe"), Other),
    (Prefix("cpum_exe_subgraph"), Other),
    (Prefix("collective_subgraph_execution"), Other),
];

/// Stackline's classification, for all tables that do not reproduce another tool: `gpu_time`, `gpu_timeline`,
/// `coll_analysis`, `comm_comp_overlap` and tables without communication. A record kind of copy or fill overrides the
/// name: see [`NameTypes::of_event`].
pub const RULES: &[Rule] = &crate::vocabulary::KERNEL_RULES;

/// Names of operations that fill memory, among those that [`RULES`] classify as memory.
const FILLS: &[NameTest] = &[Prefix("__amd_rocclr_fill"), Prefix("FillBuffer"), Prefix("Memset ")];

/// Test if a GPU operation of the memory type is a fill; otherwise it is a copy.
pub fn is_fill(trace: &Trace, event: EventId) -> bool {
    match trace.kind(event) {
        EventKind::Memset => true,
        EventKind::Memcpy => false,
        _ => FILLS.iter().any(|test| test.matches(trace.name(event))),
    }
}

/// Classify the name of a GPU operation by rules; computation if no rule matches.
pub fn by_name(rules: &[Rule], name: &str) -> KernelType {
    rules.iter().find(|(test, _)| test.matches(name)).map_or(Computation, |&(_, kind)| kind)
}

/// Classifier of GPU operations, with a cache of kernel types by name.
#[derive(Debug)]
pub struct NameTypes<'a> {
    trace: &'a Trace,
    rules: &'static [Rule],
    known: Vec<Option<KernelType>>,
    /// Categories of a compiler's instructions, for operations that have one.
    categories: AttrColumn<'a>,
}

impl<'a> NameTypes<'a> {
    /// Create a classifier by `rules` for the GPU operations of `trace`, with an empty cache.
    pub fn new(trace: &'a Trace, rules: &'static [Rule]) -> Self {
        let categories = trace.attr(xla::CATEGORY);
        Self { trace, rules, known: vec![None; trace.strings.len()], categories }
    }

    /// Kernel type of a GPU operation by its name alone, from the cache or by the rules.
    pub fn type_of(&mut self, name: StrId) -> KernelType {
        match self.known.get(name.index()) {
            Some(Some(kind)) => *kind,
            _ => {
                let kind = by_name(self.rules, self.trace.strings.get(name));
                if let Some(slot) = self.known.get_mut(name.index()) {
                    *slot = Some(kind);
                }
                kind
            }
        }
    }

    /// Kernel type of a GPU operation: copies and fills by kind, collectives of a compiler by category, others by name.
    pub fn of_event(&mut self, event: EventId) -> KernelType {
        match self.trace.kind(event) {
            EventKind::Memcpy | EventKind::Memset => Memory,
            _ if self.is_collective(event) => Communication,
            _ => self.type_of(self.trace.events.name[event.index()]),
        }
    }

    /// Test if a compiler (XLA) recorded a GPU operation with the category of a collective.
    fn is_collective(&self, event: EventId) -> bool {
        match self.categories.get(event) {
            Some(AttrValue::Str(category)) => xla::is_collective(self.trace.strings.get(category)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hta_rules_are_applied_in_order() {
        let hta = |name| by_name(HTA_RULES, name);
        assert_eq!(hta("ncclDevKernel_AllReduce_Sum_f32_RING_LL"), Communication);
        assert_eq!(hta("hipMemcpyAsync"), Communication, "any name that starts with hip");
        assert_eq!(hta("Memcpy HtoD (Pageable -> Device)"), Memory);
        assert_eq!(hta("void Memcpy_kernel()"), Other, "neither memory nor computation");
        assert_eq!(hta("Stream Wait Event"), Other);
        assert_eq!(hta("cudaLaunchKernelExC"), Other);
        assert_eq!(hta("CopyHostToDevice"), Computation);
    }

    #[test]
    fn compiler_collectives_are_classified_by_name_and_category() {
        for name in
            ["all-reduce.1", "all-gather-start", "send.3", "recv-done", "reduce-scatter.2", "collective-permute-done.1"]
        {
            assert_eq!(by_name(RULES, name), Communication, "{name}");
        }
        for name in ["reduce.1", "sender", "fusion.3", "all.2"] {
            assert_eq!(by_name(RULES, name), Computation, "{name}");
        }
        let is_collective = |category| xla::is_collective(category);
        assert!(
            is_collective("all-reduce")
                && is_collective("all-reduce fusion")
                && is_collective("async collective-permute")
        );
        assert!(!is_collective("loop fusion") && !is_collective("while") && !is_collective("convolution fusion"));
    }

    #[test]
    fn built_in_rules_classify_rocm_copies_and_custom_collectives() {
        for name in [
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            "RCCLx",
            "void vllm::cross_device_reduce_1stage<float>()",
            "void deep_ep::internode_ll::dispatch<true, 7168>(void*)",
            "void quickreduce::allreduce_prototype_twoshot<quickreduce::CodecFP>()",
            "void dpsk::ep::intranode::combine<8>(void*)",
            "nvshmemi_proxy_wait_until_kernel",
            "void mscclpp::allreduce7<float>()",
            "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8>(AllReduceParams)",
            "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<int>()",
            "void sglang::cross_device_reduce_2stage<float, 4>()",
            "void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>(aiter::RankData*, int)",
            "_ZN5aiter33reduce_scatter_cross_device_storeIDF16bLi8EEEvPNS_8RankDataE",
            "void aiter::reduce_scatter_split_first_dim<float, 8>()",
            "void aiter::reduce_scatter_split_lastdim<float, 8>()",
            "void aiter::allgather_naive<float, 8>()",
            "void aiter::allgather_vec<float, 8>()",
            "hcom_allReduce__123_0_1",
        ] {
            assert_eq!(by_name(RULES, name), Communication, "{name}");
        }
        for name in [
            "__amd_rocclr_copyBuffer",
            "__amd_rocclr_copyBufferAligned",
            "__amd_rocclr_fillBufferAligned",
            "CopyHostToDevice",
            "CopyDeviceToHost",
            "CopyDeviceToDevice",
            "Memset (Device)",
        ] {
            assert_eq!(by_name(RULES, name), Memory, "{name}");
        }
        for name in ["event_wait", "event_record", "remote"] {
            assert_eq!(by_name(RULES, name), Other, "{name}");
        }
        assert_eq!(by_name(RULES, "dma_request"), Memory);
        for name in [
            "ampere_sgemm_128x64_nn",
            "void at::native::reduce_kernel<512>",
            "copy_kernel",
            "ncc",
            "void aiter::local_device_load_rmsnorm_512n<__hip_bfloat16, 8>()",
            "void at::native::_scatter_gather_elementwise_kernel<128, 8>()",
        ] {
            assert_eq!(by_name(RULES, name), Computation, "{name}");
        }
    }
}
