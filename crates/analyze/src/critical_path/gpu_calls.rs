//! What runtime and driver calls do, told from their names. The rules are data: add a vendor's names here.

use stackline_model::{EventId, StrId, Trace};

/// What a call does to the order of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// Returns when all work of the device is done.
    DeviceSync,
    /// Returns when all work of one stream is done.
    StreamSync,
    /// Returns when what an event recorded is done.
    EventSync,
    /// Frees memory, for which the runtime may wait for the device.
    Free,
    /// Asks whether work is done, without waiting.
    Query,
    /// Records an event on a stream.
    Record,
    /// Makes a stream wait for an event.
    StreamWait,
    /// Copies; may wait for its own copy.
    Copy,
    /// Launches a kernel or a fill.
    Launch,
    /// Launches a graph: kernels of which recordings may lack some.
    GraphLaunch,
}

impl CallKind {
    /// Whether the call does nothing but wait for the GPU.
    pub fn is_wait(self) -> bool {
        matches!(self, Self::DeviceSync | Self::StreamSync | Self::EventSync)
    }
}

use CallKind::{
    Copy as CopyCall, DeviceSync, EventSync, Free, GraphLaunch, Launch, Query, Record, StreamSync, StreamWait,
};

/// Names and what they do. A name also matches with one of [`SUFFIXES`] behind it.
const RULES: &[(&str, CallKind)] = &[
    ("cudaDeviceSynchronize", DeviceSync),
    ("cudaThreadSynchronize", DeviceSync),
    ("cuCtxSynchronize", DeviceSync),
    ("hipDeviceSynchronize", DeviceSync),
    ("hipCtxSynchronize", DeviceSync),
    ("cudaStreamSynchronize", StreamSync),
    ("cuStreamSynchronize", StreamSync),
    ("hipStreamSynchronize", StreamSync),
    ("cudaEventSynchronize", EventSync),
    ("cuEventSynchronize", EventSync),
    ("hipEventSynchronize", EventSync),
    ("cudaFree", Free),
    ("cuMemFree", Free),
    ("hipFree", Free),
    ("cudaEventQuery", Query),
    ("cudaStreamQuery", Query),
    ("cuEventQuery", Query),
    ("cuStreamQuery", Query),
    ("hipEventQuery", Query),
    ("hipStreamQuery", Query),
    ("cudaEventRecord", Record),
    ("cudaEventRecordWithFlags", Record),
    ("cuEventRecord", Record),
    ("cuEventRecordWithFlags", Record),
    ("hipEventRecord", Record),
    ("hipEventRecordWithFlags", Record),
    ("cudaStreamWaitEvent", StreamWait),
    ("cuStreamWaitEvent", StreamWait),
    ("hipStreamWaitEvent", StreamWait),
    ("cudaMemcpy", CopyCall),
    ("cudaMemcpyAsync", CopyCall),
    ("cudaMemcpy2DAsync", CopyCall),
    ("cuMemcpyHtoD", CopyCall),
    ("cuMemcpyDtoH", CopyCall),
    ("cuMemcpyHtoDAsync", CopyCall),
    ("cuMemcpyDtoHAsync", CopyCall),
    ("hipMemcpy", CopyCall),
    ("hipMemcpyAsync", CopyCall),
    ("hipMemcpyWithStream", CopyCall),
    ("hipMemcpyDtoH", CopyCall),
    ("hipMemcpyHtoD", CopyCall),
    ("cudaLaunchKernel", Launch),
    ("cudaLaunchKernelExC", Launch),
    ("cudaLaunchCooperativeKernel", Launch),
    ("cuLaunchKernel", Launch),
    ("cuLaunchKernelEx", Launch),
    ("cuLaunchCooperativeKernel", Launch),
    ("hipLaunchKernel", Launch),
    ("hipExtLaunchKernel", Launch),
    ("hipModuleLaunchKernel", Launch),
    ("hipExtModuleLaunchKernel", Launch),
    ("hipLaunchCooperativeKernel", Launch),
    ("cudaMemset", Launch),
    ("cudaMemsetAsync", Launch),
    ("cuMemsetD8Async", Launch),
    ("cuMemsetD32Async", Launch),
    ("hipMemset", Launch),
    ("hipMemsetAsync", Launch),
    ("cudaGraphLaunch", GraphLaunch),
    ("cuGraphLaunch", GraphLaunch),
    ("hipGraphLaunch", GraphLaunch),
];

/// Endings of names that mean the same call: versions, and the per-thread default stream.
const SUFFIXES: &[&str] = &["", "_v2", "_v3020", "_v4000", "_ptsz", "_ptds", "_v2_ptsz", "_spt"];

/// What a call of this name does to the order of work, if it does anything.
pub fn kind_of_name(name: &str) -> Option<CallKind> {
    let means = |rule: &str| name.strip_prefix(rule).is_some_and(|rest| SUFFIXES.contains(&rest));
    RULES.iter().find(|(rule, _)| means(rule)).map(|&(_, kind)| kind)
}

/// Kind per name of a trace, looked up once.
pub(crate) struct CallKinds(Vec<Option<CallKind>>);

impl CallKinds {
    pub(crate) fn new(trace: &Trace) -> Self {
        Self(trace.strings.iter().map(kind_of_name).collect())
    }

    /// What a call does; `None` for events that are no runtime or driver calls, and for no event.
    pub(crate) fn of(&self, trace: &Trace, event: EventId) -> Option<CallKind> {
        if event.is_some() && trace.kind(event).is_api_call() {
            self.of_name(trace.events.name[event.index()])
        } else {
            None
        }
    }

    fn of_name(&self, name: StrId) -> Option<CallKind> {
        self.0.get(name.index()).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_mean_the_same_and_longer_names_do_not() {
        assert_eq!(kind_of_name("cuMemcpyDtoH_v2"), Some(CopyCall));
        assert_eq!(kind_of_name("cudaFree"), Some(Free));
        assert_eq!(kind_of_name("cudaFreeHost"), None);
        assert_eq!(kind_of_name("cudaFreeAsync"), None);
        assert_eq!(kind_of_name("hipStreamWaitEvent"), Some(StreamWait));
        assert_eq!(kind_of_name("cudaLaunchKernel_ptsz"), Some(Launch));
        assert_eq!(kind_of_name("cudaGetDevice"), None);
    }
}
