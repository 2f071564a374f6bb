//! What a nanosecond on the path is charged to.

use super::Exact;
use super::enclosing::Around;
use super::graph::{Dependency, NodeKind};
use super::names::{Names, bits};
use super::wakeups::{Gap, is_annotation};
use crate::critical_path::gpu_order::Evidence;
use crate::kernel_type::{KernelType, NameTypes, RULES};
use crate::vocabulary::cuda::is_of_runtime;
use rustc_hash::FxHashSet;
use serde::Serialize;
use stackline_model::{AttrColumn, EventId, EventKind, INFERRED, Trace};

/// A cause of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// A kernel computes.
    GpuCompute,
    /// A kernel communicates.
    GpuCommunication,
    /// A copy or fill runs.
    GpuCopy,
    /// The gap before an operation that was ready: its stream, an event or an engine came free.
    GpuQueue,
    /// From the return of the launch call (or the operation's start, if that is earlier) to the operation's start.
    LaunchLatency,
    /// A framework operator on the host.
    HostOperator,
    /// A runtime or driver call that does not wait.
    HostRuntime,
    /// Python, or whatever runs between operators.
    HostPython,
    /// Loading of data.
    HostDataLoading,
    /// From the end of the GPU work to the return of the call that waited for it.
    SyncReturn,
    /// From one thread's signal to the other's next work.
    ThreadHandover,
    /// Work of the profiler.
    Profiler,
    /// No rule explains it.
    Unknown,
}

impl Category {
    /// Every category, in the order of reports.
    pub const ALL: [Self; 13] = [
        Self::GpuCompute,
        Self::GpuCommunication,
        Self::GpuCopy,
        Self::GpuQueue,
        Self::LaunchLatency,
        Self::HostOperator,
        Self::HostRuntime,
        Self::HostPython,
        Self::HostDataLoading,
        Self::SyncReturn,
        Self::ThreadHandover,
        Self::Profiler,
        Self::Unknown,
    ];

    /// Stable text name, such as `gpu_compute`.
    pub fn name(self) -> &'static str {
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
            Self::Unknown => "unknown",
        }
    }

    /// The category with this text name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}

/// A longer gap before an operation whose launch is not in the trace has no known cause, in ns.
pub(super) const UNLAUNCHED_GAP_NS: i64 = 10_000;

/// A longer gap between two operations of a stream is no longer the time that a device takes to go on to the next, in
/// ns: something held the operation back, and where nothing is found the cause is unknown.
pub(super) const LONG_GAP_NS: i64 = 100_000;

/// No launch takes longer to arrive, in ns: something unrecorded held the operation back.
const LONG_LAUNCH_NS: i64 = 1_000_000;

/// The category of a lag.
pub(super) fn of_lag(dependency: Dependency, lag: i64) -> Category {
    match dependency {
        Dependency::Launch | Dependency::LaunchByOperator if lag > LONG_LAUNCH_NS => Category::Unknown,
        Dependency::Launch | Dependency::LaunchByOperator => Category::LaunchLatency,
        _ if dependency.is_without_launch() && lag > UNLAUNCHED_GAP_NS => Category::Unknown,
        Dependency::Stream | Dependency::StreamAmidLoss | Dependency::Gpu(_) if lag > LONG_GAP_NS => Category::Unknown,
        Dependency::Stream
        | Dependency::StreamAmidLoss
        | Dependency::Overlap
        | Dependency::Unlaunched
        | Dependency::Gpu(_) => Category::GpuQueue,
        Dependency::Sync(_) => Category::SyncReturn,
        Dependency::Thread(..) => Category::ThreadHandover,
        Dependency::Program => Category::Unknown,
    }
}

/// Categories of events.
pub(super) struct Categories<'a> {
    trace: &'a Trace,
    names: &'a Names,
    types: NameTypes<'a>,
    gaps: &'a [Gap],
    may_wait: MayWait<'a>,
    /// Per event whether it is part of loading data.
    loads: Around,
}

/// Spans of host time that may have been a wait.
pub(super) struct MayWait<'a> {
    trace: &'a Trace,
    names: &'a Names,
    uncertain: &'a FxHashSet<EventId>,
    /// Whether a span is inferred.
    inferred: AttrColumn<'a>,
}

impl MayWait<'_> {
    /// Whether a thread whose innermost span this is (none: it is in a gap) may wait there for what is not in the trace,
    /// or was there already.
    pub(super) fn span(&self, event: EventId) -> bool {
        event.is_none()
            || self.names.flags(self.trace, event) & (bits::WAITS | bits::RUNS_BACKWARD) != 0
            || self.uncertain.contains(&event)
            || (is_annotation(self.trace, event) || self.inferred.get(event).is_some())
                // Python's collector works, and waits for nobody; samples see the function that it interrupted in it.
                && !self.names.collects(self.trace, event)
    }
}

impl Exact<'_> {
    /// Which host time may have been a wait.
    pub(super) fn may_wait(&self) -> MayWait<'_> {
        let Exact { trace, names, uncertain, .. } = self;
        MayWait { trace, names, uncertain, inferred: trace.attr(INFERRED) }
    }
}

impl<'a> Categories<'a> {
    pub(super) fn new(exact: &'a Exact<'_>) -> Self {
        let Exact { trace, names, gaps, .. } = exact;
        Self {
            trace,
            names,
            types: NameTypes::new(trace, RULES),
            gaps,
            may_wait: exact.may_wait(),
            loads: Around::new(trace),
        }
    }

    /// Of GPU work.
    pub(super) fn of_gpu(&mut self, event: EventId) -> Category {
        match self.types.of_event(event) {
            KernelType::Communication => Category::GpuCommunication,
            KernelType::Memory => Category::GpuCopy,
            KernelType::Computation => Category::GpuCompute,
            // It waits on its own queue.
            KernelType::Other => Category::GpuQueue,
        }
    }

    /// Of the way back from a wait.
    pub(super) fn of_return(kind: NodeKind) -> Category {
        if kind == NodeKind::SyncReturn { Category::SyncReturn } else { Category::ThreadHandover }
    }

    /// Of host time whose innermost span is `event` (none: a gap), and how sure that is.
    pub(super) fn of_host(&mut self, lane_index: usize, event: EventId) -> (Category, Evidence) {
        if event.is_none() {
            return self.of_gap(lane_index);
        }
        let category = match self.trace.kind(event) {
            EventKind::Runtime | EventKind::Driver => Category::HostRuntime,
            EventKind::Overhead if !is_of_runtime(self.trace.name(event)) => {
                return (Category::Profiler, Evidence::Exact);
            }
            EventKind::Overhead => Category::HostRuntime,
            _ if self.loads_data(event) => Category::HostDataLoading,
            EventKind::PythonFunction => Category::HostPython,
            _ if is_annotation(self.trace, event) => Category::HostPython,
            _ => Category::HostOperator,
        };
        (category, if self.may_wait.span(event) { Evidence::Inferred } else { Evidence::Exact })
    }

    fn of_gap(&self, lane_index: usize) -> (Category, Evidence) {
        let category = match self.gaps[lane_index] {
            Gap::Engine | Gap::Native => Category::HostOperator,
            Gap::Loader => Category::HostDataLoading,
            Gap::Python => Category::HostPython,
            Gap::Unseen => Category::Unknown,
        };
        (category, Evidence::Inferred)
    }

    /// Whether a span is or lies in one that loads data.
    fn loads_data(&mut self, event: EventId) -> bool {
        let (trace, names) = (self.trace, self.names);
        self.loads.any(trace, event, |e| names.flags(trace, e) & bits::LOADS_DATA != 0)
    }
}
