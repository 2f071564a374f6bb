//! Requirements of rules that a calling context tree meets.

use super::steps_of_calls;
use crate::Requirement;
use stackline_model::{CallMetric, CallingContextTree, FrameKind};

impl Requirement {
    /// True if the call tree meets the requirement.
    pub fn is_met_by_calls(self, tree: &CallingContextTree) -> bool {
        let any = |is_kind: FrameKind| tree.frames.iter().any(|frame| frame.kind() == is_kind);
        let is_measured = |metric: CallMetric| tree.measured().contains(&metric);
        match self {
            Self::GpuWork | Self::GpuRecords => is_measured(CallMetric::GpuTime),
            Self::RuntimeCalls => any(FrameKind::Runtime),
            Self::Operators => any(FrameKind::Operator),
            Self::PythonFrames => any(FrameKind::Python),
            Self::BackwardLinks => any(FrameKind::Backward),
            Self::PythonTimes => is_measured(CallMetric::CpuTime) || is_measured(CallMetric::WallTime),
            Self::Step => steps_of_calls(tree) > 0,
            Self::Steps => steps_of_calls(tree) > 1,
            _ => false,
        }
    }
}
