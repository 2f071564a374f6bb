//! Events of a trace that are calls, with a node in the call tree.

use stackline_model::{EventId, EventKind, Trace};

/// True if an event gets a node in the call tree: operators, annotations, Python functions, API calls, GPU work.
pub(super) fn is_call(trace: &Trace, event: EventId) -> bool {
    use EventKind::{Annotation, Operator, PythonFunction};
    let kind = trace.kind(event);
    matches!(kind, Operator | Annotation | PythonFunction) || kind.is_api_call() || kind.is_gpu_work()
}
