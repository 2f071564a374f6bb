//! Which part of a trace an analysis looks at.

use crate::DefaultWindow;
use crate::critical_path::exact::WindowChoice;
use crate::steps::{Looked, host_window_of};
use stackline_model::{EventId, GpuId, Trace};

/// A selection of steps. The default is each analysis' own: the steps that [`Looked`] chooses, or the whole trace for tables
/// that reproduce another tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Step numbers, both ends included.
    pub steps: Option<(i64, i64)>,
    /// All of the trace, also where it has steps.
    pub whole: bool,
    /// In all tables the steps that [`Looked`] chooses, where the trace has steps, whatever their
    /// [default](crate::DefaultWindow).
    pub chosen: bool,
}

impl Scope {
    /// These steps, both ends included; the default where there are none.
    #[must_use]
    pub fn of_steps(steps: Option<(i64, i64)>) -> Self {
        Self { steps, ..Self::default() }
    }

    /// What an analysis with this default looks at of a trace.
    #[must_use]
    pub fn resolve(&self, window: DefaultWindow, trace: &Trace) -> Self {
        let of_steps = self.chosen || window == DefaultWindow::Steps;
        if of_steps { self.resolved(trace) } else { *self }
    }

    /// The steps that [`Looked`] chooses of a trace; itself where there are none.
    #[must_use]
    pub fn resolved(&self, trace: &Trace) -> Self {
        match Looked::at(trace, self).choice {
            WindowChoice::StepsWithWork(from, to) | WindowChoice::Steps(from, to) => Self::of_steps(Some((from, to))),
            _ => *self,
        }
    }

    /// Which events of CPU threads belong to the scope: all that start from the start of its first step to the end of its last one, of
    /// whatever process, also between steps. For GPU work use [`Self::gpu_work`], which goes by the time at which it runs.
    pub fn host_work<'a>(&self, trace: &'a Trace) -> HostWork<'a> {
        HostWork { trace, window: self.steps.map(|numbers| host_window_of(trace, numbers).unwrap_or((0, 0))) }
    }

    /// Which GPU work belongs to the scope: all that runs in the window of its steps, whoever launched it.
    pub fn gpu_work<'a>(&self, trace: &'a Trace) -> GpuWork<'a> {
        let window = self.steps.map(|_| Looked::at(trace, self).window(trace).unwrap_or((0, 0)));
        GpuWork { trace, window }
    }
}

/// Events of CPU threads in a [`Scope`].
#[derive(Clone, Copy, Debug)]
pub struct HostWork<'a> {
    trace: &'a Trace,
    /// From when to when, in ns since the trace's base; `None`: all of it.
    window: Option<(i64, i64)>,
}

impl HostWork<'_> {
    /// Whether an event of a thread belongs to it.
    pub fn has(&self, event: EventId) -> bool {
        self.has_time(self.trace.events.start[event.index()])
    }

    /// Whether what happens at one moment, in ns since the trace's base, belongs to it.
    pub fn has_time(&self, time: i64) -> bool {
        self.window.is_none_or(|(from, to)| (from..to).contains(&time))
    }
}

/// GPU work of a [`Scope`].
#[derive(Clone, Copy, Debug)]
pub struct GpuWork<'a> {
    trace: &'a Trace,
    /// From when to when, in ns since the trace's base; `None`: all of it.
    window: Option<(i64, i64)>,
}

impl GpuWork<'_> {
    /// Whether an operation of a GPU belongs to it.
    pub fn has(&self, gpu: GpuId) -> bool {
        self.window.is_none_or(|window| runs_in(self.trace, self.trace.gpu.event[gpu.index()], window))
    }
}

/// Whether an event runs in a window, in ns since the trace's base: all of it, or a part.
pub(crate) fn runs_in(trace: &Trace, event: EventId, (from, to): (i64, i64)) -> bool {
    let (start, end) = (trace.events.start[event.index()], trace.events.end(event));
    start < to && (end > from || start == from)
}
