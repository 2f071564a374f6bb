//! Links between forward operators and their autograd backward operators.

use crate::byte_offsets::{ByteOffsets, ProblemTally};
use crate::diagnostics;
use crate::sources::chrome::BACKWARD_FLOWS;
use crate::sources::ranges::{self, is_autograd_node};
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, Key, LinkKind, StrId, Trace, TrackId};
use std::collections::BTreeMap;

/// Link backward operators of a trace to their forward operators. Arrows of the source take precedence over sequence
/// numbers. A backward operator has the forward thread (`Fwd thread id`), and its partner is the last operator with
/// that number and without such an ID. If no operator has one (NVTX ranges), nodes of autograd are the backward
/// operators.
pub(super) fn link(trace: &mut Trace, places: &ByteOffsets) {
    let mut repeated = ProblemTally::default();
    for event in trace.repeated_backward() {
        repeated.add(event, || trace.name(event).to_owned());
    }
    repeated.report(diagnostics::SEQUENCE_TWICE, places, &mut trace.report);
    let categories: Vec<StrId> = BACKWARD_FLOWS.iter().filter_map(|c| trace.strings.find(c)).collect();
    let mut pairs: Vec<(EventId, EventId, StrId)> =
        trace.links.of_kind(LinkKind::Flow).filter(|(.., category)| categories.contains(category)).collect();
    if pairs.is_empty() {
        pairs = by_sequence_number(trace);
    }
    pairs.sort_unstable_by_key(|&(from, to, _)| (to, from));
    trace.links.set(LinkKind::Backward, pairs);
}

/// A forward operator: number, thread, start, event. Sorted in this order, operators with the same number and thread
/// are adjacent.
type Forward = (i64, TrackId, i64, EventId);

/// A backward operator: sequence number, the profiler's number of the forward thread, and the event.
type Backward = (i64, i64, EventId);

/// Pairs of a forward and a backward operator with one sequence number, preferably on the recorded forward thread.
fn by_sequence_number(trace: &Trace) -> Vec<(EventId, EventId, StrId)> {
    let (mut forward, backward) = operators_with_sequence_number(trace);
    forward.sort_unstable();
    let threads = forward_threads(trace, &forward, &backward);
    let partner = |&(number, thread, to): &Backward| {
        let candidates = forward_candidates(trace, &forward, number, to);
        let own = threads.get(&(pid(trace, to), thread));
        let on_thread = candidates.iter().find(|(track, ..)| own == Some(track));
        let (.., from) = on_thread.or_else(|| candidates.iter().max_by_key(|(_, start, from)| (*start, *from)))?;
        Some((*from, to, StrId::NONE))
    };
    backward.iter().filter_map(partner).collect()
}

/// Forward and backward operators that have an autograd sequence number.
fn operators_with_sequence_number(trace: &Trace) -> (Vec<Forward>, Vec<Backward>) {
    let sequence = trace.attr("Sequence number");
    let thread = trace.attr("Fwd thread id");
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    if !sequence.exists() || !thread.exists() && !ranges::FORMATS.contains(&&*trace.meta.format) {
        return (forward, backward);
    }
    let thread_of = |event: EventId| match thread.exists() {
        true => thread.i64(event).unwrap_or(0),
        false => i64::from(is_autograd_node(trace.name(event))),
    };
    for event in trace.events.ids().filter(|e| trace.kind(*e) == EventKind::Operator) {
        let Some(number) = sequence.i64(event).filter(|&n| n >= 0) else { continue };
        match thread_of(event) {
            thread if thread > 0 => backward.push((number, thread, event)),
            _ => forward.push((number, trace.events.track[event.index()], trace.events.start[event.index()], event)),
        }
    }
    (forward, backward)
}

/// PID of the process on whose track an event lies.
fn pid(trace: &Trace, event: EventId) -> Key {
    trace.tracks.pid(trace.events.track[event.index()])
}

/// Last forward operator with a sequence number that starts before a backward operator (`to`), for each thread of its
/// process.
fn forward_candidates(trace: &Trace, forward: &[Forward], number: i64, to: EventId) -> Vec<(TrackId, i64, EventId)> {
    let from = forward.partition_point(|f| f.0 < number);
    let process = pid(trace, to);
    let mut found: Vec<(TrackId, i64, EventId)> = Vec::new();
    for &(_, track, start, event) in forward[from..].iter().take_while(|f| f.0 == number) {
        if start > trace.events.start[to.index()] || trace.tracks.pid(track) != process {
            continue;
        }
        match found.last_mut() {
            Some(last) if last.0 == track => *last = (track, start, event),
            _ => found.push((track, start, event)),
        }
    }
    found
}

/// Thread tracks by process and the profiler's number of a forward thread. Sequence numbers count per thread, so a
/// number that only one thread has identifies the thread.
fn forward_threads(trace: &Trace, forward: &[Forward], backward: &[Backward]) -> FxHashMap<(Key, i64), TrackId> {
    let mut votes: BTreeMap<(Key, i64, TrackId), u64> = BTreeMap::new();
    for &(number, thread, to) in backward {
        if let [(track, ..)] = forward_candidates(trace, forward, number, to)[..] {
            *votes.entry((pid(trace, to), thread, track)).or_default() += 1;
        }
    }
    let mut best: FxHashMap<(Key, i64), (u64, TrackId)> = FxHashMap::default();
    for ((process, thread, track), count) in votes {
        let slot = best.entry((process, thread)).or_insert((0, track));
        if count > slot.0 {
            *slot = (count, track);
        }
    }
    best.into_iter().map(|(key, (_, track))| (key, track)).collect()
}
