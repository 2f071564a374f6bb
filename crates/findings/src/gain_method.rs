//! Methods of gain estimates, with their descriptions on rule pages.

use super::finding::Finding;
use super::gain_estimate::GainBasis;

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
    /// Description of the gain method for rule pages. `is_only`: the rule has no other method.
    pub(super) fn about(self, is_only: bool) -> &'static str {
        match self {
            Self::Replay => {
                "Replay: Stackline simulates the dependency graph of the trace with this change \
                ([what-if](../analyses/what-if.md)). The gain is the time by which a step gets shorter, minus the \
                cost of recording the removed events. The bounds of the gain cover the error of the simulation and \
                the rule's own lower and upper estimates. The bounds do not cover effects that a trace does not show, \
                such as caches, memory or processors that become free. In some programs, [the measured gain was \
                larger or smaller](../findings-accuracy.md)."
            }
            Self::Speculative => {
                "Speculative replay: Stackline simulates the dependency graph of the trace with this change \
                ([what-if](../analyses/what-if.md)). The gain is the time by which a step gets shorter. The trace does \
                not show that the change is possible, so the lower bound is 0. The combined gain of all findings and \
                `--fail-on gain` do not include this gain."
            }
            Self::Model => {
                "Model: the change cannot be simulated in the dependency graph. A formula estimates the gain from \
                measured times instead; the finding names the formula. The combined gain of all findings does not \
                include this gain."
            }
            Self::Memory => {
                "Replay of allocations: Stackline simulates the allocations of the trace again with the change \
                 ([memory](../reference/memory.md#findings)). The gain is the number of bytes that the change saves \
                 at the moment of the highest memory peak of the device. The finding also reports by how much the \
                 peak falls if only this change is made. This amount is smaller than the gain if memory use is nearly \
                 as high at another moment. The lower bound of the gain excludes objects whose waste is only inferred."
            }
            Self::Nothing if is_only => "The finding has no gain, because no change that would save the time is known.",
            Self::Nothing => "If no change that would save the time is known, the finding has no gain.",
        }
    }
}

impl Finding {
    /// Method by which the finding's gain was estimated.
    pub fn gain_method(&self) -> GainMethod {
        match self.basis {
            _ if self.memory.is_some() => GainMethod::Memory,
            GainBasis::Nothing => GainMethod::Nothing,
            GainBasis::Replay if self.is_repair() => GainMethod::Replay,
            GainBasis::Replay => GainMethod::Speculative,
            GainBasis::Stated | GainBasis::Model(_) => GainMethod::Model,
        }
    }
}
