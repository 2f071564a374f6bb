//! Writer of a run in the format of PyTorch's profiler.

pub(crate) mod device;
mod view;

pub(crate) use view::View;

use crate::kineto::{ArgsText, Flow, Writer};

use crate::simulator::program::{Kind, Program, Role, Sequence};
use crate::simulator::run::{Outcome, SpanRecord};

/// Base of the event times, nanoseconds since 1970.
const BASE_NS: i64 = 1_759_276_800_000_000_000;
/// Start of the profiler, nanoseconds after the base: time 0 of all ground truth.
pub(crate) const STARTED_NS: i64 = 3_817_262_118_402_417;
/// Process id of the program.
const PROCESS: i64 = 48_213;

/// Process id and thread id of a simulated thread in the trace.
pub(crate) fn ids(role: Role) -> (i64, i64) {
    match role {
        Role::Main => (PROCESS, PROCESS),
        Role::Pin => (PROCESS, PROCESS + 158),
        Role::Helper => (PROCESS, PROCESS + 164),
        Role::Autograd => (PROCESS, PROCESS + 177),
        Role::Worker(worker) => (PROCESS + 201 + worker as i64, PROCESS + 201 + worker as i64),
    }
}

/// Name of a thread in the ground truth: `PROCESS/THREAD`.
pub(crate) fn thread_label(role: Role) -> String {
    let (process, thread) = ids(role);
    format!("{process}/{thread}")
}

fn thread_name(role: Role) -> &'static str {
    match role {
        Role::Main => "pt_main_thread",
        Role::Autograd => "pt_autograd_0",
        Role::Pin => "pt_pin_memory",
        Role::Helper => "python",
        Role::Worker(_) => "pt_data_worker",
    }
}

/// Correlation id of a runtime or driver call, by the index of its span.
pub(crate) fn correlation(call: u32) -> u32 {
    call + 1_001
}

/// Writer of the trace of one simulated run in Kineto's format.
struct Printer<'a> {
    program: &'a Program,
    outcome: &'a Outcome,
    view: &'a View,
    json: Writer,
}

/// Write the trace of a simulated run as JSON text, with the records and times of `view`.
pub(crate) fn write(program: &Program, outcome: &Outcome, view: &View) -> String {
    let json = Writer::new(header(program), STARTED_NS);
    let mut printer = Printer { program, outcome, view, json };
    printer.write_spans();
    printer.write_calls();
    printer.write_activities();
    printer.write_syncs();
    printer.write_gpu_annotations();
    printer.write_clock();
    printer.write_metadata();
    printer.json.finish("simulated.json", BASE_NS)
}

/// JSON text before the event list: device, versions and process group.
fn header(program: &Program) -> String {
    let (name, major) =
        if program.dependent_launch { ("NVIDIA H100 80GB HBM3", 9) } else { ("NVIDIA A100-SXM4-80GB", 8) };
    format!(
        "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {{\n      \"id\": 0, \"name\": \"{name}\", \
         \"totalGlobalMem\": 85017755648,\n      \"computeMajor\": {major}, \"computeMinor\": 0,\n      \
         \"maxThreadsPerBlock\": 1024, \"maxThreadsPerMultiprocessor\": 2048,\n      \"regsPerBlock\": 65536, \
         \"warpSize\": 32,\n      \"sharedMemPerBlock\": 49152, \"numSms\": 108\n    }}\n  ],\n  \
         \"cupti_version\": 26,\n  \"cuda_runtime_version\": 12080,\n  \"cuda_driver_version\": 12080,\n  \
         \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": 0, \"world_size\": 2, \"pg_count\": 1, \
         \"pg_config\": [{{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"backend_config\": \"cuda:nccl\", \
         \"pg_size\": 2, \"ranks\": [0, 1]}}], \"nccl_version\": \"2.26.2\"}},\n  \"with_stack\": 1,\n  \
         \"with_modules\": 1,\n  \"traceEvents\": ["
    )
}

