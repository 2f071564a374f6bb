//! Causes of time on the critical path, and the rules that assign them.

use super::Exact;
use super::enclosing::AncestorCache;
use super::graph::{Dependency, NodeKind};
use super::names::{Names, bits};
use super::wakeups::{Gap, is_annotation};
use crate::gpu_dependency::Evidence;
use rustc_hash::FxHashSet;
use serde::Serialize;
use stackline_model::{AttrColumn, EventId, EventKind, INFERRED, Trace};
use stackline_timeline::kernel_type::{KernelType, NameTypes, RULES};
use stackline_timeline::vocabulary::cuda::is_runtime_overhead;

/// Cause of time on the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Computing kernel.
    GpuCompute,
    /// Communicating kernel.
    GpuCommunication,
    /// Copy or fill.
    GpuCopy,
    /// Gap before a ready operation that waited for its stream, an event or a copy engine.
    GpuQueue,
    /// Launch latency: time between the return of the launch call (or the operation's start, if that is earlier) and
    /// the operation's start.
    LaunchLatency,
    /// Framework operator on the host.
    HostOperator,
    /// Runtime or driver call that does not wait.
    HostRuntime,
    /// Python code, or other work between operators.
    HostPython,
    /// Wait that samples of blocked threads show in Python code: in a sleep, lock, queue or pipe, or for a process.
    HostBlocked,
    /// Data loading.
    HostDataLoading,
    /// Return of a waiting call: time between the end of GPU work and the return of the call.
    SyncReturn,
    /// Handover between threads: time between the signal of one thread and the next work of the other.
    ThreadHandover,
    /// Work of the profiler.
    Profiler,
    /// Not explained by any rule.
    Unknown,
}

impl Category {
    /// All categories, in the order of reports.
    pub const ALL: [Self; 14] = [
        Self::GpuCompute,
        Self::GpuCommunication,
        Self::GpuCopy,
        Self::GpuQueue,
        Self::LaunchLatency,
        Self::HostOperator,
        Self::HostRuntime,
        Self::HostPython,
        Self::HostBlocked,
        Self::HostDataLoading,
        Self::SyncReturn,
        Self::ThreadHandover,
        Self::Profiler,
        Self::Unknown,
    ];

    /// Name of the cause in JSON documents, such as `gpu_compute`.
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
            Self::HostBlocked => "host_blocked",
            Self::HostDataLoading => "host_data_loading",
            Self::SyncReturn => "sync_return",
            Self::ThreadHandover => "thread_handover",
            Self::Profiler => "profiler",
            Self::Unknown => "unknown",
        }
    }

    /// Look up the cause with a name such as `gpu_compute`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}

/// Maximum gap in ns with a known cause before an operation whose launch is not in the trace.
pub(super) const UNLAUNCHED_GAP_NS: i64 = 10_000;

/// Maximum gap in ns between two operations of a stream that a device needs for the switch. A longer gap has another
/// cause, which is unknown unless a rule finds it.
pub(super) const LONG_GAP_NS: i64 = 100_000;

/// Maximum launch latency in ns. A longer delay has an unrecorded cause.
const LONG_LAUNCH_NS: i64 = 1_000_000;

/// Cause of a delay of `lag` ns between the end of a node and the start of a node that depends on it.
pub(super) fn lag_category(dependency: Dependency, lag: i64) -> Category {
    match dependency {
        Dependency::Launch | Dependency::LaunchByOperator if lag > LONG_LAUNCH_NS => Category::Unknown,
        Dependency::Launch | Dependency::LaunchByOperator => Category::LaunchLatency,
        _ if dependency.is_without_launch() && lag > UNLAUNCHED_GAP_NS => Category::Unknown,
        Dependency::Stream | Dependency::StreamNearMissing | Dependency::Gpu(_) if lag > LONG_GAP_NS => {
            Category::Unknown
        }
        Dependency::Stream
        | Dependency::StreamNearMissing
        | Dependency::Overlap
        | Dependency::Unlaunched
        | Dependency::Gpu(_) => Category::GpuQueue,
        Dependency::Sync(_) => Category::SyncReturn,
        Dependency::Thread(..) => Category::ThreadHandover,
        Dependency::Program => Category::Unknown,
    }
}

