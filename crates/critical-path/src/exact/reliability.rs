//! Reasons why the causes of a critical path are unreliable, decided in one place for all outputs.

use super::Window;
use super::thread_timelines::ThreadTimeline;
use super::warning::ExactWarning;
use stackline_model::launch_times::LaunchTimes;
use stackline_model::{GpuOpId, Trace};

/// Contradiction of a device's clock in ns that matters in windows of any length.
const LEAST_NS: i64 = 1_000_000;

/// Numbers of missing launch and kernel records; 0 unless so many are missing that waits between host and GPU are
/// unknown. A few missing records are uncertain only near them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reliability {
    /// Operations without launch call, if calls of at least one in four are missing. The operator of an operation is no
    /// substitute: where launch calls are missing, waits for the GPU may be missing, too.
    unlaunched: u64,
    /// Launches without kernel, if more than one in four kernels lacks a record.
    unrecorded: u64,
}

impl Reliability {
    /// Count the missing launch and kernel records of a trace; 0 for a kind with few missing records.
    pub(super) fn new(trace: &Trace, lanes: &[ThreadTimeline]) -> Self {
        let operations = trace.gpu.len();
        let (unlaunched, missing) = count_unlaunched(trace);
        let records = trace.gpu_records();
        let (_, unrecorded) = records.launches;
        let (kernels, lost) = records.kernels;
        let counted = |count: usize, is_many: bool| if is_many { count as u64 } else { 0 };
        Self {
            // Without threads, the path has only GPU work.
            unlaunched: counted(
                unlaunched,
                !lanes.is_empty() && unlaunched > 0 && (missing * 4 >= operations || unlaunched * 4 > operations * 3),
            ),
            unrecorded: counted(unrecorded, operations > 0 && records.lack_launches && lost * 4 > kernels),
        }
    }

    /// True if missing records may hide GPU work, or waits for GPU work, in host time on a path.
    pub(super) fn is_host_doubtful(&self) -> bool {
        self.unlaunched > 0 || self.unrecorded > 0
    }

    /// One warning for each kind of records of which too many are missing.
    pub(super) fn warnings(self) -> impl Iterator<Item = ExactWarning> {
        let all = [
            (
                "launches_not_recorded",
                self.unlaunched,
                "many GPU operations have no recorded launch call, so it is not known when host and GPU waited for \
                 each other",
            ),
            (
                "kernels_not_recorded",
                self.unrecorded,
                "many kernel launches have no record of their kernel, so time in which the GPU ran these kernels \
                 appears as time of the host or as idle time",
            ),
        ];
        let warn = |(code, count, message)| ExactWarning { code, count, message, is_unreliable: true };
        all.into_iter().filter(|(_, count, _)| *count > 0).map(warn)
    }
}

/// Number of operations without a recorded launch call, and number of those whose call was not recorded although it was
/// made during the recording. Calls before the recording began have no record in complete traces either; an operator of
/// the trace shows that the call was made during it.
fn count_unlaunched(trace: &Trace) -> (usize, usize) {
    let is_unlaunched = |gpu: &GpuOpId| trace.gpu.launch[gpu.index()].is_none();
    let unlaunched: Vec<GpuOpId> = trace.gpu.ids().filter(is_unlaunched).collect();
    if unlaunched.is_empty() {
        return (0, 0);
    }
    let times = LaunchTimes::new(trace);
    let is_missing = |gpu: &&GpuOpId| trace.gpu.operator[gpu.index()].is_some() || !times.is_before_recording(**gpu);
    (unlaunched.len(), unlaunched.iter().filter(is_missing).count())
}

/// Warning about devices whose recorded times contradict causality for every constant clock offset. `None` if the
/// contradiction is too small to matter in the window.
pub(super) fn contradicted_clocks(trace: &Trace, window: Window) -> Option<ExactWarning> {
    let clocks = trace.meta.clocks.iter();
    let count = clocks.filter(|clock| is_large_contradiction(clock.contradicted_ns, window.length_ns())).count() as u64;
    (count > 0).then_some(ExactWarning {
        code: "clock_contradicted",
        count,
        message: "for every constant shift of a device's clock, GPU operations start before their launch call or end \
                  after a call that waited for them",
        is_unreliable: true,
    })
}

/// True if a contradiction of a clock is large: at least 1 ms, or more than 1 % of the window.
fn is_large_contradiction(contradicted_ns: i64, window_ns: i64) -> bool {
    contradicted_ns >= LEAST_NS || contradicted_ns > window_ns / 100
}

#[cfg(test)]
mod tests {
    use super::is_large_contradiction;

    #[test]
    fn contradictions_of_clocks_matter_from_a_millisecond_or_a_percent_on() {
        let (us, ms) = (1_000, 1_000_000);
        assert!(!is_large_contradiction(42 * us, 2_000 * ms) && !is_large_contradiction(42 * us, 4_200 * us));
        assert!(is_large_contradiction(42 * us, 4_100 * us) && is_large_contradiction(ms, 2_000 * ms));
        assert!(!is_large_contradiction(0, 0), "sound clocks");
    }
}
