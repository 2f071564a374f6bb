//! Rules that were not checked, with the reason.

use super::requirement::Requirement;
use super::rule_info::RuleInfo;
use stackline_model::Trace;
use std::sync::Arc;

/// Rule that was skipped, with the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct SkippedRule {
    /// The rule.
    pub rule: Arc<RuleInfo>,
    /// Reason.
    pub reason: Reason,
}

/// Reason why a rule was skipped.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The trace lacks a requirement.
    Missing(Requirement),
    /// A Python rule failed: the message, and the traceback if there is one.
    Failed(String, Option<String>),
    /// A Python rule reported too many findings: the message. The first findings count.
    Cut(String),
}

impl Reason {
    /// Reason without a subject: `no steps`.
    pub fn short(&self) -> &str {
        match self {
            Self::Missing(need) => need.missing(),
            Self::Failed(why, _) | Self::Cut(why) => why,
        }
    }

    /// Outcome for the rule: `not checked` or `checked in part`.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Missing(_) | Self::Failed(..) => "not checked",
            Self::Cut(_) => "checked in part",
        }
    }

    /// Reason as a clause: `the trace has no steps`.
    pub fn sentence(&self) -> String {
        match self {
            Self::Missing(need) => format!("the trace has {}", need.missing()),
            Self::Failed(why, _) | Self::Cut(why) => why.clone(),
        }
    }

    /// Traceback of a failed Python rule, as lines; `None` for other reasons.
    pub fn traceback(&self) -> Option<&str> {
        match self {
            Self::Failed(_, traceback) => traceback.as_deref(),
            Self::Missing(_) | Self::Cut(_) => None,
        }
    }
}

/// Note on incomplete GPU records, and the rules that were not checked for this reason; `None` without such rules.
pub(super) fn incomplete_gpu(trace: &Trace, unchecked: &[SkippedRule]) -> Option<String> {
    let is_one = |of: &&SkippedRule| of.reason == Reason::Missing(Requirement::GpuRecords);
    let rules: Vec<&str> = unchecked.iter().filter(is_one).map(|of| of.rule.code.as_str()).collect();
    let missing = trace.gpu_records().missing().filter(|_| !rules.is_empty())?;
    Some(format!(
        "GPU times are incomplete ({missing}), so rules that use GPU times were not checked: {}",
        rules.join(", ")
    ))
}
