//! Steps: `ProfilerStep#n` annotations on CPU threads.

use stackline_model::{EventId, Step, StrId, Trace, TrackKind, flags, names};

/// Fills `trace.steps`, in time order.
pub(super) fn find(trace: &mut Trace) {
    let numbers: Vec<(StrId, i64)> = trace
        .strings
        .iter()
        .enumerate()
        .filter_map(|(i, name)| Some((StrId::new(i), name.strip_prefix(names::STEP_PREFIX)?.parse().ok()?)))
        .collect();
    if numbers.is_empty() {
        return;
    }
    let number_of = |event: EventId| {
        let name = trace.events.name[event.index()];
        numbers.binary_search_by_key(&name, |&(id, _)| id).ok().map(|i| numbers[i].1)
    };
    let on_thread = |e: &EventId| {
        trace.tracks.get(trace.events.track[e.index()]).kind == TrackKind::Thread
            && trace.events.has(*e, flags::HAS_DURATION)
            && trace.events.is_plausible(*e)
    };
    let mut steps: Vec<Step> = trace
        .events
        .ids()
        .filter_map(|event| Some((event, number_of(event)?)))
        .filter(|(event, _)| on_thread(event))
        .map(|(event, number)| Step {
            number,
            event,
            start: trace.events.start[event.index()],
            end: trace.events.end(event),
        })
        .collect();
    steps.sort_by_key(|s| (s.start, s.event));
    trace.steps = steps;
}
