//! Findings about memory: bytes at a device's peak instead of time.
//!
//! They are made of memory traces elsewhere (`engine`), and stand in one list with the others, behind what saves time.

use super::finding::Finding;
use super::rank::{Findings, order};
use super::rule::Requirement;
use super::rules;
use super::skipped_rules::{Reason, SkippedRule};

/// What a change saves at the highest peak of a device, by replay of its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryGain {
    /// Likely, in bytes: at the moment of the peak.
    pub bytes: u64,
    /// What the peak falls by if nothing else is changed: by less, where other moments are nearly as high.
    pub lowers_bytes: u64,
    /// At least: the same, by what is sure not to be needed.
    pub low_bytes: u64,
    /// At most.
    pub high_bytes: u64,
    /// The peak as it is, in bytes.
    pub peak_bytes: u64,
    /// Name of the device, such as `cuda:0`.
    pub device: String,
}

impl MemoryGain {
    /// A part of the peak, in percent.
    pub fn percent_of(&self, bytes: u64) -> f64 {
        (100.0 * bytes as f64 / self.peak_bytes.max(1) as f64).min(100.0)
    }

    /// What is likely saved, in percent of the peak.
    pub fn percent(&self) -> f64 {
        self.percent_of(self.bytes)
    }
}

/// The highest peak of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePeak {
    /// Name of the device.
    pub device: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its bytes once all suggestions are followed that go together and are not ignored, by replay; none where it is not known who
    /// touches memory.
    pub mended_bytes: Option<u64>,
    /// Its bytes if of these only those are followed that are against waste, and surely so: what is made again or moved to the host
    /// is needed, and of a guess nobody knows. None as above.
    pub needed_bytes: Option<u64>,
    /// The same if what is but a guess is waste, too.
    pub perhaps_needed_bytes: Option<u64>,
}

impl DevicePeak {
    /// What all suggestions save of it, in percent.
    pub fn saved_percent(&self) -> Option<f64> {
        Some(self.percent_above(self.mended_bytes?))
    }

    /// What of it is for nothing, in percent.
    pub fn waste_percent(&self) -> Option<f64> {
        Some(self.percent_above(self.needed_bytes?))
    }

    /// What of it is for nothing if all guesses are true, in percent.
    pub fn perhaps_waste_percent(&self) -> Option<f64> {
        Some(self.percent_above(self.perhaps_needed_bytes?))
    }

    fn percent_above(&self, left: u64) -> f64 {
        100.0 * self.bytes.saturating_sub(left) as f64 / self.bytes.max(1) as f64
    }
}

/// All that was found in a memory trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryFindings {
    /// What was found.
    pub findings: Vec<Finding>,
    /// Findings that were asked not to be shown.
    pub ignored: Vec<Finding>,
    /// Rules that could not look.
    pub unchecked: Vec<SkippedRule>,
    /// Findings left out because they save too little.
    pub small: Vec<Finding>,
    /// The highest peak of each device.
    pub peaks: Vec<DevicePeak>,
}

impl MemoryFindings {
    /// Of a run that tells nothing of memory.
    pub fn unchecked() -> Self {
        let reason = Reason::Missing(Requirement::Memory);
        let unchecked = |rule: &super::Rule| SkippedRule { rule: rule.info(), reason: reason.clone() };
        Self { unchecked: rules::of_memory().map(unchecked).collect(), ..Self::default() }
    }
}

impl Findings {
    /// Of a memory trace alone: steps have no length, and the rules are those that look at memory.
    pub fn of_memory(memory: MemoryFindings) -> Self {
        let none = Self {
            window: None,
            step_ns: 0,
            steps: 0,
            are_inferred: false,
            whole: None,
            with_gpu_work: false,
            between_ns: None,
            findings: Vec::new(),
            together: None,
            ignored: Vec::new(),
            rules: Vec::new(),
            unchecked: Vec::new(),
            small: Vec::new(),
            notes: Vec::new(),
            alone_ns: None,
            is_incomplete: false,
            is_of_calls: false,
            ranks: Vec::new(),
            peaks: Vec::new(),
            uncovered: super::Uncovered::default(),
        };
        none.with_memory(memory)
    }

    /// The same, and names all other rules as those that could not look.
    pub fn of_memory_alone(memory: MemoryFindings) -> Self {
        let mut found = Self::of_memory(memory);
        let others = || rules::of_traces().map(super::Rule::info);
        found.rules.splice(0..0, others());
        let reason = Reason::Missing(Requirement::Events);
        found.unchecked.splice(0..0, others().map(|rule| SkippedRule { rule, reason: reason.clone() }));
        found
    }

    /// Together with what was found in the memory of the same run.
    #[must_use]
    pub fn with_memory(mut self, memory: MemoryFindings) -> Self {
        let MemoryFindings { findings, ignored, unchecked, small, peaks } = memory;
        self.findings.extend(findings);
        self.findings.sort_by(|a, b| order(a).cmp(&order(b)));
        self.ignored.extend(ignored);
        self.unchecked.extend(unchecked);
        // Rules of the user's own stay the last ones.
        let own = self.rules.iter().position(|rule| rules::find(&rule.code).is_none()).unwrap_or(self.rules.len());
        self.rules.splice(own..own, rules::of_memory().map(super::Rule::info));
        self.small.extend(small);
        self.peaks = peaks;
        self
    }
}
