//! Time until which an idle GPU waits for the host: usually the return of the launch call of its next operation.
//!
//! While a launch call runs, the host is not done: loading a module or waiting for a lock may take milliseconds, and
//! the operation may start before the call returns. For two kinds of calls the start counts, because they return long
//! after the host's part. A copy to the host usually returns when the data has arrived. A launch of several operations,
//! such as a graph, may return after an earlier one ran.

use stackline_model::gpu_calls::{CopyDirection, copy_direction};
use stackline_model::{EventId, EventKind, Trace};

/// Tracker of launch calls that have launched an operation; GPU operations are passed in order of start.
pub struct Handovers<'a> {
    trace: &'a Trace,
    /// By event: true if an operation of this launch was processed.
    has_run: Vec<bool>,
}

impl<'a> Handovers<'a> {
    /// Create a tracker of launch calls without any processed GPU operation.
    pub fn new(trace: &'a Trace) -> Self {
        Self { trace, has_run: vec![false; trace.events.len()] }
    }

    /// Test if the host hands an operation to the GPU before its launch call returns, and mark the launch as used. True
    /// for copies to the host, and for further operations of a launch.
    pub fn is_early(&mut self, operation: EventId, launch: EventId) -> bool {
        let has_run = self.has_run.get_mut(launch.index()).is_some_and(|has_run| std::mem::replace(has_run, true));
        has_run || is_copy_to_host(self.trace, operation)
    }
}

/// Test if a GPU operation is a copy from the device to the host.
fn is_copy_to_host(trace: &Trace, operation: EventId) -> bool {
    trace.kind(operation) == EventKind::Memcpy && copy_direction(trace.name(operation)) == Some(CopyDirection::ToHost)
}

/// Time until which a GPU waits for the host in a gap before an operation of this launch ([`Handovers::is_early`]). The
/// result is within the gap.
pub fn host_wait_end(trace: &Trace, launch: EventId, is_early: bool, gap: (i64, i64)) -> i64 {
    let until = if is_early { trace.events.start[launch.index()] } else { trace.events.end(launch) };
    until.clamp(gap.0, gap.1)
}
