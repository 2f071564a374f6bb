//! Indexes of the contents of spans: time on the critical path, operators, waiting calls, backward work. Rules query
//! many locations, so each index is built once.

use super::nesting::Nesting;
use stackline_model::EventId;
use std::sync::OnceLock;

/// Indexes that rules share, built at first use.
#[derive(Debug, Default)]
pub(super) struct SpanIndexes {
    pub(super) path: OnceLock<PathTimes>,
    pub(super) operators: OnceLock<Nesting>,
    pub(super) outermost: OnceLock<Vec<EventId>>,
    pub(super) waiting: OnceLock<(Vec<EventId>, Nesting)>,
    pub(super) backward: OnceLock<BackwardLinks>,
    pub(super) engine: OnceLock<OperatorRuns>,
    uses_gpu: OnceLock<bool>,
}

impl SpanIndexes {
    /// Result of `ask`, which checks if the program uses a GPU; it is called once.
    pub(super) fn uses_gpu(&self, ask: impl FnOnce() -> bool) -> bool {
        *self.uses_gpu.get_or_init(ask)
    }
}

/// Events on the critical path by nesting, with prefix sums of their time on the path.
#[derive(Debug)]
pub(super) struct PathTimes {
    pub(super) nesting: Nesting,
    /// Prefix sums of the time on the path, in ns.
    pub(super) before: Vec<i64>,
}

/// Links from forward to backward operators.
#[derive(Debug)]
pub(super) struct BackwardLinks {
    pub(super) starts: Nesting,
    /// Start and end of each link, ascending.
    pub(super) links: Vec<(EventId, EventId)>,
}

/// Operators grouped into runs, each without other operators in between.
#[derive(Debug, Default)]
pub(crate) struct OperatorRuns {
    /// First and last operator of each run.
    pub(crate) runs: Vec<(EventId, EventId)>,
    /// Total duration of the runs, including the time between their operators, in ns.
    pub(crate) ns: i64,
    /// Operators before and after each run on its thread, if any.
    pub(crate) neighbors: Vec<(Option<EventId>, Option<EventId>)>,
}
