//! Collectives that run on CPUs: recorded as spans of the library that does them, beside the operators that ask for them.

use crate::classify::Collective;
use crate::vocabulary::libraries::HOST_SPANS;
use crate::vocabulary::python::ASKS_FOR_COLLECTIVE;
use stackline_model::{EventId, EventKind, Trace};

/// What a collective is, from the name of its library's span.
fn of_library(name: &str) -> Option<&'static Collective> {
    HOST_SPANS.iter().find_map(|library| Collective::find(name.strip_prefix(library)?))
}

fn asked_for(name: &str) -> Option<&'static Collective> {
    Collective::find(name.strip_prefix(ASKS_FOR_COLLECTIVE)?)
}

/// The collectives of a trace without GPU, by position: those of libraries, from when they are asked for until they are done; where
/// none are recorded, the operators that ask for them. In programs with a GPU such operators only launch.
pub(crate) fn host_collectives(trace: &Trace) -> Vec<(EventId, &'static Collective)> {
    if !trace.gpu.is_empty() {
        return Vec::new();
    }
    for test in [of_library, asked_for] {
        // Each name is looked at once.
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
    use super::{asked_for, of_library};

    #[test]
    fn names_of_collectives() {
        let family = |found: Option<&crate::classify::Collective>| found.map(|family| family.name);
        assert_eq!(family(of_library("gloo:all_reduce")), Some("all_reduce"));
        assert_eq!(family(of_library("gloo:barrier")), None);
        assert_eq!(family(of_library("all_reduce")), None);
        assert_eq!(family(asked_for("c10d::_allgather_base_")), Some("all_gather"));
        assert_eq!(family(asked_for("gloo:all_reduce")), None);
    }
}
