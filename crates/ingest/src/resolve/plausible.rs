//! GPU records whose times cannot be true (at time 0, before the recording, centuries long) must not stretch spans.

use crate::places::{Places, Tally};
use crate::problems;
use stackline_model::{EventId, EventKind, Trace, flags};

/// GPU records are believed this long before the host's first event (work that was queued before the recording), or the
/// recording's length if that is more.
const BEFORE_NS: i64 = 100_000_000;
/// They are believed ten times this long behind the host's last event, or ten times the recording's length.
const BEHIND_NS: i64 = 1_000_000_000;

/// Marks implausible GPU records. Without CPU events there is nothing to compare with.
pub(super) fn mark(trace: &mut Trace, places: &Places) {
    let Some((first, last)) = host_span(trace) else { return };
    let length = last.saturating_sub(first);
    let earliest = first.saturating_sub(BEFORE_NS.max(length));
    let latest = last.saturating_add(BEHIND_NS.max(length).saturating_mul(10));
    let mut marked = Tally::default();
    for event in trace.events.ids() {
        let row = event.index();
        let kind = trace.events.kind[row];
        let on_gpu = kind.is_gpu_work() || matches!(kind, EventKind::GpuAnnotation | EventKind::Sync);
        if !on_gpu || !trace.events.has(event, flags::HAS_DURATION) {
            continue;
        }
        let (start, end) = (trace.events.start[row], trace.events.end(event));
        // A record that the driver never filled in says 0 for both.
        let empty = start == 0 && end == 0 && first > 0;
        if empty || start < earliest || end > latest {
            trace.events.flags[row] |= flags::IMPLAUSIBLE;
            marked.add(event, || trace.name(event).to_owned());
        }
    }
    marked.tell(problems::IMPLAUSIBLE_TIME, places, &mut trace.report);
}

/// From the first to the last event of CPU threads.
fn host_span(trace: &Trace) -> Option<(i64, i64)> {
    let on_host = |e: &EventId| {
        let kind = trace.kind(*e);
        (kind.is_api_call() || matches!(kind, EventKind::Operator | EventKind::PythonFunction | EventKind::Annotation))
            && trace.events.is_plausible(*e)
    };
    trace.events.ids().filter(on_host).fold(None, |span, e| {
        let (start, end) = (trace.events.start[e.index()], trace.events.end(e));
        Some(span.map_or((start, end), |(a, b): (i64, i64)| (a.min(start), b.max(end))))
    })
}
