//! Runtime and driver calls of accelerators by name: CUDA, HIP, MUSA, Intel's SYCL runtimes (`ur…`, before 2024 `pi…`)
//! and Level Zero (`ze…`). All code that classifies calls uses these tables: add a vendor's names here.

use crate::Trace;
use crate::ids::EventId;
use std::borrow::Cow;

/// Kind of a runtime or driver call: launch, copy, event record, or a call that waits for the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// Returns when all work of the device is done.
    DeviceSync,
    /// Returns when all work of one stream is done.
    StreamSync,
    /// Returns when the work before an event record is done.
    EventSync,
    /// Frees memory; the runtime may wait for the device.
    Free,
    /// Queries the state of work without waiting.
    Query,
    /// Records an event on a stream.
    Record,
    /// Makes a stream wait for an event.
    StreamWait,
    /// Copies; may wait for its own copy.
    Copy,
    /// Launches a kernel or a fill.
    Launch,
    /// Launches a graph. Recordings may lack some of its kernels.
    GraphLaunch,
}

impl CallKind {
    /// True if the call only waits for the GPU.
    #[must_use]
    pub fn is_wait(self) -> bool {
        matches!(self, Self::DeviceSync | Self::StreamSync | Self::EventSync)
    }
}

use CallKind::{
    Copy as CopyCall, DeviceSync, EventSync, Free, GraphLaunch, Launch, Query, Record, StreamSync, StreamWait,
};

/// Names with their effects. A name also matches with a suffix that [`is_suffix`] accepts. Excluded are SYCL's
/// barriers, which record or wait for events depending on their arguments, and releases of SYCL and Level Zero, which
/// do not wait.
const RULES: &[(&str, CallKind)] = &[
    ("cudaDeviceSynchronize", DeviceSync),
    ("cudaThreadSynchronize", DeviceSync),
    ("cuCtxSynchronize", DeviceSync),
    ("hipDeviceSynchronize", DeviceSync),
    ("hipCtxSynchronize", DeviceSync),
    ("zeDeviceSynchronize", DeviceSync),
    ("cudaStreamSynchronize", StreamSync),
    ("cuStreamSynchronize", StreamSync),
    ("hipStreamSynchronize", StreamSync),
    ("urQueueFinish", StreamSync),
    ("piQueueFinish", StreamSync),
    ("zeCommandQueueSynchronize", StreamSync),
    ("zeCommandListHostSynchronize", StreamSync),
    ("cudaEventSynchronize", EventSync),
    ("cuEventSynchronize", EventSync),
    ("hipEventSynchronize", EventSync),
    ("urEventWait", EventSync),
    ("piEventsWait", EventSync),
    ("zeEventHostSynchronize", EventSync),
    ("zeFenceHostSynchronize", EventSync),
    ("cudaFree", Free),
    ("cuMemFree", Free),
    ("hipFree", Free),
    ("cudaEventQuery", Query),
    ("cudaStreamQuery", Query),
    ("cuEventQuery", Query),
    ("cuStreamQuery", Query),
    ("hipEventQuery", Query),
    ("hipStreamQuery", Query),
    ("zeEventQueryStatus", Query),
    ("cudaEventRecord", Record),
    ("cudaEventRecordWithFlags", Record),
    ("cuEventRecord", Record),
    ("cuEventRecordWithFlags", Record),
    ("hipEventRecord", Record),
    ("hipEventRecordWithFlags", Record),
    ("zeCommandListAppendSignalEvent", Record),
    ("cudaStreamWaitEvent", StreamWait),
    ("cuStreamWaitEvent", StreamWait),
    ("hipStreamWaitEvent", StreamWait),
    ("zeCommandListAppendWaitOnEvents", StreamWait),
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
    ("urEnqueueUSMMemcpy", CopyCall),
    ("urEnqueueUSMMemcpy2D", CopyCall),
    ("urEnqueueMemBufferRead", CopyCall),
    ("urEnqueueMemBufferWrite", CopyCall),
    ("urEnqueueMemBufferCopy", CopyCall),
    ("piextUSMEnqueueMemcpy", CopyCall),
    ("piextUSMEnqueueMemcpy2D", CopyCall),
    ("piEnqueueMemBufferRead", CopyCall),
    ("piEnqueueMemBufferWrite", CopyCall),
    ("piEnqueueMemBufferCopy", CopyCall),
    ("zeCommandListAppendMemoryCopy", CopyCall),
    ("zeCommandListAppendMemoryCopyRegion", CopyCall),
    ("cudaLaunchKernel", Launch),
    ("cudaLaunchKernelExC", Launch),
    ("cudaLaunchCooperativeKernel", Launch),
    ("cudaLaunchCooperativeKernelMultiDevice", Launch),
    ("cuLaunchKernel", Launch),
    ("cuLaunchKernelEx", Launch),
    ("cuLaunchCooperativeKernel", Launch),
    ("cuLaunchCooperativeKernelMultiDevice", Launch),
    ("hipLaunchKernel", Launch),
    ("hipLaunchKernelExC", Launch),
    ("hipLaunchByPtr", Launch),
    ("hipDrvLaunchKernelEx", Launch),
    ("hipExtLaunchKernel", Launch),
    ("hipExtLaunchMultiKernelMultiDevice", Launch),
    ("hipModuleLaunchKernel", Launch),
    ("hipExtModuleLaunchKernel", Launch),
    ("hipHccModuleLaunchKernel", Launch),
    ("hipLaunchCooperativeKernel", Launch),
    ("hipLaunchCooperativeKernelMultiDevice", Launch),
    ("hipModuleLaunchCooperativeKernel", Launch),
    ("hipModuleLaunchCooperativeKernelMultiDevice", Launch),
    ("urEnqueueKernelLaunch", Launch),
    ("urEnqueueKernelLaunchWithArgsExp", Launch),
    ("urEnqueueKernelLaunchCustomExp", Launch),
    ("urEnqueueCooperativeKernelLaunchExp", Launch),
    ("piEnqueueKernelLaunch", Launch),
    ("piextEnqueueKernelLaunchCustom", Launch),
    ("piextEnqueueCooperativeKernelLaunch", Launch),
    ("zeCommandListAppendLaunchKernel", Launch),
    ("zeCommandListAppendLaunchKernelIndirect", Launch),
    ("zeCommandListAppendLaunchKernelWithArguments", Launch),
    ("zeCommandListAppendLaunchKernelWithParameters", Launch),
    ("zeCommandListAppendLaunchCooperativeKernel", Launch),
    ("cudaMemset", Launch),
    ("cudaMemsetAsync", Launch),
    ("cuMemsetD8Async", Launch),
    ("cuMemsetD32Async", Launch),
    ("hipMemset", Launch),
    ("hipMemsetAsync", Launch),
    ("urEnqueueUSMFill", Launch),
    ("urEnqueueUSMFill2D", Launch),
    ("urEnqueueMemBufferFill", Launch),
    ("piextUSMEnqueueFill", Launch),
    ("piextUSMEnqueueMemset", Launch),
    ("piEnqueueMemBufferFill", Launch),
    ("zeCommandListAppendMemoryFill", Launch),
    ("cudaGraphLaunch", GraphLaunch),
    ("cuGraphLaunch", GraphLaunch),
    ("hipGraphLaunch", GraphLaunch),
    ("urEnqueueCommandBufferExp", GraphLaunch),
];

