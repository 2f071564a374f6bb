//! Consistency checks of a trace: causality violations, unmatched records, and fields that analyses need. One file per
//! subject, one line per check in [`ALL`].

mod backward;
mod collectives;
mod launches;
mod times;
mod waits;

use stackline_model::{EventId, Trace};

/// Result of a consistency check: number of checked items, and events that violate the rule.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Number of checked items; 0 if the check does not apply.
    pub checked: usize,
    /// Events that violate the rule, in trace order, each with the reason.
    pub breaches: Vec<(EventId, String)>,
}

/// A consistency check: a rule that correct traces follow, and the effect of violations.
pub struct Check {
    /// Stable name.
    pub name: &'static str,
    /// Rule of a consistent trace.
    pub rule: &'static str,
    /// Effect of a violation on results.
    pub consequence: &'static str,
    /// Codes of the read report that report the same breach, so that the check is known to fail without a run. Codes that count only in
    /// some traces, and checks that are run for the first lines of reports, are in the query of failed checks.
    pub read_codes: &'static [&'static str],
    /// Check a whole trace.
    pub run: fn(&Trace) -> Outcome,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Check({})", self.name)
    }
}

/// Every check, in the order of reports.
pub const ALL: &[Check] = &[
    launches::KERNEL_BEFORE_LAUNCH,
    launches::LAUNCH_WITHOUT_RECORD,
    launches::RECORD_WITHOUT_LAUNCH,
    waits::WAIT_WITHOUT_RECORD,
    waits::WAIT_ON_FUTURE_RECORD,
    waits::SYNC_ENDS_EARLY,
    collectives::COLLECTIVE_FIELDS,
    backward::SEQUENCE_NUMBER_TWICE,
    times::TIMES_LEFT_OUT,
    times::DEVICE_CLOCK,
];
