//! Findings, and the candidates from which they are made.

use super::gain_estimate::{GainBasis, GainEstimate};
use super::memory::MemoryGain;
use super::rule_info::RuleInfo;
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::{EventId, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use std::sync::Arc;

/// Level of evidence for a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Support {
    /// Records state it.
    Exact,
    /// Records state a part of it.
    Partial,
    /// A heuristic of the rule derives it.
    Inferred,
}

impl Support {
    /// All levels, in descending order.
    pub const ALL: [Self; 3] = [Self::Exact, Self::Partial, Self::Inferred];

    /// Name of the support in documents: `exact`, `partial` or `inferred`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Partial => "partial",
            Self::Inferred => "inferred",
        }
    }
}

/// Fact that supports a finding: a named number with its unit. Built-in rules use static names.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact<N = &'static str> {
    /// Measured quantity, in words.
    pub name: N,
    /// Value.
    pub value: f64,
    /// Unit of the value.
    pub unit: Unit,
}

impl Fact {
    /// Create a fact whose value is a count.
    pub fn count(name: &'static str, count: usize) -> Self {
        Self { name, value: count as f64, unit: Unit::None }
    }

    /// Create a fact with a time, given in ns and stored in µs.
    pub fn time(name: &'static str, ns: i64) -> Self {
        Self { name, value: ns as f64 / 1e3, unit: Unit::Us }
    }
}

/// Kind of candidate finding within its rule, for rules whose advice or merge of ranks depends on the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateKind {
    /// Launches of a whole CUDA graph, recorded without its kernels (SL001).
    WholeGraph,
    /// Work within the calls of a model (SL005).
    InModel,
    /// Copies of whole objects by `copy.deepcopy` (SL017).
    DeepCopy,
    /// Collectives of few elements (SL019).
    SmallCollectives,
    /// Sends and receives between two ranks (SL019).
    Messages,
    /// Collectives that a compiler (XLA) inserted and scheduled (SL019).
    CompilerCollectives,
    /// Collective kernels of an inference engine, whose next operation needs the result (SL019).
    EngineCollectives,
    /// Writing of checkpoints (SL029).
    Checkpoints,
    /// Waits for a new thread to start (SL039).
    ThreadStart,
    /// Waits for a lock (SL039).
    Lock,
    /// Waits for an event or a condition (SL039).
    Condition,
    /// Waits for a queue of threads or processes (SL039).
    Queue,
    /// Waits for the network (SL039).
    Network,
    /// Waits for other ranks (SL039), whose cause may be a finding of another rank.
    OtherRanks,
    /// Sleep (SL039).
    Sleep,
    /// Tensors made of Python lists (SL045).
    PythonLists,
}

/// Candidate finding of a rule.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Problem with its numbers, in one line.
    pub title: String,
    /// Source location.
    pub place: SourceLocation,
    /// Events that support the finding.
    pub events: Vec<EventId>,
    /// Supporting facts.
    pub facts: Vec<Fact>,
    /// Kind; none if the advice of the rule itself applies.
    pub kind: Option<CandidateKind>,
    /// Level of evidence.
    pub support: Support,
    /// Confidence that the change helps.
    pub confidence: Confidence,
    /// Estimated gain.
    pub gain_estimate: GainEstimate,
}

/// Candidate finding with its rule and its facts.
pub(super) struct RankedCandidate {
    pub(super) rule: Arc<RuleInfo>,
    pub(super) candidate: Candidate,
    pub(super) facts: Vec<Fact<String>>,
}

/// Performance or memory problem with source location, fix and gain.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Rule that produced the finding.
    pub rule: Arc<RuleInfo>,
    /// Problem with its numbers, in one line.
    pub title: String,
    /// Source location of the problem: the innermost user function that shows it.
    pub place: SourceLocation,
    /// Source location of the fix, if it differs ([`Finding::fix_location`]).
    pub change: Option<SourceLocation>,
    /// Events that support the finding, ascending.
    pub events: Vec<EventId>,
    /// Supporting facts.
    pub facts: Vec<Fact<String>>,
    /// Kind of the candidate that became the finding.
    pub kind: Option<CandidateKind>,
    /// Level of evidence.
    pub support: Support,
    /// Confidence that the change helps.
    pub confidence: Confidence,
    /// Gain of the change alone, in ns per step; none if the finding has no gain in time.
    pub gain: Option<Gain>,
    /// Memory savings of the change alone; none if the finding has no savings of memory.
    pub memory: Option<MemoryGain>,
    /// Additional gain after all higher-ranked changes, in ns per step.
    pub on_top_ns: Option<i64>,
    /// Basis of the gain.
    pub basis: GainBasis,
    /// Replayed edits, with the cases of the bounds, as text. `what-if` computes the same gain and bounds from them.
    pub edits: Vec<String>,
    /// Labels of the edits without the cases of the bounds, for display and for the comparison of runs. Labels name
    /// code, not events.
    pub edit_labels: Vec<String>,
    /// Ranks with the finding, ascending, each with its gain; empty for a single trace. All other fields are those of
    /// the rank with the largest gain.
    pub ranks: Vec<RankGain>,
}

