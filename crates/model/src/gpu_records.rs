//! Whether a trace has the records of its GPU work, decided in one place: what is missing is neither zero nor fast.

use crate::Trace;

/// One of so many records of a kind without a time that can be true is too many to compare the others.
const MANY: usize = 100;
/// A single record says less: it is too many from one of fewer than so many on.
const MANY_OF_ONE: usize = 50;

/// Whether so many of all records of a kind have no time that can be true that the others are not those of the program.
#[must_use]
pub fn lack_times(untimed: usize, all: usize) -> bool {
    untimed > 1 && untimed.saturating_mul(MANY) >= all || untimed.saturating_mul(MANY_OF_ONE) > all
}

/// What is known of the GPU work of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuRecords {
    /// Launches of kernels, and how many of them have no operation on a device ([`crate::KernelLaunches`]).
    pub launches: (usize, usize),
    /// Whether those are too many.
    pub lack_launches: bool,
    /// Operations of devices, and how many of them have no time that can be true.
    pub operations: (usize, usize),
    /// Whether the file breaks off: records are not in the order of time, so that those of any step may be missing.
    pub breaks_off: bool,
}

impl GpuRecords {
    fn from_trace(trace: &Trace) -> Self {
        let kernels = trace.kernel_launches();
        let untimed = trace.gpu.event.iter().filter(|&&event| !trace.events.is_plausible(event)).count();
        Self {
            launches: (kernels.all, kernels.without.len()),
            lack_launches: kernels.lack_many(),
            operations: (trace.gpu.len(), untimed),
            breaks_off: trace.report.breaks_off().is_some(),
        }
    }

    /// Whether operations of the GPU lack times that can be true.
    #[must_use]
    pub fn lack_times(&self) -> bool {
        let (all, untimed) = self.operations;
        lack_times(untimed, all)
    }

    /// Whether any GPU work is known.
    #[must_use]
    pub fn are_any(&self) -> bool {
        self.operations.0 > 0
    }

    /// Whether GPU times are not those of the program. Of traces that know of no launch and no operation nothing is missing.
    #[must_use]
    pub fn are_incomplete(&self) -> bool {
        self.lack_launches || self.lack_times() || self.breaks_off && self.are_any()
    }

    /// What is missing, such as `5 of 9 launches have no device record`; none if nothing is.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let ((launches, unrecorded), (operations, untimed)) = (self.launches, self.operations);
        match () {
            () if self.lack_launches => Some(format!("{unrecorded} of {launches} launches have no device record")),
            () if self.lack_times() => Some(format!("{untimed} of {operations} GPU operations have no plausible time")),
            () if self.breaks_off && self.are_any() => {
                Some("the file is truncated, so records of GPU operations at any time may be missing".to_owned())
            }
            () => None,
        }
    }

    /// A note for tables of GPU times that are there, but not those of all the work; none if nothing is missing.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        self.missing().filter(|_| self.are_any()).map(|missing| format!("GPU times are incomplete: {missing}."))
    }
}

impl Trace {
    /// What is known of the GPU work. Counted at the first call; call it once all events are in.
    #[must_use]
    pub fn gpu_records(&self) -> &GpuRecords {
        self.gpu_records.get_or_init(|| GpuRecords::from_trace(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each table and each rule asks for them.
    #[test]
    fn records_are_counted_once() {
        let trace = Trace::default();
        let first = trace.gpu_records();
        assert_eq!(*first, GpuRecords::default());
        assert!(std::ptr::eq(first, trace.gpu_records()));
    }
}
