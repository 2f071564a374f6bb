//! Calls of accelerators' runtimes and drivers by name: CUDA, HIP, MUSA, Intel's SYCL runtimes (`ur…`, before 2024 `pi…`) and Level
//! Zero (`ze…`). All code that asks what a call does goes by these tables: add a vendor's names here.

use crate::Trace;
use crate::ids::EventId;
use std::borrow::Cow;

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
    #[must_use]
    pub fn is_wait(self) -> bool {
        matches!(self, Self::DeviceSync | Self::StreamSync | Self::EventSync)
    }
}

use CallKind::{
    Copy as CopyCall, DeviceSync, EventSync, Free, GraphLaunch, Launch, Query, Record, StreamSync, StreamWait,
};

/// Names and what they do. A name also matches with an ending that [`is_suffix`] knows. Without SYCL's barriers, which record an event or
/// wait for some, as their arguments say, and without releases of SYCL and Level Zero, which do not wait.
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

/// Endings of names that mean the same call: versions (`_v2`, `_v11060`), and variants for the per-thread default stream.
fn is_suffix(ending: &str) -> bool {
    const STREAMS: [&str; 3] = ["ptsz", "ptds", "spt"];
    let is_version = |part: &str| {
        part.strip_prefix('v').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut parts = ending.split('_');
    parts.next() == Some("") && parts.all(|part| STREAMS.contains(&part) || is_version(part))
}

/// Prefixes of MUSA's calls, which are CUDA's under names of their own, and CUDA's prefixes.
const MIRRORED: [(&str, &str); 2] = [("musa", "cuda"), ("mu", "cu")];

/// The name of CUDA's call that another interface mirrors; other names as they are.
fn as_cuda(name: &str) -> Cow<'_, str> {
    let mirrored = |&(prefix, of_cuda): &(&str, &str)| {
        let call = name.strip_prefix(prefix).filter(|call| call.starts_with(|c: char| c.is_ascii_uppercase()))?;
        Some(Cow::Owned(format!("{of_cuda}{call}")))
    };
    MIRRORED.iter().find_map(mirrored).unwrap_or(Cow::Borrowed(name))
}

/// What a call of this name does to the order of work, if it does anything.
#[must_use]
pub fn kind_of_name(name: &str) -> Option<CallKind> {
    let name = as_cuda(name);
    let means = |rule: &str| name.strip_prefix(rule).is_some_and(is_suffix);
    RULES.iter().find(|(rule, _)| means(rule)).map(|&(_, kind)| kind)
}

/// What copies wait for before they return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyWait {
    /// For a copy to the host.
    ToHost,
    /// For a copy to memory of the host that is not pinned.
    ToPageable,
}

/// Copies that are sure to wait, by whole name. `hipMemcpyAsync` may return before.
const COPY_WAITS: &[(&str, CopyWait)] = &[
    ("cudaMemcpy", CopyWait::ToHost),
    ("musaMemcpy", CopyWait::ToHost),
    ("hipMemcpy", CopyWait::ToHost),
    ("hipMemcpyWithStream", CopyWait::ToHost),
    ("cudaMemcpyAsync", CopyWait::ToPageable),
];

/// What a copy of this name is sure to wait for.
#[must_use]
pub fn copy_wait(name: &str) -> Option<CopyWait> {
    COPY_WAITS.iter().find(|(copy, _)| *copy == name).map(|&(_, wait)| wait)
}

/// What a launch puts on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launched {
    Kernel,
    Graph,
    Copy,
    Fill,
}

/// Parts of names of calls that put work on a device, in all the forms that interfaces have of them.
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

/// Parts of names of calls that put work into a graph (`cudaGraphAddMemcpyNode`), or change what a graph does.
const OF_GRAPHS: &[&str] = &["GraphAdd", "GraphExec", "CommandBufferAppend"];

fn launched(call: &str) -> Option<Launched> {
    if OF_GRAPHS.iter().any(|part| call.contains(part)) {
        return None;
    }
    LAUNCHES.iter().find(|(part, _)| call.contains(part)).map(|&(_, launched)| launched)
}

/// Whether a runtime or driver call puts work on a device: a launch of kernels or graphs, a copy or a fill.
#[must_use]
pub fn is_launch(call: &str) -> bool {
    launched(call).is_some()
}

/// Whether a runtime or driver call launches a kernel, or a graph of them ([`is_graph_launch`]): a launch ([`is_launch`]) that is no
/// copy or fill, which take little time and of which some profilers record no activity.
#[must_use]
pub fn is_kernel_launch(call: &str) -> bool {
    matches!(launched(call), Some(Launched::Kernel | Launched::Graph))
}

/// Whether a runtime or driver call launches a graph: `cudaGraphLaunch`.
#[must_use]
pub fn is_graph_launch(call: &str) -> bool {
    launched(call) == Some(Launched::Graph)
}

/// Whether a launch copies memory ([`is_launch`]).
#[must_use]
pub fn is_copy_launch(call: &str) -> bool {
    launched(call) == Some(Launched::Copy)
}

/// Whether a launch fills memory ([`is_launch`]): profilers may leave out what it does, which takes no time to speak of.
#[must_use]
pub fn is_fill_launch(call: &str) -> bool {
    launched(call) == Some(Launched::Fill)
}

/// Whether a runtime or driver call begins (`true`) or ends (`false`) the capture of a stream into a graph.
#[must_use]
pub fn captures(call: &str) -> Option<bool> {
    match call {
        _ if call.contains("StreamBeginCapture") => Some(true),
        _ if call.contains("StreamEndCapture") => Some(false),
        _ => None,
    }
}

/// From where to where a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyDirection {
    /// From the host to a device.
    ToDevice,
    /// From a device to the host.
    ToHost,
    /// Within a device.
    OnDevice,
}

/// Directions as CUPTI, ROCm, XLA and Intel's PTI write them; PTI calls memory of the host that its runtime does not know `M`.
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

/// The direction of a copy, from the name of its operation: `Memcpy HtoD (Pinned -> Device)`.
#[must_use]
pub fn copy_direction(operation: &str) -> Option<CopyDirection> {
    DIRECTIONS.iter().find(|(part, _)| operation.contains(part)).map(|&(_, direction)| direction)
}

impl Trace {
    /// Runtime and driver calls that put work on a device ([`is_launch`]) and launched no operation of the GPU table, in the order of the
    /// events; without those that a thread made while it captured them into a graph. Each counts once where two interfaces record it: a
    /// driver's call within that of a runtime (Level Zero in SYCL's) is the same launch, and has the work of either.
    #[must_use]
    pub fn unrecorded_launches(&self) -> Vec<EventId> {
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
    fn versions_mean_the_same_and_longer_names_do_not() {
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

    /// MUSA's interfaces have CUDA's calls, as MUPTI's tables of names say.
    #[test]
    fn calls_of_musa_are_those_of_cuda() {
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
    fn launches_of_kernels_and_graphs_are_told_from_copies_and_fills() {
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

    /// The tables of whole names and of parts are about the same calls.
    #[test]
    fn whole_names_that_launch_have_a_part_that_says_so() {
        for (name, kind) in RULES {
            assert_eq!(is_launch(name), matches!(kind, CopyCall | Launch | GraphLaunch), "{name}");
            assert_eq!(is_graph_launch(name), *kind == GraphLaunch, "{name}");
        }
        assert!(COPY_WAITS.iter().all(|(name, _)| kind_of_name(name) == Some(CopyCall)));
    }

    #[test]
    fn directions_are_known_in_the_words_of_all_profilers() {
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
