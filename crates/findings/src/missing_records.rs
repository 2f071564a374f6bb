//! Missing records of a trace.

use stackline_model::{Severity, Trace};

/// Number of missing records of a truncated or damaged trace.
pub(super) fn missing_record_count(trace: &Trace) -> u64 {
    let problems = trace.report.problems.iter().filter(|problem| problem.severity == Severity::Lost);
    problems.map(|problem| problem.count).sum()
}
