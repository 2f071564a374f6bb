//! Types of the records in a recorder stream.

use crate::frame::FrameKey;
use crate::{Activity, ClockReading, CompiledProgram, Device, Launch, Queue, Stats, TensorPart, TouchKind};
use serde::{Deserialize, Serialize};

/// A record of a recorded process. Ids are dense, start at 0 and are defined before their use. Ids of nodes and
/// events are local to their thread, all others to the process.
///
/// Kinds are numbered in this order ([`Record::KINDS`] of them). New kinds are added at the end, and a kind whose
/// fields must change gets a new number, so that readers skip unknown ones. A new variant of an enum within a record
/// (a metric, a kind of frame) hides the rest of its block from older readers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Record {
    /// The recorded process; the first record of a stream.
    Process(Box<Process>),
    /// A thread that recorded something.
    Thread(Thread),
    /// A text, interned once.
    Text {
        /// Id of the text.
        id: u32,
        /// The text; bytes that are not UTF-8 are replaced.
        text: String,
    },
    /// A frame, interned once.
    Frame {
        /// Id of the frame.
        id: u32,
        /// Identity of the frame.
        key: FrameKey,
    },
    /// A binary with native frames.
    Library {
        /// Id of the library.
        id: u32,
        /// Path, a text.
        path: u32,
        /// GNU build id, empty if it has none.
        build_id: Vec<u8>,
    },
    /// A node of a thread's calling context tree. Node 0, the root, is not written.
    Node {
        /// Thread that owns the tree.
        thread: u32,
        /// Id of the node; parents come before their children.
        id: u32,
        /// The calling node.
        parent: u32,
        /// Frame of the node.
        frame: u32,
    },
    /// All values of a metric at a node since the start; a later record of the same node and metric replaces it.
    Stats {
        /// Thread that owns the tree.
        thread: u32,
        /// The node of the values (exclusive).
        node: u32,
        /// The metric.
        metric: Metric,
        /// The values.
        stats: Stats,
    },
    /// Format 1 only: a [`Record::Call`], which [`crate::Reader`] combines from it and the two records below that may
    /// precede it.
    Event {
        /// Same as in [`Record::Call`].
        thread: u32,
        /// Same as in [`Record::Call`].
        node: u32,
        /// Same as in [`Record::Call`].
        start_delta_ns: i64,
        /// Same as in [`Record::Call`].
        duration_ns: u64,
    },
    /// State of a source of events, with the reason if it is off.
    Source(Source),
    /// Number of omissions of one kind since the start; a later record with the same name replaces it.
    Lost {
        /// Kind of the lost data, e.g. `tree_full`.
        what: String,
        /// Number of omissions.
        count: u64,
    },
    /// Normal end of the process; without it the process was killed.
    End {
        /// ns since the process's `start_ns`.
        at_ns: u64,
    },
    /// Format 1 only: [`CallDetail::Autograd`] of the thread's next [`Record::Event`].
    Sequence {
        /// The thread of the event.
        thread: u32,
        /// Same as in [`CallDetail::Autograd`].
        delta: i64,
        /// Same as in [`CallDetail::Autograd`].
        forward_thread: u64,
    },
    /// A sample, in `trace` mode only.
    Sample {
        /// The interrupted thread.
        thread: u32,
        /// Node of the sample.
        node: u32,
        /// ns since the previous sample of the thread; for the first one, since the zero of `CLOCK_MONOTONIC`.
        delta_ns: i64,
        /// Metric of the sample.
        metric: Metric,
        /// Value that the sample represents.
        value: u64,
    },
    /// Identity of a library without build id, right after the library.
    LibraryContent {
        /// The library.
        library: u32,
        /// A hash of parts of its content (`dlmonitor::native::Module::content`).
        hash: u64,
    },
    /// `PyTorch` was imported after the stream began.
    Torch {
        /// Version of PyTorch.
        version: String,
    },
    /// Machine of the process, right after the process.
    Machine {
        /// Hash of the kernel's boot id (`/proc/sys/kernel/random/boot_id`) and of the clock's namespace: processes
        /// with equal hashes share `CLOCK_MONOTONIC`.
        boot: u64,
    },
    /// A begin or pause of the recording, in `trace` mode and only if a part of the program was selected.
    Window {
        /// Time, `CLOCK_MONOTONIC`.
        at_ns: i64,
        /// Number of training steps that had ended, which is the number of the current step.
        step: u64,
        /// True for a begin.
        open: bool,
        /// True at the end of a step or at the start of the process.
        at_step: bool,
    },
    /// The process is about to end by `os._exit`; [`Record::End`] follows.
    Exit {
        /// The argument: the exit code is its lowest eight bits.
        code: i32,
    },
    /// Processors that the process may use; a later one replaces it. The first one is written at the begin of the
    /// recording, with or without a [`Record::Load`].
    Processors(Processors),
    /// CPU usage of all threads of the process so far, except those of the recorder. Only differences between two of
    /// them belong to the recording: the first one is written at its begin, in `trace` mode.
    Load {
        /// Time, `CLOCK_MONOTONIC`.
        at_ns: i64,
        /// Number of live threads.
        threads: u32,
        /// Running time in ns, summed over these threads and those that ended since the first reading, each since its
        /// begin.
        ran_ns: u64,
        /// Time in ns in which they were ready and waited for a processor, summed in the same way.
        waited_ns: u64,
    },
    /// Cost of recording operators; a later one replaces it.
    Cost(Cost),
    /// Event of tensor memory, in `trace` mode with memory only.
    Touch {
        /// Thread of the event.
        thread: u32,
        /// Calling context; for an input, that of the operator.
        node: u32,
        /// ns since the previous event of the thread; for the first one, since the zero of `CLOCK_MONOTONIC`. An
        /// input has the time of the begin of the operator.
        delta_ns: i64,
        /// Kind of the event.
        kind: TouchKind,
        /// First byte of the memory, less that of the thread's previous event (0 before the first; it wraps around).
        address_delta: i64,
        /// Bytes that were allocated or freed, or the size of the tensor's elements in bytes (0 if unknown).
        bytes: u64,
    },
    /// Name of a tensor. A later record with the same id replaces it, because modules are assigned to others after
    /// they have tensors.
    TensorName {
        /// Id of the name.
        id: u32,
        /// Dotted path of the module of the tensor, or of the parameter to which it belongs; empty for the outermost
        /// module.
        module: String,
        /// Name of the tensor or of that parameter in the module: `weight`.
        name: String,
        /// Role of the tensor.
        part: TensorPart,
    },
    /// Memory at this address belonged to a tensor of this name, in `trace` mode with memory only.
    Named {
        /// Time, `CLOCK_MONOTONIC`.
        at_ns: i64,
        /// First byte of the memory.
        address: u64,
        /// The id of the name.
        name: u32,
    },
    /// Restart of differences: for each thread, the next call, sample, memory event, launch and autograd number count
    /// from 0 again, and so does the next operation of each queue. First record of each chunk, so that a chunk can be
    /// read without the previous one.
    Restart,
    /// A period in which the stream could not be written.
    Outage {
        /// First write that failed, `CLOCK_MONOTONIC`.
        from_ns: i64,
        /// First write that succeeded again, or the end of the process, `CLOCK_MONOTONIC`.
        to_ns: i64,
        /// Error number of the system (`errno`) of the first failure, 0 if unknown.
        error: i32,
        /// Number of records that were never written. Records that waited in memory and were written late are not
        /// counted.
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
    /// The innermost operator or span that was running on a thread at the last update of the stream; a later record
    /// of the thread replaces it.
    Running {
        /// The thread.
        thread: u32,
        /// Node in the tree; 0 if nothing ran.
        node: u32,
    },
    /// A call that has ended, in `trace` mode only.
    Call {
        /// Thread of the call.
        thread: u32,
        /// Calling context.
        node: u32,
        /// ns since the end of the previous call of the thread (negative: spans end after those that they contain); for
        /// the first one after a [`Record::Restart`], since the zero of `CLOCK_MONOTONIC`.
        start_delta_ns: i64,
        /// Duration in ns.
        duration_ns: u64,
        /// Details that its node lacks.
        detail: CallDetail,
    },
    /// [`Record::LastSample`] of earlier recorders, without its time; a later record replaces it.
    Sampled {
        /// Thread of its samples.
        thread: u32,
        /// Node in the tree.
        node: u32,
    },
    /// Another program is about to replace this one in its process (`exec`); [`Record::End`] follows. If the
    /// replacement fails, both are cut off again.
    Replaced,
    /// Ends of steps of optimizers, if the whole program is recorded; a later one replaces it.
    StepEnds(StepEnds),
    /// The main thread's newest sample at the last update of the stream; a later record replaces it.
    LastSample {
        /// Thread of its samples.
        thread: u32,
        /// Node in the tree.
        node: u32,
        /// Time of the sample, in ns since the process's `start_monotonic_ns`.
        at_ns: u64,
    },
    /// An accelerator; a later record with the same id replaces it.
    Device(Box<Device>),
    /// A queue of a device; a later record with the same id replaces it.
    Queue(Queue),
    /// A reading of a device's clock and of the host's, for devices with a clock of their own.
    Clock(ClockReading),
    /// A call into a device's runtime that has ended, in `trace` mode only.
    Launch(Launch),
    /// An operation of a device that has ended, in `trace` mode only.
    Activity(Activity),
    /// A program that a compiler made for a device.
    Compiled(CompiledProgram),
}

