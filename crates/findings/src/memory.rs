//! Findings of wasted memory, with gains in bytes at a device's peak instead of time.
//!
//! The crate `engine` builds them from memory traces. They share a list with other findings, after those that save
//! time.

use super::finding::Finding;
use super::rank::{Findings, ranking_key};
use super::rule::Requirement;
use super::rules;
use super::skipped_rules::{Reason, SkippedRule};

/// Savings of a change at the highest peak of a device, by replay of its allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryGain {
    /// Likely savings in bytes, at the moment of the peak.
    pub bytes: u64,
    /// Reduction of the peak by this change alone, in bytes; lower if memory use is nearly as high at another time.
    pub lowers_bytes: u64,
    /// Lower bound of the reduction, from objects whose waste is certain.
    pub low_bytes: u64,
    /// Upper bound of the reduction.
    pub high_bytes: u64,
    /// Peak without the change, in bytes.
    pub peak_bytes: u64,
    /// Name of the device, such as `cuda:0`.
    pub device: String,
}

impl MemoryGain {
    /// Convert `bytes` to percent of the peak, at most 100.
    pub fn percent_of(&self, bytes: u64) -> f64 {
        (100.0 * bytes as f64 / self.peak_bytes.max(1) as f64).min(100.0)
    }

    /// Likely savings, in percent of the peak.
    pub fn percent(&self) -> f64 {
        self.percent_of(self.bytes)
    }
}

/// Highest memory peak of a device, and its size after the suggested changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePeak {
    /// Name of the device.
    pub device: String,
    /// Size of the peak in bytes.
    pub bytes: u64,
    /// Size after all compatible suggestions that are not ignored, by replay; none without records of memory
    /// accesses.
    pub mended_bytes: Option<u64>,
    /// Size after the suggestions among these that remove certain waste. Excludes recomputation and offload, whose
    /// objects are needed, and uncertain waste. None as above.
    pub needed_bytes: Option<u64>,
    /// The same, including uncertain waste.
    pub perhaps_needed_bytes: Option<u64>,
}

impl DevicePeak {
    /// Savings of all suggestions, in percent of the peak; `None` without records of memory accesses.
    pub fn saved_percent(&self) -> Option<f64> {
        Some(self.percent_above(self.mended_bytes?))
    }

    /// Certain waste, in percent of the peak; `None` without records of memory accesses.
    pub fn waste_percent(&self) -> Option<f64> {
        Some(self.percent_above(self.needed_bytes?))
    }

    /// Certain and uncertain waste, in percent of the peak; `None` without records of memory accesses.
    pub fn perhaps_waste_percent(&self) -> Option<f64> {
        Some(self.percent_above(self.perhaps_needed_bytes?))
    }

    /// Part of the peak above `left` bytes, in percent.
    fn percent_above(&self, left: u64) -> f64 {
        100.0 * self.bytes.saturating_sub(left) as f64 / self.bytes.max(1) as f64
    }
}

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
        let unchecked = |rule: &super::Rule| SkippedRule { rule: rule.info(), reason: reason.clone() };
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
            ranks: Vec::new(),
            peaks: Vec::new(),
            uncovered: super::Uncovered::default(),
        };
        none.with_memory(memory)
    }

    /// Convert memory findings to a result without steps and times that lists the rules on execution traces as not
    /// checked.
    pub fn from_memory_only(memory: MemoryFindings) -> Self {
        let mut found = Self::from_memory(memory);
        let others = || rules::trace_rules().map(super::Rule::info);
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
        self.rules.splice(own..own, rules::memory_rules().map(super::Rule::info));
        self.small.extend(small);
        self.peaks = peaks;
        self
    }
}
