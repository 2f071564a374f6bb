//! What a stream says.

use crate::frame::FrameKey;
use crate::{Stats, TensorPart, TouchKind};
use serde::{Deserialize, Serialize};

/// One statement of a watched process. Ids are dense, start at 0 and are defined before they are used; those of nodes
/// and events are local to their thread, all others to the process.
///
/// Kinds are numbered in this order ([`Record::KINDS`] of them): new ones come last, and a kind whose fields must change gets
/// a new number, so that readers skip what they do not know. A new variant of an enum within a record (a metric, a kind of frame) hides the rest
/// of its block from older readers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Record {
    /// Who writes; the first record of a stream.
    Process(Box<Process>),
    /// A thread that recorded something.
    Thread(Thread),
    /// A text, interned once.
    Text {
        /// Its id.
        id: u32,
        /// The text; bytes that were no UTF-8 are replaced.
        text: String,
    },
    /// A frame, interned once.
    Frame {
        /// Its id.
        id: u32,
        /// What tells it from others.
        key: FrameKey,
    },
    /// A binary that native frames lie in.
    Library {
        /// Its id.
        id: u32,
        /// Its path, a text.
        path: u32,
        /// Its GNU build id, empty if it has none.
        build_id: Vec<u8>,
    },
    /// A node of a thread's calling context tree. Node 0, the root, is not written.
    Node {
        /// The thread whose tree it is.
        thread: u32,
        /// Its id; parents come before their children.
        id: u32,
        /// The node that called it.
        parent: u32,
        /// Its frame.
        frame: u32,
    },
    /// All that was measured at a node since the start; a later record of the same node and metric replaces it.
    Stats {
        /// The thread whose tree it is.
        thread: u32,
        /// The node that was hit (exclusive).
        node: u32,
        /// What was measured.
        metric: Metric,
        /// The values.
        stats: Stats,
    },
    /// Format 1 only: a [`Record::Call`], which [`crate::Reader`] makes of it and of the two records below that may precede it.
    Event {
        /// As in [`Record::Call`].
        thread: u32,
        /// As in [`Record::Call`].
        node: u32,
        /// As in [`Record::Call`].
        start_delta_ns: i64,
        /// As in [`Record::Call`].
        duration_ns: u64,
    },
    /// Whether a source of events is on, and if not, why.
    Source(Source),
    /// How often something was left out since the start; a later record with the same name replaces it.
    Lost {
        /// What was lost, e.g. `tree_full`.
        what: String,
        /// How often.
        count: u64,
    },
    /// The process ended in order; its absence says that it was killed.
    End {
        /// ns since the process's `start_ns`.
        at_ns: u64,
    },
    /// Format 1 only: [`CallDetail::Autograd`] of the thread's next [`Record::Event`].
    Sequence {
        /// The thread of the event.
        thread: u32,
        /// As in [`CallDetail::Autograd`].
        delta: i64,
        /// As in [`CallDetail::Autograd`].
        forward_thread: u64,
    },
    /// A sample, in `trace` mode only.
    Sample {
        /// The thread that was interrupted.
        thread: u32,
        /// Where it was.
        node: u32,
        /// ns since the previous sample of the thread; for the first one, since the zero of `CLOCK_MONOTONIC`.
        delta_ns: i64,
        /// What it is a sample of.
        metric: Metric,
        /// What it stands for.
        value: u64,
    },
    /// What a library without build id is known by; it comes right after the library.
    LibraryContent {
        /// The library.
        library: u32,
        /// A hash of parts of its content (`dlmonitor::native::Module::content`).
        hash: u64,
    },
    /// `PyTorch` was imported after the stream began.
    Torch {
        /// Its version.
        version: String,
    },
    /// The machine that the process ran on; it comes right after the process.
    Machine {
        /// A hash of the kernel's id of this boot (`/proc/sys/kernel/random/boot_id`) and of the clock's namespace:
        /// processes with the same one share `CLOCK_MONOTONIC`.
        boot: u64,
    },
    /// Recording began or paused, in `trace` mode and only where a part of the program was asked for.
    Window {
        /// When, `CLOCK_MONOTONIC`.
        at_ns: i64,
        /// How many training steps had ended by then: the number of the one that runs.
        step: u64,
        /// Whether it began.
        open: bool,
        /// Whether that was where a step ended, or the start of the process.
        at_step: bool,
    },
    /// The process is about to end by `os._exit`; [`Record::End`] follows.
    Exit {
        /// The argument: the exit code is its lowest eight bits.
        code: i32,
    },
    /// The processors that the process may use; a later one replaces it. The first comes where the recording begins, with or
    /// without a [`Record::Load`].
    Processors(Processors),
    /// What all threads of the process had used of processors by then; the recorder's own threads are left out. Only what
    /// lies between two of them is of the recording: the first comes where it begins, in `trace` mode.
    Load {
        /// When, `CLOCK_MONOTONIC`.
        at_ns: i64,
        /// Threads that were there.
        threads: u32,
        /// ns that they and those that ended since the first look ran, together, each since it began.
        ran_ns: u64,
        /// ns that they were ready to run and waited for a processor, together, counted alike.
        waited_ns: u64,
    },
    /// What the recording of operators costs; a later one replaces it.
    Cost(Cost),
    /// What happened to memory of a tensor, in `trace` mode with memory only.
    Touch {
        /// The thread that it happened on.
        thread: u32,
        /// Its calling context; of what was handed to an operator, the operator's.
        node: u32,
        /// ns since the previous touch of the thread; for the first one, since the zero of `CLOCK_MONOTONIC`. What was handed to
        /// an operator was so when the operator began.
        delta_ns: i64,
        /// What happened.
        kind: TouchKind,
        /// First byte of the memory, less that of the previous touch of the thread (0 before the first; it wraps around).
        address_delta: i64,
        /// Bytes that were allocated or freed, or that the elements of the tensor take (0 if not known).
        bytes: u64,
    },
    /// What a tensor is called; a later record with the same id replaces it, as modules are put into others after they have
    /// tensors.
    TensorName {
        /// Its id.
        id: u32,
        /// The dotted path of the module that has it, or has the parameter that it belongs to; empty for the outermost one.
        module: String,
        /// The module's name for it, or for that parameter: `weight`.
        name: String,
        /// What it is.
        part: TensorPart,
    },
    /// Memory at this address was a tensor of this name then, in `trace` mode with memory only.
    Named {
        /// When, `CLOCK_MONOTONIC`.
        at_ns: i64,
        /// First byte of the memory.
        address: u64,
        /// The id of the name.
        name: u32,
    },
    /// Differences restart: of each thread, the next call, sample, touch and autograd number count from 0 again. First record
    /// of each chunk, so that a chunk can be read without the one before it.
    Restart,
    /// Outage: for a while the stream could not be written.
    Outage {
        /// First write that failed, `CLOCK_MONOTONIC`.
        from_ns: i64,
        /// First write that succeeded again, or the end of the process, `CLOCK_MONOTONIC`.
        to_ns: i64,
        /// Error number of the system (`errno`) of the first failure, 0 if unknown.
        error: i32,
        /// Records that never were written. Records that waited in memory and were written late are not counted.
        dropped: u64,
    },
    /// Format 1 only: [`CallDetail::Name`] of the thread's next [`Record::Event`].
    EventName {
        /// The thread of the event.
        thread: u32,
        /// The name.
        name: String,
    },
    /// Examples of the names that share a [`FrameKey::FoldedSpan`]; a later record of the same frame replaces it.
    FoldedNames {
        /// The frame.
        frame: u32,
        /// The first name that was folded.
        first: String,
        /// One of the latest names.
        last: String,
    },
    /// Overhead of the recorder, measured in the run; a later one replaces it.
    Overhead(Overhead),
    /// The innermost operator or span that was running on a thread when the stream was brought up to date last; a later record
    /// of the thread replaces it.
    Running {
        /// The thread.
        thread: u32,
        /// Where it was in the tree; 0 if nothing ran.
        node: u32,
    },
    /// A call that ended, in `trace` mode only.
    Call {
        /// The thread that it happened on.
        thread: u32,
        /// Its calling context.
        node: u32,
        /// ns since the end of the previous call of the thread (negative: spans end after those that they contain); for
        /// the first one after a [`Record::Restart`], since the zero of `CLOCK_MONOTONIC`.
        start_delta_ns: i64,
        /// ns that it took.
        duration_ns: u64,
        /// What its node does not say.
        detail: CallDetail,
    },
    /// Where the newest sample found the main thread when the stream was brought up to date last; a later record replaces it.
    Sampled {
        /// The thread of its samples.
        thread: u32,
        /// Where it was in the tree.
        node: u32,
    },
    /// Another program is about to take the place of this one in its process (`exec`); [`Record::End`] follows. Where that failed,
    /// both are cut off again.
    Replaced,
    /// When steps of optimizers ended, where all of the program is recorded; a later one replaces it.
    StepEnds(StepEnds),
}