impl Record {
    /// Number of kinds of records; unknown kinds begin here.
    pub const KINDS: u32 = 41;

    /// Kinds of single records in `trace` mode: [`Record::Sample`], [`Record::Touch`], [`Record::Call`],
    /// [`Record::Launch`] and [`Record::Activity`].
    pub(crate) const SINGLE: [u32; 5] = [12, 21, 30, 38, 39];
    /// Kinds of records that report missing records: [`Record::Lost`] and [`Record::Outage`].
    pub(crate) const MISSING: [u32; 2] = [9, 25];
}

/// Detail of an individual call in addition to its node and times: autograd's number, or an exact name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallDetail {
    /// No details.
    #[default]
    None,
    /// Autograd's number of the call, which an operator and its backward node share.
    Autograd {
        /// The number, less that of the thread's last call with a number (0 before the first).
        delta: i64,
        /// PyTorch's id of the thread of the forward operator, if the call is its backward node; else 0.
        forward_thread: u64,
    },
    /// Exact name of a call with the frame of a [`FrameKey::FoldedSpan`].
    Name(String),
}

/// Processors that a process may use, and its CPU time quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processors {
    /// Online processors of the machine; 0 if unknown.
    pub machine: u32,
    /// Processors on which any of its threads, except the recorder's, may run (`sched_getaffinity`); 0 if unknown.
    pub allowed: u32,
    /// CPU time per wall time that its control groups allow, in thousandths of a processor; `None` without such a
    /// limit.
    pub quota_milli: Option<u32>,
}

