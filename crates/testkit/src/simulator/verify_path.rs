//! Check of critical-path claims on damaged traces against ground truth.

use crate::simulator::Simulated;
use crate::simulator::damage::Damaged;
use crate::simulator::kineto::{View, thread_label};
use crate::simulator::run::record::Category;
use crate::simulator::run::{Activity, Cause, Segment, State};

/// A path segment that an analysis states as certain, to be compared with the ground truth. Times in ns since the start
/// of the profiler, as in the (damaged) trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim<'a> {
    /// Begin: in a lag, the time of the release.
    pub start_ns: i64,
    /// End: in a lag, the time at which the released activity starts or continues.
    pub end_ns: i64,
    /// Category as in `bound_by`.
    pub category: &'a str,
    /// Same as [`crate::simulator::TrueSegment::track`], for the released activity.
    pub track: &'a str,
}

impl Simulated {
    /// Reason why a claim about the complete trace is wrong; `None` if it is right.
    ///
    /// A dependency is right if its source is a prerequisite of its target, binding or not: with missing records the
    /// later one may be unknown. Own time of a thread is right if the thread was not blocked in it: with missing
    /// frames it looks like the time of the enclosing frames.
    #[must_use]
    pub fn refute(&self, claim: &Claim<'_>) -> Option<String> {
        self.refute_in(&View::complete(&self.outcome), claim)
    }

    /// Reason why a claim about a damaged trace of this program is wrong; `None` if it is right.
    #[must_use]
    pub fn refute_damaged(&self, damaged: &Damaged, claim: &Claim<'_>) -> Option<String> {
        self.refute_in(&damaged.view, claim)
    }

    /// Reason why a claim about the trace with the records and times of `view` is wrong; `None` if it is right.
    fn refute_in(&self, view: &View, claim: &Claim<'_>) -> Option<String> {
        let thread = self.outcome.threads.iter().find(|(role, _)| thread_label(*role) == claim.track);
        let right = match claim.category {
            "gpu_compute" | "gpu_communication" | "gpu_copy" => self.ran(view, claim),
            "gpu_queue" => self.started(view, claim).any(|a| self.released_by_op(view, a, claim.start_ns)),
            "launch_latency" => self.started(view, claim).any(|a| self.released_by_call(a, claim)),
            "sync_return" | "thread_handover" => thread.is_some_and(|t| self.resumed(view, &t.1, claim)),
            "unknown" => true,
            _ => thread.is_some_and(|t| was_busy(&t.1, claim)),
        };
        (!right).then(|| format!("no part of the program matches {claim:?}"))
    }

    /// GPU operations of a stream, by its name in the ground truth.
    fn on_track<'a>(&'a self, track: &'a str) -> impl Iterator<Item = (usize, &'a Activity)> {
        let number = track.strip_prefix("stream ").and_then(|number| number.parse::<i64>().ok());
        let stream_of = |a: &Activity| self.program.streams[self.program.ops[a.op].stream].number;
        self.outcome.activities.iter().enumerate().filter(move |(_, a)| Some(stream_of(a)) == number)
    }

    /// True if a GPU operation of the claimed category and stream ran during the whole claim.
    fn ran(&self, view: &View, claim: &Claim<'_>) -> bool {
        self.on_track(claim.track).any(|(i, a)| {
            let (start, end) = view.times[i];
            self.program.ops[a.op].work.category().name() == claim.category
                && start <= claim.start_ns
                && end >= claim.end_ns
        })
    }

    /// GPU operations of the claimed stream that start at the end of the claim.
    fn started<'a>(&'a self, view: &'a View, claim: &'a Claim<'a>) -> impl Iterator<Item = &'a Activity> {
        self.on_track(claim.track).filter(|&(i, _)| view.times[i].0 == claim.end_ns).map(|(_, a)| a)
    }

    /// Start and end of a GPU operation in the trace.
    fn times_of(&self, view: &View, op: usize) -> Option<(i64, i64)> {
        self.outcome.activities.iter().position(|a| a.op == op).map(|i| view.times[i])
    }

    /// True if a GPU operation had to wait for another one that ended at time `at`.
    fn released_by_op(&self, view: &View, activity: &Activity, at: i64) -> bool {
        activity.after.iter().any(|&op| self.times_of(view, op).is_some_and(|(_, end)| end == at))
    }

    /// True if the claim begins at the end of the launch call of a GPU operation, or within the call.
    fn released_by_call(&self, activity: &Activity, claim: &Claim<'_>) -> bool {
        let call = &self.outcome.spans[activity.call as usize];
        call.end == claim.start_ns || (call.start <= claim.start_ns && claim.start_ns < call.end)
    }

    /// True if the wait in a claim is right. The event at the begin of the claim must have released the thread, or its
    /// call must have waited for that event.
    fn resumed(&self, view: &View, segments: &[Segment], claim: &Claim<'_>) -> bool {
        // The path may enter the return of the call where another thread was released in it.
        let inside = |segment: &&Segment| segment.start < claim.end_ns && claim.end_ns <= segment.end;
        let Some(segment) = segments.iter().find(inside) else { return false };
        let ended = |op: usize| self.times_of(view, op).is_some_and(|(_, end)| end == claim.start_ns);
        let is_sync = claim.category == Category::SyncReturn.name();
        match segment.state {
            State::Waited { cause: Cause::Thread { at, .. }, .. } => !is_sync && at == claim.start_ns,
            State::Waited { cause: Cause::Op { op, .. }, .. } if is_sync && ended(op) => true,
            _ => is_sync && segment.span.is_some_and(|call| self.awaits(view, call, ended)),
        }
    }

    /// True if a call waits for an operation that satisfies `ended`. If it waits for a lost operation, any operation of
    /// the same stream may satisfy it.
    fn awaits(&self, view: &View, call: u32, ended: impl Fn(usize) -> bool) -> bool {
        let listed = self.outcome.awaited.iter().find(|(span, _)| *span == call);
        let awaited = listed.map_or(&[][..], |(_, ops)| ops);
        let mut streams = awaited.iter().filter(|&&op| self.is_lost(view, op)).map(|&op| self.program.ops[op].stream);
        awaited.iter().any(|&op| ended(op))
            || streams
                .any(|lost| (0..self.program.ops.len()).any(|op| self.program.ops[op].stream == lost && ended(op)))
    }

    /// True if a GPU operation has no record in the trace.
    fn is_lost(&self, view: &View, op: usize) -> bool {
        let activity = self.outcome.activities.iter().position(|a| a.op == op);
        activity.is_some_and(|i| view.hidden_activities[i])
    }
}

/// True if the thread was running, never blocked, during the claimed time.
fn was_busy(segments: &[Segment], claim: &Claim<'_>) -> bool {
    let inside = segments.iter().filter(|s| s.end > claim.start_ns && s.start < claim.end_ns);
    let mut any = false;
    for segment in inside {
        any = true;
        if matches!(segment.state, State::Waited { .. }) {
            return false;
        }
    }
    any
}
