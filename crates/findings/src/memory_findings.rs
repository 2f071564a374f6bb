//! Findings of wasted memory, with gains in bytes at a device's peak instead of time.
//!
//! The crate `engine` builds them from memory traces. They share a list with other findings, after those that save
//! time.

use super::finding::Finding;
use super::findings::{Findings, ranking_key};
use super::large_group::Uncovered;
use super::memory::DevicePeak;
use super::requirement::Requirement;
use super::rule::Rule;
use super::rules;
use super::skipped_rules::{Reason, SkippedRule};

/// Findings of a memory trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryFindings {
    /// Listed findings.
    pub findings: Vec<Finding>,
    /// Findings that the user ignores.
    pub ignored: Vec<Finding>,
    /// Rules that were not checked.
    pub unchecked: Vec<SkippedRule>,
    /// Excluded findings with small savings.
    pub small: Vec<Finding>,
    /// The highest peak of each device.
    pub peaks: Vec<DevicePeak>,
}

impl MemoryFindings {
    /// Result of a run without memory data: no findings, and no memory rule is checked.
    pub fn unchecked() -> Self {
        let reason = Reason::Missing(Requirement::Memory);
        let unchecked = |rule: &Rule| SkippedRule { rule: rule.info(), reason: reason.clone() };
        Self { unchecked: rules::memory_rules().map(unchecked).collect(), ..Self::default() }
    }
}

impl Findings {
    /// Convert memory findings to a result without steps and times, with memory rules only.
    pub fn from_memory(memory: MemoryFindings) -> Self {
        let none = Self {
            window: None,
            step_ns: 0,
            steps: 0,
            are_inferred: false,
            whole: None,
            with_gpu_work: false,
            between_ns: None,
            findings: Vec::new(),
            combined: None,
            ignored: Vec::new(),
            rules: Vec::new(),
            unchecked: Vec::new(),
            small: Vec::new(),
            notes: Vec::new(),
            exposed_collectives_ns: None,
            is_incomplete: false,
            is_of_calls: false,
            world_size: None,
            ranks: Vec::new(),
            peaks: Vec::new(),
            uncovered: Uncovered::default(),
        };
        none.with_memory(memory)
    }

    /// Convert memory findings to a result without steps and times that lists the rules on execution traces as not
    /// checked.
    pub fn from_memory_only(memory: MemoryFindings) -> Self {
        let mut found = Self::from_memory(memory);
        let others = || rules::trace_rules().map(Rule::info);
        found.rules.splice(0..0, others());
        let reason = Reason::Missing(Requirement::Events);
        found.unchecked.splice(0..0, others().map(|rule| SkippedRule { rule, reason: reason.clone() }));
        found
    }

    /// Add the memory findings of the same run, and the memory rules; findings that save time stay first.
    #[must_use]
    pub fn with_memory(mut self, memory: MemoryFindings) -> Self {
        let MemoryFindings { findings, ignored, unchecked, small, peaks } = memory;
        self.findings.extend(findings);
        self.findings.sort_by(|a, b| ranking_key(a).cmp(&ranking_key(b)));
        self.ignored.extend(ignored);
        self.unchecked.extend(unchecked);
        // Python rules stay last.
        let own = self.rules.iter().position(|rule| rules::find(&rule.code).is_none()).unwrap_or(self.rules.len());
        self.rules.splice(own..own, rules::memory_rules().map(Rule::info));
        self.small.extend(small);
        self.peaks = peaks;
        self
    }
}
