//! Detection of spans in which torch.compile compiles, by their names.

use stackline_model::names::is_compilation;
use stackline_model::{EventId, EventKind, StrId, Trace};
use stackline_timeline::frame_names::matches_parts;

/// Name parts of compilation events in traces of torch.profiler.
const COMPILES: &[&[&str]] = &[
    &["entire_frame_compile"],
    &["entire_backward_compile"],
    &["_compile.compile_inner"],
    &["torch/_dynamo/convert_frame.py(", "): _compile"],
    &["torch/_inductor/compile_fx.py(", "): compile_fx"],
    &["triton/compiler/compiler.py(", "): compile"],
    &["torch/_inductor/", "): benchmark_all_configs"],
];

/// Flag for each name of the trace: true if spans with this name are compilations by torch.compile. Empty without such
/// names.
pub(super) struct Compilations(Vec<bool>);

impl Compilations {
    /// Find the names of compilations in a trace; each name is tested once.
    pub(super) fn from_trace(trace: &Trace) -> Self {
        let are_compilations: Vec<bool> = trace.strings.iter().map(compiles).collect();
        Self(if are_compilations.contains(&true) { are_compilations } else { Vec::new() })
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

/// Check if a span of the given name compiles.
fn compiles(name: &str) -> bool {
    is_compilation(name) || COMPILES.iter().any(|parts| matches_parts(name, parts)) && !name.contains("_data: ")
}
