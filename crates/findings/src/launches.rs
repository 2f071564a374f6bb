//! Index of GPU work by launching thread and time.

use stackline_model::{EventId, Trace, TrackId};

/// Index of GPU work in launch order, as ascending rows of launching thread, start of the launch in ns, and GPU event.
#[derive(Default)]
pub(super) struct Launches(Vec<(TrackId, i64, EventId)>);

impl Launches {
    /// Build the index of all GPU work whose launch is known.
    pub(super) fn new(trace: &Trace) -> Self {
        let events = &trace.events;
        let row = |gpu: stackline_model::GpuOpId| {
            let launch = trace.gpu.launcher(gpu)?;
            Some((events.track[launch.index()], events.start[launch.index()], trace.gpu.event[gpu.index()]))
        };
        let mut rows: Vec<_> = trace.gpu.ids().filter_map(row).collect();
        rows.sort_unstable();
        Self(rows)
    }

    /// Rows of the GPU work that a thread launched from `from` to before `to`, in ns.
    pub(super) fn between(&self, track: TrackId, from: i64, to: i64) -> &[(TrackId, i64, EventId)] {
        let at = |time: i64| self.0.partition_point(|&(t, start, _)| (t, start) < (track, time));
        &self.0[at(from)..at(to).max(at(from))]
    }

    /// Rows of each launching thread.
    pub(super) fn by_thread(&self) -> impl Iterator<Item = &[(TrackId, i64, EventId)]> {
        self.0.chunk_by(|a, b| a.0 == b.0)
    }
}
