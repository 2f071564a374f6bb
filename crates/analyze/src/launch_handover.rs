//! Time until which an idle GPU waits for the host: mostly the return of the call that launches its next operation.
//!
//! While a launch call runs, the host is not done with it: loading a module or waiting for a lock may take milliseconds, and the
//! operation may start before the call returns. Two kinds of calls return long after the host has done its part, so their start counts: a
//! copy to the host, which mostly returns when the data is there; and a launch, such as that of a graph, of which an earlier operation ran.

use stackline_model::gpu_calls::{CopyDirection, copy_direction};
use stackline_model::{EventId, EventKind, Trace};

/// Launch calls whose operations are looked at in the order of their starts.
pub(crate) struct Handovers<'a> {
    trace: &'a Trace,
    /// By event: whether an operation that it launched was looked at.
    has_run: Vec<bool>,
}

impl<'a> Handovers<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        Self { trace, has_run: vec![false; trace.events.len()] }
    }

    /// Whether the call that launched an operation returns later than the host has done its part.
    pub(crate) fn is_early(&mut self, operation: EventId, launch: EventId) -> bool {
        let has_run = self.has_run.get_mut(launch.index()).is_some_and(|has_run| std::mem::replace(has_run, true));
        has_run || is_copy_to_host(self.trace, operation)
    }
}

fn is_copy_to_host(trace: &Trace, operation: EventId) -> bool {
    trace.kind(operation) == EventKind::Memcpy && copy_direction(trace.name(operation)) == Some(CopyDirection::ToHost)
}

/// Time until which a GPU waits for the host in a gap before an operation of this launch ([`Handovers::is_early`]), within the gap.
pub(crate) fn host_until(trace: &Trace, launch: EventId, is_early: bool, gap: (i64, i64)) -> i64 {
    let until = if is_early { trace.events.start[launch.index()] } else { trace.events.end(launch) };
    until.clamp(gap.0, gap.1)
}