/// Classifier that assigns a cause of time to host spans, gaps and GPU operations.
pub(super) struct Categories<'a> {
    trace: &'a Trace,
    names: &'a Names,
    types: NameTypes<'a>,
    gaps: &'a [Gap],
    may_wait: MayWait<'a>,
    /// Per event: true if it is part of data loading.
    loads: AncestorCache,
}

/// Test for host spans in which the thread may have waited.
pub(super) struct MayWait<'a> {
    trace: &'a Trace,
    names: &'a Names,
    uncertain: &'a FxHashSet<EventId>,
    /// Column that marks inferred spans.
    inferred: AttrColumn<'a>,
}

impl MayWait<'_> {
    /// True if a thread may have waited for unknown work while `event` was its innermost span (none in a gap). The work
    /// is missing in the trace, or had already ended.
    pub(super) fn in_span(&self, event: EventId) -> bool {
        event.is_none()
            || self.names.flags(self.trace, event) & (bits::WAITS | bits::RUNS_BACKWARD) != 0
            || self.uncertain.contains(&event)
            || (is_annotation(self.trace, event) || self.inferred.get(event).is_some())
                // Python's garbage collector runs and never waits. Samples show it inside the interrupted function.
                && !self.names.collects_garbage(self.trace, event)
    }
}

impl Exact<'_> {
    /// Create the test for host spans in which a thread may have waited.
    pub(super) fn may_wait(&self) -> MayWait<'_> {
        let Exact { trace, names, uncertain, .. } = self;
        MayWait { trace, names, uncertain, inferred: trace.attr(INFERRED) }
    }
}

impl<'a> Categories<'a> {
    /// Create the classifier for the spans and GPU operations of one analysis.
    pub(super) fn new(exact: &'a Exact<'_>) -> Self {
        let Exact { trace, names, gaps, .. } = exact;
        Self {
            trace,
            names,
            types: NameTypes::new(trace, RULES),
            gaps,
            may_wait: exact.may_wait(),
            loads: AncestorCache::new(trace),
        }
    }

    /// Cause of the time of a GPU operation, by its kernel type.
    pub(super) fn gpu_category(&mut self, event: EventId) -> Category {
        match self.types.of_event(event) {
            KernelType::Communication => Category::GpuCommunication,
            KernelType::Memory => Category::GpuCopy,
            KernelType::Computation => Category::GpuCompute,
            // The operation waits on its own queue.
            KernelType::Other => Category::GpuQueue,
        }
    }

    /// Cause of the time between the end of awaited work and the return of the wait.
    pub(super) fn return_category(kind: NodeKind) -> Category {
        if kind == NodeKind::SyncReturn { Category::SyncReturn } else { Category::ThreadHandover }
    }

    /// Cause of host time while `event` is the innermost span (none in a gap), and the evidence for the cause.
    pub(super) fn host_category(&mut self, lane_index: usize, event: EventId) -> (Category, Evidence) {
        if event.is_none() {
            return self.gap_category(lane_index);
        }
        let category = match self.trace.kind(event) {
            EventKind::Runtime | EventKind::Driver => Category::HostRuntime,
            EventKind::Overhead if !is_runtime_overhead(self.trace.name(event)) => {
                return (Category::Profiler, Evidence::Exact);
            }
            EventKind::Overhead => Category::HostRuntime,
            _ if self.loads_data(event) => Category::HostDataLoading,
            EventKind::PythonFunction => Category::HostPython,
            _ if is_annotation(self.trace, event) => Category::HostPython,
            _ => Category::HostOperator,
        };
        (category, if self.may_wait.in_span(event) { Evidence::Inferred } else { Evidence::Exact })
    }

    /// Cause of host time in a gap between spans, by the kind of the thread's gaps; always inferred.
    fn gap_category(&self, lane_index: usize) -> (Category, Evidence) {
        let category = match self.gaps[lane_index] {
            Gap::Engine | Gap::Native => Category::HostOperator,
            Gap::Loader => Category::HostDataLoading,
            Gap::Python => Category::HostPython,
            Gap::Unseen => Category::Unknown,
        };
        (category, Evidence::Inferred)
    }

    /// True if a span is, or lies in, a span that loads data.
    fn loads_data(&mut self, event: EventId) -> bool {
        let (trace, names) = (self.trace, self.names);
        self.loads.any(trace, event, |e| names.flags(trace, e) & bits::LOADS_DATA != 0)
    }
}
