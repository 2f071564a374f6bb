//! Test if findings already cover an event of the trace.

use crate::rule_context::RuleContext;
use rustc_hash::FxHashSet;
use stackline_model::EventId;

/// Events that findings cover, and functions that a finding reports as slow without their callees.
#[derive(Clone, Copy)]
pub(super) struct CoveredEvents<'s, 'a> {
    pub(super) context: &'s RuleContext<'a>,
    pub(super) events: &'s FxHashSet<EventId>,
    pub(super) functions: &'s FxHashSet<EventId>,
}

impl CoveredEvents<'_, '_> {
    /// Check if a finding covers an event or one of its ancestors; for GPU work also those of its launch.
    pub(super) fn is_covered(self, event: EventId) -> bool {
        self.events.contains(&event) || self.is_in(event, self.events)
    }

    /// Check if an event is in a function that a finding reports as slow without its callees.
    pub(super) fn is_in_function(self, event: EventId) -> bool {
        self.is_in(event, self.functions)
    }

    /// Check if an event, or the launch of GPU work, is in one of the spans or is one of them.
    fn is_in(self, event: EventId, spans: &FxHashSet<EventId>) -> bool {
        !spans.is_empty() && self.context.stack(event).any(|around| spans.contains(&around))
    }
}
