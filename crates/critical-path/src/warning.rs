//! Warnings of the methods `hta` and `ctda`, with codes and counts.

use serde::{Deserialize, Serialize};

/// Code of a warning of a critical-path analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WarningCode {
    /// Spans with a negative duration after rounding.
    NegativeWeight,
    /// GPU work without launch delay, kernel delay or wait, which cuts the chain of its stream.
    ChainCut,
    /// Different numbers of launches and launched GPU operations; HTA fails here.
    UnevenQueue,
    /// Event record that is reported on two streams; the first one counts. HTA fails here.
    AmbiguousRecord,
    /// Wait between two kernels of one stream; HTA fails here.
    SyncWithinStream,
    /// Launch call of a kind without node; HTA fails here.
    LaunchWithoutNode,
    /// Synchronization record of an unknown kind; HTA fails here.
    UnknownSync,
    /// Edges against time order that were removed from a cycle; HTA fails here.
    BrokenCycle,
    /// Requested instances beyond the last one.
    MissingInstances,
    /// Window without GPU work, so that the path contains host work only. HTA fails here.
    NoGpuWork,
    /// Synchronizations of the whole device with an edge only from the GPU work that ended last.
    ManyContextSyncs,
    /// Request for the whole trace, of which the rules exclude the last profiler step.
    LastStepLeftOut,
    /// What-if edits that match no edge and have no effect.
    WhatIfUnmatched,
    /// Waits without a recorded target, which a rule inferred.
    InferredWait,
    /// Waits with an unknown target.
    UnknownWait,
    /// Threads of the program ran without GIL, so that their order is unknown.
    NoInterpreterLock,
}

impl WarningCode {
    /// Sentence for readers; callers print the count before or after it.
    pub fn message(self) -> &'static str {
        match self {
            Self::NegativeWeight => {
                "spans have a negative duration after HTA's rounding to whole µs; the critical-path search uses a \
                 duration of 0 for them"
            }
            Self::ChainCut => {
                "some GPU operations have no recorded launch, wait or earlier kernel that they depend on, so a \
                 critical path that reaches them cannot continue to earlier work"
            }
            Self::UnevenQueue => {
                "launch calls and launched GPU operations differ in number, so queue lengths may be wrong"
            }
            Self::AmbiguousRecord => {
                "CUDA events have records on two streams; only the record on the first stream was \
                                      used"
            }
            Self::SyncWithinStream => {
                "kernels wait for a kernel of the same stream, although kernels of a stream run in order anyway"
            }
            Self::LaunchWithoutNode => {
                "launch calls are of a kind that HTA does not support, so their launch delays are missing from the \
                 dependency graph"
            }
            Self::UnknownSync => "synchronization records of an unknown kind were excluded",
            Self::BrokenCycle => "dependencies that contradict the time order were removed, because they formed cycles",
            Self::MissingInstances => {
                "requested instances of the annotation do not exist, because the annotation has fewer instances"
            }
            Self::ManyContextSyncs => {
                "in the dependency graph, device synchronizations depend only on the GPU work that ended last, to \
                 limit the size of the graph"
            }
            Self::LastStepLeftOut => {
                "last profiler step is excluded, because HTA treats it as incomplete; include it with \
                 --include-last-profiler-step (in Python include_last_profiler_step=True)"
            }
            Self::WhatIfUnmatched => "what-if edits match nothing in the dependency graph and have no effect",
            Self::InferredWait => {
                "waits have no record of the work that they wait for; that work was inferred from \
                                   earlier launches"
            }
            Self::UnknownWait => {
                "waits have no record of the work that they wait for, and that work could not be inferred"
            }
            Self::NoInterpreterLock => {
                "Python ran without a GIL, so the order of execution of its threads is unknown, and the critical path \
                 may end on any thread"
            }
            Self::NoGpuWork => {
                "the window has no GPU work with a launch call, so the critical path contains host work only"
            }
        }
    }
}

/// A [`WarningCode`] and its count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Kind of the warning.
    pub code: WarningCode,
    /// Number of occurrences.
    pub count: u64,
    /// Examples for readers, if useful.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

impl Warning {
    /// Add one occurrence of a code, with a detail for readers, to a list of warnings.
    pub(super) fn add_detail(warnings: &mut Vec<Self>, code: WarningCode, detail: String) {
        Self::add(warnings, code, 1);
        if let Some(warning) = warnings.iter_mut().find(|w| w.code == code) {
            warning.details.push(detail);
        }
    }

    /// Add `count` occurrences of a code to a list of warnings; nothing if `count` is 0.
    pub(super) fn add(warnings: &mut Vec<Self>, code: WarningCode, count: u64) {
        match warnings.iter_mut().find(|w| w.code == code) {
            _ if count == 0 => {}
            Some(warning) => warning.count += count,
            None => warnings.push(Self { code, count, details: Vec::new() }),
        }
    }
}
