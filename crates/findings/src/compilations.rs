//! Detection of spans in which torch.compile compiles, by their names.

use super::rules;
use stackline_model::{EventId, EventKind, StrId, Trace};

/// Flag for each name of the trace: true if spans with this name are compilations by torch.compile. Empty without such
/// names.
pub(super) struct Compilations(Vec<bool>);

impl Compilations {
    /// Find the names of compilations in a trace; each name is tested once.
    pub(super) fn from_trace(trace: &Trace) -> Self {
        let compiles: Vec<bool> = trace.strings.iter().map(rules::compiles).collect();
        Self(if compiles.contains(&true) { compiles } else { Vec::new() })
    }

    /// True if no name in the trace is that of a compilation.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Check if spans with this name are compilations by torch.compile.
    pub(super) fn contains(&self, name: StrId) -> bool {
        self.0.get(name.index()).copied().unwrap_or(false)
    }

    /// Check if an event is a compilation: an operator, annotation or function with the name of a compilation.
    pub(super) fn is_span(&self, trace: &Trace, event: EventId) -> bool {
        self.contains(trace.events.name[event.index()])
            && matches!(trace.kind(event), EventKind::Operator | EventKind::Annotation | EventKind::PythonFunction)
    }
}
