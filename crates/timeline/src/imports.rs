//! Time of a recorded program's module imports before its first operator.

use crate::intervals::{total, union};
use stackline_model::names::IMPORTS;
use stackline_model::{EventId, EventKind, RECORDING, StrId, Trace};

/// Module imports before the program's first operator outside of imports.
pub(crate) struct Imports {
    /// Time ranges of the outermost imports in ns, disjoint and in order of time.
    spans: Vec<(i64, i64)>,
}

impl Imports {
    /// Find the module imports before the program's first operator outside of imports. `None` without such imports, and
    /// in traces that Stackline did not record.
    pub(crate) fn from_trace(trace: &Trace) -> Option<Self> {
        trace.meta.entry(RECORDING)?;
        let is_import: Vec<bool> = trace.strings.iter().map(|name| name.starts_with(IMPORTS)).collect();
        let imports = |name: StrId| is_import.get(name.index()).copied().unwrap_or(false);
        let is_frame = |e: EventId| {
            let name = trace.events.name[e.index()];
            trace.kind(e) == EventKind::PythonFunction && imports(name) && trace.events.is_timed(e)
        };
        let stacks = &trace.stacks;
        let in_stack = |e: EventId| stacks.names(stacks.of_event(e)).any(imports);
        let is_own = |e: &EventId| !in_stack(*e) && !trace.ancestors(*e).any(is_frame);
        let start = |e: EventId| trace.events.start[e.index()];
        let operators =
            trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Operator && trace.events.is_timed(e));
        let first = operators.filter(is_own).map(start).min()?;
        let frames = trace.events.ids().filter(|&e| is_frame(e) && start(e) < first);
        let spans = union(frames.map(|e| (start(e), trace.events.end(e).min(first))));
        (!spans.is_empty()).then_some(Self { spans })
    }

    /// Time in ns that imports take until a given time.
    pub(crate) fn ns_until(&self, end: i64) -> i64 {
        let until: Vec<(i64, i64)> = self.spans.iter().map(|&(from, to)| (from.min(end), to.min(end))).collect();
        total(&until)
    }

    /// End in ns of the last import until which the time since `start` is mostly imports. Other work of the start-up,
    /// such as reading data, is no reason to exclude time.
    pub(crate) fn end_since(&self, start: i64) -> Option<i64> {
        let ends = self.spans.iter().rev().map(|&(_, end)| end);
        let is_mostly = |end: &i64| self.ns_until(*end).saturating_mul(2) >= end.saturating_sub(start);
        ends.filter(|end| *end > start).find(is_mostly)
    }
}
