//! Rules that could not look, and why.

use super::rule::{Requirement, RuleInfo};
use stackline_model::Trace;
use std::sync::Arc;

/// Rule that was skipped, with the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct SkippedRule {
    /// The rule.
    pub rule: Arc<RuleInfo>,
    /// Why not.
    pub reason: Reason,
}

/// Reason why a rule was skipped.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The trace lacks what it needs.
    Missing(Requirement),
    /// A rule of the user's own failed: why, in words, and its traceback, if it has one.
    Failed(String, Option<String>),
    /// A rule of the user's own found too much: how much, in words. What it found first counts.
    Cut(String),
}

impl Reason {
    /// The reason in words that need not say what lacks it: `no steps`.
    pub fn short(&self) -> &str {
        match self {
            Self::Missing(need) => need.missing(),
            Self::Failed(why, _) | Self::Cut(why) => why,
        }
    }

    /// What became of the rule: `not checked`.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Missing(_) | Self::Failed(..) => "not checked",
            Self::Cut(_) => "checked in part",
        }
    }

    /// The reason as a sentence: `the trace has no steps`.
    pub fn sentence(&self) -> String {
        match self {
            Self::Missing(need) => format!("the trace has {}", need.missing()),
            Self::Failed(why, _) | Self::Cut(why) => why.clone(),
        }
    }

    /// Where a rule of the user's own failed, line by line.
    pub fn traceback(&self) -> Option<&str> {
        match self {
            Self::Failed(_, traceback) => traceback.as_deref(),
            Self::Missing(_) | Self::Cut(_) => None,
        }
    }
}

/// What records of GPU work are missing, and which rules do not look for that: those that compare with GPU times.
pub(super) fn incomplete_gpu(trace: &Trace, unchecked: &[SkippedRule]) -> Option<String> {
    let is_one = |of: &&SkippedRule| of.reason == Reason::Missing(Requirement::GpuRecords);
    let rules: Vec<&str> = unchecked.iter().filter(is_one).map(|of| of.rule.code.as_str()).collect();
    let missing = trace.gpu_records().missing().filter(|_| !rules.is_empty())?;
    Some(format!(
        "GPU times are incomplete ({missing}), so rules that compare with GPU times are not checked ({})",
        rules.join(", ")
    ))
}
