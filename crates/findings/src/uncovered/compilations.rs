//! Compilations of torch.compile: their time belongs to the outermost span, not to the parts of the compiler.

use super::LargeKind;
use super::groups::GroupKey;
use crate::rule_context::RuleContext;
use crate::rules;
use stackline_model::{EventId, EventKind};

/// For each name of the trace: true for spans that compile. Empty without such names.
pub(super) struct Compilations(Vec<bool>);

impl Compilations {
    pub(super) fn new(context: &RuleContext<'_>) -> Self {
        let compiles: Vec<bool> = context.trace().strings.iter().map(rules::compiles).collect();
        Self(if compiles.contains(&true) { compiles } else { Vec::new() })
    }

    /// Group of the outermost compilation around an event.
    pub(super) fn group_around(&self, context: &RuleContext<'_>, event: EventId) -> Option<GroupKey> {
        if self.0.is_empty() {
            return None;
        }
        let trace = context.trace();
        let group = |event: EventId| {
            let kind = match trace.kind(event) {
                EventKind::Operator => LargeKind::Operator,
                EventKind::PythonFunction => LargeKind::Frame,
                _ => return None,
            };
            let name = trace.events.name[event.index()];
            self.0.get(name.index()).copied().unwrap_or(false).then_some((kind, name))
        };
        context.stack(event).filter_map(group).last()
    }
}