/// True if the end of a call's name keeps its meaning: versions (`_v2`, `_v11060`), and variants for the per-thread
/// default stream.
fn is_suffix(ending: &str) -> bool {
    const STREAMS: [&str; 3] = ["ptsz", "ptds", "spt"];
    let is_version = |part: &str| {
        part.strip_prefix('v').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut parts = ending.split('_');
    parts.next() == Some("") && parts.all(|part| STREAMS.contains(&part) || is_version(part))
}

/// Prefixes of MUSA's calls, which mirror CUDA's, and CUDA's prefixes.
const MIRRORED_PREFIXES: [(&str, &str); 2] = [("musa", "cuda"), ("mu", "cu")];

/// Translate the name of a MUSA call to that of the CUDA call that it mirrors; other names are unchanged.
fn as_cuda(name: &str) -> Cow<'_, str> {
    let mirrored = |&(prefix, of_cuda): &(&str, &str)| {
        let call = name.strip_prefix(prefix).filter(|call| call.starts_with(|c: char| c.is_ascii_uppercase()))?;
        Some(Cow::Owned(format!("{of_cuda}{call}")))
    };
    MIRRORED_PREFIXES.iter().find_map(mirrored).unwrap_or(Cow::Borrowed(name))
}

/// Kind of a runtime or driver call with this name; `None` for calls without effect on the order of GPU work.
#[must_use]
pub fn kind_of_name(name: &str) -> Option<CallKind> {
    let name = as_cuda(name);
    let means = |rule: &str| name.strip_prefix(rule).is_some_and(is_suffix);
    RULES.iter().find(|(rule, _)| means(rule)).map(|&(_, kind)| kind)
}

