//! Instructions to record missing data, by the profiler that wrote a trace and by the trace's content.

use stackline_findings::Requirement;
use stackline_model::format::count;
use stackline_model::{EventKind, Severity, Trace, TrackKind, names};

/// Profiler, other than torch.profiler, that wrote a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Producer {
    /// XProf: JAX, TensorFlow 2, PyTorch/XLA.
    Xprof,
    /// TensorFlow 1.
    Timeline,
    /// rpd and rocprof (ROCm).
    Rocm,
    /// Nsight Systems.
    Nsys,
    /// torch_npu (Ascend).
    Npu,
}

/// Instructions by producer and name of the need.
const ADVICE: &[(Producer, &str, &str)] = &[
    (
        Producer::Xprof,
        "gpu_operations",
        "on a GPU, call block_until_ready before jax.profiler.stop_trace; on a CPU, there are no device operations, \
         and XLA operators are host operators",
    ),
    (
        Producer::Xprof,
        "operators",
        "host operators cannot be recorded: XLA runs compiled modules, so XProf records operations only on the device",
    ),
    (Producer::Xprof, "launches", "XProf records launches only for GPUs, not for other devices"),
    (Producer::Xprof, "steps", "wrap each iteration in `with jax.profiler.StepTraceAnnotation('train', step_num=i)`"),
    (Producer::Xprof, "python_frames", "set python_tracer_level=1 in jax.profiler.ProfileOptions"),
    (Producer::Xprof, "modules", "use jax.named_scope: its names appear in the arguments of operations"),
    (
        Producer::Xprof,
        "shapes",
        "input shapes are not available: XProf stores them only in XLA programs, from which Stackline reads only source \
         lines",
    ),
    (
        Producer::Xprof,
        "memory",
        "save a memory profile with jax.profiler.save_device_memory_profile('memory.prof') and open it with `stackline \
         calls memory.prof`",
    ),
    (
        Producer::Xprof,
        "collective_sizes",
        "XProf traces contain no sizes of collectives; --xla_dump_to writes the HLO of each XLA module, which has them, to \
         files",
    ),
    (Producer::Xprof, "synchronisation_records", "XProf does not record synchronization"),
    (Producer::Timeline, "gpu_operations", "run with RunOptions(trace_level=FULL_TRACE) on a GPU"),
    (Producer::Timeline, "steps", "write one timeline file per session.run; each file is one step"),
    (Producer::Timeline, "memory", "write the trace with generate_chrome_trace_format(show_memory=True)"),
    (Producer::Timeline, "launches", "TensorFlow 1 does not record launches of GPU operations"),
    (Producer::Timeline, "python_frames", "TensorFlow 1 does not record Python frames"),
    (
        Producer::Rocm,
        "gpu_operations",
        "run the program with runTracer.sh (rpd) or rocprofv3 --kernel-trace --memory-copy-trace",
    ),
    (
        Producer::Rocm,
        "operators",
        "run the program within torch.autograd.profiler.emit_nvtx() and record its ranges with rocprofv3 \
         --marker-trace; or record with torch.profiler",
    ),
    (
        Producer::Rocm,
        "launches",
        "also record HIP runtime calls, with rocprofv3 --hip-runtime-trace or with the HIP API rows of rpd",
    ),
    (
        Producer::Rocm,
        "steps",
        "mark iterations with roctx ranges, such as torch.cuda.nvtx.range('ProfilerStep#0'), and record them with \
         rocprofv3 --marker-trace or as user marks of rpd; or record with torch.profiler",
    ),
    (Producer::Rocm, "python_frames", "record with torch.profiler(with_stack=True)"),
    (Producer::Rocm, "modules", "record with torch.profiler(with_stack=True), whose Python frames contain modules"),
    (
        Producer::Rocm,
        "shapes",
        "run the program within torch.autograd.profiler.emit_nvtx(record_shapes=True) and record its ranges with \
         rocprofv3 --marker-trace",
    ),
    (
        Producer::Rocm,
        "memory",
        "Stackline does not read records of rocprofv3 --memory-allocation-trace; use a memory snapshot of PyTorch \
         (torch.cuda.memory._dump_snapshot())",
    ),
    (Producer::Rocm, "collective_sizes", "record with torch.profiler, which records the sizes of collectives"),
    (Producer::Rocm, "synchronisation_records", "ROCm tools do not record synchronization"),
    (
        Producer::Nsys,
        "gpu_operations",
        "record with nsys profile --trace=cuda,nvtx, and synchronize before the program ends",
    ),
    (Producer::Nsys, "launches", "record with nsys profile --trace=cuda"),
    (
        Producer::Nsys,
        "operators",
        "run the program within torch.autograd.profiler.emit_nvtx() and record with nsys profile --trace=cuda,nvtx",
    ),
    (Producer::Nsys, "shapes", "run the program within torch.autograd.profiler.emit_nvtx(record_shapes=True)"),
    (
        Producer::Nsys,
        "steps",
        "put each iteration into an NVTX range, such as torch.cuda.nvtx.range('ProfilerStep#0'); for ranges with other \
         names, use --step-annotation",
    ),
    (
        Producer::Nsys,
        "python_frames",
        "Stackline does not read samples of Nsight Systems; record with torch.profiler(with_stack=True) or stackline \
         record",
    ),
    (Producer::Nsys, "modules", "record with torch.profiler(with_stack=True), whose Python frames contain modules"),
    (
        Producer::Nsys,
        "memory",
        "Stackline does not read records of nsys --cuda-memory-usage; use a memory snapshot of PyTorch \
         (torch.cuda.memory._dump_snapshot())",
    ),
    (Producer::Nsys, "collective_sizes", "record with torch.profiler, which records the sizes of collectives"),
    (
        Producer::Nsys,
        "synchronisation_records",
        "record with nsys profile --trace=cuda; add --cuda-event-trace=true to record the events that streams wait for",
    ),
    (
        Producer::Npu,
        "gpu_operations",
        "record with torch_npu.profiler.ProfilerActivity.NPU, and run work on the device while recording",
    ),
    (
        Producer::Npu,
        "launches",
        "Stackline does not read the launches of torch_npu: its traces link operators and tasks by arrows only",
    ),
    (Producer::Npu, "synchronisation_records", "torch_npu does not record which work a wait waits for"),
];

