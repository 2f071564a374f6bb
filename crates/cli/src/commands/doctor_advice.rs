//! Advice that follows from what a file holds: how to get what is missing, by the program that wrote it.

use stackline_findings::Requirement;
use stackline_model::format::count;
use stackline_model::{EventKind, Severity, Trace, TrackKind, names};

/// Programs that write traces, other than torch.profiler.
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
}

/// What to do, by producer and the name of the need.
const ADVICE: &[(Producer, &str, &str)] = &[
    (
        Producer::Xprof,
        "gpu_operations",
        "on a GPU, call block_until_ready before jax.profiler.stop_trace; on a CPU, XLA's operators are those of the host",
    ),
    (Producer::Xprof, "operators", "XLA runs compiled modules: its operations are those of the device"),
    (Producer::Xprof, "launches", "XProf has them of GPUs alone"),
    (Producer::Xprof, "steps", "wrap each iteration: with jax.profiler.StepTraceAnnotation('train', step_num=i)"),
    (Producer::Xprof, "python_frames", "set python_tracer_level=1 in jax.profiler.ProfileOptions"),
    (Producer::Xprof, "modules", "use jax.named_scope: its names stand in the operations' arguments"),
    (Producer::Xprof, "shapes", "XProf writes them into the programs of XLA, which are read for lines alone"),
    (Producer::Xprof, "memory", "what jax.profiler.save_device_memory_profile writes is not read yet"),
    (Producer::Xprof, "collective_sizes", "sizes of collectives stand in the HLO of a module (--xla_dump_to)"),
    (Producer::Xprof, "synchronisation_records", "XProf does not write them"),
    (Producer::Timeline, "gpu_operations", "run with RunOptions(trace_level=FULL_TRACE) on a GPU"),
    (Producer::Timeline, "steps", "write one timeline for each session.run: each is one step"),
    (Producer::Timeline, "memory", "generate_chrome_trace_format(show_memory=True)"),
    (Producer::Timeline, "launches", "TensorFlow 1 does not write them"),
    (Producer::Timeline, "python_frames", "TensorFlow 1 does not write them"),
    (
        Producer::Rocm,
        "gpu_operations",
        "run the program with runTracer.sh (rpd) or rocprofv3 --kernel-trace --memory-copy-trace",
    ),
    (
        Producer::Rocm,
        "operators",
        "run the program within torch.autograd.profiler.emit_nvtx(), and record its marks, too: rocprofv3 --marker-trace; or record with torch.profiler",
    ),
    (
        Producer::Rocm,
        "launches",
        "record calls of the runtime, too: rocprofv3 --hip-runtime-trace, or rpd with its HIP API rows",
    ),
    (
        Producer::Rocm,
        "steps",
        "mark iterations with roctx ranges (torch.cuda.nvtx.range('ProfilerStep#0'); rocprofv3 --marker-trace, user marks of rpd), or record with torch.profiler",
    ),
    (Producer::Rocm, "python_frames", "record with torch.profiler(with_stack=True)"),
    (Producer::Rocm, "modules", "record with torch.profiler(with_stack=True): its Python frames name them"),
    (
        Producer::Rocm,
        "shapes",
        "run the program within torch.autograd.profiler.emit_nvtx(record_shapes=True), and record its marks, too: rocprofv3 --marker-trace",
    ),
    (
        Producer::Rocm,
        "memory",
        "what rocprofv3 --memory-allocation-trace records is not read; give a memory snapshot (torch.cuda.memory._dump_snapshot())",
    ),
    (Producer::Rocm, "collective_sizes", "record with torch.profiler: its collectives have sizes"),
    (Producer::Rocm, "synchronisation_records", "tools of ROCm do not write them"),
    (
        Producer::Nsys,
        "gpu_operations",
        "record with nsys profile --trace=cuda,nvtx, and let work end before the program does",
    ),
    (Producer::Nsys, "launches", "record with nsys profile --trace=cuda"),
    (
        Producer::Nsys,
        "operators",
        "run the program within torch.autograd.profiler.emit_nvtx(), and record with nsys profile --trace=cuda,nvtx",
    ),
    (Producer::Nsys, "shapes", "run the program within torch.autograd.profiler.emit_nvtx(record_shapes=True)"),
    (
        Producer::Nsys,
        "steps",
        "put each iteration into an NVTX range: torch.cuda.nvtx.range('ProfilerStep#0'); --step-annotation takes other names",
    ),
    (
        Producer::Nsys,
        "python_frames",
        "the samples of Nsight Systems are not read; record with torch.profiler(with_stack=True) or stackline record",
    ),
    (Producer::Nsys, "modules", "record with torch.profiler(with_stack=True): its Python frames name them"),
    (
        Producer::Nsys,
        "memory",
        "what --cuda-memory-usage records is not read; give a memory snapshot (torch.cuda.memory._dump_snapshot())",
    ),
    (Producer::Nsys, "collective_sizes", "record with torch.profiler: its collectives have sizes"),
    (
        Producer::Nsys,
        "synchronisation_records",
        "record with nsys profile --trace=cuda (--cuda-event-trace=true tells which event a stream waits for)",
    ),
];

