//! Groups of time that no finding covers, as reports list them.

use stackline_critical_path::exact::what_if::Gain;
use stackline_timeline::source_location::SourceLocation;

/// Share of the window from which a group is always named, in percent.
pub(super) const LARGE_PERCENT: f64 = 20.0;
/// Share of the critical path covered by findings, in percent, below which smaller groups are also named.
pub(super) const MAX_COVERED_PERCENT: f64 = 50.0;

/// Kind of a group of events with one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LargeKind {
    /// Calls of the GPU runtime or driver.
    Call,
    /// Operators of a framework, with their callees and launched work. Also annotations around compilations:
    /// PyTorch's profiler records compilations as operators.
    Operator,
    /// GPU work.
    Gpu,
    /// Python functions.
    Frame,
    /// Waits whose cause is not recorded.
    Wait,
    /// Time of Python threads without recorded calls.
    UnrecordedPython,
    /// The same for threads that may or may not run Python.
    UnrecordedHost,
    /// The same for threads that run no Python, such as those of the autograd engine.
    UnrecordedNative,
    /// Latencies: from launches to operations, between operations of a queue, from the end of a wait to the
    /// continuation of the thread.
    Lag,
}

impl LargeKind {
    /// Name of the kind in documents, such as `gpu_work`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "gpu_api_call",
            Self::Operator => "operator",
            Self::Gpu => "gpu_work",
            Self::Frame => "function",
            Self::Wait => "wait",
            Self::UnrecordedPython => "unrecorded_python",
            Self::UnrecordedHost => "unrecorded_host",
            Self::UnrecordedNative => "unrecorded_native",
            Self::Lag => "latency",
        }
    }

    /// True for time in events, false for critical-path time without an event.
    pub fn is_of_events(self) -> bool {
        matches!(self, Self::Call | Self::Operator | Self::Gpu | Self::Frame)
    }

    /// Title of time without an event; none for events, which have names.
    pub(super) fn title(self) -> Option<&'static str> {
        match self {
            Self::Call | Self::Operator | Self::Gpu | Self::Frame => None,
            Self::Wait => Some("waits, cause not recorded"),
            Self::UnrecordedPython => Some("Python time without recorded calls"),
            Self::UnrecordedHost => Some("host time without recorded calls"),
            Self::UnrecordedNative => Some("time of native threads without recorded calls"),
            Self::Lag => Some("latency of kernel launches, of GPU queues and of waking threads"),
        }
    }

    /// Noun for the items of a group, singular or plural by their count.
    pub fn words(self, count: usize) -> &'static str {
        match (self, count) {
            (Self::Call, 1) => "GPU API call",
            (Self::Call, _) => "GPU API calls",
            (Self::Operator, 1) => "operator",
            (Self::Operator, _) => "operators",
            (Self::Gpu, 1) => "GPU operation",
            (Self::Gpu, _) => "GPU operations",
            (Self::Frame, 1) => "call",
            (Self::Frame, _) => "calls",
            (Self::Wait, 1) => "wait",
            (Self::Wait, _) => "waits",
            (Self::UnrecordedPython | Self::UnrecordedHost | Self::UnrecordedNative, 1) => "gap",
            (Self::UnrecordedPython | Self::UnrecordedHost | Self::UnrecordedNative, _) => "gaps",
            (Self::Lag, 1) => "latency",
            (Self::Lag, _) => "latencies",
        }
    }
}

/// GPU work that runs during a group's time.
#[derive(Clone, Debug, PartialEq)]
pub struct ConcurrentGpuWork {
    /// Part of the group's time in which GPU work runs, in percent.
    pub percent: f64,
    /// Names of the work with most of that time, longest first, and their parts of the group's time in percent.
    pub longest: Vec<(String, f64)>,
}

/// Events of one name with much time and no finding.
#[derive(Clone, Debug, PartialEq)]
pub struct LargeGroup {
    /// Kind.
    pub kind: LargeKind,
    /// Rank, if several were analyzed; otherwise none.
    pub rank: Option<i64>,
    /// Name.
    pub name: String,
    /// Source location with most of the time.
    pub place: SourceLocation,
    /// Part of the listed share ([`LargeGroup::is_of_window`]) at that location, in percent; none for time without an
    /// event.
    pub place_percent: Option<f64>,
    /// Number of events in the window without findings.
    pub count: usize,
    /// Time in the window on the thread or stream with most of it, in percent of the window.
    pub percent: f64,
    /// Critical-path time in the events, their callees and launched work, in percent of the path, including time that
    /// findings cover. Excludes waits of unknown cause.
    pub path_percent: f64,
    /// Critical-path waits of unknown cause during which these calls were in progress, in percent of the path.
    pub wait_percent: f64,
    /// For time without recorded calls: the operator or annotation of other threads of the process that runs for most
    /// of the time, and its share in percent.
    pub concurrent_span: Option<(String, f64)>,
    /// For waits: the GPU work that runs for most of the time.
    pub concurrent_gpu_work: Option<ConcurrentGpuWork>,
    /// For time without recorded calls: the longest gap in ns, if it is most of several gaps.
    pub longest_gap_ns: Option<i64>,
    /// Advice how to record the time; empty if it is recorded.
    pub advice: &'static str,
    /// Gain per step of removing the events, their callees and launched GPU work, in ns; none if replay is impossible.
    pub gain: Option<Gain>,
    /// Replayed edits as text for `what-if`; none without replay.
    pub edits: Vec<String>,
}

impl LargeGroup {
    /// Check for a call with enough of the window or the path to be named in any case.
    pub(super) fn is_large_call(&self) -> bool {
        self.kind == LargeKind::Call && self.percent.max(self.path_percent) >= LARGE_PERCENT
    }

    /// True if lists show the share of the window (`percent`), false for that of the critical path (`path_percent`).
    pub fn is_of_window(&self) -> bool {
        match self.kind {
            LargeKind::Call => self.percent > self.path_percent || self.is_wait(),
            LargeKind::Frame => true,
            kind => self.is_wait() && kind.is_of_events(),
        }
    }

    /// Check if most of the group's time on the critical path is waits of unknown cause.
    pub fn is_wait(&self) -> bool {
        self.kind == LargeKind::Wait || self.wait_percent > self.path_percent
    }
}

/// Time that no finding covers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uncovered {
    /// Share of the critical path in events with findings, in percent; none if not analyzed.
    pub covered_percent: Option<f64>,
    /// Groups with most of the rest, by descending gain; unrecorded time by duration.
    pub groups: Vec<LargeGroup>,
}

impl Uncovered {
    /// Check if findings cover less than half of the critical path; false if not analyzed.
    pub fn is_most(&self) -> bool {
        self.covered_percent.is_some_and(|percent| percent < MAX_COVERED_PERCENT)
    }
}