/// Kind of copy that a call certainly waits for before it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyWait {
    /// For a copy to the host.
    ToHost,
    /// For a copy to pageable host memory.
    ToPageable,
}

/// Calls that certainly wait for their copy, by whole name. `hipMemcpyAsync` may return earlier.
const COPY_WAITS: &[(&str, CopyWait)] = &[
    ("cudaMemcpy", CopyWait::ToHost),
    ("musaMemcpy", CopyWait::ToHost),
    ("hipMemcpy", CopyWait::ToHost),
    ("hipMemcpyWithStream", CopyWait::ToHost),
    ("cudaMemcpyAsync", CopyWait::ToPageable),
];

/// Kind of copy that a call with this name certainly waits for; `None` for other calls.
#[must_use]
pub(crate) fn copy_wait(name: &str) -> Option<CopyWait> {
    COPY_WAITS.iter().find(|(copy, _)| *copy == name).map(|&(_, wait)| wait)
}

/// Kind of work that a launch call puts on a device: kernel, graph, copy or fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launched {
    Kernel,
    Graph,
    Copy,
    Fill,
}

/// Parts of names of calls that put work on a device, in all forms of the interfaces.
const LAUNCHES: &[(&str, Launched)] = &[
    ("GraphLaunch", Launched::Graph),
    ("EnqueueCommandBuffer", Launched::Graph),
    ("LaunchKernel", Launched::Kernel),
    ("LaunchCooperative", Launched::Kernel),
    ("LaunchMultipleKernels", Launched::Kernel),
    ("LaunchMultiKernel", Launched::Kernel),
    ("LaunchByPtr", Launched::Kernel),
    ("EnqueueKernelLaunch", Launched::Kernel),
    ("EnqueueCooperativeKernelLaunch", Launched::Kernel),
    ("Memcpy", Launched::Copy),
    ("EnqueueMemBufferRead", Launched::Copy),
    ("EnqueueMemBufferWrite", Launched::Copy),
    ("EnqueueMemBufferCopy", Launched::Copy),
    ("AppendMemoryCopy", Launched::Copy),
    ("Memset", Launched::Fill),
    ("EnqueueUSMFill", Launched::Fill),
    ("USMEnqueueFill", Launched::Fill),
    ("EnqueueMemBufferFill", Launched::Fill),
    ("AppendMemoryFill", Launched::Fill),
];

/// Parts of names of calls that add work to a graph (`cudaGraphAddMemcpyNode`), or change a graph.
const GRAPH_CALL_PARTS: &[&str] = &["GraphAdd", "GraphExec", "CommandBufferAppend"];

/// Kind of work that a runtime or driver call puts on a device, by its name; `None` for other calls.
fn launched(call: &str) -> Option<Launched> {
    if GRAPH_CALL_PARTS.iter().any(|part| call.contains(part)) {
        return None;
    }
    LAUNCHES.iter().find(|(part, _)| call.contains(part)).map(|&(_, launched)| launched)
}

/// True if a runtime or driver call puts work on a device: a launch of kernels or graphs, a copy or a fill.
#[must_use]
pub fn is_launch(call: &str) -> bool {
    launched(call).is_some()
}

/// True if a runtime or driver call launches a kernel, or a graph of kernels ([`is_graph_launch`]). Copies and fills
/// are excluded: they take little time, and some profilers do not record them.
#[must_use]
pub fn is_kernel_launch(call: &str) -> bool {
    matches!(launched(call), Some(Launched::Kernel | Launched::Graph))
}

/// True if a runtime or driver call launches a graph: `cudaGraphLaunch`.
#[must_use]
pub fn is_graph_launch(call: &str) -> bool {
    launched(call) == Some(Launched::Graph)
}

/// True if a launch copies memory ([`is_launch`]).
#[must_use]
pub fn is_copy_launch(call: &str) -> bool {
    launched(call) == Some(Launched::Copy)
}

/// True if a launch fills memory ([`is_launch`]). Profilers may omit fills, which take little time.
#[must_use]
pub fn is_fill_launch(call: &str) -> bool {
    launched(call) == Some(Launched::Fill)
}

/// `true` if a call, by its name, begins the capture of a stream into a graph, `false` if it ends one, `None` for other
/// calls.
#[must_use]
pub fn begins_capture(call: &str) -> Option<bool> {
    match call {
        _ if call.contains("StreamBeginCapture") => Some(true),
        _ if call.contains("StreamEndCapture") => Some(false),
        _ => None,
    }
}

