//! Builder of the steps of one thread, with random times.

use std::ops::Range;

use crate::rng::Rng;

use super::{Details, Kind, Name, Op, Program, Sequence, Span, Step, Stream, Target, Thread, Work};
use crate::simulator::Profile;

/// Streams by index: compute, copies, collectives, a second compute stream, and the branches of graphs.
pub(crate) const COMPUTE: usize = 0;
pub(crate) const COPY: usize = 1;
pub(crate) const COLLECTIVE: usize = 2;
pub(crate) const SIDE: usize = 3;
pub(crate) const BRANCHES: Range<usize> = 4..7;
const STREAMS: [Stream; 7] = [
    Stream { number: 7, priority: 0 },
    Stream { number: 20, priority: 0 },
    Stream { number: 24, priority: -1 },
    Stream { number: 28, priority: -2 },
    Stream { number: 33, priority: 0 },
    Stream { number: 34, priority: 0 },
    Stream { number: 35, priority: 0 },
];

/// Builder of a program, which draws the steps of one thread after the other.
pub(crate) struct Builder<'a> {
    pub(crate) rng: Rng,
    pub(crate) profile: &'a Profile,
    pub(crate) program: Program,
    /// Steps of the current thread.
    pub(crate) steps: Vec<Step>,
    sequence: u64,
    event: u64,
    kernels: usize,
    /// Random state at the begin of each step, if all steps are alike.
    has_equal_steps: Option<Rng>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(seed: u64, profile: &'a Profile) -> Self {
        let program = Program {
            threads: Vec::new(),
            ops: Vec::new(),
            streams: STREAMS.to_vec(),
            records: Vec::new(),
            queues: Vec::new(),
            loader: None,
            queue_limit: profile.queue_limit,
            queue_shared: profile.queue_shared,
            dependent_launch: profile.dependent_launch,
            clock: None,
        };
        Self {
            rng: Rng::new(seed),
            profile,
            program,
            steps: Vec::new(),
            sequence: 100,
            event: 0,
            kernels: 0,
            has_equal_steps: None,
        }
    }

    /// Create a builder that adds steps to an existing program.
    pub(crate) fn resume(program: Program, rng: Rng, profile: &'a Profile) -> Self {
        // Far from the numbers that the program uses.
        let (sequence, event) = (1_000_000, 1_000_000);
        Self { rng, profile, program, steps: Vec::new(), sequence, event, kernels: 0, has_equal_steps: None }
    }

    /// Reset the random numbers to their state in the first training step, if all training steps shall be alike.
    pub(crate) fn draw_equally(&mut self) {
        if self.profile.has_equal_steps {
            self.rng = self.has_equal_steps.get_or_insert_with(|| self.rng.clone()).clone();
        }
    }

    /// True with a probability of `percent`.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.rng.below(100) < percent
    }

    /// Add the steps written so far to the program as a thread of this role.
    pub(crate) fn thread(&mut self, role: super::Role) {
        let steps = std::mem::take(&mut self.steps);
        self.program.threads.push(Thread { role, steps });
    }

    /// Add a queue with this number of tokens at the beginning; returns its index.
    pub(crate) fn queue(&mut self, tokens: u32) -> usize {
        self.program.queues.push(tokens);
        self.program.queues.len() - 1
    }

    /// Next autograd sequence number of the program.
    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Add a step of exclusive time, drawn from `low` to `high` ns.
    pub(crate) fn spend(&mut self, low: i64, high: i64) {
        let own = self.rng.between(low, high);
        self.steps.push(Step::Spend(own));
    }

    /// Add a span around the steps of `body`, with exclusive time before and after them (ranges in ns).
    pub(crate) fn span(&mut self, span: Span, before: (i64, i64), after: (i64, i64), body: impl FnOnce(&mut Self)) {
        self.steps.push(Step::Open(span));
        self.spend(before.0, before.1);
        body(self);
        self.spend(after.0, after.1);
        self.steps.push(Step::Close);
    }

    /// Add an operator around the steps of `body`.
    pub(crate) fn op(&mut self, name: impl Into<Name>, body: impl FnOnce(&mut Self)) {
        self.span(Span::new(Kind::Operator, name), (700, 3_300), (300, 1_400), body);
    }

    /// Add an operator with an autograd sequence number around the steps of `body`.
    pub(crate) fn numbered(&mut self, name: impl Into<Name>, sequence: Sequence, body: impl FnOnce(&mut Self)) {
        let span = Span { sequence: Some(sequence), ..Span::new(Kind::Operator, name) };
        self.span(span, (600, 2_700), (300, 1_100), body);
    }

    /// Add a Python frame around the steps of `body`.
    pub(crate) fn python(&mut self, name: impl Into<Name>, body: impl FnOnce(&mut Self)) {
        self.span(Span::new(Kind::Python, name), (500, 6_500), (300, 4_200), body);
    }

    /// Add a user annotation around the steps of `body`.
    pub(crate) fn annotation(&mut self, name: impl Into<Name>, body: impl FnOnce(&mut Self)) {
        self.span(Span::new(Kind::Annotation, name), (500, 2_000), (300, 1_200), body);
    }

    /// Add a frame in which the thread waits for a token, and which ends when it has the token.
    pub(crate) fn wait_frame(&mut self, name: &'static str, queue: usize) {
        self.steps.push(Step::Open(Span::new(Kind::Python, name)));
        self.get(queue, (2_000, 7_000));
        self.steps.push(Step::Close);
    }

    /// Add a step that takes a token from a queue. If it has to wait, it continues `lag` (a range in ns) after the
    /// token is put; this always takes longer than finding a token.
    pub(crate) fn get(&mut self, queue: usize, lag: (i64, i64)) {
        let (own, lag) = (self.rng.between(600, 1_500), self.rng.between(lag.0, lag.1));
        self.steps.push(Step::Get { queue, own, lag });
    }

    /// Add a Python frame, and after it the step `put`, which puts a token into a queue.
    pub(crate) fn put_frame(&mut self, name: &'static str, put: Step) {
        self.steps.push(Step::Open(Span::new(Kind::Python, name)));
        self.spend(1_500, 6_000);
        self.steps.push(Step::Close);
        self.steps.push(put);
    }

    /// Add a runtime call that does not wait and takes `low` to `high` ns.
    pub(crate) fn call(&mut self, name: &'static str, low: i64, high: i64) {
        let own = self.rng.between(low, high);
        self.steps.push(Step::Call { name: name.into(), own });
    }

    /// Add a GPU operation with random latency and gap to the program; returns its index.
    fn new_op(&mut self, work: Work, name: Name, stream: usize, duration: i64) -> usize {
        let latency = match self.rng.below(20) {
            0 | 1 => -self.rng.between(300, 1_400),
            2 => self.rng.between(8_000, 20_000),
            _ => self.rng.between(400, 5_000),
        };
        let gap = self.rng.between(650, 1_900);
        self.program.ops.push(Op {
            work,
            name,
            stream,
            duration,
            latency,
            gap,
            overlap: 0,
            level: 0,
            removed: false,
            details: Details::default(),
        });
        self.program.ops.len() - 1
    }

    /// Launch a kernel of a random name and duration on a stream.
    pub(crate) fn kernel(&mut self, stream: usize) {
        let name = crate::simulator::names::KERNELS[self.rng.below(crate::simulator::names::KERNELS.len())];
        let scale = self.profile.gpu_percent.max(1);
        let duration = match self.rng.below(8) {
            0 => self.rng.between(60_000, 400_000),
            1..=3 => self.rng.between(12_000, 60_000),
            _ => self.rng.between(2_900, 12_000),
        };
        self.launch(Work::Kernel, name, stream, (duration * scale / 100).max(2_900));
    }

    /// Launch one GPU operation of a given duration on a stream.
    pub(crate) fn launch(&mut self, work: Work, name: &'static str, stream: usize, duration: i64) {
        let op = self.new_op(work, name.into(), stream, duration);
        if self.profile.dependent_launch && work == Work::Kernel && self.chance(35) {
            self.program.ops[op].overlap = self.rng.between(700, 2_300);
        }
        self.kernels += 1;
        let (driver, name) = match work {
            Work::Kernel if self.kernels % 7 == 3 => (true, "cuLaunchKernelEx"),
            Work::Collective => (false, "cudaLaunchKernelExC"),
            Work::Kernel => (false, "cudaLaunchKernel"),
            Work::Fill => (false, "cudaMemsetAsync"),
            Work::HostToDevice | Work::DeviceToHost | Work::DeviceToDevice => (false, "cudaMemcpyAsync"),
        };
        let (own, ret) = (self.rng.between(2_500, 9_000), self.rng.between(2_100, 6_000));
        self.steps.push(Step::Launch { driver, name: name.into(), own, ops: op..op + 1, ret });
    }

    /// Launch a CUDA graph; `levels` have stream and duration (ns) of their kernels.
    pub(crate) fn graph(&mut self, levels: &[Vec<(usize, i64)>]) {
        let from = self.program.ops.len();
        for (level, kernels) in levels.iter().enumerate() {
            for &(stream, duration) in kernels {
                let name = crate::simulator::names::KERNELS[self.rng.below(crate::simulator::names::KERNELS.len())];
                let op = self.new_op(Work::Kernel, name.into(), stream, duration);
                self.program.ops[op].level = level as u32;
                self.program.ops[op].latency = self.rng.between(500, 9_000);
            }
        }
        let (own, ret) = (self.rng.between(9_000, 40_000), self.rng.between(2_100, 6_000));
        let (ops, name) = (from..self.program.ops.len(), "cudaGraphLaunch".into());
        self.steps.push(Step::Launch { driver: false, name, own, ops, ret });
    }

    /// Add a copy whose call blocks the host until the copy is done.
    pub(crate) fn blocking_copy(&mut self, work: Work, name: &'static str, call: &'static str, stream: usize) {
        let duration = self.rng.between(1_100, 9_000);
        let op = self.new_op(work, name.into(), stream, duration);
        self.program.ops[op].latency = self.rng.between(2_200, 9_000);
        let ret = self.rng.between(2_100, 7_000);
        self.steps.push(Step::Blocking { name: call.into(), op, ret });
    }

    /// Add a call of `cudaEventRecord` for a new event, or for the event of record `again`; returns the index of the
    /// record.
    pub(crate) fn record(&mut self, stream: usize, again: Option<usize>) -> usize {
        let event = again.map_or_else(
            || {
                self.event += 1;
                self.event
            },
            |record| self.program.records[record],
        );
        self.program.records.push(event);
        let (record, own) = (self.program.records.len() - 1, self.rng.between(500, 2_200));
        self.steps.push(Step::Record { stream, record, own });
        record
    }

    /// Add a call of `cudaStreamWaitEvent`: later work of `stream` waits for `record`.
    pub(crate) fn wait(&mut self, stream: usize, record: usize) {
        let own = self.rng.between(700, 2_400);
        self.steps.push(Step::Wait { stream, record, own });
    }

    /// Add a synchronizing call: finding all work done always costs less than returning from a wait.
    pub(crate) fn sync(&mut self, target: Target) {
        let name = match target {
            Target::Device => "cudaDeviceSynchronize",
            Target::Stream(_) => "cudaStreamSynchronize",
            Target::Record(_) => "cudaEventSynchronize",
            Target::Free => "cudaFree",
        };
        let (own, ret) = (self.rng.between(900, 2_000), self.rng.between(2_100, 7_000));
        self.steps.push(Step::Sync { name: name.into(), target, own, ret });
    }

    /// Add queries that are repeated until `target`, an event or a stream, is done.
    pub(crate) fn poll(&mut self, target: Target) {
        let name = if matches!(target, Target::Record(_)) { "cudaEventQuery" } else { "cudaStreamQuery" };
        let (own, gap) = (self.rng.between(700, 1_900), self.rng.between(1_500, 9_000));
        self.steps.push(Step::Poll { name: name.into(), target, own, gap });
    }
}