/// Number of steps that must run unrecorded before the overhead of recording is known: those of six comparisons, the
/// smallest number whose interval contains the median with 95 %.
pub const LEAST_UNRECORDED_STEPS: u32 = 24;

/// Overhead of the recorder, measured by steps without operator callbacks between steps with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Number of steps that ran unrecorded for the measurement; 0 if too few ended at the same call path.
    pub unrecorded_steps: u64,
    /// Number of comparisons of steps with and without reports.
    pub comparisons: u32,
    /// Increase of the duration of a recorded step, as a fraction of one without reports: the median of all
    /// comparisons and its 95 % interval. `None` with too few comparisons.
    pub fraction: Option<Interval>,
}

/// Number of optimizer steps that ended, and times of the first and the last end, on all threads and with all
/// optimizers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEnds {
    /// Number of steps that ended.
    pub count: u64,
    /// End of the first step, in ns since the process's `start_monotonic_ns`.
    pub first_ns: u64,
    /// End of the last step, in ns since the same time.
    pub last_ns: u64,
}

/// A median with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// The value itself.
    pub median: f64,
    /// Upper end.
    pub high: f64,
}

/// Mean cost of recording one operator, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Cost of the recorder at the begin of an operator, measured on a part of all operators while the program ran.
    pub begin_ns: u32,
    /// Cost of the recorder at the end of an operator.
    pub end_ns: u32,
    /// Cost of PyTorch for calling a profiler, measured on a thread of the recorder. `None` if the measurement
    /// failed.
    pub torch_ns: Option<u32>,
    /// Number of operators on which the recorder was measured.
    pub measured: u64,
}

