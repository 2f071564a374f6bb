//! What a program is: for each thread a list of steps, with every duration and lag already drawn, so that an edited
//! program differs from the original in nothing but the edit.

pub(crate) mod build;
pub(crate) mod extras;
mod host;
mod train;

pub(crate) use train::generate;

use std::borrow::Cow;
use std::ops::Range;

use crate::simulator::run::record::Category;

/// Names are mostly constants.
pub(crate) type Name = Cow<'static, str>;

/// What a span on a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Operator,
    Annotation,
    Python,
    Runtime,
    Driver,
    Overhead,
}

/// Autograd's number of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence {
    Forward(u64),
    Backward(u64),
}

/// What an operator was given, as JSON: sizes, and types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inputs {
    pub(crate) dims: &'static str,
    pub(crate) types: &'static str,
}

/// A span to open.
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

    /// Whether what happens inside is loading of data.
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

/// Which of the program's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Main,
    Autograd,
    /// A second Python thread of the main process.
    Helper,
    /// The DataLoader's pinning thread, of the main process.
    Pin,
    /// A DataLoader worker, a process of its own.
    Worker(usize),
}

/// Work of the GPU.
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
    /// What its time is.
    pub(crate) fn category(self) -> Category {
        match self {
            Self::Kernel => Category::GpuCompute,
            Self::Collective => Category::GpuCommunication,
            Self::HostToDevice | Self::DeviceToHost | Self::DeviceToDevice | Self::Fill => Category::GpuCopy,
        }
    }

    /// The copy engine that it needs.
    pub(crate) fn engine(self) -> Option<usize> {
        match self {
            Self::HostToDevice => Some(0),
            Self::DeviceToHost => Some(1),
            Self::DeviceToDevice => Some(2),
            Self::Kernel | Self::Collective | Self::Fill => None,
        }
    }
}

/// One operation of the GPU. All times in ns.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) work: Work,
    pub(crate) name: Name,
    pub(crate) stream: usize,
    pub(crate) duration: i64,
    /// From the launch call's end until the operation could start; negative: it may start before the call returns.
    /// For operations that their call waits for: from the call's start.
    pub(crate) latency: i64,
    /// From the end of what it waits for on the GPU until it starts.
    pub(crate) gap: i64,
    /// Programmatic dependent launch: it may start this long before the previous operation of its stream ends.
    pub(crate) overlap: i64,
    /// Level inside a graph launch.
    pub(crate) level: u32,
    /// Taken out by an edit.
    pub(crate) removed: bool,
    /// What its record says besides.
    pub(crate) details: Details,
}

/// What the record of an operation says besides its times, where that is not the usual.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details {
    /// Bytes of a copy.
    pub(crate) bytes: Option<i64>,
    /// Blocks of a kernel.
    pub(crate) grid: Option<i64>,
    /// Threads of a block.
    pub(crate) block: Option<i64>,
    /// Elements of a collective.
    pub(crate) elements: Option<i64>,
    /// Samples of instructions by the reason of their stall, as JSON.
    pub(crate) stalls: Option<String>,
}

/// What a synchronising call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Device,
    Stream(usize),
    Record(usize),
    /// `cudaFree`: the device, without a record of its own in the trace.
    Free,
}

/// One step of a thread. All times in ns.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Open(Span),
    Close,
    /// Own time of the innermost open span, or of the thread.
    Spend(i64),
    /// Own time between two top-level spans; with the GIL taken by another thread the next span starts `lag` after it
    /// is given up.
    Gap {
        own: i64,
        lag: i64,
    },
    /// A runtime call that does not wait.
    Call {
        name: Name,
        own: i64,
    },
    /// Launches operations: several are a graph. `ret`: until the call returns once a full queue has room.
    Launch {
        driver: bool,
        name: Name,
        own: i64,
        ops: Range<usize>,
        ret: i64,
    },
    /// Launches one operation and returns `ret` after its end.
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
    /// Takes `own` if nothing is pending, else ends `ret` after the last operation that it waits for.
    Sync {
        name: Name,
        target: Target,
        own: i64,
        ret: i64,
    },
    /// Queries until the target is done: each takes `own`, `gap` apart.
    Poll {
        name: Name,
        target: Target,
        own: i64,
        gap: i64,
    },
    /// Puts a token into a queue.
    Put(usize),
    /// Takes a token: after `own` if there is one, else `lag` after it is put.
    Get {
        queue: usize,
        own: i64,
        lag: i64,
    },
    /// Puts the next index into the queue of the worker whose turn it is, as long as there are items.
    PutIndex,
}

/// A thread and its steps.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) role: Role,
    pub(crate) steps: Vec<Step>,
}

/// The DataLoader.
#[derive(Debug, Clone, Default)]
pub(crate) struct Loader {
    pub(crate) workers: usize,
    /// What a worker does for each item, from index to item.
    pub(crate) items: Vec<Vec<Step>>,
    /// Own time and lag of the wait for each index.
    pub(crate) waits: Vec<(i64, i64)>,
    /// Queue of the finished items.
    pub(crate) done: usize,
}

/// A stream of the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    /// Its number in the trace.
    pub(crate) number: i64,
    /// As given to `cudaStreamCreateWithPriority`. Kernels here never compete for the same units, so it is only known.
    pub(crate) priority: i32,
}

/// A whole program.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) threads: Vec<Thread>,
    pub(crate) ops: Vec<Op>,
    pub(crate) streams: Vec<Stream>,
    /// The CUDA event of each record: the same event may be recorded again.
    pub(crate) records: Vec<u64>,
    /// Tokens that each queue holds at the beginning. The workers' index queues follow behind these.
    pub(crate) queues: Vec<u32>,
    pub(crate) loader: Option<Loader>,
    /// Operations that a stream holds before launches block.
    pub(crate) queue_limit: usize,
    /// Whether all streams share one queue.
    pub(crate) queue_shared: bool,
    /// Whether the device may overlap dependent kernels.
    pub(crate) dependent_launch: bool,
    /// A counter of the device's clock, in MHz: before the first of some operation and those behind it, and from then on.
    pub(crate) clock: Option<(usize, [i64; 2])>,
}

impl Program {
    /// The threads, those of the workers included.
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
