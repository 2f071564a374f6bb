//! Work of accelerators and who launched it.

use crate::{EventId, GpuId};

/// One row per kernel, copy and fill, as plain columns in row order of their events. Ownership is that of the launch
/// call: its innermost enclosing events on the launching thread.
#[derive(Clone, Debug, Default)]
pub struct GpuTable {
    /// The event.
    pub event: Vec<EventId>,
    /// Correlation id; -1 if there is none.
    pub correlation: Vec<i64>,
    /// Device number (ROCm: agent id); -1 if unknown.
    pub device: Vec<i32>,
    /// Stream (queue) number; -1 if unknown.
    pub stream: Vec<i64>,
    /// The runtime or driver call that launched it. One call may launch many kernels (graph launches).
    pub launch: Vec<EventId>,
    /// Innermost framework operator around the launch.
    pub operator: Vec<EventId>,
    /// Innermost Python frame around the launch.
    pub python: Vec<EventId>,
    /// Innermost `nn.Module` call around the launch.
    pub module: Vec<EventId>,
    /// Innermost user annotation around the launch (steps excluded).
    pub annotation: Vec<EventId>,
    /// Index into [`crate::Trace::steps`] of the step in which it was launched; `u32::MAX` if none.
    pub step: Vec<u32>,
}

impl GpuTable {
    /// Number of operations.
    pub fn len(&self) -> usize {
        self.event.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.event.is_empty()
    }

    /// All handles.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = GpuId> + use<> {
        (0..self.len() as u32).map(GpuId)
    }

    /// The row of an event, by binary search; `None` if the event is not GPU work.
    pub fn of_event(&self, event: EventId) -> Option<GpuId> {
        self.event.binary_search(&event).ok().map(GpuId::new)
    }

    /// The call that launched an operation; where none is known, the operator that it belongs to by its external id.
    pub fn launcher(&self, gpu: GpuId) -> Option<EventId> {
        self.launch[gpu.index()].some().or(self.operator[gpu.index()].some())
    }

    /// Checks that all columns are equally long.
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
            Err(format!("GPU columns differ in length: {n} and {lengths:?}"))
        }
    }
}
