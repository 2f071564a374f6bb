//! Records of a simulated run that its trace shows, and their times.

use crate::simulator::program::Role;
use crate::simulator::run::Outcome;

/// Selection of the records of a run that its trace shows, with the times of GPU work in the trace.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) hidden_spans: Vec<bool>,
    pub(crate) hidden_activities: Vec<bool>,
    pub(crate) hidden_syncs: bool,
    pub(crate) hidden_threads: Vec<Role>,
    /// Start and end of each activity, ns.
    pub(crate) times: Vec<(i64, i64)>,
    /// Offset of the device's clock in ns, positive if it is ahead.
    pub(crate) offset: i64,
}

impl View {
    /// View of a run in which the trace has all records, with their real times.
    pub(crate) fn complete(outcome: &Outcome) -> Self {
        Self {
            hidden_spans: vec![false; outcome.spans.len()],
            hidden_activities: vec![false; outcome.activities.len()],
            hidden_syncs: false,
            hidden_threads: Vec::new(),
            times: outcome.activities.iter().map(|a| (a.start, a.end)).collect(),
            offset: 0,
        }
    }
}
