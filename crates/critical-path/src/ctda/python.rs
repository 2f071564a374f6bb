//! Attribution of Python time to the functions with a relevant share of their node's time (section 3.2.1 of the paper).
//! The time of smaller functions counts for the innermost relevant function around them.

use super::nodes::Chain;
use super::stacks::Priority;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, StrId, Trace};

/// Minimum share of the node's time in a function's own code, without operators and runtime calls, for a function to be
/// kept.
const KEPT_SHARE: f64 = 0.01;

/// Attribute the Python time of each graph node to functions with at least [`KEPT_SHARE`] of the node's time.
pub(super) fn roll_up(trace: &Trace, parent: &[EventId], chain: &mut Chain) {
    for node in &chain.nodes {
        let least = (node.end.saturating_sub(node.start)) as f64 * KEPT_SHARE;
        let pieces = &mut chain.pieces[node.pieces.clone()];
        let is_frame = |event: EventId| event.is_some() && trace.kind(event) == EventKind::PythonFunction;
        if !pieces.iter().any(|p| p.priority != Priority::Work && is_frame(p.event)) {
            continue;
        }
        let mut own: FxHashMap<StrId, i64> = FxHashMap::default();
        for piece in pieces.iter().filter(|p| is_frame(p.event)) {
            *own.entry(trace.events.name[piece.event.index()]).or_default() += piece.end - piece.start;
        }
        let keeps =
            |event: EventId| own.get(&trace.events.name[event.index()]).is_some_and(|&time| time as f64 >= least);
        let mut nearest: FxHashMap<EventId, EventId> = FxHashMap::default();
        let mut outermost: FxHashMap<EventId, i64> = FxHashMap::default();
        for piece in pieces.iter_mut().filter(|p| is_frame(p.event)) {
            let stops = |event: EventId| !is_frame(event) || keeps(event);
            let found = nearest_kept(piece.event, parent, &mut nearest, &stops);
            piece.event = found;
            if !stops(found) {
                *outermost.entry(found).or_default() += piece.end - piece.start;
            }
        }
        // The time that reached the outermost frame may now be sufficient to keep that frame.
        for piece in pieces.iter_mut() {
            if outermost.get(&piece.event).is_some_and(|&time| (time as f64) < least) {
                piece.event = EventId::NONE;
            }
        }
    }
}

/// Innermost event at or around `event` that `stops` accepts (a kept frame or an operator), or the outermost event.
/// `known` caches the result for all frames on the way.
fn nearest_kept(
    event: EventId,
    parent: &[EventId],
    known: &mut FxHashMap<EventId, EventId>,
    stops: &impl Fn(EventId) -> bool,
) -> EventId {
    let mut visited = Vec::new();
    let mut at = event;
    let found = loop {
        if let Some(&found) = known.get(&at) {
            break found;
        }
        if stops(at) {
            break at;
        }
        visited.push(at);
        match parent[at.index()].some() {
            Some(outer) => at = outer,
            None => break at,
        }
    };
    known.extend(visited.into_iter().map(|frame| (frame, found)));
    found
}
