//! Run of a simulated program: a discrete-event simulation in exact nanoseconds.
//!
//! The thread with the lowest clock takes the next step, so that all earlier events have been simulated. A GPU
//! operation starts at the latest of: end of each prerequisite plus the lag drawn for it. All of them are known at
//! its launch, so its times are set then.

mod gpu;
mod host;
pub(crate) mod record;
#[cfg(test)]
mod tests;

use crate::simulator::program::{Program, Role, Step, Thread};
use gpu::Gpu;
pub(crate) use record::{Activity, Cause, Outcome, Segment, SpanRecord, State, SyncKind, SyncRecord};

/// Error: a deadlock, in which threads wait for each other and the program never ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stuck;

/// State of a host thread in the simulation.
#[derive(Debug)]
struct Host {
    role: Role,
    steps: Vec<Step>,
    next: usize,
    clock: i64,
    /// Open spans.
    open: Vec<u32>,
    /// Number of them that belong to the DataLoader.
    loading: u32,
    waiting: Option<Waiting>,
    segments: Vec<Segment>,
}

/// Reason for which a thread waits: a token in a queue, or the GIL.
#[derive(Debug, Clone, Copy)]
enum Waiting {
    Token { queue: usize, lag: i64 },
    Gil { holder: usize, lag: i64 },
}

/// State of the simulation of one program.
struct Run<'a> {
    program: &'a mut Program,
    /// True if lags may be adjusted so that the prerequisite that ends last is the binding one: only in the first run
    /// of a program.
    settle: bool,
    hosts: Vec<Host>,
    gpu: Gpu,
    spans: Vec<SpanRecord>,
    syncs: Vec<SyncRecord>,
    awaited: Vec<(u32, Vec<usize>)>,
    /// Times of the tokens in each queue, oldest first.
    queues: Vec<std::collections::VecDeque<i64>>,
    next_item: usize,
    /// Allowed interpretations of stream queries that found their stream done: (from, to) of ends of operations.
    polls: Vec<(i64, i64)>,
    is_unique: bool,
}

/// Simulate `program`. With `settle` its lags are adjusted so that the trace determines all causes (see the description
/// of the crate), otherwise they are used unchanged.
pub(crate) fn run(program: &mut Program, settle: bool) -> Result<Outcome, Stuck> {
    let hosts: Vec<Host> = program.all_threads().into_iter().map(Host::new).collect();
    let workers = program.loader.as_ref().map_or(0, |loader| loader.workers);
    let tokens = program.queues.iter().map(|&n| vec![0; n as usize].into()).chain((0..workers).map(|_| [].into()));
    let mut run = Run {
        settle,
        hosts,
        gpu: Gpu::new(program),
        spans: Vec::new(),
        syncs: Vec::new(),
        awaited: Vec::new(),
        queues: tokens.collect(),
        next_item: 0,
        polls: Vec::new(),
        is_unique: true,
        program,
    };
    while let Some(host) = run.earliest_host() {
        run.step(host);
    }
    if run.hosts.iter().any(|host| host.is_needed()) {
        return Err(Stuck);
    }
    Ok(run.outcome())
}

impl Host {
    fn new(thread: Thread) -> Self {
        Self {
            role: thread.role,
            steps: thread.steps,
            next: 0,
            clock: 0,
            open: Vec::new(),
            loading: 0,
            waiting: None,
            segments: Vec::new(),
        }
    }

    /// True if the thread has steps left or waits.
    fn is_needed(&self) -> bool {
        self.next < self.steps.len() || self.waiting.is_some()
    }
}

impl Run<'_> {
    /// Index of the runnable thread with the lowest clock.
    fn earliest_host(&self) -> Option<usize> {
        let ready = |host: &Host| host.waiting.is_none() && host.next < host.steps.len();
        (0..self.hosts.len()).filter(|&i| ready(&self.hosts[i])).min_by_key(|&i| self.hosts[i].clock)
    }

    /// Simulate the next step of a thread.
    fn step(&mut self, host: usize) {
        let at = self.hosts[host].next;
        self.hosts[host].next += 1;
        // The steps are not needed again.
        let step = std::mem::replace(&mut self.hosts[host].steps[at], Step::Close);
        match step {
            Step::Open(span) => self.open(host, span),
            Step::Close => self.close(host),
            Step::Spend(own) => self.own(host, own),
            Step::Gap { own, lag } => self.gap(host, own, lag),
            Step::Call { name, own } => {
                self.call(host, false, name, own);
            }
            Step::Launch { driver, name, own, ops, ret } => self.launch(host, (driver, name), own, ops, ret),
            Step::Blocking { name, op, ret } => self.blocking(host, name, op, ret),
            Step::Record { stream, record, own } => {
                let call = self.call(host, false, "cudaEventRecord".into(), own);
                self.gpu.record(stream, record, call);
            }
            Step::Wait { stream, record, own } => self.wait_event(host, stream, record, own),
            Step::Sync { name, target, own, ret } => self.sync(host, name, target, own, ret),
            Step::Poll { name, target, own, gap } => self.poll(host, &name, target, own, gap),
            Step::Put(queue) => self.put(host, queue),
            Step::Get { queue, own, lag } => self.get(host, queue, own, lag),
            Step::PutIndex => self.put_index(host),
        }
    }

    /// Note that two prerequisites end at the same time, so that a cause is ambiguous.
    fn note_tie(&mut self) {
        self.is_unique = false;
    }

    /// Results of the finished simulation.
    fn outcome(self) -> Outcome {
        let Self { hosts, gpu, spans, syncs, awaited, polls, is_unique, .. } = self;
        let threads = hosts.into_iter().map(|host| (host.role, host.segments)).collect();
        let (activities, records) = (gpu.activities, gpu.records);
        Outcome { threads, spans, syncs, activities, records, awaited, polls, is_unique }
    }
}
