//! Recorded spans, GPU activities and times of a run of a simulated program.

use crate::simulator::program::{Inputs, Kind, Name, Role, Sequence};

/// Category of time on the critical path, as in `bound_by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Category {
    GpuCompute,
    GpuCommunication,
    GpuCopy,
    GpuQueue,
    LaunchLatency,
    HostOperator,
    HostRuntime,
    HostPython,
    HostDataLoading,
    SyncReturn,
    ThreadHandover,
    Profiler,
}

impl Category {
    /// Name of the category in `bound_by`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GpuCompute => "gpu_compute",
            Self::GpuCommunication => "gpu_communication",
            Self::GpuCopy => "gpu_copy",
            Self::GpuQueue => "gpu_queue",
            Self::LaunchLatency => "launch_latency",
            Self::HostOperator => "host_operator",
            Self::HostRuntime => "host_runtime",
            Self::HostPython => "host_python",
            Self::HostDataLoading => "host_data_loading",
            Self::SyncReturn => "sync_return",
            Self::ThreadHandover => "thread_handover",
            Self::Profiler => "profiler",
        }
    }
}

/// Cause by which a GPU operation starts or a thread continues: a thread or GPU operation that reached a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A thread that reached this time.
    Thread { thread: usize, at: i64 },
    /// A GPU operation that reached this time: its end, or the point where a dependent launch cuts it.
    Op { op: usize, at: i64 },
}

/// Activity of a thread in a segment of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Own(Category),
    /// A wait for `cause`; the time from there to the end of the segment is `category`.
    Waited {
        cause: Cause,
        category: Category,
    },
}

/// A segment of a thread's time, ns: exclusive time or a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) state: State,
    /// The innermost span.
    pub(crate) span: Option<u32>,
}

/// A span on a thread in the run, with start and end in ns.
#[derive(Debug, Clone)]
pub(crate) struct SpanRecord {
    pub(crate) thread: usize,
    pub(crate) kind: Kind,
    pub(crate) name: Name,
    pub(crate) sequence: Option<Sequence>,
    pub(crate) inputs: Option<Inputs>,
    pub(crate) parent: Option<u32>,
    pub(crate) start: i64,
    pub(crate) end: i64,
}

/// A GPU operation in the run: start, end, and cause of its start.
#[derive(Debug, Clone)]
pub(crate) struct Activity {
    /// Index of the operation in the program.
    pub(crate) op: usize,
    /// Span of the launch call.
    pub(crate) call: u32,
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// Cause of its start.
    pub(crate) cause: Cause,
    /// Category of the time from the cause to its start.
    pub(crate) lag: Category,
    /// All operations on the GPU for which it had to wait.
    pub(crate) after: Vec<usize>,
}

/// Kind of a `cuda_sync` record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncKind {
    Context,
    Stream(usize),
    Event(usize),
    /// The stream that waits, and the record.
    StreamWait(usize, usize),
}

/// A `cuda_sync` record: its call, and the work for which it waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyncRecord {
    pub(crate) call: u32,
    pub(crate) kind: SyncKind,
}

/// A recorded CUDA event: the call that recorded it, and the operations before it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded {
    pub(crate) stream: usize,
    /// Span of the call; `None` before it was recorded.
    pub(crate) call: Option<u32>,
    /// Time of its completion, and the last operation before it.
    pub(crate) done: Option<(i64, usize)>,
    /// Operations before it.
    pub(crate) held: Vec<usize>,
}

/// All results of a run: segments of threads, spans, GPU activities, and synchronizations.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) threads: Vec<(Role, Vec<Segment>)>,
    pub(crate) spans: Vec<SpanRecord>,
    pub(crate) syncs: Vec<SyncRecord>,
    /// In launch order.
    pub(crate) activities: Vec<Activity>,
    pub(crate) records: Vec<Recorded>,
    /// By the span of a call: operations that must end before it returns.
    pub(crate) awaited: Vec<(u32, Vec<usize>)>,
    /// Time range in which the operation of a stream query must have ended.
    pub(crate) polls: Vec<(i64, i64)>,
    /// True if no two prerequisites coincided.
    pub(crate) is_unique: bool,
}
