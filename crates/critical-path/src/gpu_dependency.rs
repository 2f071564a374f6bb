//! Dependencies on GPU work and calls that wait for it, with the rule that each follows from.

use serde::Serialize;
use stackline_model::{EventId, GpuOpId};

/// Maximum disagreement between the clocks of host and GPU at which a dependency is accepted, in ns.
pub(crate) const CLOCK_TOLERANCE_NS: i64 = 50_000;
/// Maximum error of times in whole µs, in ns.
pub(crate) const ROUNDING_NS: i64 = 2_000;

/// Evidence of a dependency or cause: recorded (exact) or inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// A record of the trace states the dependency.
    Exact,
    /// A rule infers the dependency from names and times.
    Inferred,
}

impl Evidence {
    /// Name of the evidence in reports: `exact` or `inferred`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Inferred => "inferred",
        }
    }
}

/// Rule from which a dependency on GPU work follows, such as a recorded CUDA event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Recorded wait of a stream for an event.
    Event,
    /// Recorded wait of a stream for an event, with possibly missing work before the event.
    EventNearMissing,
    /// Wait of a stream without a recorded target: the work of another stream that ended last before the start.
    UnrecordedWait,
    /// Long gap without recorded cause that ended right after work of another stream.
    OtherStream,
    /// On a device without any recorded launch: the work of another stream that ended last before the start.
    OtherStreamUnlaunched,
    /// Copies of one direction in sequence on one copy engine.
    CopyEngine,
    /// Kernel of the same graph launch that ended last before the start.
    Graph,
    /// Synchronization with a target from its record or name.
    Synchronization,
    /// Synchronization with a target from its record or name, with possibly missing later work.
    SynchronizationNearMissing,
    /// Synchronization without record: the work that ended last during the wait.
    UnrecordedSync,
    /// Copy that returns after its completion.
    BlockingCopy,
    /// Release of memory that waited for the device.
    Free,
    /// Polling loop that ended with the work.
    Polling,
    /// Full launch queue.
    BackPressure,
    /// Read of a GPU value (JAX): the copy to the host that started during the read.
    ValueRead,
}

impl Reason {
    /// Evidence of dependencies that follow from this rule: exact or inferred.
    pub fn evidence(self) -> Evidence {
        match self {
            Self::Event | Self::Synchronization | Self::BlockingCopy => Evidence::Exact,
            _ => Evidence::Inferred,
        }
    }

    /// Name of the rule in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::EventNearMissing => "event_amid_loss",
            Self::UnrecordedWait => "unrecorded_wait",
            Self::OtherStream => "other_stream",
            Self::OtherStreamUnlaunched => "other_stream_without_launch",
            Self::CopyEngine => "copy_engine",
            Self::Graph => "graph",
            Self::Synchronization => "synchronisation",
            Self::SynchronizationNearMissing => "synchronisation_amid_loss",
            Self::UnrecordedSync => "unrecorded_synchronisation",
            Self::BlockingCopy => "blocking_copy",
            Self::Free => "free_waits",
            Self::Polling => "polling",
            Self::BackPressure => "launch_queue_full",
            Self::ValueRead => "value_read",
        }
    }
}

/// Dependency of a GPU operation on another one, in addition to the order of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuDep {
    /// Operation that must end first.
    pub on: GpuOpId,
    /// Rule.
    pub reason: Reason,
}

/// Host call or polling loop that waits for GPU operations, including waits of length 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncCall {
    /// Call whose return ends the wait.
    pub call: EventId,
    /// Earliest start of the wait in ns since the base: the start of the call, or of the first query.
    pub from: i64,
    /// Operations that must end first, at most one per stream.
    pub on: Vec<GpuOpId>,
    /// Rule.
    pub reason: Reason,
}
