//! Threads of XLA's thread pool: which thread added each task, and waits for the end of tasks.
//!
//! The pool starts copies between host and GPU for the main thread of the program. The names of spans show the order of
//! tasks.

use super::thread_timelines::ThreadTimeline;
use super::work_ends::{Ends, latest_end};
use stackline_model::{EventId, Trace};

/// Prefix of the names of the pool's threads.
const POOL: &str = "pjrt_async_work_runner";
/// First span of each task, and the spans that add the task to the pool.
const TASKS: &[(&str, &[&str])] = &[
    ("D2H Dispatch", &["CommonPjRtBuffer::ToLiteral"]),
    ("MemcpyD2H", &["D2H Dispatch"]),
    ("MemcpyH2D", &["CommonPjRtClient::LinearizeIntoImpl"]),
    ("GetEventForComputeStreamSyncPoint", &["CommonPjRtClient::LinearizeIntoImpl"]),
];
/// Suffix of spans that wait until the pool has started the copies of their inputs, and the span after the wait.
const WAITS: &str = "PjRtStreamExecutorRawLoadedExecutable::Execute";
const AFTER_WAIT: &str = "Resolve constant globals";

/// Threads and tasks of XLA's thread pool; empty for traces without XLA.
pub(super) struct XlaPool {
    /// Per lane: true for a thread of the pool.
    is_member: Vec<bool>,
    /// Per task: ends of spans that add it to the pool.
    add_ends: Vec<Ends>,
}

impl XlaPool {
    /// Find the threads of XLA's pool by name, and the ends of the spans that add tasks to the pool.
    pub(super) fn new(trace: &Trace, lanes: &[ThreadTimeline]) -> Self {
        let is_member = |lane: &ThreadTimeline| {
            trace.tracks.get(lane.track).name.some().is_some_and(|name| trace.strings.get(name).starts_with(POOL))
        };
        let is_member: Vec<bool> = lanes.iter().map(is_member).collect();
        if !is_member.contains(&true) {
            return Self { is_member, add_ends: Vec::new() };
        }
        let add_ends = |names: &&[&str]| {
            let mut ends: Ends = Vec::new();
            for (i, lane) in lanes.iter().enumerate() {
                let spans = trace.track_events(lane.track).iter().filter(|&&e| names.contains(&trace.name(e)));
                ends.extend(spans.filter(|&&e| trace.events.is_timed(e)).map(|&e| (trace.events.end(e), i)));
            }
            ends.sort_unstable();
            ends
        };
        Self { is_member, add_ends: TASKS.iter().map(|(_, by)| add_ends(by)).collect() }
    }

    /// True if a thread belongs to XLA's thread pool.
    pub(super) fn is_pool_thread(&self, lane: usize) -> bool {
        self.is_member.get(lane).copied().unwrap_or(false)
    }

    /// Time and thread at which another thread added to XLA's pool the task that begins with the span `first`. Only
    /// additions after the time `after` and before the start of the span count.
    pub(super) fn added_by(&self, trace: &Trace, (lane, first): (usize, EventId), after: i64) -> Option<(i64, usize)> {
        let task = TASKS.iter().position(|(name, _)| *name == trace.name(first))?;
        latest_end(&self.add_ends[task], after, trace.events.start[first.index()], |other| other != lane)
    }

    /// True if the span `waiting` waits, until the span `next`, for tasks of XLA's pool.
    pub(super) fn is_waited_for(&self, trace: &Trace, waiting: EventId, next: EventId) -> bool {
        !self.add_ends.is_empty()
            && next.is_some()
            && trace.name(next) == AFTER_WAIT
            && waiting.is_some()
            && trace.name(waiting).ends_with(WAITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value_reads::tests::jax_read_trace;

    #[test]
    fn tasks_follow_the_span_that_added_them() {
        let trace = jax_read_trace();
        let lanes = ThreadTimeline::all(&trace);
        let pool = XlaPool::new(&trace, &lanes);
        let (of_pool, of_program) = if pool.is_pool_thread(0) { (0, 1) } else { (1, 0) };
        assert!(pool.is_pool_thread(of_pool) && !pool.is_pool_thread(of_program));
        let on_pool = |name: &str| {
            trace.track_events(lanes[of_pool].track).iter().copied().find(|&e| trace.name(e) == name).unwrap()
        };
        let dispatch = on_pool("D2H Dispatch");
        assert_eq!(pool.added_by(&trace, (of_pool, dispatch), i64::MIN), Some((120_000, of_program)));
        assert_eq!(pool.added_by(&trace, (of_pool, dispatch), 130_000), None, "it was put before");
        assert_eq!(pool.added_by(&trace, (of_pool, on_pool("MemcpyD2H")), i64::MIN), None, "the thread goes on itself");
    }

    #[test]
    fn other_programs_have_no_pool() {
        let trace = Trace::default();
        let pool = XlaPool::new(&trace, &[]);
        assert!(!pool.is_pool_thread(0) && !pool.is_waited_for(&trace, EventId::NONE, EventId::NONE));
    }
}
