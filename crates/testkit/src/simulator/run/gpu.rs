//! Simulation of streams, events, copy engines and the launch queue.

use super::Run;
use super::record::{Activity, Category, Cause, Recorded};
use crate::simulator::program::{Op, Program, Target, Work};

/// An end and its operation.
type Done = Option<(i64, usize)>;

/// State of a stream during the simulation.
#[derive(Debug, Default)]
struct StreamState {
    /// The last operation.
    last: Done,
    /// Events that it waits for since then.
    waited: Done,
    /// All operations before these events.
    waits: Vec<usize>,
    /// Activities of this stream, in order.
    launched: Vec<usize>,
}

impl StreamState {
    /// Operation that a later operation of this stream has to wait for: the one that ends last, with its end.
    fn tail(&self) -> Done {
        later(self.last, self.waited)
    }

    /// All operations for which a later operation of this stream has to wait.
    fn held(&self) -> impl Iterator<Item = usize> {
        self.last.iter().map(|done| done.1).chain(self.waits.iter().copied())
    }
}

/// State of the simulated GPU: streams, copy engines, recorded events and activities.
#[derive(Debug)]
pub(super) struct Gpu {
    streams: Vec<StreamState>,
    engines: [Done; 3],
    /// Operation to activity.
    placed: Vec<Option<usize>>,
    pub(super) records: Vec<Recorded>,
    pub(super) activities: Vec<Activity>,
    /// Ends of all operations, ascending.
    ends: Vec<(i64, usize)>,
}

/// Launch of a GPU operation: thread, call, and its start and end in ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launched {
    pub(super) thread: usize,
    pub(super) call: u32,
    /// Start of the call in ns.
    pub(super) start: i64,
    /// End of the call in ns; for a blocking call not known yet.
    pub(super) end: Option<i64>,
}

/// Select the operation that ends later; the first of equal ones.
fn later(a: Done, b: Done) -> Done {
    match (a, b) {
        (Some(x), Some(y)) => Some(if y.0 > x.0 { y } else { x }),
        (a, b) => a.or(b),
    }
}

impl Gpu {
    pub(super) fn new(program: &Program) -> Self {
        Self {
            streams: program.streams.iter().map(|_| StreamState::default()).collect(),
            engines: [None; 3],
            placed: vec![None; program.ops.len()],
            records: vec![Recorded::default(); program.records.len()],
            activities: Vec::with_capacity(program.ops.len()),
            ends: Vec::with_capacity(program.ops.len()),
        }
    }

    /// Record a CUDA event on a stream: the event is done when all work of the stream so far is done.
    pub(super) fn record(&mut self, stream: usize, record: usize, call: u32) {
        let state = &self.streams[stream];
        self.records[record] = Recorded { stream, call: Some(call), done: state.tail(), held: state.held().collect() };
    }

    /// Let later operations of `stream` wait for `record`.
    pub(super) fn wait(&mut self, stream: usize, record: usize) {
        let state = &mut self.streams[stream];
        state.waited = later(state.waited, self.records[record].done);
        state.waits.extend(&self.records[record].held);
    }

    /// Last operation before a recorded CUDA event, with its end.
    pub(super) fn record_done(&self, record: usize) -> Done {
        self.records[record].done
    }

    /// Operation of a stream that ends last, with its end.
    pub(super) fn stream_done(&self, stream: usize) -> Done {
        self.streams[stream].tail()
    }

    /// Operation of the device that ends last, with its end.
    pub(super) fn device_done(&self) -> Done {
        self.streams.iter().fold(None, |done, stream| later(done, stream.tail()))
    }

    /// All operations that a synchronizing call or query with this target waits for.
    pub(super) fn awaited(&self, target: Target) -> Vec<usize> {
        match target {
            Target::Device | Target::Free => self.streams.iter().flat_map(StreamState::held).collect(),
            Target::Stream(stream) => self.streams[stream].held().collect(),
            Target::Record(record) => self.records[record].held.clone(),
        }
    }

    /// Operation that must end before a launch on `stream` returns, with its end. `None` if fewer than `limit`
    /// operations were launched.
    pub(super) fn blocking_operation(&self, stream: usize, (limit, shared): (usize, bool)) -> Done {
        if shared {
            return self.ends.get(self.ends.len().checked_sub(limit)?).copied();
        }
        let launched = &self.streams[stream].launched;
        let activity = *launched.get(launched.len().checked_sub(limit)?)?;
        Some((self.activities[activity].end, self.activities[activity].op))
    }
}

