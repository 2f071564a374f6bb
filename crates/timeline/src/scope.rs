//! Scope of an analysis: the selected steps, or the whole trace.

use crate::steps::{StepSelection, host_window_of};
use crate::window_choice::WindowChoice;
use stackline_model::{EventId, GpuOpId, Trace};

/// Default time window of an analysis, for calls without a selection of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultWindow {
    /// The steps that [`StepSelection`] selects; the whole trace if it has no steps.
    Steps,
    /// The whole trace, as in the tool of this name, whose table it reproduces.
    WholeAs(&'static str),
    /// Window defined by the analysis, such as one row per step.
    Own,
}

/// Requested selection of steps. The default depends on the analysis: the steps that [`StepSelection`] selects, or the
/// whole trace for tables that reproduce another tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Step numbers, both ends included.
    pub steps: Option<(i64, i64)>,
    /// Use the whole trace, even if it has steps.
    pub whole: bool,
    /// Use the steps that [`StepSelection`] selects for all tables, independent of their
    /// [default](crate::DefaultWindow), if the trace has steps.
    pub chosen: bool,
}

impl Scope {
    /// Create a scope from a range of step numbers, both ends included; the default scope for `None`.
    #[must_use]
    pub fn from_steps(steps: Option<(i64, i64)>) -> Self {
        Self { steps, ..Self::default() }
    }

    /// Replace the scope by the steps that [`StepSelection`] selects, if `chosen` or the default window of the analysis
    /// asks for steps; otherwise unchanged.
    #[must_use]
    pub fn resolve(&self, window: DefaultWindow, trace: &Trace) -> Self {
        let of_steps = self.chosen || window == DefaultWindow::Steps;
        if of_steps { self.resolved(trace) } else { *self }
    }

    /// Replace the scope by the steps that [`StepSelection`] selects; unchanged if there are none.
    #[must_use]
    pub fn resolved(&self, trace: &Trace) -> Self {
        match StepSelection::select(trace, self).choice {
            WindowChoice::StepsWithWork(from, to) | WindowChoice::Steps(from, to) => Self::from_steps(Some((from, to))),
            _ => *self,
        }
    }

    /// Create a filter for events of CPU threads. The filter accepts all that start in the window of the steps, in all
    /// processes and also between steps. For GPU work use [`Self::gpu_work`], which filters by execution time.
    pub fn host_work<'a>(&self, trace: &'a Trace) -> HostFilter<'a> {
        HostFilter { trace, window: self.steps.map(|numbers| host_window_of(trace, numbers).unwrap_or((0, 0))) }
    }

    /// Create a filter for GPU operations. The filter accepts all that run in the window of the steps, independent of
    /// their launch.
    pub fn gpu_work<'a>(&self, trace: &'a Trace) -> GpuFilter<'a> {
        let window = self.steps.map(|_| StepSelection::select(trace, self).window(trace).unwrap_or((0, 0)));
        GpuFilter { trace, window }
    }
}

/// Filter that accepts the events of CPU threads in a [`Scope`].
#[derive(Clone, Copy, Debug)]
pub struct HostFilter<'a> {
    trace: &'a Trace,
    /// Start and end in ns since the trace's base; `None` for the whole trace.
    window: Option<(i64, i64)>,
}

impl HostFilter<'_> {
    /// Test if an event of a CPU thread starts in the scope.
    pub fn has(&self, event: EventId) -> bool {
        self.has_time(self.trace.events.start[event.index()])
    }

    /// Test if a time in ns since the trace's base is in the scope.
    pub fn has_time(&self, time: i64) -> bool {
        self.window.is_none_or(|(from, to)| (from..to).contains(&time))
    }
}

/// Filter that accepts the GPU operations in a [`Scope`].
#[derive(Clone, Copy, Debug)]
pub struct GpuFilter<'a> {
    trace: &'a Trace,
    /// Start and end in ns since the trace's base; `None` for the whole trace.
    window: Option<(i64, i64)>,
}

impl GpuFilter<'_> {
    /// Test if a GPU operation runs in the scope.
    pub fn has(&self, gpu: GpuOpId) -> bool {
        self.window.is_none_or(|window| runs_in(self.trace, self.trace.gpu.event[gpu.index()], window))
    }
}

/// Test if an event runs, fully or partly, in a window in ns since the trace's base.
pub fn runs_in(trace: &Trace, event: EventId, (from, to): (i64, i64)) -> bool {
    let (start, end) = (trace.events.start[event.index()], trace.events.end(event));
    start < to && (end > from || start == from)
}
