//! Program: a list of steps for each thread, with all durations and lags already drawn, so that an edited program
//! differs from the original only by the edit.

pub(crate) mod build;
pub(crate) mod extras;
mod host;
mod train;

pub(crate) use train::generate;

use std::borrow::Cow;
use std::ops::Range;

use crate::simulator::run::record::Category;

/// Names are usually constants.
pub(crate) type Name = Cow<'static, str>;

/// Kind of a span on a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Operator,
    Annotation,
    Python,
    Runtime,
    Driver,
    Overhead,
}

/// Autograd sequence number of a forward operator or a backward node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence {
    Forward(u64),
    Backward(u64),
}

/// Inputs of an operator as JSON: sizes and types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inputs {
    pub(crate) dims: &'static str,
    pub(crate) types: &'static str,
}

/// A span on a thread, which a step opens: operator, annotation, Python frame or call.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) kind: Kind,
    pub(crate) name: Name,
    pub(crate) sequence: Option<Sequence>,
    pub(crate) inputs: Option<Inputs>,
}

impl Span {
    pub(crate) fn new(kind: Kind, name: impl Into<Name>) -> Self {
        Self { kind, name: name.into(), sequence: None, inputs: None }
    }

    /// True if the name of the span belongs to data loading.
    pub(crate) fn is_loader(&self) -> bool {
        matches!(self.kind, Kind::Python | Kind::Annotation) && LOADER.iter().any(|mark| self.name.contains(mark))
    }
}

const LOADER: &[&str] = &[
    "dataloader.py",
    "enumerate(DataLoader)",
    "_MultiProcessingDataLoaderIter",
    "_SingleProcessDataLoaderIter",
    "pin_memory.py",
    "_worker_loop",
    "fetch.py",
];

/// Role of a thread in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Main,
    Autograd,
    /// A second Python thread of the main process.
    Helper,
    /// The DataLoader's pinning thread, of the main process.
    Pin,
    /// A DataLoader worker, a separate process.
    Worker(usize),
}

/// Kind of GPU work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Kernel,
    Collective,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    Fill,
}

impl Work {
    /// Category of GPU time for this kind of work: compute, communication or copy.
    pub(crate) fn category(self) -> Category {
        match self {
            Self::Kernel => Category::GpuCompute,
            Self::Collective => Category::GpuCommunication,
            Self::HostToDevice | Self::DeviceToHost | Self::DeviceToDevice | Self::Fill => Category::GpuCopy,
        }
    }

    /// Copy engine that this kind of GPU work uses; `None` for kernels and fills.
    pub(crate) fn engine(self) -> Option<usize> {
        match self {
            Self::HostToDevice => Some(0),
            Self::DeviceToHost => Some(1),
            Self::DeviceToDevice => Some(2),
            Self::Kernel | Self::Collective | Self::Fill => None,
        }
    }
}

/// A GPU operation of a program. All times in ns.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) work: Work,
    pub(crate) name: Name,
    pub(crate) stream: usize,
    pub(crate) duration: i64,
    /// Time from the end of the launch call until the operation could start; negative: it may start before the call
    /// returns. For blocking operations: from the start of the call.
    pub(crate) latency: i64,
    /// Time from the end of its prerequisite on the GPU to its start.
    pub(crate) gap: i64,
    /// Programmatic dependent launch: it may start this much before the previous operation of its stream ends.
    pub(crate) overlap: i64,
    /// Level inside a graph launch.
    pub(crate) level: u32,
    /// Removed by an edit.
    pub(crate) removed: bool,
    /// Additional data of its record.
    pub(crate) details: Details,
}

/// Values in the trace record of a GPU operation that differ from the usual ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details {
    /// Bytes of a copy.
    pub(crate) bytes: Option<i64>,
    /// Blocks of a kernel.
    pub(crate) grid: Option<i64>,
    /// Threads per block.
    pub(crate) block: Option<i64>,
    /// Elements of a collective.
    pub(crate) elements: Option<i64>,
    /// Instruction samples by stall reason, as JSON.
    pub(crate) stalls: Option<String>,
}

