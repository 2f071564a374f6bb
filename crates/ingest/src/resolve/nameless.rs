//! Names for records without one, by their kind, so that tables and findings have no rows without text.

use crate::byte_offsets::{ByteOffsets, ProblemTally};
use crate::diagnostics;
use stackline_model::{EventId, EventKind, Trace};

/// Name operators, annotations, calls and GPU operations without a name by their kind, and count them.
pub(super) fn fill(trace: &mut Trace, places: &ByteOffsets) {
    let name_of = |event: EventId| match trace.kind(event) {
        EventKind::Operator => Some("operator without a name"),
        EventKind::Annotation => Some("annotation without a name"),
        EventKind::Kernel => Some("kernel without a name"),
        EventKind::Memcpy => Some("copy without a name"),
        EventKind::Memset => Some("fill without a name"),
        kind if kind.is_api_call() => Some("call without a name"),
        _ => None,
    };
    let nameless = trace.events.ids().filter(|&event| trace.name(event).is_empty());
    let found: Vec<(EventId, &str)> = nameless.filter_map(|event| Some((event, name_of(event)?))).collect();
    let mut named = ProblemTally::default();
    for (event, name) in found {
        named.add(event, || name.to_owned());
        trace.events.name[event.index()] = trace.strings.intern(name);
    }
    named.report(diagnostics::ROW_WITHOUT_NAME, places, &mut trace.report);
}