/// Gain of a finding on one of several ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankGain {
    /// Number of the rank.
    pub rank: i64,
    /// Gain of the change alone on this rank, in ns per step; none if the finding has no gain in time.
    pub gain_ns: Option<i64>,
}

impl Finding {
    /// Predicted gain in ns per step; 0 without a gain.
    pub fn gain_ns(&self) -> i64 {
        self.gain.map_or(0, |gain| gain.likely_ns)
    }

    /// Rank of a distributed job whose title, location and gain the finding shows: the one with the largest gain.
    /// `None` for a single rank.
    pub fn detail_rank(&self) -> Option<i64> {
        self.ranks.iter().max_by_key(|of| (of.gain_ns, std::cmp::Reverse(of.rank))).map(|of| of.rank)
    }

    /// True if the confidence is low and the lower bound of the gain is 0.
    pub fn is_unsure(&self) -> bool {
        let perhaps_nothing = match &self.memory {
            Some(memory) => memory.low_bytes == 0,
            None => self.gain.is_none_or(|gain| gain.low_ns <= 0),
        };
        self.confidence == Confidence::Low && perhaps_nothing
    }

    /// True unless the gain is that of a speculative replay.
    pub fn is_repair(&self) -> bool {
        self.basis != GainBasis::Replay || self.gain.is_none_or(|gain| !gain.is_speculative)
    }

    /// Method of the gain in documents: `replay`, `speculative replay`, `rule` for a gain that a Python rule states,
    /// or the sentence of a model. Empty without a gain.
    pub fn method(&self) -> &'static str {
        match self.basis {
            GainBasis::Nothing => "",
            GainBasis::Replay if self.is_repair() => "replay",
            GainBasis::Replay => "speculative replay",
            GainBasis::Stated => "rule",
            GainBasis::Model(model) => model,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Confidence, Finding, Gain, GainBasis, SourceLocation, Support};
    use crate::GainMethod;

    fn finding(basis: GainBasis, gain: Option<Gain>) -> Finding {
        Finding {
            rule: crate::rules::ALL[0].info(),
            title: String::new(),
            place: SourceLocation::default(),
            change: None,
            events: Vec::new(),
            facts: Vec::new(),
            kind: None,
            support: Support::Inferred,
            confidence: Confidence::Low,
            gain,
            memory: None,
            on_top_ns: None,
            basis,
            edits: Vec::new(),
            edit_labels: Vec::new(),
            ranks: Vec::new(),
        }
    }

    #[test]
    fn methods_follow_from_basis_and_speculation() {
        let (sure, speculative) = (Some(Gain::new(20, 0, 30)), Some(Gain::new(20, 0, 30).speculative()));
        let cases = [
            (GainBasis::Nothing, None, "", GainMethod::Nothing, true),
            (GainBasis::Replay, sure, "replay", GainMethod::Replay, true),
            (GainBasis::Replay, speculative, "speculative replay", GainMethod::Speculative, false),
            (GainBasis::Stated, sure, "rule", GainMethod::Model, true),
            (GainBasis::Model("samples"), sure, "samples", GainMethod::Model, true),
            // Gains of call trees are not replayed.
            (GainBasis::Model("samples"), speculative, "samples", GainMethod::Model, true),
        ];
        for (basis, gain, method, gain_method, is_repair) in cases {
            let finding = finding(basis, gain);
            let found = (finding.method(), finding.gain_method(), finding.is_repair());
            assert_eq!(found, (method, gain_method, is_repair), "{basis:?} {gain:?}");
        }
    }
}