/// Description of a recorded process: ids, command, begin and versions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Id of its parent process.
    pub parent_pid: u32,
    /// Wall-clock time of the begin of the recording, ns since 1970.
    pub start_unix_ns: i64,
    /// `CLOCK_MONOTONIC` at that time in ns, the clock of all times in the stream.
    pub start_monotonic_ns: i64,
    /// Origin of the process.
    pub role: Role,
    /// Rank in a distributed job.
    pub rank: Option<u32>,
    /// Command line.
    pub command: Vec<String>,
    /// Version of the interpreter, e.g. `3.11.7`; empty without one.
    pub python: String,
    /// Version of PyTorch; empty if it was not imported by then, see [`Record::Torch`].
    pub torch: String,
    /// Version of this recorder.
    pub recorder: String,
}

/// Role of a process in a recording: command, fork, or child of Python's `multiprocessing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The command itself, or a command that a recorded program started.
    #[default]
    Main,
    /// Forked from a recorded process.
    Fork,
    /// Started by Python's `multiprocessing` (spawn or forkserver).
    Spawn,
}

/// Ids and name of a thread of a recorded process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Id within the stream.
    pub id: u32,
    /// The system's id.
    pub tid: u32,
    /// PyTorch's id of the thread, 0 if unknown.
    pub torch_id: u64,
    /// System name of the thread.
    pub name: String,
}

/// Metric of a call-tree node, such as times, bytes or counted events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Metric {
    // Streams store the position of a metric in this list, not its name: names may change, the order may not.
    /// Exclusive time of an operator in ns; additive over the tree.
    OperatorTime,
    /// Inclusive time of a call in ns; not additive over nested calls.
    CallTime,
    /// CPU time that samples represent, in ns.
    CpuTime,
    /// Wall time that samples represent, in ns.
    WallTime,
    /// Allocated memory in bytes.
    Allocated,
    /// Freed memory in bytes, at the call path that freed it.
    Freed,
    /// Events of a counter of the system or the processor, by its index in [`COUNTERS`].
    Counter(u16),
    /// Wall time that samples of waits represent, of threads that run operators, in ns.
    WaitTime,
    /// Time of Python's garbage collection in ns, without operators that finalizers called; additive over the tree.
    GcTime,
}

/// Prefix of the names of spans whose end ends a training step: PyTorch wraps each optimizer's `step` in one.
pub const OPTIMIZER_STEP: &str = "Optimizer.step#";

/// Largest number of counters per thread.
pub const MAX_COUNTERS: usize = 8;

/// Name of a span around samples of a thread in the OpenMP library, in which it waits for other threads (spinning or
/// sleeping) or distributes work.
pub const OPENMP: &str = "(OpenMP)";

/// Names of counters as in `perf list`. New ones are added at the end.
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

/// State of a data source of the recorder in a process, such as `python`: whether it works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Name, e.g. `python`.
    pub name: String,
    /// True if it works.
    pub on: bool,
    /// Description of the source, or the reason why it is off.
    pub detail: String,
}
