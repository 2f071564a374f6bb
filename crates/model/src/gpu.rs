//! Table of GPU operations (kernels, copies and fills) with their launch calls.

use crate::{EventId, GpuOpId};

/// GPU operations (kernels, copies and fills) as columns, in the order of their events. The operator, frame and module
/// of an operation are the innermost ones around its launch call on the launching thread.
#[derive(Clone, Debug, Default)]
pub struct GpuTable {
    /// Event.
    pub event: Vec<EventId>,
    /// Correlation id; -1 if there is none.
    pub correlation: Vec<i64>,
    /// Device number (ROCm: agent id); -1 if unknown.
    pub device: Vec<i32>,
    /// Stream (queue) number; -1 if unknown.
    pub stream: Vec<i64>,
    /// Runtime or driver call that launched the operation. One call may launch many kernels (graph launches).
    pub launch: Vec<EventId>,
    /// Innermost framework operator around the launch.
    pub operator: Vec<EventId>,
    /// Innermost Python frame around the launch.
    pub python: Vec<EventId>,
    /// Innermost `nn.Module` call around the launch.
    pub module: Vec<EventId>,
    /// Innermost user annotation around the launch (steps excluded).
    pub annotation: Vec<EventId>,
    /// Index into [`crate::Trace::steps`] of the step with the launch; `u32::MAX` if none.
    pub step: Vec<u32>,
}

impl GpuTable {
    /// Number of GPU operations in the table.
    pub fn len(&self) -> usize {
        self.event.len()
    }

    /// True if the table has no GPU operations.
    pub fn is_empty(&self) -> bool {
        self.event.is_empty()
    }

    /// Handles of all GPU operations in row order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = GpuOpId> + use<> {
        (0..self.len() as u32).map(GpuOpId)
    }

    /// Row of an event in the GPU table, by binary search; `None` if the event is not GPU work.
    pub fn of_event(&self, event: EventId) -> Option<GpuOpId> {
        self.event.binary_search(&event).ok().map(GpuOpId::new)
    }

    /// Launch call of a GPU operation; if unknown, the operator around the launch. `None` if both are unknown.
    pub fn launcher(&self, gpu: GpuOpId) -> Option<EventId> {
        self.launch[gpu.index()].some().or(self.operator[gpu.index()].some())
    }

    /// Check that all columns of the GPU table are equally long.
    pub fn check(&self) -> Result<(), String> {
        let n = self.len();
        let lengths = [
            self.correlation.len(),
            self.device.len(),
            self.stream.len(),
            self.launch.len(),
            self.operator.len(),
            self.python.len(),
            self.module.len(),
            self.annotation.len(),
            self.step.len(),
        ];
        if lengths.iter().all(|&l| l == n) {
            Ok(())
        } else {
            Err(format!("the columns of the table of GPU operations differ in length: {n} and {lengths:?}"))
        }
    }
}
