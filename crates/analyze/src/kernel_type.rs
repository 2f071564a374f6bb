//! What a GPU operation does, told from its name (and kind). The rules are data; the first that matches wins.

use crate::kernel_type::NameTest::{Contains, Prefix, PrefixThen};
use stackline_model::{EventId, EventKind, StrId, Trace};

/// What a GPU operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelType {
    /// Arithmetic.
    Computation,
    /// Talks to other devices or hosts of the job.
    Communication,
    /// Copies and fills.
    Memory,
    /// None of these, such as synchronisation markers that HTA finds on streams.
    Other,
}

impl KernelType {
    /// Stable text name, lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Computation => "computation",
            Self::Communication => "communication",
            Self::Memory => "memory",
            Self::Other => "other",
        }
    }
}

/// A test on a name.
#[derive(Clone, Copy, Debug)]
pub enum NameTest {
    /// The name starts with this.
    Prefix(&'static str),
    /// The name has this anywhere.
    Contains(&'static str),
    /// The name starts with the first and has the second somewhere after it.
    PrefixThen(&'static str, &'static str),
}

impl NameTest {
    fn matches(self, name: &str) -> bool {
        match self {
            Prefix(p) => name.starts_with(p),
            Contains(c) => name.contains(c),
            PrefixThen(p, c) => name.strip_prefix(p).is_some_and(|rest| rest.contains(c)),
        }
    }
}

/// One rule: names that pass the test are of the type.
pub type Rule = (NameTest, KernelType);

use KernelType::{Communication, Computation, Memory, Other};

/// HTA 0.6.1's rules in its order: communication, then memory, then what its computation pattern leaves out; all else
/// is computation. They know neither AMD's copy names (`CopyHostToDevice` is computation) nor collectives outside
/// NCCL's and HCCL's names, and any name that starts with `hip` is communication. Kept as they are, for equal numbers.
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

/// Our own rules for kernels that [`crate::classify::is_communication_kernel`] does not know; copies and fills are told
/// by their kind, not by name.
pub const RULES: &[Rule] = &[
    (Prefix("hccl"), Communication),
    (Prefix("collective_subgraph_execution"), Communication),
    (Contains("mscclKernel"), Communication),
    (Contains("nvshmem"), Communication),
    (Contains("cross_device_reduce"), Communication),
];

/// The type of a name by rules; computation where none matches.
pub fn by_name(rules: &[Rule], name: &str) -> KernelType {
    rules.iter().find(|(test, _)| test.matches(name)).map_or(Computation, |&(_, kind)| kind)
}

/// Types of names, each name looked at once.
#[derive(Debug)]
pub struct NameTypes<'a> {
    trace: &'a Trace,
    rules: &'static [Rule],
    known: Vec<Option<KernelType>>,
}

impl<'a> NameTypes<'a> {
    /// Types by `rules` of the names of `trace`.
    pub fn new(trace: &'a Trace, rules: &'static [Rule]) -> Self {
        Self { trace, rules, known: vec![None; trace.strings.len()] }
    }

    /// The type of a name.
    pub fn of(&mut self, name: StrId) -> KernelType {
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

    /// The type of a GPU operation: copies and fills by kind, the rest by name.
    pub fn of_event(&mut self, event: EventId) -> KernelType {
        match self.trace.kind(event) {
            EventKind::Memcpy | EventKind::Memset => Memory,
            _ if crate::classify::is_communication_kernel(self.trace.name(event)) => Communication,
            _ => self.of(self.trace.events.name[event.index()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hta_rules_keep_their_order() {
        let hta = |name| by_name(HTA_RULES, name);
        assert_eq!(hta("ncclDevKernel_AllReduce_Sum_f32_RING_LL"), Communication);
        assert_eq!(hta("hipMemcpyAsync"), Communication, "any name that starts with hip");
        assert_eq!(hta("Memcpy HtoD (Pageable -> Device)"), Memory);
        assert_eq!(hta("void Memcpy_kernel()"), Other, "neither memory nor computation");
        assert_eq!(hta("Stream Wait Event"), Other);
        assert_eq!(hta("cudaLaunchKernelExC"), Other);
        assert_eq!(hta("CopyHostToDevice"), Computation);
        assert_eq!(by_name(RULES, "void vllm::cross_device_reduce_1stage<float>()"), Communication);
    }
}
