//! Forward operators and the backward operators that autograd made of them.

use crate::sources::chrome::BACKWARD_FLOWS;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, StrId, Trace};

/// Fills `trace.backward`: from the source's arrows where it has them, else by sequence number: a backward operator
/// names the forward thread (`Fwd thread id`), its partner is the last operator with that number that names none.
pub(super) fn link(trace: &mut Trace) {
    let categories: Vec<StrId> = BACKWARD_FLOWS.iter().filter_map(|c| trace.strings.find(c)).collect();
    let mut pairs: Vec<(EventId, EventId, StrId)> =
        trace.flows.iter().filter(|(.., category)| categories.contains(category)).collect();
    if pairs.is_empty() {
        pairs = by_sequence_number(trace);
    }
    pairs.sort_unstable_by_key(|&(from, to, _)| (to, from));
    for (from, to, category) in pairs {
        trace.backward.push(from, to, category);
    }
}

fn by_sequence_number(trace: &Trace) -> Vec<(EventId, EventId, StrId)> {
    let sequence = trace.attr("Sequence number");
    let thread = trace.attr("Fwd thread id");
    if !sequence.exists() || !thread.exists() {
        return Vec::new();
    }
    let mut forward: FxHashMap<i64, EventId> = FxHashMap::default();
    let mut backward = Vec::new();
    for event in trace.events.ids().filter(|e| trace.kind(*e) == EventKind::Operator) {
        let Some(number) = sequence.i64(event).filter(|&n| n >= 0) else { continue };
        if thread.i64(event).unwrap_or(0) > 0 {
            backward.push((number, event));
            continue;
        }
        let start = |e: EventId| (trace.events.start[e.index()], e);
        let slot = forward.entry(number).or_insert(event);
        if start(event) > start(*slot) {
            *slot = event;
        }
    }
    let first = |event: EventId| trace.events.start[event.index()];
    backward
        .into_iter()
        .filter_map(|(number, event)| Some((*forward.get(&number)?, event)))
        .filter(|&(from, to)| first(from) <= first(to))
        .map(|(from, to)| (from, to, StrId::NONE))
        .collect()
}