/// How to get what is missing of one trace; none where the usual advice fits. `is_profiled`: a recording of ours has its own.
pub(super) fn advice(trace: &Trace, need: &str, is_profiled: bool) -> Option<String> {
    if is_cut(trace) && !matches!(need, "rank") {
        return Some("the file is cut: the rest is missing, and this may be in it; copy or record it again".to_owned());
    }
    let without = if need == "gpu_operations" { trace.unrecorded_launches().len() } else { 0 };
    if without > 0 {
        return Some(format!(
            "{without} launch calls are recorded, but no operation that they launched: the device's side of the profiler \
             failed. Only one profiler can use CUPTI, roctracer or Intel's PTI at a time, containers may forbid it, and work must \
             end (torch.cuda.synchronize(), torch.xpu.synchronize()) before the profiler stops"
        ));
    }
    let of_producer = producer(trace).and_then(|producer| ADVICE.iter().find(|(p, n, _)| *p == producer && *n == need));
    of_producer.map(|(.., text)| (*text).to_owned()).or_else(|| by_contents(trace, need).filter(|_| is_profiled))
}

/// What a trace of torch.profiler lacks because it lacks something else.
fn by_contents(trace: &Trace, need: &str) -> Option<String> {
    let has_gpu = !trace.gpu.is_empty();
    match need {
        "launches" | "synchronisation_records" if !has_gpu => {
            Some("comes with GPU operations, which are missing".to_owned())
        }
        "modules" => Some(of_modules(trace, has_gpu)),
        "rank" if !has_collectives(trace) => Some(
            "without collectives it is of one process alone; of several write the rank into the file name (rank0.json)"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Modules come from Python frames (`nn.Module: Linear_0`), and are told of the operations that these launched.
fn of_modules(trace: &Trace, has_gpu: bool) -> String {
    let frames = || trace.events.ids().filter(|&e| trace.kind(e) == EventKind::PythonFunction);
    let modules = frames().filter(|&e| trace.name(e).starts_with(names::MODULE_PREFIX)).count();
    match (frames().count(), modules) {
        (0, _) => "record with with_stack=True: Python frames name them, and are missing (with_modules=True alone names those of \
                   TorchScript)"
            .to_owned(),
        (all, 0) => format!(
            "no Python frame ({}) is of an nn.Module: record while the model is called; a compiled model or a CUDA graph calls none",
            count(all as u64)
        ),
        (_, modules) if has_gpu => {
            format!("nn.Module frames are recorded ({}), but none launched a GPU operation", count(modules as u64))
        }
        (_, modules) => {
            format!("nn.Module frames are recorded ({}); which kernels they launched comes with GPU operations", count(modules as u64))
        }
    }
}

/// Whether anything of a trace is a collective: without any there are no sizes to record.
pub(super) fn has_collectives(trace: &Trace) -> bool {
    Requirement::Collectives.is_met(trace)
}

/// Whether launch calls are recorded: then they are not missing, even if no operation belongs to them.
pub(super) fn has_launch_calls(trace: &Trace) -> bool {
    trace.gpu.launch.iter().any(|l| l.is_some()) || !trace.unrecorded_launches().is_empty()
}

pub(super) fn is_cut(trace: &Trace) -> bool {
    let cut = ["truncated", "damaged_compression"];
    trace.report.problems.iter().any(|p| p.severity == Severity::Lost && cut.contains(&p.code.as_str()))
}

fn producer(trace: &Trace) -> Option<Producer> {
    match trace.meta.format.as_str() {
        "nsys" => return Some(Producer::Nsys),
        "rocprofv3" | "rpd" => return Some(Producer::Rocm),
        _ => {}
    }
    let name = |id: stackline_model::StrId| id.some().map_or("", |id| trace.strings.get(id));
    let processes = || trace.tracks.processes.iter().map(|p| name(p.name));
    let threads = || trace.tracks.tracks.iter().filter(|t| t.kind == TrackKind::Thread).map(|t| name(t.name));
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