impl Run<'_> {
    /// Operations that must end before `op` starts: the one that ends last, and all of them.
    fn prerequisites(&mut self, op: usize, graph: Done) -> (Done, Vec<usize>) {
        let spec = &self.program.ops[op];
        let stream = &self.gpu.streams[spec.stream];
        let engine = spec.work.engine().and_then(|engine| self.gpu.engines[engine]);
        let all: Vec<_> = [stream.last, stream.waited, engine, graph].into_iter().flatten().collect();
        let latest = all.iter().fold(None, |latest, &done| later(latest, Some(done)));
        let coincide = all.iter().any(|done| latest.is_some_and(|l| l.0 == done.0 && l.1 != done.1));
        if coincide {
            self.note_tie();
        }
        let waits = &self.gpu.streams[self.program.ops[op].stream].waits;
        let mut after: Vec<usize> = all.iter().map(|done| done.1).chain(waits.iter().copied()).collect();
        after.sort_unstable();
        after.dedup();
        (latest, after)
    }

    /// Compute start, end and cause of a launched operation, and add its activity; returns its end. `graph` is the last
    /// operation of the previous graph level.
    pub(super) fn schedule(&mut self, op: usize, launched: Launched, graph: Done) -> i64 {
        let (latest, after) = self.prerequisites(op, graph);
        let base = launched.end.unwrap_or(launched.start);
        if self.settle {
            self.settle_latency(op, launched, latest, self.program.ops[op].level == 0);
        }
        let spec = &self.program.ops[op];
        let arrives = (base + spec.latency).max(launched.start);
        let ready = latest.map(|(end, _)| end + spec.gap);
        let dependent = self.dependent_start(op, latest, arrives);
        let (start, cause, lag) = match (dependent, latest, ready) {
            (Some(start), Some((_, before)), _) => (start, Cause::Op { op: before, at: start }, Category::GpuQueue),
            (None, Some((end, before)), Some(ready)) if ready > arrives => {
                (ready, Cause::Op { op: before, at: end }, Category::GpuQueue)
            }
            _ => {
                let at = launched.end.unwrap_or(arrives).min(arrives);
                (arrives, Cause::Thread { thread: launched.thread, at }, Category::LaunchLatency)
            }
        };
        let mut end = start + spec.duration;
        if let (Some(_), Some((before, _))) = (dependent, latest) {
            // The second kernel waits for the first one's results at some point of its run.
            end = end.max(before + 501);
        }
        let (stream, engine) = (spec.stream, spec.work.engine());
        self.gpu.placed[op] = Some(self.gpu.activities.len());
        self.gpu.streams[stream].launched.push(self.gpu.activities.len());
        self.gpu.activities.push(Activity { op, call: launched.call, start, end, cause, lag, after });
        let ended = self.gpu.ends.partition_point(|&(other, _)| other <= end);
        self.gpu.ends.insert(ended, (end, op));
        let state = &mut self.gpu.streams[stream];
        (state.last, state.waited) = (Some((end, op)), None);
        state.waits.clear();
        if let Some(engine) = engine {
            self.gpu.engines[engine] = Some((end, op));
        }
        end
    }

    /// Start in ns of a kernel that begins before the previous one ends (programmatic dependent launch); `None` if it
    /// cannot.
    fn dependent_start(&self, op: usize, latest: Done, arrives: i64) -> Option<i64> {
        let spec = &self.program.ops[op];
        let (end, before) = latest.filter(|_| spec.overlap > 0 && self.program.dependent_launch)?;
        let previous = &self.program.ops[before];
        if previous.stream != spec.stream || previous.work != Work::Kernel {
            return None;
        }
        let started = self.gpu.activities[self.gpu.placed[before]?].start;
        let start = end - spec.overlap;
        let waited = self.gpu.streams[spec.stream].waited.is_some_and(|(at, _)| at >= start);
        (start > started + 300 && arrives < start && !waited).then_some(start)
    }

    /// Adjust the latency of an operation so that the prerequisite that ends last is the binding one.
    fn settle_latency(&mut self, op: usize, launched: Launched, latest: Done, first: bool) {
        let Op { gap, duration, .. } = self.program.ops[op];
        if launched.end.is_some() {
            // An operation that ends inside its call would look as if the call had waited for it.
            let latency = &mut self.program.ops[op].latency;
            *latency = (*latency).max(1 - duration);
        }
        let Some((end, _)) = latest else { return };
        let ready = end + gap;
        let latency = &mut self.program.ops[op].latency;
        let Some(returns) = launched.end else {
            // For a blocking call: if the stream is idle at its start, the launch binds; otherwise the running
            // operation.
            let arrives = launched.start + *latency;
            if end <= launched.start && arrives <= ready {
                *latency = ready - launched.start + 1;
            } else if end > launched.start && arrives >= ready {
                *latency = (ready - 1 - launched.start).max(0);
            }
            return;
        };
        if end > launched.start && *latency <= 0 {
            // The work may start inside the call only if no prerequisite was running then.
            *latency = 301;
        }
        let arrives = returns + *latency;
        if end > returns && arrives >= ready {
            *latency = ready - 1 - returns;
        } else if end <= returns && arrives <= ready && first {
            *latency = ready + 1 - returns;
        }
        if end == returns || end == launched.start {
            self.note_tie();
        }
    }
}