/// Direction of a memory copy between host and devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyDirection {
    /// Host to device.
    ToDevice,
    /// Device to host.
    ToHost,
    /// Within a device.
    OnDevice,
}

/// Directions in the names of CUPTI, ROCm, XLA and Intel's PTI. PTI writes `M` for host memory that its runtime does
/// not know.
const DIRECTIONS: &[(&str, CopyDirection)] = &[
    ("HtoD", CopyDirection::ToDevice),
    ("HostToDevice", CopyDirection::ToDevice),
    ("H2D", CopyDirection::ToDevice),
    ("M2D", CopyDirection::ToDevice),
    ("DtoH", CopyDirection::ToHost),
    ("DeviceToHost", CopyDirection::ToHost),
    ("D2H", CopyDirection::ToHost),
    ("D2M", CopyDirection::ToHost),
    ("DtoD", CopyDirection::OnDevice),
    ("DeviceToDevice", CopyDirection::OnDevice),
    ("D2D", CopyDirection::OnDevice),
];

/// Direction of a copy, from the name of its operation: `Memcpy HtoD (Pinned -> Device)`. `None` if the name has none.
#[must_use]
pub fn copy_direction(operation: &str) -> Option<CopyDirection> {
    DIRECTIONS.iter().find(|(part, _)| operation.contains(part)).map(|&(_, direction)| direction)
}

impl Trace {
    /// Runtime and driver calls that put work on a device ([`is_launch`]) without an operation in the GPU table, in the
    /// order of events. Calls during capture into a graph are excluded. Nested calls of two interfaces (a driver call
    /// within a runtime call, Level Zero within SYCL) are one launch, with the work of either. Computed on the first
    /// call: call it after all events were added and linked.
    #[must_use]
    pub fn unrecorded_launches(&self) -> &[EventId] {
        self.unrecorded_launches.get_or_init(|| self.find_unrecorded_launches())
    }

