//! Consistency checks of a trace: breaches of causality, missing partners, and fields that analyses need. One file for each
//! subject, one line for each check in [`ALL`].

mod backward;
mod collectives;
mod launches;
mod times;
mod waits;

use stackline_model::{EventId, Trace};

/// What a check found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many things were looked at; with none the check does not apply.
    pub checked: usize,
    /// Events that break the rule, in the order of the trace, each with what is wrong with it.
    pub breaches: Vec<(EventId, String)>,
}

/// A rule that sound traces follow.
pub struct Check {
    /// Stable name.
    pub name: &'static str,
    /// What a sound trace does.
    pub rule: &'static str,
    /// What is wrong with results where the rule is broken.
    pub consequence: &'static str,
    /// Looks at a whole trace.
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
