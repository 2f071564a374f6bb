//! Common description of a trace in all outputs: name, rank, size and window.

use serde::{Deserialize, Serialize};
use stackline_model::{Device, ReadReport, Trace};

/// A GPU as the file's `deviceProperties` describe it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// Device number.
    pub id: Option<i64>,
    /// Product name.
    pub name: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Number of multiprocessors (compute units).
    pub multiprocessors: Option<i64>,
}

/// Description of a trace in documents: name, format, rank, numbers of events and steps, time window and GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceInfo {
    /// Label: the file name.
    pub name: String,
    /// Format it was read from.
    pub format: String,
    /// Rank as this output numbers it (see `rank_from_file`).
    pub rank: i64,
    /// The file contains the rank; otherwise it is the position among the inputs.
    pub rank_from_file: bool,
    /// Ranks of the job, if the file says it.
    pub world_size: Option<i64>,
    /// Rows of the event table.
    pub events: usize,
    /// Operations on GPUs.
    pub gpu_operations: usize,
    /// Steps.
    pub steps: usize,
    /// Epoch time in ns from which `start_ns` and `end_ns` count; 0 if the file names none.
    pub base_ns: i64,
    /// First start in ns; null without timed events.
    pub start_ns: Option<i64>,
    /// Last end in ns.
    pub end_ns: Option<i64>,
    /// GPUs, from `deviceProperties`.
    pub gpus: Vec<Gpu>,
}

/// Metadata of a trace that is kept with a result, without the trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceNote {
    /// Identity and size.
    pub info: TraceInfo,
    /// Repaired, skipped and lost records.
    pub read_report: ReadReport,
}

impl TraceInfo {
    /// Describe a trace for documents; `rank` as the engine numbers the trace.
    pub fn new(trace: &Trace, rank: i64) -> Self {
        let span = trace.span();
        Self {
            name: trace.meta.name.clone(),
            format: trace.meta.format.clone(),
            rank,
            rank_from_file: trace.meta.rank == Some(rank),
            world_size: trace.meta.world_size,
            events: trace.events.len(),
            gpu_operations: trace.gpu.len(),
            steps: trace.steps.len(),
            base_ns: trace.meta.base_ns,
            start_ns: span.map(|s| s.0),
            end_ns: span.map(|s| s.1),
            gpus: trace.meta.devices().into_iter().map(Gpu::from).collect(),
        }
    }

    /// Length of the traced time window in ns.
    pub fn window_ns(&self) -> Option<i64> {
        Some(self.end_ns?.saturating_sub(self.start_ns?))
    }
}

impl From<Device> for Gpu {
    fn from(device: Device) -> Self {
        Self {
            id: device.number,
            name: device.name,
            memory_bytes: device.memory_bytes,
            multiprocessors: device.multiprocessors,
        }
    }
}
