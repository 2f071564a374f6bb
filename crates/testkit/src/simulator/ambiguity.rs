//! Ambiguity check: a trace with complete records must allow no other cause than the true one.
//!
//! In a trace, a wait for a token is released by the last event of the right kind that ended during the wait. If
//! another event of that kind ended later, or ended during an unrelated wait, the trace is ambiguous.

use std::collections::BTreeMap;

use crate::simulator::names;
use crate::simulator::program::{Kind, Program, Role};
use crate::simulator::run::{Cause, Outcome, Segment, State};

/// Error: the trace allows another cause than the real one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ambiguous;

/// End of a span that may release a waiting thread: time, start, thread and kind.
#[derive(Debug, Clone, Copy)]
struct End {
    at: i64,
    start: i64,
    thread: usize,
    what: What,
}

/// Kind of the end of a span that may release a waiting thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// A top-level span of a worker or of the pinning thread.
    Item,
    /// The main thread's `put` of an index.
    Index,
    /// The release of a lock.
    Release,
    /// A top-level Python frame of the main process.
    Burst,
}

/// Check that a run's trace determines the cause of each wait; an error if one is ambiguous.
pub(crate) fn check_causes(program: &Program, outcome: &Outcome) -> Result<(), Ambiguous> {
    let ends = ends(outcome);
    for (thread, (role, segments)) in outcome.threads.iter().enumerate() {
        let last = segments.len();
        for (i, segment) in segments.iter().enumerate().take(last) {
            check_segment(outcome, &ends, (thread, *role), segment, i == 0)?;
        }
    }
    for &(from, to) in &outcome.polls {
        let ended = outcome.activities.iter().filter(|a| a.end > from && a.end <= to).count();
        if ended != 1 {
            return Err(Ambiguous);
        }
    }
    check_full_queues(program, outcome)?;
    check_levels(program, outcome)
}

/// All ends of host spans in a run that may release a waiting thread, in order of time: items of workers, outermost Python
/// frames, queue puts and lock releases.
fn ends(outcome: &Outcome) -> Vec<End> {
    let mut ends = Vec::new();
    for span in &outcome.spans {
        let (role, top) = (outcome.threads[span.thread].0, span.parent.is_none());
        let mut add = |what| ends.push(End { at: span.end, start: span.start, thread: span.thread, what });
        if top && matches!(role, Role::Worker(_) | Role::Pin) {
            add(What::Item);
        }
        if top && span.kind == Kind::Python && !matches!(role, Role::Worker(_)) {
            add(What::Burst);
        }
        match &*span.name {
            names::QUEUE_PUT => add(What::Index),
            names::RELEASE => add(What::Release),
            _ => {}
        }
    }
    ends.sort_by_key(|end| end.at);
    ends
}

/// Check that the trace determines the cause of one segment of a thread, if the segment is a wait.
fn check_segment(
    outcome: &Outcome,
    ends: &[End],
    (thread, role): (usize, Role),
    segment: &Segment,
    first: bool,
) -> Result<(), Ambiguous> {
    let span = segment.span.map(|id| &outcome.spans[id as usize]);
    let releases = |end: &End| {
        end.thread != thread
            && match (span.map(|s| &*s.name), role) {
                (Some(names::QUEUE_GET | names::PINNED_GET), _) => end.what == What::Item,
                (Some(names::ACQUIRE), _) => matches!(end.what, What::Release | What::Item),
                (Some(_), _) => false,
                (None, Role::Worker(_)) => end.what == What::Index,
                // A gap at the top level of the main process may also be a wait for the GIL, if the frame was open at
                // its begin.
                (None, Role::Pin) => is_worker_item(outcome, end) || is_burst(end, segment, first),
                (None, _) => is_burst(end, segment, first),
            }
    };
    let inside = ends.partition_point(|end| end.at < segment.start);
    let found = ends[inside..].iter().take_while(|end| end.at <= segment.end).filter(|end| releases(end)).last();
    let cause = match segment.state {
        State::Waited { cause: Cause::Thread { thread, at }, .. } => Some((thread, at)),
        _ => None,
    };
    let right = match (found, cause) {
        (None, None) => true,
        (Some(found), Some(cause)) => (found.thread, found.at) == cause,
        // The engine's thread is released by the call of `run_backward`, and releases it, by separate rules.
        (None, Some(_)) => role == Role::Autograd || span.is_some_and(|s| s.name == names::RUN_BACKWARD),
        (Some(_), None) => false,
    };
    if right { Ok(()) } else { Err(Ambiguous) }
}

fn is_worker_item(outcome: &Outcome, end: &End) -> bool {
    end.what == What::Item && matches!(outcome.threads[end.thread].0, Role::Worker(_))
}

fn is_burst(end: &End, gap: &Segment, first: bool) -> bool {
    end.what == What::Burst && end.start <= gap.start && end.at > gap.start && !first
}

/// Check that kernels in one level of a CUDA graph overlap, so that none can be taken for the next level.
fn check_levels(program: &Program, outcome: &Outcome) -> Result<(), Ambiguous> {
    for pair in outcome.activities.windows(2) {
        let [a, b] = pair else { continue };
        let same = a.call == b.call && program.ops[a.op].level == program.ops[b.op].level;
        if same && (a.end <= b.start || b.end <= a.start) {
            return Err(Ambiguous);
        }
    }
    Ok(())
}

/// A stream with a full queue must have blocked one of its calls for at least this multiple of the lower quartile of
/// all calls.
const HELD_UP: i64 = 3;

/// Check that on each stream with a full queue, a blocked call took much longer than usual calls. A trace shows a full
/// queue only by such calls.
fn check_full_queues(program: &Program, outcome: &Outcome) -> Result<(), Ambiguous> {
    let mut held_up: Vec<(u32, usize)> = Vec::new();
    for segment in outcome.threads.iter().flat_map(|(_, segments)| segments) {
        if let (Some(call), State::Waited { cause: Cause::Op { op, .. }, .. }) = (segment.span, segment.state) {
            held_up.push((call, op));
        }
    }
    held_up.sort_unstable();
    let mut streams: BTreeMap<usize, (Vec<i64>, i64)> = BTreeMap::new();
    for activity in &outcome.activities {
        let call = &outcome.spans[activity.call as usize];
        let (durations, longest) = streams.entry(program.ops[activity.op].stream).or_default();
        durations.push(call.end - call.start);
        let from = held_up.partition_point(|&(held, _)| held < activity.call);
        // A blocking copy waits for itself.
        if held_up[from..].first().is_some_and(|&(held, op)| held == activity.call && op != activity.op) {
            *longest = (*longest).max(call.end - call.start);
        }
    }
    let hidden = |(mut durations, longest): (Vec<i64>, i64)| {
        durations.sort_unstable();
        longest > 0 && longest < HELD_UP * durations[durations.len() / 4]
    };
    if streams.into_values().any(hidden) { Err(Ambiguous) } else { Ok(()) }
}
