//! Spans in which torch.compile compiles, by their names.

use super::rules;
use stackline_model::{EventId, EventKind, StrId, Trace};

/// For each name of the trace: true for spans that compile. Empty without such names.
pub(super) struct Compilations(Vec<bool>);

impl Compilations {
    /// Test each name of a trace once.
    pub(super) fn from_trace(trace: &Trace) -> Self {
        let compiles: Vec<bool> = trace.strings.iter().map(rules::compiles).collect();
        Self(if compiles.contains(&true) { compiles } else { Vec::new() })
    }

    /// True if the trace has no name of a compilation.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Check for the name of a compilation.
    pub(super) fn contains(&self, name: StrId) -> bool {
        self.0.get(name.index()).copied().unwrap_or(false)
    }

    /// Check for a compilation: an operator, an annotation or a function with such a name.
    pub(super) fn is_span(&self, trace: &Trace, event: EventId) -> bool {
        self.contains(trace.events.name[event.index()])
            && matches!(trace.kind(event), EventKind::Operator | EventKind::Annotation | EventKind::PythonFunction)
    }
}