impl Printer<'_> {
    /// Process id and thread id of thread `thread` in the trace.
    fn track(&self, thread: usize) -> (i64, i64) {
        ids(self.outcome.threads[thread].0)
    }

    /// Innermost visible span around `span` that `is_match` accepts.
    fn enclosing_span(&self, span: &SpanRecord, is_match: impl Fn(&SpanRecord) -> bool) -> Option<u32> {
        let mut next = span.parent;
        while let Some(id) = next {
            let outer = &self.outcome.spans[id as usize];
            if is_match(outer) && !self.view.hidden_spans[id as usize] {
                return Some(id);
            }
            next = outer.parent;
        }
        None
    }

    /// External id of the innermost operator or annotation around a call.
    fn external_id(&self, call: u32) -> Option<u32> {
        let around = self.enclosing_span(&self.outcome.spans[call as usize], |outer| {
            matches!(outer.kind, Kind::Operator | Kind::Annotation)
        });
        around.map(|id| id + 1)
    }

    /// Write operators, annotations, Python frames and overhead of the profiler.
    fn write_spans(&mut self) {
        for (id, span) in self.outcome.spans.iter().enumerate() {
            if self.view.hidden_spans[id] {
                continue;
            }
            let at = (span.start, span.end - span.start);
            let track = self.track(span.thread);
            match span.kind {
                Kind::Operator | Kind::Annotation => {
                    let category = if span.kind == Kind::Operator { "cpu_op" } else { "user_annotation" };
                    self.json.slice(category, &span.name, track, at, |args| operator_args(args, id, span));
                    self.backward_flow(span, track);
                }
                Kind::Python => {
                    let parent = self.enclosing_span(span, |outer| outer.kind == Kind::Python);
                    self.json.slice("python_function", &span.name, track, at, |args| {
                        match parent {
                            Some(parent) => args.raw("Python parent id", parent + 1),
                            None => args.raw("Python parent id", "null"),
                        }
                        args.raw("Python id", id + 1);
                        if span.name.starts_with("nn.Module: ") {
                            args.raw("Python module id", span.name.len() % 7);
                        }
                    });
                }
                Kind::Overhead => self.json.slice("overhead", &span.name, track, at, |_| {}),
                Kind::Runtime | Kind::Driver => {}
            }
        }
    }

    /// Write the start of the arrow from a forward operator to its backward node, or its end.
    fn backward_flow(&mut self, span: &SpanRecord, track: (i64, i64)) {
        if !self.program.threads.iter().any(|thread| thread.role == Role::Autograd) {
            return;
        }
        match span.sequence {
            Some(Sequence::Forward(number)) => self.json.flow("fwdbwd", Flow::Start(number), track, span.start),
            Some(Sequence::Backward(number)) if span.parent.is_some() => {
                self.json.flow("fwdbwd", Flow::End(number), track, span.start);
            }
            _ => {}
        }
    }

    /// Write the names of processes, threads and streams, and the span of the profiler.
    fn write_metadata(&mut self) {
        let mut processes: Vec<i64> = Vec::new();
        let shown = |thread: &usize| !self.view.hidden_threads.contains(&self.outcome.threads[*thread].0);
        for thread in (0..self.outcome.threads.len()).filter(shown) {
            let role = self.outcome.threads[thread].0;
            let (process, id) = ids(role);
            if !processes.contains(&process) {
                processes.push(process);
                self.json.process(process, "CPU", process);
            }
            self.json.thread(process, id, &format!("thread {id} ({})", thread_name(role)));
        }
        self.json.process(0, "GPU 0", 5_000_000);
        for stream in &self.program.streams {
            self.json.thread(0, stream.number, &format!("stream {} ", stream.number));
        }
        let threads = self.outcome.threads.iter().filter_map(|(_, segments)| Some(segments.last()?.end));
        let end = threads.chain(self.outcome.activities.iter().map(|a| a.end)).max().unwrap_or(0);
        self.json.recording(0, end, end);
    }
}

/// Write the arguments of an operator or annotation.
fn operator_args(args: &mut ArgsText<'_>, id: usize, span: &SpanRecord) {
    args.raw("External id", id + 1);
    args.raw("Record function id", id + 1);
    if let Some(inputs) = span.inputs {
        args.raw("Input Dims", inputs.dims);
        args.raw("Input type", inputs.types);
    }
    match span.sequence {
        Some(Sequence::Forward(number)) => {
            args.raw("Sequence number", number);
            args.raw("Fwd thread id", 0);
        }
        Some(Sequence::Backward(number)) => {
            args.raw("Sequence number", number);
            args.raw("Fwd thread id", 1);
        }
        None => {}
    }
    args.raw("Ev Idx", id);
}