/// Prefixes of names of processes that only torch_npu writes: tasks of the device, and calls of its runtime.
const NPU_PROCESSES: [&str; 2] = ["Ascend Hardware", "CANN"];

/// Instructions to record data that a trace lacks; `None` if the default instructions fit. With `is_profiled` the trace
/// is from torch.profiler rather than a Stackline recording.
pub(super) fn advice(trace: &Trace, need: &str, is_profiled: bool) -> Option<String> {
    if is_cut(trace) && !matches!(need, "rank") {
        return Some(
            "the trace file is truncated, and the missing records may be in its lost part; copy the file again, or \
             record again"
                .to_owned(),
        );
    }
    let without = if need == "gpu_operations" { trace.unrecorded_launches().len() } else { 0 };
    if without > 0 {
        return Some(format!(
            "{without} launch calls have no recorded GPU operation, so GPU profiling failed. Check that no other \
             profiler uses CUPTI, roctracer or Intel's PTI, and that the container permits profiling; call \
             torch.cuda.synchronize() or torch.xpu.synchronize() before the profiler stops"
        ));
    }
    let of_producer = producer(trace).and_then(|producer| ADVICE.iter().find(|(p, n, _)| *p == producer && *n == need));
    of_producer.map(|(.., text)| (*text).to_owned()).or_else(|| by_contents(trace, need).filter(|_| is_profiled))
}

