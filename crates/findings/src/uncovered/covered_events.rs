//! Events that are covered by findings.

use crate::rule_context::RuleContext;
use rustc_hash::FxHashSet;
use stackline_model::EventId;

/// Events covered by findings, and functions that a finding calls slow without their callees.
#[derive(Clone, Copy)]
pub(super) struct CoveredEvents<'s, 'a> {
    pub(super) context: &'s RuleContext<'a>,
    pub(super) events: &'s FxHashSet<EventId>,
    pub(super) functions: &'s FxHashSet<EventId>,
}

impl CoveredEvents<'_, '_> {
    /// Whether a finding is about an event, or about one around it; of GPU work also around its launch.
    pub(super) fn is_covered(self, event: EventId) -> bool {
        self.events.contains(&event) || self.is_in(event, self.events)
    }

    /// Whether an event lies in a function that is only known to be slow.
    pub(super) fn is_in_function(self, event: EventId) -> bool {
        self.is_in(event, self.functions)
    }

    fn is_in(self, event: EventId, spans: &FxHashSet<EventId>) -> bool {
        !spans.is_empty() && self.context.stack(event).any(|around| spans.contains(&around))
    }
}
