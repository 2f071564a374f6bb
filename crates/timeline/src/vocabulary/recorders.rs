//! Table of recording tools other than torch.profiler: advice on marking iterations and on recording host code.

use stackline_model::{EventKind, Trace};

/// Recording tool: formats of its files, and advice on recording with it.
pub struct Recorder {
    /// Formats of its files.
    formats: &'static [&'static str],
    /// Prefix of process names in the Chrome form of its files.
    process: Option<&'static str>,
    /// Advice on marking iterations as steps, to follow "To mark steps, ". It includes the required options.
    pub mark_steps: &'static str,
    /// Advice on recording the program's code between runtime calls of the GPU.
    pub between_calls: &'static str,
    /// Kinds of events that record such code.
    host_code_kinds: &'static [EventKind],
}

/// Kinds of events that NVTX and roctx ranges become.
const RANGES: &[EventKind] = &[EventKind::Operator, EventKind::Annotation];

/// Recording tools other than torch.profiler.
const RECORDERS: &[Recorder] = &[
    Recorder {
        formats: &["nsys"],
        process: None,
        mark_steps: "wrap each iteration in an NVTX range, torch.cuda.nvtx.range('step'), record with nsys profile \
                     --trace=cuda,nvtx, and use --step-annotation '^step$'",
        between_calls: "run the program within torch.autograd.profiler.emit_nvtx() and record with nsys profile \
                        --trace=cuda,nvtx,osrt, to see its code between CUDA calls",
        host_code_kinds: RANGES,
    },
    Recorder {
        formats: &["rocprofv3"],
        process: None,
        mark_steps: "wrap each iteration in a roctx range, torch.cuda.nvtx.range('step'), record with rocprofv3 \
                     --marker-trace, and use --step-annotation '^step$'",
        between_calls: "run the program within torch.autograd.profiler.emit_nvtx() and record with rocprofv3 \
                        --marker-trace, to see its code between HIP calls",
        host_code_kinds: RANGES,
    },
    Recorder {
        formats: &["rpd"],
        process: None,
        mark_steps: "wrap each iteration in a roctx range, torch.cuda.nvtx.range('step'), and use --step-annotation \
                     '^step$'",
        between_calls: "run the program within torch.autograd.profiler.emit_nvtx(), to see its code between HIP \
                        calls: rpd records the roctx ranges as UserMarker calls",
        host_code_kinds: RANGES,
    },
    Recorder {
        formats: &["xplane"],
        process: Some("/host:"),
        mark_steps: "wrap each iteration in jax.profiler.StepTraceAnnotation('step', step_num=i) or \
                     tf.profiler.experimental.Trace('step', step_num=i)",
        between_calls: "record the program's code between runtime calls: give python_tracer_level=1 to ProfileOptions \
                        or ProfilerOptions, or add spans (jax.profiler.TraceAnnotation, tf.profiler.experimental.Trace)",
        host_code_kinds: &[EventKind::PythonFunction, EventKind::Annotation],
    },
];

/// Find the tool that recorded a trace; `None` for torch.profiler and unknown tools.
pub fn recorder_of(trace: &Trace) -> Option<&'static Recorder> {
    let is_of = |prefix: &str| {
        let mut names = trace.tracks.processes.iter().filter_map(|process| process.name.some());
        names.any(|name| trace.strings.get(name).starts_with(prefix))
    };
    let by_format = || RECORDERS.iter().find(|one| one.formats.contains(&trace.meta.format.as_str()));
    by_format().or_else(|| RECORDERS.iter().find(|one| one.process.is_some_and(is_of)))
}

impl Recorder {
    /// Test if a trace by this tool has records of host code between runtime calls.
    pub fn records_host_code(&self, trace: &Trace) -> bool {
        trace.events.kind.iter().any(|kind| self.host_code_kinds.contains(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::Key;

    #[test]
    fn tools_are_detected_by_format_or_process_names() {
        let mut trace = Trace::default();
        assert!(recorder_of(&trace).is_none());
        trace.meta.format = "chrome".to_owned();
        let process = trace.tracks.process(Key::Int(701));
        trace.tracks.processes[process.index()].name = trace.strings.intern("/host:CPU");
        assert!(recorder_of(&trace).is_some_and(|one| one.mark_steps.contains("step_num")));
        trace.meta.format = "rpd".to_owned();
        let one = recorder_of(&trace).unwrap();
        assert!(one.between_calls.contains("roctx") && !one.between_calls.contains("rocprofv3"));
        assert!(!one.records_host_code(&trace));
    }
}
