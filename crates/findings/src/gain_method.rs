//! Methods of gain estimates, with their descriptions on rule pages.

use super::finding::{Finding, REPLAY, SPECULATIVE};

/// Method of a gain estimate. A rule lists its methods; [`Finding::gain_method`] returns the one of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GainMethod {
    /// Replay of the graph with the change.
    Replay,
    /// Replay of a speculative change.
    Speculative,
    /// A model that the finding names.
    Model,
    /// Replay of the allocations of a memory trace.
    Memory,
    /// No gain.
    Nothing,
}

impl GainMethod {
    /// Description of the gain method for rule pages.
    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Replay => {
                "Replay: the gain is the time by which a step gets shorter in the dependency graph of the trace with \
                these edits ([what-if](../analyses/what-if.md)). The cost of recording the removed events is \
                subtracted. The bounds are those of replay, and also cover the cases above. They do not cover \
                effects that no trace shows, such as freed caches, memory and processors: some programs [gained more \
                or less](../findings-accuracy.md)."
            }
            Self::Speculative => {
                "Speculative replay: the gain is the time by which a step gets shorter in the dependency graph of \
                the trace with these edits ([what-if](../analyses/what-if.md)). No record shows that the assumed \
                change is possible, so the lower bound is 0. The combined gain of all findings and `--fail-on gain` \
                exclude the gain."
            }
            Self::Model => {
                "Model: edits of the dependency graph cannot express the change, so no replay predicts the gain. \
                Instead, a formula estimates the gain from measured times, and the finding names this model. The \
                combined gain of all findings excludes this gain."
            }
            Self::Memory => {
                "Replay of allocations: the allocations of the trace are repeated with the change \
                 ([memory](../reference/memory.md#findings)). The gain is the number of bytes saved at the highest \
                 peak of the device. The finding also reports how far the change alone lowers the peak. The lower \
                 bound excludes objects whose waste is inferred."
            }
            Self::Nothing => "Without a known change that saves time, the finding has no gain.",
        }
    }
}

impl Finding {
    /// Method by which the finding's gain was estimated.
    pub fn gain_method(&self) -> GainMethod {
        match self.method {
            _ if self.memory.is_some() => GainMethod::Memory,
            "" => GainMethod::Nothing,
            REPLAY => GainMethod::Replay,
            SPECULATIVE => GainMethod::Speculative,
            _ => GainMethod::Model,
        }
    }
}
