//! What a run leaves behind.

use crate::simulator::program::{Inputs, Kind, Name, Role, Sequence};

/// A category of time; the names are those of the path's `bound_by`.
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

/// What released something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A thread that came to this time.
    Thread { thread: usize, at: i64 },
    /// An operation of the GPU that came to this time: its end, or the point where a dependent launch cuts it.
    Op { op: usize, at: i64 },
}

/// What a thread did in a piece of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Own(Category),
    /// Waited for `cause`; from there to the piece's end is `category`.
    Waited {
        cause: Cause,
        category: Category,
    },
}

/// A piece of a thread's time, ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) state: State,
    /// The innermost span.
    pub(crate) span: Option<u32>,
}

/// A span that was open on a thread.
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

/// An operation of the GPU as it ran.
#[derive(Debug, Clone)]
pub(crate) struct Activity {
    /// Index of the operation in the program.
    pub(crate) op: usize,
    /// Span of the launch call.
    pub(crate) call: u32,
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// What it started after.
    pub(crate) cause: Cause,
    /// What the time from the cause to its start is.
    pub(crate) lag: Category,
    /// Everything that it had to wait for on the GPU.
    pub(crate) after: Vec<usize>,
}

/// Kinds of `cuda_sync` records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncKind {
    Context,
    Stream(usize),
    Event(usize),
    /// The stream that waits, and the record.
    StreamWait(usize, usize),
}

/// A `cuda_sync` record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyncRecord {
    pub(crate) call: u32,
    pub(crate) kind: SyncKind,
}

/// An event's record as it ran.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded {
    pub(crate) stream: usize,
    /// Span of the call; none as long as it was not recorded.
    pub(crate) call: Option<u32>,
    /// When it was complete, and the last operation before it.
    pub(crate) done: Option<(i64, usize)>,
    /// The operations that it stands for.
    pub(crate) held: Vec<usize>,
}

/// Everything that a run left behind.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) threads: Vec<(Role, Vec<Segment>)>,
    pub(crate) spans: Vec<SpanRecord>,
    pub(crate) syncs: Vec<SyncRecord>,
    /// In the order of their launch.
    pub(crate) activities: Vec<Activity>,
    pub(crate) records: Vec<Recorded>,
    /// By the span of a call: the operations that must have ended before it returns.
    pub(crate) awaited: Vec<(u32, Vec<usize>)>,
    /// In which time a stream query's operation must have ended.
    pub(crate) polls: Vec<(i64, i64)>,
    /// Whether no two prerequisites of anything coincided.
    pub(crate) is_unique: bool,
}
