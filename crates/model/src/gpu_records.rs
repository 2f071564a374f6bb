//! Completeness of a trace's GPU records, so that missing records do not pass for an idle or fast GPU.

use crate::Trace;

/// First words of the note on tables of incomplete GPU times.
pub const INCOMPLETE_GPU_TIMES: &str = "GPU times are incomplete";

/// Threshold: one in this many records without a plausible time is too many for comparisons of the others.
const MANY: usize = 100;
/// Threshold for a single record without a plausible time: too many if there are fewer records than this.
const MANY_OF_KIND: usize = 50;

/// True if so many of `all` GPU records have no plausible time that the others do not represent the program.
#[must_use]
pub fn lack_times(untimed: usize, all: usize) -> bool {
    untimed > 1 && untimed.saturating_mul(MANY) >= all || untimed.saturating_mul(MANY_OF_KIND) > all
}

/// Completeness of the GPU records of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuRecords {
    /// Number of kernel launches, and number of those without an operation on a device ([`crate::KernelLaunches`]).
    pub launches: (usize, usize),
    /// Number of launched kernels, and number of those without a record. A graph launch counts as its kernels.
    pub kernels: (usize, usize),
    /// True if too many launches lack an operation.
    pub lack_launches: bool,
    /// Number of operations of devices, and number of those without a plausible time.
    pub operations: (usize, usize),
    /// True if the file is truncated. Records are not in time order, so those of any step may be missing.
    pub breaks_off: bool,
}

impl GpuRecords {
    /// Count the launches, kernels and GPU operations of a trace, and those without a record or a plausible time.
    fn from_trace(trace: &Trace) -> Self {
        let kernels = trace.kernel_launches();
        let untimed = trace.gpu.event.iter().filter(|&&event| !trace.events.is_plausible(event)).count();
        Self {
            launches: (kernels.all, kernels.without.len()),
            kernels: (kernels.kernels, kernels.kernels_without),
            lack_launches: kernels.lack_many(),
            operations: (trace.gpu.len(), untimed),
            breaks_off: trace.report.breaks_off().is_some(),
        }
    }

    /// True if too many GPU operations lack a plausible time.
    #[must_use]
    pub fn lack_times(&self) -> bool {
        let (all, untimed) = self.operations;
        lack_times(untimed, all)
    }

    /// True if the trace has any record of a GPU operation, even without a plausible time.
    #[must_use]
    pub fn are_any(&self) -> bool {
        self.operations.0 > 0
    }

    /// True if GPU times do not represent the program. False for traces without launches and operations.
    #[must_use]
    pub fn are_incomplete(&self) -> bool {
        self.lack_launches || self.lack_times() || self.breaks_off && self.are_any()
    }

    /// Sentence part about missing records, such as `5 of 9 launches have no device record`; `None` if the records are
    /// complete.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let ((launches, unrecorded), (operations, untimed)) = (self.launches, self.operations);
        match () {
            () if self.lack_launches => Some(format!("{unrecorded} of {launches} launches have no device record")),
            () if self.lack_times() => Some(format!("{untimed} of {operations} GPU operations have no plausible time")),
            () if self.breaks_off && self.are_any() => {
                Some("the file is truncated, so GPU operations from any part of the run may be missing".to_owned())
            }
            () => None,
        }
    }

    /// Note for tables of incomplete GPU times; none if complete, or without GPU operations.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        self.missing().filter(|_| self.are_any()).map(|missing| format!("{INCOMPLETE_GPU_TIMES}: {missing}."))
    }
}

impl Trace {
    /// Completeness of the GPU records, computed on the first call. Call it after all events were added.
    #[must_use]
    pub fn gpu_records(&self) -> &GpuRecords {
        self.gpu_records.get_or_init(|| GpuRecords::from_trace(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every table and rule uses them, so they are counted once.
    #[test]
    fn records_are_counted_once() {
        let trace = Trace::default();
        let first = trace.gpu_records();
        assert_eq!(*first, GpuRecords::default());
        assert!(std::ptr::eq(first, trace.gpu_records()));
    }
}
