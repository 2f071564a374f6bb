//! Which part of a trace an analysis looks at.

use stackline_model::{EventId, GpuId, Trace};

/// A selection of steps. The default is the whole trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Step numbers, both ends included.
    pub steps: Option<(i64, i64)>,
}

impl Scope {
    /// Whether an event belongs to the scope: events on CPU threads by the step in which they start. For GPU work use
    /// [`Self::has_gpu`], which goes by the step that launched it.
    pub fn has_event(&self, trace: &Trace, event: EventId) -> bool {
        let Some((first, last)) = self.steps else { return true };
        let (start, track) = (trace.events.start[event.index()], trace.events.track[event.index()]);
        let step = trace.step_at(start, trace.tracks.pid(track)).and_then(|i| trace.steps.get(i as usize));
        step.is_some_and(|s| (first..=last).contains(&s.number))
    }

    /// Whether an operation of a GPU belongs to the scope: by the step in which it was launched.
    pub fn has_gpu(&self, trace: &Trace, gpu: GpuId) -> bool {
        let Some((first, last)) = self.steps else { return true };
        let step = trace.steps.get(trace.gpu.step[gpu.index()] as usize);
        step.is_some_and(|s| (first..=last).contains(&s.number))
    }
}
