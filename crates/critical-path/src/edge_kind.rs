//! Kinds of dependencies by which what-if edits select edges: those of HTA's graph.

use serde::{Deserialize, Serialize};

/// Kind of an edge of the graph of method `hta`. Names and weights follow HTA's rule set (section 2.4 of the
/// specification).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
pub enum EdgeKind {
    /// Time inside an operator, a call or a kernel.
    OperatorKernel = 0,
    /// Program order between top-level operators, and the order in which calls acquired the runtime's lock. Weight 0.
    Dependency = 1,
    /// Launch delay: from the start of a launch call to the start of its kernel.
    KernelLaunchDelay = 2,
    /// Kernel delay: from the end of a kernel to the start of the next one on its stream.
    KernelKernelDelay = 3,
    /// Synchronization of the host with the GPU, or between streams. Weight 0.
    SyncDependency = 4,
}

impl EdgeKind {
    /// All kinds, in the order of the discriminants.
    pub const ALL: [Self; 5] = [
        Self::OperatorKernel,
        Self::Dependency,
        Self::KernelLaunchDelay,
        Self::KernelKernelDelay,
        Self::SyncDependency,
    ];

    /// HTA's name of the edge kind, such as `OPERATOR_KERNEL`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OperatorKernel => "OPERATOR_KERNEL",
            Self::Dependency => "DEPENDENCY",
            Self::KernelLaunchDelay => "KERNEL_LAUNCH_DELAY",
            Self::KernelKernelDelay => "KERNEL_KERNEL_DELAY",
            Self::SyncDependency => "SYNC_DEPENDENCY",
        }
    }

    /// HTA's text for the edge kind in an overlay, such as `critical_path_operator`.
    pub(crate) fn overlay_text(self) -> &'static str {
        match self {
            Self::OperatorKernel => "critical_path_operator",
            Self::Dependency => "critical_path_dependency",
            Self::KernelLaunchDelay => "critical_path_kernel_launch_delay",
            Self::KernelKernelDelay => "critical_path_kernel_kernel_delay",
            Self::SyncDependency => "critical_path_sync_dependency",
        }
    }
}
