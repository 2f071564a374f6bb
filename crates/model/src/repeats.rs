//! Detection of backward operators that have the sequence number of an earlier one, so that their forward operator is
//! uncertain.

use crate::{EventId, EventKind, Key, Trace, TrackId};
use std::collections::BTreeSet;

impl Trace {
    /// Backward operators with the sequence number and forward thread of an earlier one in the same process, in the
    /// order of events: links from forward to backward may be wrong. Excluded are operators within such a one, which
    /// share its number, and graphs that run again (`retain_graph=True`).
    pub fn repeated_backward(&self) -> Vec<EventId> {
        let (sequence, thread) = (self.attr("Sequence number"), self.attr("Fwd thread id"));
        if !sequence.exists() || !thread.exists() {
            return Vec::new();
        }
        let backward_key = |event: EventId| {
            let number = sequence.i64(event).filter(|&n| n >= 0)?;
            let thread = thread.i64(event).filter(|&t| t > 0)?;
            (self.kind(event) == EventKind::Operator).then_some((number, thread))
        };
        // If an operator's time is lost, its nested operators are unknown.
        let is_lost = |event: &EventId| !self.events.is_plausible(*event);
        let lost: BTreeSet<(i64, i64)> = self.events.ids().filter(is_lost).filter_map(backward_key).collect();
        let mut claims: Vec<(Key, i64, i64, EventId)> = Vec::new();
        for event in self.events.ids() {
            let Some((number, thread)) = backward_key(event).filter(|of| !lost.contains(of)) else { continue };
            if !self.ancestors(event).any(|outer| backward_key(outer) == Some((number, thread))) {
                claims.push((self.tracks.pid(self.events.track[event.index()]), number, thread, event));
            }
        }
        claims.sort_unstable();
        let same = |pair: &&[(Key, i64, i64, EventId)]| {
            let [a, b] = pair else { return false };
            (a.0, a.1, a.2) == (b.0, b.1, b.2)
        };
        let repeats =
            claims.windows(2).filter(same).map(|pair| Repeat { first: pair[0].3, again: pair[1].3 }).collect();
        let mut order: Vec<EventId> = claims.iter().map(|claim| claim.3).collect();
        order.sort_unstable_by_key(|&event| self.place_in_time(event));
        self.without_graphs_run_again(repeats, &order)
    }

    /// Sort key of an event: track, start and row.
    fn place_in_time(&self, event: EventId) -> (TrackId, i64, EventId) {
        (self.events.track[event.index()], self.events.start[event.index()], event)
    }

    /// Filter out repetitions by graphs that run again: several operators with the same names and thread, close to each
    /// other both times. `order` has all backward operators, by thread and time.
    fn without_graphs_run_again(&self, mut repeats: Vec<Repeat>, order: &[EventId]) -> Vec<EventId> {
        let at = |event: EventId| {
            let key = self.place_in_time(event);
            order.partition_point(|&other| self.place_in_time(other) < key)
        };
        let track = |event: EventId| self.events.track[event.index()];
        repeats.sort_unstable_by_key(|repeat| self.place_in_time(repeat.again));
        let may_be = |repeat: &Repeat| {
            self.name(repeat.first) == self.name(repeat.again) && track(repeat.first) == track(repeat.again)
        };
        let follows = |one: EventId, two: EventId| {
            track(one) == track(two) && (1..=MOST_BETWEEN).contains(&at(two).saturating_sub(at(one)))
        };
        let continues =
            |a: &Repeat, b: &Repeat| may_be(a) && may_be(b) && follows(a.first, b.first) && follows(a.again, b.again);
        let others = repeats.chunk_by(continues).filter(|run| run.len() < LEAST_OF_A_GRAPH);
        let mut repeated: Vec<EventId> = others.flatten().map(|repeat| repeat.again).collect();
        repeated.sort_unstable();
        repeated
    }
}

/// Pair of backward operators with the same sequence number: the first one and the repetition.
struct Repeat {
    first: EventId,
    again: EventId,
}

/// Least number of operators that repeat in their order in a graph that runs again; fewer may be a coincidence.
const LEAST_OF_A_GRAPH: usize = 3;
/// Maximum distance of two repeated operators of one graph, in operators: parts of the graph may run only once.
const MOST_BETWEEN: usize = 8;