/// Work for which a synchronizing call or a query waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Device,
    Stream(usize),
    Record(usize),
    /// `cudaFree`: the device, without a record in the trace.
    Free,
}

/// One step of a host thread in a simulated program. All times in ns.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Open(Span),
    Close,
    /// Exclusive time of the innermost open span, or of the thread.
    Spend(i64),
    /// Exclusive time between two top-level spans. If another thread holds the GIL, the next span starts `lag` after
    /// its release.
    Gap {
        own: i64,
        lag: i64,
    },
    /// A runtime call that does not wait.
    Call {
        name: Name,
        own: i64,
    },
    /// Launch operations; several are a graph. `ret`: time until the call returns once a full queue has space.
    Launch {
        driver: bool,
        name: Name,
        own: i64,
        ops: Range<usize>,
        ret: i64,
    },
    /// Launch one operation and return `ret` after its end.
    Blocking {
        name: Name,
        op: usize,
        ret: i64,
    },
    Record {
        stream: usize,
        record: usize,
        own: i64,
    },
    Wait {
        stream: usize,
        record: usize,
        own: i64,
    },
    /// Takes `own` if no work is pending, otherwise ends `ret` after the last operation that it waits for.
    Sync {
        name: Name,
        target: Target,
        own: i64,
        ret: i64,
    },
    /// Query until the target is done: each query takes `own`, with `gap` in between.
    Poll {
        name: Name,
        target: Target,
        own: i64,
        gap: i64,
    },
    /// Put a token into a queue.
    Put(usize),
    /// Take a token: after `own` if there is one, otherwise `lag` after it is put.
    Get {
        queue: usize,
        own: i64,
        lag: i64,
    },
    /// Put the next index into the queue of the next worker in turn, while there are items.
    PutIndex,
}

/// A host thread of the program: its role and its steps.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) role: Role,
    pub(crate) steps: Vec<Step>,
}

/// The DataLoader of a program: its workers, and the steps by which they load each item.
#[derive(Debug, Clone, Default)]
pub(crate) struct Loader {
    pub(crate) workers: usize,
    /// Work of a worker for each item, from index to item.
    pub(crate) items: Vec<Vec<Step>>,
    /// Exclusive time and lag of the wait for each index.
    pub(crate) waits: Vec<(i64, i64)>,
    /// Queue of the finished items.
    pub(crate) done: usize,
}

/// A stream of the simulated GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    /// Number of the stream in the trace.
    pub(crate) number: i64,
    /// Priority by `cudaStreamCreateWithPriority`. Kernels of the simulator never compete for the same units, so it
    /// has no effect.
    pub(crate) priority: i32,
}

/// A simulated program: steps of its threads, GPU operations, streams, queues and DataLoader.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) threads: Vec<Thread>,
    pub(crate) ops: Vec<Op>,
    pub(crate) streams: Vec<Stream>,
    /// CUDA event of each record: an event may be recorded again.
    pub(crate) records: Vec<u64>,
    /// Tokens in each queue at the beginning. The workers' index queues follow after these.
    pub(crate) queues: Vec<u32>,
    pub(crate) loader: Option<Loader>,
    /// Number of pending operations per stream before launches block.
    pub(crate) queue_limit: usize,
    /// True if all streams share one queue.
    pub(crate) queue_shared: bool,
    /// True if the device may overlap dependent kernels.
    pub(crate) dependent_launch: bool,
    /// Counter of the device's clock in MHz: an operation, and the values before and from its start on.
    pub(crate) clock: Option<(usize, [i64; 2])>,
}

impl Program {
    /// All threads of the program, including those of the workers.
    pub(crate) fn all_threads(&self) -> Vec<Thread> {
        let mut threads = self.threads.clone();
        let Some(loader) = &self.loader else { return threads };
        for worker in 0..loader.workers {
            let mut steps = Vec::new();
            for item in (worker..loader.items.len()).step_by(loader.workers) {
                let (own, lag) = loader.waits[item];
                steps.push(Step::Get { queue: self.queues.len() + worker, own, lag });
                steps.extend(loader.items[item].iter().cloned());
                steps.push(Step::Put(loader.done));
            }
            threads.push(Thread { role: Role::Worker(worker), steps });
        }
        threads
    }
}
