//! What records programs other than torch.profiler: how they mark iterations there, and what else they did.

use stackline_model::{EventKind, Trace};

/// A tool that records programs.
pub(crate) struct Recorder {
    /// Formats of its files.
    formats: &'static [&'static str],
    /// What names of processes begin with in the Chrome form of its files.
    process: Option<&'static str>,
    /// How iterations are marked so that they are steps: after "To mark steps, ". An option stands with the marks that need it.
    pub(crate) mark_steps: &'static str,
    /// How to record what a program does between calls of the GPU's runtime.
    pub(crate) between_calls: &'static str,
    /// Events of which kinds are records of that.
    shown_by: &'static [EventKind],
}

const RANGES: &[EventKind] = &[EventKind::Operator, EventKind::Annotation];

const RECORDERS: &[Recorder] = &[
    Recorder {
        formats: &["nsys"],
        process: None,
        mark_steps: "wrap each iteration in an NVTX range, torch.cuda.nvtx.range('step'), record with nsys profile \
                     --trace=cuda,nvtx, and use --step-annotation '^step$'",
        between_calls: "record the program's code between CUDA calls as NVTX ranges \
                        (torch.autograd.profiler.emit_nvtx()), with nsys profile --trace=cuda,nvtx,osrt",
        shown_by: RANGES,
    },
    Recorder {
        formats: &["rocprofv3"],
        process: None,
        mark_steps: "wrap each iteration in a roctx range, torch.cuda.nvtx.range('step'), record with rocprofv3 \
                     --marker-trace, and use --step-annotation '^step$'",
        between_calls: "record the program's code between HIP calls as roctx ranges \
                        (torch.autograd.profiler.emit_nvtx()), with rocprofv3 --marker-trace",
        shown_by: RANGES,
    },
    Recorder {
        formats: &["rpd"],
        process: None,
        mark_steps: "wrap each iteration in a roctx range, torch.cuda.nvtx.range('step'), and use --step-annotation \
                     '^step$'",
        between_calls: "record the program's code between HIP calls as roctx ranges \
                        (torch.autograd.profiler.emit_nvtx()); they become user marks of the recording",
        shown_by: RANGES,
    },
    Recorder {
        formats: &["xplane"],
        process: Some("/host:"),
        mark_steps: "wrap each iteration in jax.profiler.StepTraceAnnotation('step', step_num=i) or \
                     tf.profiler.experimental.Trace('step', step_num=i)",
        between_calls: "record the program's code between calls: Python frames (ProfileOptions or ProfilerOptions \
                        with python_tracer_level=1) or spans (jax.profiler.TraceAnnotation, \
                        tf.profiler.experimental.Trace)",
        shown_by: &[EventKind::PythonFunction, EventKind::Annotation],
    },
];

/// What recorded a trace, if it is one of these.
pub(crate) fn recorder_of(trace: &Trace) -> Option<&'static Recorder> {
    let is_of = |prefix: &str| {
        let mut names = trace.tracks.processes.iter().filter_map(|process| process.name.some());
        names.any(|name| trace.strings.get(name).starts_with(prefix))
    };
    let by_format = || RECORDERS.iter().find(|one| one.formats.contains(&trace.meta.format.as_str()));
    by_format().or_else(|| RECORDERS.iter().find(|one| one.process.is_some_and(is_of)))
}

impl Recorder {
    /// Whether a trace has records of what the program did between calls.
    pub(crate) fn has_between(&self, trace: &Trace) -> bool {
        trace.events.kind.iter().any(|kind| self.shown_by.contains(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::Key;

    #[test]
    fn tools_are_known_by_their_format_or_the_names_of_their_processes() {
        let mut trace = Trace::default();
        assert!(recorder_of(&trace).is_none());
        trace.meta.format = "chrome".to_owned();
        let process = trace.tracks.process(Key::Int(701));
        trace.tracks.processes[process.index()].name = trace.strings.intern("/host:CPU");
        assert!(recorder_of(&trace).is_some_and(|one| one.mark_steps.contains("step_num")));
        trace.meta.format = "rpd".to_owned();
        let one = recorder_of(&trace).unwrap();
        assert!(one.between_calls.contains("roctx") && !one.between_calls.contains("rocprofv3"));
        assert!(!one.has_between(&trace));
    }
}
