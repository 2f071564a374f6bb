//! Findings of a trace or of several ranks, with the analyzed window, in the order of reports.

use super::finding::Finding;
use super::large_group::Uncovered;
use super::memory::DevicePeak;
use super::rank_times::RankTimes;
use super::rule_info::RuleInfo;
use super::skipped_rules::SkippedRule;
use stackline_critical_path::exact::what_if::Gain;
use std::cmp::Reverse;
use std::sync::Arc;

/// All findings of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Analyzed window in words, as in `what-if`: `steps 3 to 9`, `the inferred steps`, `the whole trace`. `None` for
    /// inputs other than traces.
    pub window: Option<String>,
    /// Step length in ns: the window divided by its steps, without the known overhead of recording
    /// operators.
    pub step_ns: i64,
    /// Number of steps in the window; 0 if the trace has no steps and the window is the whole trace.
    pub steps: usize,
    /// True if the program marks no steps, and the steps are repeats of a launch pattern.
    pub are_inferred: bool,
    /// Findings of the whole trace, if steps are inferred and other ranks may have none.
    pub whole: Option<Box<Self>>,
    /// True if steps end with the GPU work that they launched, not with their spans on the
    /// CPU.
    pub with_gpu_work: bool,
    /// Part of [`Self::step_ns`] between steps, such as evaluations and checkpoints, in ns; none if
    /// negligible.
    pub between_ns: Option<i64>,
    /// Listed findings by descending gain, with unsure ones ([`Finding::is_unsure`]) after the others. Findings about
    /// the measurement come last.
    pub findings: Vec<Finding>,
    /// Combined gain of all compatible findings, per step, in ns; of several ranks that of the slowest one, or of the
    /// one that all others wait for.
    pub combined: Option<Gain>,
    /// Findings that the user ignores.
    pub ignored: Vec<Finding>,
    /// All rules: built-in rules by code, then Python rules.
    pub rules: Vec<Arc<RuleInfo>>,
    /// Rules that were not checked.
    pub unchecked: Vec<SkippedRule>,
    /// Excluded findings with small gains, so that a comparison with another run does not report them as new or gone.
    pub small: Vec<Finding>,
    /// Notes for the reader, one sentence each.
    pub notes: Vec<String>,
    /// Exposed time of the GPU's collectives (nothing else runs), per step, in ns; none without
    /// collectives.
    pub exposed_collectives_ns: Option<i64>,
    /// True if part of the trace is missing.
    pub is_incomplete: bool,
    /// True for a call tree instead of a trace: times are of one thread, and there is no critical path.
    pub is_of_calls: bool,
    /// Number of ranks of the job, if the trace states it.
    pub world_size: Option<i64>,
    /// Analyzed ranks, ascending, if there are several; then the step is that of the slowest rank.
    pub ranks: Vec<RankTimes>,
    /// Devices with analyzed memory.
    pub peaks: Vec<DevicePeak>,
    /// Time that no finding covers; of several ranks on the slowest.
    pub uncovered: Uncovered,
}

impl Findings {
    /// Number of individually replayed findings that are incompatible with higher-ranked findings. 0 for several ranks,
    /// each of which has its own number.
    pub fn contradicting(&self) -> usize {
        let replayed = self.findings.iter().filter(|f| f.gain.is_some() && f.is_repair() && !f.edits.is_empty());
        let first = replayed.take(if self.ranks.is_empty() { INDIVIDUALLY_REPLAYED } else { 0 });
        first.filter(|finding| finding.on_top_ns.is_none()).count()
    }
}

/// Number of first findings whose additional gains are replayed one by one.
pub(super) const INDIVIDUALLY_REPLAYED: usize = 12;

/// Sort key of findings in reports: descending gain, unsure findings after the others; ties by code, source location
/// and title. Memory findings follow findings that save time, because the gains are not comparable.
pub(super) fn ranking_key(finding: &Finding) -> impl Ord + use<'_> {
    let gain = Reverse(finding.gain.map(|g| (!finding.is_unsure(), g.likely_ns, g.low_ns)));
    let memory = Reverse(finding.memory.as_ref().map(|m| (!finding.is_unsure(), m.lowers_bytes, m.bytes, m.low_bytes)));
    (gain, memory, finding.rule.code.as_str(), &finding.place, finding.title.as_str())
}
