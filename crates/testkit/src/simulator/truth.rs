//! Ground truth of the critical path: a backward pass from the end of a window over the causes.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::simulator::program::Program;
use crate::simulator::run::record::Category;
use crate::simulator::run::{Cause, Outcome, State};

/// Segment of the true critical path. Times in ns since the start of the profiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrueSegment {
    /// Begin of the segment.
    pub start_ns: i64,
    /// End of the segment.
    pub end_ns: i64,
    /// Category of the time, as in `bound_by`.
    pub category: &'static str,
    /// Process and thread, or stream, as in the trace.
    pub track: String,
    /// The innermost span on a thread or the operation on a stream; in a lag, the waiting one.
    pub event: String,
}

/// True critical path of a time window: its segments, and its time by category.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Truth {
    /// Start of the window, ns since the start of the profiler.
    pub start_ns: i64,
    /// End of the window.
    pub end_ns: i64,
    /// Length of the window and of the path.
    pub window_ns: i64,
    /// Time in ns per category, without categories that have no time.
    pub bound_by_ns: BTreeMap<&'static str, i64>,
    /// Segments in time order, without gaps.
    pub segments: Vec<TrueSegment>,
}

/// Position of the backward pass: a thread or a GPU operation.
#[derive(Debug, Clone, Copy)]
enum Position {
    Thread(usize),
    Op(usize),
}

/// Lookup tables of one run, for the backward pass over its causes.
pub(crate) struct Walk<'a> {
    program: &'a Program,
    outcome: &'a Outcome,
    /// Operation to its activity.
    placed: Vec<usize>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(program: &'a Program, outcome: &'a Outcome) -> Self {
        let mut placed = vec![usize::MAX; program.ops.len()];
        for (i, activity) in outcome.activities.iter().enumerate() {
            placed[activity.op] = i;
        }
        Self { program, outcome, placed }
    }

    /// Last event of the run, on a thread or the GPU, and true if no other one ended then. `None` if no work ever ran.
    pub(crate) fn last_activity(&self) -> Option<(Cause, bool)> {
        let threads = self.outcome.threads.iter().enumerate().filter_map(|(thread, (_, segments))| {
            let at = segments.last()?.end;
            Some((at, Cause::Thread { thread, at }))
        });
        let ops = self.outcome.activities.iter().map(|a| (a.end, Cause::Op { op: a.op, at: a.end }));
        let ends: Vec<_> = threads.chain(ops).collect();
        let last = ends.iter().map(|end| end.0).max()?;
        let mut at_last = ends.into_iter().filter(|end| end.0 == last);
        let found = at_last.next()?;
        Some((found.1, at_last.next().is_none()))
    }

    /// Follow the causes back from `cause` to time `start`; returns the critical path in between.
    pub(crate) fn critical_path(&self, start: i64, cause: Cause) -> Truth {
        let (mut place, end) = split(cause);
        let mut at = end;
        let mut path = Vec::new();
        while at > start {
            let (from, cause, lag) = match place {
                Position::Op(op) => self.leave_op(op, at, start, &mut path),
                Position::Thread(thread) => match self.leave_thread(thread, at, start, &mut path) {
                    Some(left) => left,
                    None => break,
                },
            };
            let (next, released) = split(cause);
            if let Some(category) = lag.filter(|_| from > start) {
                let name = self.name(place, from);
                self.append(&mut path, (released.max(start), from), category, place, name);
            }
            (place, at) = (next, released);
        }
        path.reverse();
        let mut bound_by_ns = BTreeMap::new();
        for segment in &path {
            *bound_by_ns.entry(segment.category).or_insert(0) += segment.end_ns - segment.start_ns;
        }
        Truth { start_ns: start, end_ns: end, window_ns: end - start, bound_by_ns, segments: path }
    }

    /// Follow the critical path back through a GPU operation; returns its start, the cause of its start, and the
    /// category of the lag.
    fn leave_op(&self, op: usize, at: i64, start: i64, path: &mut Vec<TrueSegment>) -> (i64, Cause, Option<Category>) {
        let activity = &self.outcome.activities[self.placed[op]];
        let category = self.program.ops[op].work.category();
        let name = self.program.ops[op].name.to_string();
        self.append(path, (activity.start.max(start), at), category, Position::Op(op), name);
        (activity.start, activity.cause, Some(activity.lag))
    }

    /// Follow the critical path back through a segment of a thread; `None` if the thread has no earlier one. Returns as
    /// `leave_op`.
    fn leave_thread(
        &self,
        thread: usize,
        at: i64,
        start: i64,
        path: &mut Vec<TrueSegment>,
    ) -> Option<(i64, Cause, Option<Category>)> {
        let segments = &self.outcome.threads[thread].1;
        let segment = &segments[segments.partition_point(|s| s.start < at).checked_sub(1)?];
        match segment.state {
            State::Own(category) => {
                let name = self.name(Position::Thread(thread), at);
                self.append(path, (segment.start.max(start), at), category, Position::Thread(thread), name);
                Some((segment.start, Cause::Thread { thread, at: segment.start }, None))
            }
            State::Waited { cause, category } => Some((at, cause, Some(category))),
        }
    }

    /// Append a segment to the critical path, unless it is empty.
    fn append(
        &self,
        path: &mut Vec<TrueSegment>,
        (start_ns, end_ns): (i64, i64),
        category: Category,
        place: Position,
        event: String,
    ) {
        if end_ns > start_ns {
            let track = match place {
                Position::Thread(thread) => crate::simulator::kineto::thread_label(self.outcome.threads[thread].0),
                Position::Op(op) => format!("stream {}", self.program.streams[self.program.ops[op].stream].number),
            };
            path.push(TrueSegment { start_ns, end_ns, category: category.name(), track, event });
        }
    }

    /// Name of the GPU operation, or of the innermost span of the thread at time `at`.
    fn name(&self, place: Position, at: i64) -> String {
        match place {
            Position::Op(op) => self.program.ops[op].name.to_string(),
            Position::Thread(thread) => {
                let segments = &self.outcome.threads[thread].1;
                let segment = segments.partition_point(|s| s.start < at).checked_sub(1).map(|i| &segments[i]);
                let span = segment.and_then(|segment| segment.span);
                span.map_or_else(String::new, |id| self.outcome.spans[id as usize].name.to_string())
            }
        }
    }
}

/// Position and time of a cause.
fn split(cause: Cause) -> (Position, i64) {
    match cause {
        Cause::Thread { thread, at } => (Position::Thread(thread), at),
        Cause::Op { op, at } => (Position::Op(op), at),
    }
}
