//! Detection of CPU collectives: spans of the communication library, or the operators that request them.

use crate::classify::Collective;
use crate::vocabulary::libraries::HOST_SPANS;
use crate::vocabulary::python::COLLECTIVE_REQUEST_PREFIX;
use stackline_model::{EventId, EventKind, Trace};

/// Family of a collective, by the name of a communication library's span; `None` for other spans.
fn library_collective(name: &str) -> Option<&'static Collective> {
    HOST_SPANS.iter().find_map(|library| Collective::find(name.strip_prefix(library)?))
}

/// Family of a collective, by the name of an operator that requests it; `None` for other operators.
fn requested_collective(name: &str) -> Option<&'static Collective> {
    Collective::find(name.strip_prefix(COLLECTIVE_REQUEST_PREFIX)?)
}

/// Find the CPU collectives of a trace, in order of events; none if the trace has GPU work.
///
/// Spans of libraries cover the time from call to completion. Without such spans, the requesting operators are used. In
/// programs with a GPU these operators only launch.
pub fn host_collectives(trace: &Trace) -> Vec<(EventId, &'static Collective)> {
    if !trace.gpu.is_empty() {
        return Vec::new();
    }
    for test in [library_collective, requested_collective] {
        // Test each name once.
        let by_name: Vec<Option<&Collective>> = trace.strings.iter().map(test).collect();
        let family = |e: EventId| by_name.get(trace.events.name[e.index()].index()).copied().flatten();
        let is_span = |e: &EventId| {
            matches!(trace.kind(*e), EventKind::Operator | EventKind::Annotation) && trace.events.is_timed(*e)
        };
        let found: Vec<_> = trace.events.ids().filter(is_span).filter_map(|e| Some((e, family(e)?))).collect();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::{library_collective, requested_collective};

    #[test]
    fn names_of_collectives() {
        let family = |found: Option<&crate::classify::Collective>| found.map(|family| family.name);
        assert_eq!(family(library_collective("gloo:all_reduce")), Some("all_reduce"));
        assert_eq!(family(library_collective("gloo:barrier")), None);
        assert_eq!(family(library_collective("all_reduce")), None);
        assert_eq!(family(requested_collective("c10d::_allgather_base_")), Some("all_gather"));
        assert_eq!(family(requested_collective("gloo:all_reduce")), None);
    }
}
