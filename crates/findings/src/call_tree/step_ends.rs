//! End times of steps that the recorder measured.

use super::thread::Thread;
use stackline_model::CallingContextTree;

/// Durations from the recorder's end times of steps: those of the steps, and of the time before and after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// Total duration of the recorded steps, in ns.
    pub(super) steps_ns: u64,
    /// Recorded time after the last step, in ns.
    pub(super) after_ns: u64,
    /// Recorded time before the first step, in ns.
    pub(super) before_ns: u64,
    /// Number of ended steps.
    pub(super) count: u64,
}

impl Ends {
    /// Least number of ends of steps, to estimate the length of steps.
    const MIN_STEP_ENDS: u64 = 3;

    /// Durations for a thread, from its process's recorded ends of steps; `None` with too few of them.
    pub(super) fn new(tree: &CallingContextTree, thread: &Thread) -> Option<Self> {
        let process =
            tree.threads.get(thread.id.index()).and_then(|thread| tree.processes.get(thread.process.index()))?;
        let ends =
            process.step_ends.filter(|ends| ends.count >= Self::MIN_STEP_ENDS && ends.first_ns < ends.last_ns)?;
        // The start of the first step is unknown.
        let all = (ends.last_ns - ends.first_ns) as f64 * ends.count as f64 / (ends.count - 1) as f64;
        let steps_ns = thread.scale_to_recorded(all as u64);
        let after_ns = process.lasted_ns.map_or(u64::MAX, |lasted| lasted.saturating_sub(ends.last_ns));
        let before_ns = ends.first_ns.saturating_sub(all as u64 / ends.count);
        Some(Self { steps_ns, after_ns, before_ns, count: ends.count })
    }
}