    /// Compute the list of [`Self::unrecorded_launches`] without the cache, for a trace whose events are still being
    /// linked.
    #[must_use]
    pub fn find_unrecorded_launches(&self) -> Vec<EventId> {
        let without = self.launches_without_work();
        let around = |call: EventId| self.ancestors(call).take_while(|&outer| self.kind(outer).is_api_call());
        let mut has_work_inside = vec![false; if without.is_empty() { 0 } else { self.events.len() }];
        if !without.is_empty() {
            for outer in self.gpu.launch.iter().filter_map(|call| call.some()).flat_map(around) {
                has_work_inside[outer.index()] = true;
            }
        }
        let is_same = |&call: &EventId| around(call).any(|outer| is_launch(self.name(outer)));
        without.into_iter().filter(|call| !has_work_inside[call.index()] && !is_same(call)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versioned_names_match_and_longer_names_do_not() {
        assert_eq!(kind_of_name("cuMemcpyDtoH_v2"), Some(CopyCall));
        assert_eq!(kind_of_name("cudaFree"), Some(Free));
        assert_eq!(kind_of_name("cudaFreeHost"), None);
        assert_eq!(kind_of_name("cudaFreeAsync"), None);
        assert_eq!(kind_of_name("hipStreamWaitEvent"), Some(StreamWait));
        assert_eq!(kind_of_name("cudaLaunchKernel_ptsz"), Some(Launch));
        assert_eq!(kind_of_name("cudaGetDevice"), None);
        assert_eq!(kind_of_name("cudaLaunchKernel_v7000"), Some(Launch));
        assert_eq!(kind_of_name("cuMemcpyHtoDAsync_v2_ptsz"), Some(CopyCall));
        for other in ["cudaFree_", "cudaFree_v", "cudaFree_vx", "cudaFree_async", "cudaFreev2"] {
            assert_eq!(kind_of_name(other), None, "{other}");
        }
    }

    /// MUSA's interfaces mirror CUDA's calls, by MUPTI's tables of names.
    #[test]
    fn musa_calls_map_to_cuda_calls() {
        for (name, kind) in [
            ("musaLaunchKernel", Launch),
            ("musaLaunchKernelExC", Launch),
            ("musaLaunchKernelExC_v11060", Launch),
            ("musaLaunchCooperativeKernel_ptsz", Launch),
            ("musaLaunchCooperativeKernelMultiDevice", Launch),
            ("muLaunchKernelEx", Launch),
            ("musaMemsetAsync", Launch),
            ("musaGraphLaunch_v10000", GraphLaunch),
            ("musaMemcpyAsync_v3020", CopyCall),
            ("muMemcpyHtoDAsync_v2", CopyCall),
            ("musaDeviceSynchronize_v3020", DeviceSync),
            ("muCtxSynchronize", DeviceSync),
            ("musaStreamSynchronize", StreamSync),
            ("musaEventSynchronize", EventSync),
            ("musaEventRecord", Record),
            ("musaStreamWaitEvent", StreamWait),
            ("musaFree", Free),
        ] {
            assert_eq!(kind_of_name(name), Some(kind), "{name}");
            assert_eq!(is_launch(name), matches!(kind, Launch | GraphLaunch | CopyCall), "{name}");
        }
        assert_eq!([copy_wait("musaMemcpy"), copy_wait("musaMemcpyAsync")], [Some(CopyWait::ToHost), None]);
        for other in ["musaMalloc", "multi_head_attention", "musadaLaunchKernel", "mucudaFree"] {
            assert_eq!(kind_of_name(other), None, "{other}");
        }
    }

    #[test]
    fn kernel_and_graph_launches_are_distinguished_from_copies() {
        for name in [
            "cudaLaunchKernel",
            "cuLaunchKernelEx",
            "hipExtModuleLaunchKernel",
            "hipExtLaunchMultiKernelMultiDevice",
            "hipLaunchCooperativeKernelMultiDevice",
            "hipModuleLaunchCooperativeKernelMultiDevice",
            "hipLaunchByPtr",
            "musaLaunchKernel",
            "musaLaunchKernelExC",
            "cudaLaunchCooperativeKernel",
            "urEnqueueKernelLaunchWithArgsExp",
            "piextEnqueueCooperativeKernelLaunch",
            "zeCommandListAppendLaunchKernelWithArguments",
        ] {
            assert!(is_kernel_launch(name) && !is_graph_launch(name), "{name}");
        }
        for name in ["cudaGraphLaunch", "hipGraphLaunch", "cuGraphLaunch_ptsz", "urEnqueueCommandBufferExp"] {
            assert!(is_kernel_launch(name) && is_graph_launch(name), "{name}");
        }
        for name in ["cudaMemcpyAsync", "hipMemsetAsync", "urEnqueueUSMMemcpy", "piextUSMEnqueueFill"] {
            assert!(is_launch(name) && !is_kernel_launch(name), "{name}");
        }
        for name in ["hipMemcpyDtoHAsync", "urEnqueueMemBufferRead", "zeCommandListAppendMemoryCopy", "musaMemcpyAsync"]
        {
            assert!(is_copy_launch(name), "{name}");
        }
        for name in [
            "cudaLaunchHostFunc",
            "cudaGraphAddKernelNode",
            "cudaStreamSynchronize",
            "urCommandBufferAppendKernelLaunchExp",
            "urCommandBufferAppendUSMMemcpyExp",
            "urEnqueueEventsWaitWithBarrier",
            "zeKernelSetArgumentValue",
        ] {
            assert!(!is_launch(name), "{name}");
        }
        assert!(is_fill_launch("hipMemsetAsync") && is_fill_launch("urEnqueueUSMFill"));
    }

    /// The table of whole names and the table of parts agree.
    #[test]
    fn exact_launch_names_contain_a_launch_pattern() {
        for (name, kind) in RULES {
            assert_eq!(is_launch(name), matches!(kind, CopyCall | Launch | GraphLaunch), "{name}");
            assert_eq!(is_graph_launch(name), *kind == GraphLaunch, "{name}");
        }
        assert!(COPY_WAITS.iter().all(|(name, _)| kind_of_name(name) == Some(CopyCall)));
    }

    #[test]
    fn copy_directions_of_all_profilers_are_recognized() {
        for (name, direction) in [
            ("Memcpy HtoD (Pageable -> Device)", Some(CopyDirection::ToDevice)),
            ("CopyDeviceToHost", Some(CopyDirection::ToHost)),
            ("Memcpy M2D (MEMORY(Unknown) -> DEVICE)", Some(CopyDirection::ToDevice)),
            ("Memcpy D2M (DEVICE -> MEMORY(Unknown))", Some(CopyDirection::ToHost)),
            ("Memcpy PtoP (Device -> Device)", None),
        ] {
            assert_eq!(copy_direction(name), direction, "{name}");
        }
    }
}
