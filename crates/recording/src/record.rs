//! What a stream says.

use crate::{TensorPart, TouchKind};
use serde::{Deserialize, Serialize};

/// One statement of a watched process. Ids are dense, start at 0 and are defined before they are used; those of nodes
/// and events are local to their thread, all others to the process.
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
    /// What happened at one time, in `trace` mode only.
    Event {
        /// The thread that it happened on.
        thread: u32,
        /// Its calling context.
        node: u32,
        /// ns since the end of the previous event of the thread (negative: spans end after those that they contain); for
        /// the first one, since the zero of `CLOCK_MONOTONIC`.
        start_delta_ns: i64,
        /// ns that it took.
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
    /// Autograd's number of the thread's next event, in `trace` mode only.
    Sequence {
        /// The thread of the event.
        thread: u32,
        /// The number, less that of the thread's last event with a number (0 before the first).
        delta: i64,
        /// PyTorch's id of the thread of the forward operator, if the event is its backward node; else 0.
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

/// What makes two frames the same (`DeepContext` section 4.2).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FrameKey {
    /// A line of a Python function. All three are texts or a line.
    Python {
        /// Qualified name of the function.
        function: u32,
        /// File of its code.
        file: u32,
        /// Line within the file that was running, 0 if the code has none.
        line: u32,
        /// First line of the function.
        first_line: u32,
    },
    /// A framework operator, by name.
    Operator {
        /// Its name.
        name: u32,
    },
    /// A backward node of autograd, by name.
    Backward {
        /// Its name.
        name: u32,
    },
    /// A span that the user or a library named.
    Span {
        /// Its name.
        name: u32,
    },
    /// An instance of a module, by its dotted path.
    Module {
        /// Path, such as `layers.0.attention`.
        path: u32,
        /// Its class.
        class: u32,
    },
    /// An address in a library.
    Native {
        /// The library.
        library: u32,
        /// Address relative to its first byte in memory.
        offset: u64,
    },
    /// An address in no library (code made at run time).
    Unmapped {
        /// The address.
        address: u64,
    },
    /// Never written; it keeps the numbers of those that follow.
    Inputs {
        /// A text.
        inputs: u32,
    },
    /// What found no place in a full tree.
    Overflow,
    /// A framework operator, by name and by the shapes and types of its inputs.
    ShapedOperator {
        /// Its name.
        name: u32,
        /// A text as [`crate::inputs`] explains it.
        inputs: u32,
    },
    /// A backward node of autograd, by name and by the shapes and types of its inputs.
    ShapedBackward {
        /// Its name.
        name: u32,
        /// A text as [`crate::inputs`] explains it.
        inputs: u32,
    },
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

/// Count, sum and spread of a metric at one node. Exact: sums of squares are kept as integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// How many values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The least one, 0 if there is none.
    pub min: u64,
    /// The greatest one.
    pub max: u64,
    /// The sum of their squares.
    pub sum_of_squares: u128,
}

impl Stats {
    /// Adds one value.
    pub fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.sum_of_squares = self.sum_of_squares.saturating_add(u128::from(value) * u128::from(value));
    }

    /// The statistics of both sets of values together; commutative and associative.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
    }

    /// The mean, 0 without values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Standard deviation of the values (population), 0 without values.
    #[must_use]
    pub fn standard_deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        // n Σx² − (Σx)² in integers where they fit: the difference of two large floats would be noise.
        let (n, sum) = (u128::from(self.count), u128::from(self.sum));
        let spread = match (n.checked_mul(self.sum_of_squares), sum.checked_mul(sum)) {
            (Some(squares), Some(square)) => squares.saturating_sub(square) as f64,
            _ => return (self.sum_of_squares as f64 / n as f64 - self.mean() * self.mean()).max(0.0).sqrt(),
        };
        spread.sqrt() / n as f64
    }
}

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

#[cfg(test)]
mod tests {
    use super::Stats;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Stats {
        let mut stats = Stats::default();
        for &value in values {
            stats.add(value);
        }
        stats
    }

    proptest! {
        #[test]
        fn merging_is_adding(a in proptest::collection::vec(0_u64..1 << 40, 0..20),
                             b in proptest::collection::vec(0_u64..1 << 40, 0..20)) {
            let both = of(&[a.clone(), b.clone()].concat());
            let (mut left, mut right) = (of(&a), of(&b));
            left.merge(&of(&b));
            right.merge(&of(&a));
            prop_assert_eq!(left, both);
            prop_assert_eq!(right, both);
        }

        #[test]
        fn deviation_is_the_textbook_s(values in proptest::collection::vec(0_u64..1 << 30, 1..50)) {
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            let variance = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum::<f64>() / values.len() as f64;
            let stats = of(&values);
            prop_assert!((stats.mean() - mean).abs() <= 1e-6 * mean.max(1.0));
            prop_assert!((stats.standard_deviation() - variance.sqrt()).abs() <= 1e-6 * variance.sqrt().max(1.0));
        }
    }
}