impl Record {
    /// How many kinds of records there are; the numbers of those that this reader does not know begin here.
    pub const KINDS: u32 = 34;

    /// Kinds that are written one by one in `trace` mode: [`Record::Sample`], [`Record::Touch`] and [`Record::Call`].
    pub(crate) const SINGLE: [u32; 3] = [12, 21, 30];
    /// Kinds that tell of what was not written: [`Record::Lost`] and [`Record::Outage`].
    pub(crate) const MISSING: [u32; 2] = [9, 25];
}

/// What is known of a single call beyond its place in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallDetail {
    /// Nothing.
    #[default]
    None,
    /// Autograd's number of the call: an operator and its backward node have the same.
    Autograd {
        /// The number, less that of the thread's last call with a number (0 before the first).
        delta: i64,
        /// PyTorch's id of the thread of the forward operator, if the call is its backward node; else 0.
        forward_thread: u64,
    },
    /// Its exact name, where its frame is a [`FrameKey::FoldedSpan`].
    Name(String),
}

/// What a process may use of the machine's processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processors {
    /// Processors of the machine that are on; 0 if the system does not say.
    pub machine: u32,
    /// Those that any of its threads may run on (`sched_getaffinity`), but for the recorder's; 0 if the system does not say.
    pub allowed: u32,
    /// CPU time per wall-clock time that its control groups let it have, in thousandths of a processor; `None` without
    /// such a limit.
    pub quota_milli: Option<u32>,
}

