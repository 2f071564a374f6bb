//! Threads of XLA's pool: who gave them a task, and who waits until it is done.
//!
//! The pool starts copies between host and GPU for the thread that runs the program. The names of spans say which task follows which.

use super::thread_timelines::ThreadTimeline;
use super::wakeups::{Ends, latest};
use stackline_model::{EventId, Trace};

/// Names of the pool's threads begin like this.
const POOL: &str = "pjrt_async_work_runner";
/// The span with which a task begins, and those that put it.
const TASKS: &[(&str, &[&str])] = &[
    ("D2H Dispatch", &["CommonPjRtBuffer::ToLiteral"]),
    ("MemcpyD2H", &["D2H Dispatch"]),
    ("MemcpyH2D", &["CommonPjRtClient::LinearizeIntoImpl"]),
    ("GetEventForComputeStreamSyncPoint", &["CommonPjRtClient::LinearizeIntoImpl"]),
];
/// The end of a span that waits until the pool has started the copies of its inputs, and the one that follows the wait.
const WAITS: &str = "PjRtStreamExecutorRawLoadedExecutable::Execute";
const AFTER_WAIT: &str = "Resolve constant globals";

/// What is known of the pool; nothing of most traces.
pub(super) struct XlaPool {
    /// Per lane whether it is one of its threads.
    is_member: Vec<bool>,
    /// Per task the ends of spans that put it.
    put: Vec<Ends>,
}

impl XlaPool {
    pub(super) fn new(trace: &Trace, lanes: &[ThreadTimeline]) -> Self {
        let is_member = |lane: &ThreadTimeline| {
            trace.tracks.get(lane.track).name.some().is_some_and(|name| trace.strings.get(name).starts_with(POOL))
        };
        let is_member: Vec<bool> = lanes.iter().map(is_member).collect();
        if !is_member.contains(&true) {
            return Self { is_member, put: Vec::new() };
        }
        let put = |names: &&[&str]| {
            let mut ends: Ends = Vec::new();
            for (i, lane) in lanes.iter().enumerate() {
                let spans = trace.track_events(lane.track).iter().filter(|&&e| names.contains(&trace.name(e)));
                ends.extend(spans.filter(|&&e| trace.events.is_timed(e)).map(|&e| (trace.events.end(e), i)));
            }
            ends.sort_unstable();
            ends
        };
        Self { is_member, put: TASKS.iter().map(|(_, by)| put(by)).collect() }
    }

    /// Whether a lane is a thread of the pool.
    pub(super) fn has(&self, lane: usize) -> bool {
        self.is_member.get(lane).copied().unwrap_or(false)
    }

    /// When and on which other lane the task that begins with a span was put, after a moment and before it begins.
    pub(super) fn put_by(&self, trace: &Trace, (lane, first): (usize, EventId), after: i64) -> Option<(i64, usize)> {
        let task = TASKS.iter().position(|(name, _)| *name == trace.name(first))?;
        latest(&self.put[task], after, trace.events.start[first.index()], |other| other != lane)
    }

    /// Whether a thread waits for the pool in a piece of a span, which the next span ends.
    pub(super) fn is_waited_for(&self, trace: &Trace, waiting: EventId, next: EventId) -> bool {
        !self.put.is_empty()
            && next.is_some()
            && trace.name(next) == AFTER_WAIT
            && waiting.is_some()
            && trace.name(waiting).ends_with(WAITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::critical_path::value_reads::tests::reading;

    #[test]
    fn tasks_follow_what_put_them() {
        let trace = reading();
        let lanes = ThreadTimeline::all(&trace);
        let pool = XlaPool::new(&trace, &lanes);
        let (of_pool, of_program) = if pool.has(0) { (0, 1) } else { (1, 0) };
        assert!(pool.has(of_pool) && !pool.has(of_program));
        let on_pool = |name: &str| {
            trace.track_events(lanes[of_pool].track).iter().copied().find(|&e| trace.name(e) == name).unwrap()
        };
        let dispatch = on_pool("D2H Dispatch");
        assert_eq!(pool.put_by(&trace, (of_pool, dispatch), i64::MIN), Some((120_000, of_program)));
        assert_eq!(pool.put_by(&trace, (of_pool, dispatch), 130_000), None, "it was put before");
        assert_eq!(pool.put_by(&trace, (of_pool, on_pool("MemcpyD2H")), i64::MIN), None, "the thread goes on itself");
    }

    #[test]
    fn other_programs_have_no_pool() {
        let trace = Trace::default();
        let pool = XlaPool::new(&trace, &[]);
        assert!(!pool.has(0) && !pool.is_waited_for(&trace, EventId::NONE, EventId::NONE));
    }
}