/// Advice for a torch.profiler trace that depends on its content: launches without GPU operations, modules, and ranks.
/// `None` for other data.
fn by_contents(trace: &Trace, need: &str) -> Option<String> {
    let has_gpu = !trace.gpu.is_empty();
    match need {
        "launches" | "synchronisation_records" if !has_gpu => {
            Some(
                "launch and synchronization records need GPU operations, and the trace has none; follow the advice for \
                 gpu_operations"
                    .to_owned(),
            )
        }
        "modules" => Some(of_modules(trace, has_gpu)),
        "rank" if !has_collectives(trace) => Some(
            "the trace has no collectives, so it is taken as a job of one process; if the job has several processes, write \
             the rank into each file name (rank0.json)"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Advice for a trace whose GPU operations have no modules. Modules come from Python frames (`nn.Module: Linear_0`)
/// that launch the operations.
fn of_modules(trace: &Trace, has_gpu: bool) -> String {
    let frames = || trace.events.ids().filter(|&e| trace.kind(e) == EventKind::PythonFunction);
    let modules = frames().filter(|&e| trace.name(e).starts_with(names::MODULE_PREFIX)).count();
    match (frames().count(), modules) {
        (0, _) => {
            "record with with_stack=True to get Python frames, which contain modules (with_modules=True by itself \
                   covers only TorchScript)"
                .to_owned()
        }
        (all, 0) => format!(
            "none of the Python frames ({}) is an nn.Module call: record while the model runs in eager mode; \
             compiled models and CUDA graphs have no module calls",
            count(all as u64)
        ),
        (_, modules) if has_gpu => {
            format!(
                "the trace has nn.Module frames ({}), but none of them launched a GPU operation, so no kernel has a module",
                count(modules as u64)
            )
        }
        (_, modules) => {
            format!(
                "the trace has nn.Module frames ({}), but no GPU operations to assign to modules",
                count(modules as u64)
            )
        }
    }
}

/// Check if a trace has collectives. Without collectives, their sizes are not missing.
pub(super) fn has_collectives(trace: &Trace) -> bool {
    Requirement::Collectives.is_met(trace)
}

/// Check if a trace has launch calls, so that these are not reported as missing, even without GPU operations.
pub(super) fn has_launch_calls(trace: &Trace) -> bool {
    trace.gpu.launch.iter().any(|l| l.is_some()) || !trace.unrecorded_launches().is_empty()
}

/// Check if the read report says that the end of the trace file is missing or damaged.
pub(super) fn is_cut(trace: &Trace) -> bool {
    let cut = ["truncated", "damaged_compression"];
    trace.report.problems.iter().any(|p| p.severity == Severity::Lost && cut.contains(&p.code.as_str()))
}

/// Profiler that wrote a trace, from its format and track names; `None` for torch.profiler and unknown ones.
fn producer(trace: &Trace) -> Option<Producer> {
    match trace.meta.format.as_str() {
        "nsys" => return Some(Producer::Nsys),
        "rocprofv3" | "rpd" => return Some(Producer::Rocm),
        _ => {}
    }
    let name = |id: stackline_model::StrId| id.some().map_or("", |id| trace.strings.get(id));
    let processes = || trace.tracks.processes.iter().map(|p| name(p.name));
    let threads = || trace.tracks.tracks.iter().filter(|t| t.kind == TrackKind::Thread).map(|t| name(t.name));
    if processes().any(|process| NPU_PROCESSES.iter().any(|prefix| process.starts_with(prefix))) {
        return Some(Producer::Npu);
    }
    // TensorFlow 1 names rows of devices, with the job or without it.
    if processes().any(|p| p.starts_with("/job:") || p.contains("/stream:") || p.ends_with(" Compute")) {
        Some(Producer::Timeline)
    } else if processes().any(|p| p.starts_with("/device:") || p.starts_with("/host:")) {
        Some(Producer::Xprof)
    } else if threads().any(|t| t.starts_with("Hip ")) {
        Some(Producer::Rocm)
    } else {
        None
    }
}
