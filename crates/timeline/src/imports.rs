//! Time of a recorded program's module imports before its first operator.

use stackline_model::names::IMPORTS;
use stackline_model::{EventId, EventKind, RECORDING, StrId, Trace};

/// End in ns of the last module import before the program's first operator outside of imports. `None` without such
/// imports, and in traces that Stackline did not record.
pub(crate) fn end_of_imports(trace: &Trace) -> Option<i64> {
    trace.meta.entry(RECORDING)?;
    let is_import: Vec<bool> = trace.strings.iter().map(|name| name.starts_with(IMPORTS)).collect();
    let imports = |name: StrId| is_import.get(name.index()).copied().unwrap_or(false);
    let is_frame = |e: EventId| {
        trace.kind(e) == EventKind::PythonFunction && imports(trace.events.name[e.index()]) && trace.events.is_timed(e)
    };
    let stacks = &trace.stacks;
    let in_stack = |e: EventId| stacks.names(stacks.of_event(e)).any(imports);
    let is_own = |e: &EventId| !in_stack(*e) && !trace.ancestors(*e).any(is_frame);
    let operators = trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Operator && trace.events.is_timed(e));
    let first = operators.filter(is_own).map(|e| trace.events.start[e.index()]).min()?;
    let frames = trace.events.ids().filter(|&e| is_frame(e) && trace.events.start[e.index()] < first);
    frames.map(|e| trace.events.end(e).min(first)).max()
}
