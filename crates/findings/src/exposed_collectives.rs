//! Time in which only collectives run.

use super::requirement::Requirement;
use super::rule_context::SharedContext;
use stackline_model::{EventId, EventKind};
use stackline_timeline::host_collectives::host_collectives;
use stackline_timeline::intervals;
use stackline_timeline::kernel_type::{KernelType, NameTypes, RULES};
use stackline_timeline::vocabulary::python::COLLECTIVE_REQUEST_PREFIX;

/// Exposed collective time per step of the window, in ns; none without collectives. In this time only collectives run
/// on the GPU, or on the host in a program without a GPU.
pub(super) fn exposed_collectives_ns(shared: &SharedContext<'_>) -> Option<i64> {
    let trace = shared.exact.trace();
    if !Requirement::Collectives.is_met(trace) {
        return None;
    }
    let (from, to) = (shared.window.start, shared.window.end);
    if trace.gpu.is_empty() {
        return Some(exposed_host_collectives_ns(shared));
    }
    let mut types = NameTypes::new(trace, RULES);
    let (mut talk, mut work) = (Vec::new(), Vec::new());
    for &event in trace.gpu.event.iter().filter(|&&event| trace.events.is_timed(event)) {
        let span = (trace.events.start[event.index()].max(from), trace.events.end(event).min(to));
        if span.0 < span.1 {
            let is_communication = types.of_event(event) == KernelType::Communication;
            if is_communication { talk.push(span) } else { work.push(span) }
        }
    }
    let alone = intervals::subtract(&intervals::union(talk), &intervals::union(work));
    Some(intervals::total(&alone) / shared.steps.max(1) as i64)
}

/// Exposed time of collectives on CPUs: no thread runs another operator, per step, in ns.
fn exposed_host_collectives_ns(shared: &SharedContext<'_>) -> i64 {
    let trace = shared.exact.trace();
    let (from, to) = (shared.window.start, shared.window.end);
    let span = |e: EventId| (trace.events.start[e.index()].max(from), trace.events.end(e).min(to));
    let is_in_window = |&(from, to): &(i64, i64)| from < to;
    let collectives: Vec<EventId> = host_collectives(trace).into_iter().map(|(event, _)| event).collect();
    // Operators that start collectives may wait for them.
    let works = |&e: &EventId| {
        trace.kind(e) == EventKind::Operator
            && trace.events.is_timed(e)
            && !trace.name(e).starts_with(COLLECTIVE_REQUEST_PREFIX)
    };
    let work = trace.events.ids().filter(works).map(span).filter(is_in_window);
    let talk = collectives.into_iter().map(span).filter(is_in_window);
    let alone = intervals::subtract(&intervals::union(talk), &intervals::union(work));
    intervals::total(&alone) / shared.steps.max(1) as i64
}