/// Steps that have to go unrecorded before the overhead of recording can be told: those of six comparisons, the fewest whose
/// interval holds the median with 95 %.
pub const LEAST_UNRECORDED_STEPS: u32 = 24;

/// Overhead of the recorder, measured by steps during which operators are not reported, between steps during which they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Steps that were not recorded for it.
    pub unrecorded_steps: u64,
    /// Comparisons of steps with and without reports.
    pub comparisons: u32,
    /// How much longer a recorded step takes, as a fraction of one without reports: the median of all comparisons and its 95 %
    /// interval. `None` if there were too few.
    pub fraction: Option<Interval>,
}

/// When steps of optimizers ended, on all threads of the process and with all optimizers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEnds {
    /// Steps that ended.
    pub count: u64,
    /// ns from the process's `start_monotonic_ns` to the end of the first one,
    pub first_ns: u64,
    /// and of the last one.
    pub last_ns: u64,
}

/// A value and how certain it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// The value itself.
    pub median: f64,
    /// Upper end.
    pub high: f64,
}

/// What it costs to record one operator: mean values, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Of the recorder when an operator begins, measured on some of all operators while the program ran,
    pub begin_ns: u32,
    /// and when it ends.
    pub end_ns: u32,
    /// Of PyTorch, to call whoever records; measured on a thread of the recorder's own. `None` if it could not be.
    pub torch_ns: Option<u32>,
    /// On so many operators the recorder was measured.
    pub measured: u64,
}

/// A watched process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// The process that made it.
    pub parent_pid: u32,
    /// Wall-clock time at which recording began, ns since 1970.
    pub start_unix_ns: i64,
    /// `CLOCK_MONOTONIC` at that moment, ns: the clock of all times in the stream.
    pub start_monotonic_ns: i64,
    /// How it came to be.
    pub role: Role,
    /// Its rank in a distributed job.
    pub rank: Option<u32>,
    /// Its command line.
    pub command: Vec<String>,
    /// Version of the interpreter, e.g. `3.11.7`; empty if there is none.
    pub python: String,
    /// Version of PyTorch; empty if it was not imported by then, see [`Record::Torch`].
    pub torch: String,
    /// Version of this recorder.
    pub recorder: String,
}

/// How a process came to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The command itself, or one that a watched program started.
    #[default]
    Main,
    /// Forked from a watched process.
    Fork,
    /// Started by Python's `multiprocessing` (spawn or forkserver).
    Spawn,
}

/// A thread of a watched process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Its id within the stream.
    pub id: u32,
    /// The system's id.
    pub tid: u32,
    /// PyTorch's id for it, 0 if unknown.
    pub torch_id: u64,
    /// Its name, as the system knows it.
    pub name: String,
}

/// What is measured at nodes of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Metric {
    /// Time within an operator, without the operators that it called. ns; adds up over the tree.
    OperatorTime,
    /// Time from the begin to the end of a call. ns; does not add up over nested calls.
    CallTime,
    /// CPU time that samples stand for. ns.
    CpuTime,
    /// Wall-clock time that samples stand for. ns.
    RealTime,
    /// Memory allocated. bytes.
    Allocated,
    /// Memory freed, at the place that freed it. bytes.
    Freed,
    /// Occurrences of a counter of the system or the processor, by its index in [`COUNTERS`].
    Counter(u16),
    /// Wall-clock time for which a thread that runs operators waited, that samples stand for. ns.
    WaitTime,
    /// Time in which Python collected garbage, without the operators that finalizers called. ns; adds up over the tree.
    GcTime,
}

/// What names of spans begin with whose end ends a training step: PyTorch wraps each optimizer's `step` in one.
pub const OPTIMIZER_STEP: &str = "Optimizer.step#";

/// Counters that a thread has at most.
pub const MAX_COUNTERS: usize = 8;

/// Name of a span around samples that found a thread in the library of OpenMP: it waits there for other threads, spinning or
/// going to sleep, or divides work among them.
pub const OPENMP: &str = "(OpenMP)";

/// Names of counters, as `perf list` has them. New ones come last.
pub const COUNTERS: &[&str] = &[
    "page-faults",
    "major-faults",
    "context-switches",
    "cpu-migrations",
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
];

/// A source of events and its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Its name, e.g. `python`.
    pub name: String,
    /// Whether it works.
    pub on: bool,
    /// How, or why not.
    pub detail: String,
}
