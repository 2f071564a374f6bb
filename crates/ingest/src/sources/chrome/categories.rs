//! Table of event categories of all Kineto generations and of other writers of the Chrome format.

use stackline_model::{EventKind, TrackKind};

/// Event kinds by category. Later entries never contradict earlier ones.
const CATEGORIES: &[(&str, EventKind)] = &[
    ("cpu_op", EventKind::Operator),
    ("Operator", EventKind::Operator),
    ("operator", EventKind::Operator),
    ("user_annotation", EventKind::Annotation),
    ("python_function", EventKind::PythonFunction),
    ("cuda_runtime", EventKind::Runtime),
    ("Runtime", EventKind::Runtime),
    ("runtime", EventKind::Runtime),
    ("hip_runtime", EventKind::Runtime),
    ("xpu_runtime", EventKind::Runtime),
    ("mtia_runtime", EventKind::Runtime),
    ("privateuse1_runtime", EventKind::Runtime),
    ("glow_runtime", EventKind::Runtime),
    ("cuda_driver", EventKind::Driver),
    ("Driver", EventKind::Driver),
    ("xpu_driver", EventKind::Driver),
    ("privateuse1_driver", EventKind::Driver),
    ("kernel", EventKind::Kernel),
    ("Kernel", EventKind::Kernel),
    ("concurrent_kernel", EventKind::Kernel),
    ("mtia_ccp_events", EventKind::Kernel),
    ("hpu_op", EventKind::Kernel),
    ("privateuse1_kernel", EventKind::Kernel),
    ("gpu_op", EventKind::Kernel),
    ("gpu_memcpy", EventKind::Memcpy),
    ("Memcpy", EventKind::Memcpy),
    ("memcpy", EventKind::Memcpy),
    ("privateuse1_memcpy", EventKind::Memcpy),
    ("gpu_memset", EventKind::Memset),
    ("Memset", EventKind::Memset),
    ("memset", EventKind::Memset),
    ("privateuse1_memset", EventKind::Memset),
    ("gpu_user_annotation", EventKind::GpuAnnotation),
    ("gpu_user_annotations", EventKind::GpuAnnotation),
    ("cuda_sync", EventKind::Sync),
    ("cuda_event", EventKind::Sync),
    ("privateuse1_sync", EventKind::Sync),
    ("overhead", EventKind::Overhead),
    ("cpu_instant_event", EventKind::Instant),
    ("collective_comm", EventKind::Collective),
    ("mtia_workloadd", EventKind::Other),
    ("mtia_insight", EventKind::Other),
    ("mtia_counters", EventKind::Counter),
    ("cuda_profiler_range", EventKind::ProfilerRange),
    ("hardware_counters", EventKind::ProfilerRange),
    ("Trace", EventKind::Recording),
];

/// Event kind of a category; `None` if the category is unknown.
pub(crate) fn kind_of(category: &str) -> Option<EventKind> {
    CATEGORIES.iter().find(|(name, _)| *name == category).map(|&(_, kind)| kind)
}

/// Kind of track on which events of a kind lie.
pub(crate) fn track_kind(kind: EventKind) -> TrackKind {
    match kind {
        EventKind::Kernel | EventKind::Memcpy | EventKind::Memset | EventKind::GpuAnnotation => TrackKind::Stream,
        EventKind::Sync => TrackKind::Stream,
        EventKind::Counter => TrackKind::Counter,
        EventKind::Async => TrackKind::Async,
        _ => TrackKind::Thread,
    }
}

/// Flow categories that link launch calls with GPU operations, as correlation IDs do.
pub(crate) const LAUNCH_FLOWS: &[&str] = &["ac2g", "async", "async_gpu", "async_cpu_to_gpu"];

/// Flow categories that link calls with their operations in traces without correlation IDs (rpd).
pub(crate) const API_FLOWS: &[&str] = &["api_op"];

/// Flow categories that link forward and backward operators.
pub(crate) const BACKWARD_FLOWS: &[&str] = &["fwdbwd", "forward_backward"];
