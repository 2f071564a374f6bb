//! GPU work in launch order, to find when all work launched before a given time has ended.

use crate::launch_times::{LaunchTimes, Launched};
use crate::{GpuOpId, Key, Step, Trace};
use std::collections::BTreeMap;

/// Launched GPU work of each process, to find when all work launched before a given time has ended.
#[derive(Clone, Debug, Default)]
pub struct LaunchedWork {
    /// By process (`None`: streams without recorded launches): launch time of each operation in order, and the end of
    /// all operations up to it.
    of_processes: BTreeMap<Option<Key>, Vec<(i64, i64)>>,
}

impl LaunchedWork {
    /// Index the GPU operations that `counts` accepts, per process: launch times in order, each with the latest end so
    /// far.
    #[must_use]
    pub fn from_trace(trace: &Trace, counts: impl Fn(GpuOpId) -> bool) -> Self {
        let times = LaunchTimes::new(trace);
        let mut of_processes: BTreeMap<Option<Key>, Vec<(i64, i64)>> = BTreeMap::new();
        let mut launches = trace.gpu.ids().filter(|&gpu| counts(gpu)).map(|gpu| (times.launch_of(gpu), gpu)).peekable();
        // Consecutive operations are mostly of one process.
        while let Some(&(Launched { process, .. }, _)) = launches.peek() {
            let work = of_processes.entry(process).or_default();
            while let Some((launched, gpu)) = launches.next_if(|(launched, _)| launched.process == process) {
                work.push((launched.at, trace.events.end(trace.gpu.event[gpu.index()])));
            }
        }
        for work in of_processes.values_mut() {
            work.sort_unstable();
            let mut until = i64::MIN;
            work.iter_mut().for_each(|(_, end)| {
                until = until.max(*end);
                *end = until;
            });
        }
        Self { of_processes }
    }

    /// Time range in ns of a step's GPU work. It begins when all work launched before the step has ended. It ends when
    /// all work launched before the step's end has ended.
    #[must_use]
    pub fn span(&self, trace: &Trace, step: &Step) -> (i64, i64) {
        let from = self.work_end(trace, step, step.start);
        (from, self.work_end(trace, step, step.end).max(from))
    }

    /// Window of steps with their GPU work in all processes; `None` without steps.
    ///
    /// The window starts when the first process has completed the work launched before its first step. The window ends
    /// when the last process has completed the work launched before the end of its last step.
    ///
    /// The window starts when the first process has completed the work launched before its first step. It ends when the
    /// last process has completed the work launched before the end of its last step.
    #[must_use]
    pub fn window(&self, trace: &Trace, steps: &[&Step]) -> Option<(i64, i64)> {
        let starts = steps.iter().map(|step| self.work_end(trace, step, step.start));
        let ends = steps.iter().map(|step| self.work_end(trace, step, step.end));
        Some((starts.min()?, ends.max()?))
    }

    /// True if a process launched work from `from` up to, and without, `to` (in ns).
    #[must_use]
    pub fn has_launched(&self, process: Option<Key>, (from, to): (i64, i64)) -> bool {
        let Some(work) = self.of_processes.get(&process) else { return false };
        work.get(work.partition_point(|&(launched, _)| launched < from)).is_some_and(|&(launched, _)| launched < to)
    }

    /// Time in ns at which all work ends that the step's process launched before `moment`; at least `moment`.
    #[must_use]
    pub fn work_end(&self, trace: &Trace, step: &Step, moment: i64) -> i64 {
        let until = |process: Option<Key>| {
            let work = self.of_processes.get(&process)?;
            let before = work.partition_point(|&(launched, _)| launched < moment);
            Some(work[..before].last()?.1)
        };
        let own = until(Some(trace.process_of(step)));
        moment.max(own.unwrap_or(i64::MIN)).max(until(None).unwrap_or(i64::MIN))
    }
}

impl Trace {
    /// Index of all GPU operations with a plausible duration by launch time, computed on the first call; empty in a
    /// trace without steps. Call it after all events were added.
    #[must_use]
    pub fn launched_work(&self) -> &LaunchedWork {
        static NONE: LaunchedWork = LaunchedWork { of_processes: BTreeMap::new() };
        if self.steps.is_empty() {
            return &NONE;
        }
        let is_timed = |gpu: GpuOpId| self.events.is_timed(self.gpu.event[gpu.index()]);
        self.launched_work.get_or_init(|| LaunchedWork::from_trace(self, is_timed))
    }
}
