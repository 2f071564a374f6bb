//! Small programs as traces, to see what rules say of them.

#![allow(dead_code, reason = "each test uses a part")]

use crate::support::read;
use serde_json::{Value, json};
use stackline_critical_path::exact::Exact;
use stackline_critical_path::exact::what_if::{Edit, Gain, predict};
use stackline_findings as findings;
use stackline_findings::{Finding, Findings, GainBasis, Options, Settings};
use stackline_model::{INFERRED, LINE, RECORDING, Trace};
use stackline_testkit::mini::MiniTrace;
use stackline_timeline::Scope;
use stackline_timeline::steps::StepSelection;
use std::collections::BTreeSet;

/// A trace in the making: one process, thread 1, device 0; times in µs.
pub(crate) struct Program {
    events: MiniTrace,
    correlation: i64,
    /// Time of the host.
    pub(crate) now: i64,
    /// End of the work of each stream.
    streams: Vec<i64>,
    /// Data of a recording about its one process, if it is one.
    recording: Option<Value>,
}

impl Program {
    pub(crate) fn new() -> Self {
        let events = MiniTrace::new("");
        Self { events, correlation: 0, now: 0, streams: vec![0; 64], recording: None }
    }

    /// Any complete event of the thread.
    pub(crate) fn span(&mut self, cat: &str, name: &str, ts: i64, dur: i64, args: Value) {
        self.thread_span(1, (cat, name), (ts, dur), args);
    }

    /// Any complete event of a thread.
    pub(crate) fn thread_span(&mut self, tid: i64, (cat, name): (&str, &str), (ts, dur): (i64, i64), args: Value) {
        self.events.add(&format!("7/{tid} {cat} {name} {ts}+{dur} {args}"));
    }

    /// A function of another process, from the beginning until now, as seen by samples.
    pub(crate) fn sample_in_other_process(&mut self, pid: i64, name: &str) {
        let args = json!({(INFERRED): "samples"});
        self.events.add(&format!("{pid}/{pid} python_function {name} 0+{} {args}", self.now));
    }

    /// Add the work of `inside`, within an operator.
    pub(crate) fn op(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        self.op_with(name, json!({}), inside);
    }

    /// The same with arguments, such as `Input Dims`.
    pub(crate) fn op_with(&mut self, name: &str, args: Value, inside: impl FnOnce(&mut Self)) {
        self.within("cpu_op", name, args, inside);
    }

    /// Add the work of `inside`, within a Python function such as `train.py(3): step`, or a module such as `nn.Module: Linear_0`.
    pub(crate) fn python(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        self.within("python_function", name, json!({}), inside);
    }

    /// Add the work of `inside`, within a user's annotation.
    pub(crate) fn annotation(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        self.within("user_annotation", name, json!({}), inside);
    }

    /// A step.
    pub(crate) fn step(&mut self, number: usize, inside: impl FnOnce(&mut Self)) {
        self.annotation(&format!("ProfilerStep#{number}"), inside);
    }

    fn within(&mut self, cat: &str, name: &str, args: Value, inside: impl FnOnce(&mut Self)) {
        let from = self.now;
        self.now += 1;
        inside(self);
        self.now += 1;
        self.span(cat, name, from, self.now - from, args);
    }

    /// The host works for some time.
    pub(crate) fn work(&mut self, us: i64) {
        self.now += us;
    }

    /// Stream 7 does not go on for so long, for a reason that is not recorded.
    pub(crate) fn delay_stream(&mut self, us: i64) {
        self.streams[7] = self.streams[7].max(self.now) + us;
    }

    /// Launches a kernel on stream 7; the call takes 5 µs, the kernel starts 3 µs after it began at the earliest.
    pub(crate) fn kernel(&mut self, name: &str, us: i64) {
        self.launch(("cudaLaunchKernel", "kernel"), name, us, 7, json!({}));
    }

    /// Launches GPU work by a call; `cat` is `kernel`, `gpu_memcpy` or `gpu_memset`.
    pub(crate) fn launch(&mut self, (call, cat): (&str, &str), name: &str, us: i64, stream: usize, mut args: Value) {
        self.correlation += 1;
        let start = self.streams[stream].max(self.now + 8);
        self.streams[stream] = start + us;
        self.span("cuda_runtime", call, self.now, 5, json!({"correlation": self.correlation}));
        args["correlation"] = json!(self.correlation);
        self.events.add(&format!("gpu0/{stream} {cat} {name} {start}+{us} {args}"));
        self.now += 6;
    }

    /// Copies to the GPU on stream 7 by a call that lasts until the copy is done, as from memory that is not pinned.
    pub(crate) fn pageable(&mut self, us: i64, bytes: i64) {
        self.correlation += 1;
        let start = self.streams[7].max(self.now + 8);
        self.streams[7] = start + us;
        let call = start + us + 2 - self.now;
        self.span("cuda_runtime", "cudaMemcpyAsync", self.now, call, json!({"correlation": self.correlation}));
        let (name, id) = ("Memcpy HtoD (Pageable -> Device)", self.correlation);
        self.events.add(&format!("gpu0/7 gpu_memcpy {name} {start}+{us} correlation={id} bytes={bytes}"));
        self.now += call + 1;
    }

    /// Add data of a recording about its process, such as `usable_milli`.
    pub(crate) fn recorded(&mut self, mut process: Value) {
        process["pid"] = json!(7);
        process["own"] = json!(true);
        self.recording = Some(json!({ "processes": [process] }));
    }

    /// The same of one more process.
    pub(crate) fn record_other_process(&mut self, process: Value) {
        let recording = self.recording.get_or_insert_with(|| json!({ "processes": [] }));
        if let Some(processes) = recording["processes"].as_array_mut() {
            processes.push(process);
        }
    }

    /// A sample of a thread's CPU time, now.
    pub(crate) fn sample(&mut self, tid: i64, name: &str, us: i64) {
        self.events.add(&format!("7/{tid} cpu_sample {name} P@{} cpu_time_ns={}", self.now, us * 1000));
    }

    /// A sample of a thread that waits, at line 21.
    pub(crate) fn wait_sample(&mut self, tid: i64, name: &str, us: i64) {
        let args = json!({"wait_time_ns": us * 1000, (LINE): 21});
        self.events.add(&format!("7/{tid} wait_sample {name} P@{} {args}", self.now));
    }

    /// A counter's new value.
    pub(crate) fn counter(&mut self, name: &str, value: i64) {
        self.events.add(&format!("0 - {name} C@{} value={value}", self.now));
    }

    /// A call of the runtime that launches nothing.
    pub(crate) fn call(&mut self, name: &str, us: i64) {
        self.correlation += 1;
        self.span("cuda_runtime", name, self.now, us, json!({"correlation": self.correlation}));
        self.now += us + 1;
    }

    /// Waits for all streams by a call.
    pub(crate) fn sync(&mut self, call: &str) {
        let end = self.streams.iter().copied().max().unwrap_or(0).max(self.now) + 4;
        self.correlation += 1;
        self.span("cuda_runtime", call, self.now, end - self.now, json!({"correlation": self.correlation}));
        self.now = end + 1;
    }

    /// The trace.
    pub(crate) fn trace(&self) -> Trace {
        read(self.text(json!({"id": 0, "name": "NVIDIA A100", "numSms": 108})))
    }

    /// The trace's text, with its data about the GPU.
    pub(crate) fn text(&self, gpu: Value) -> String {
        let mut trace = self.events.clone();
        trace.add(&format!("file deviceProperties={}", json!([gpu])));
        if let Some(recording) = &self.recording {
            trace.add(&format!("file {RECORDING}={recording}"));
        }
        trace.json()
    }

    /// Findings of all rules; the gain of each equals the result of `what-if` for its edits.
    pub(crate) fn findings(&self) -> Findings {
        let trace = self.trace();
        let found = find(&trace, &[]);
        assert_replays("program", &trace, &found, usize::MAX);
        found
    }

    /// Findings of one rule.
    pub(crate) fn found(&self, code: &str) -> Vec<Finding> {
        self.findings().findings.into_iter().filter(|f| f.rule.code == code).collect()
    }
}

/// Three steps of a model: `inside` runs in each.
pub(crate) fn steps(mut inside: impl FnMut(&mut Program)) -> Program {
    let mut program = Program::new();
    for number in 0..3 {
        program.step(number, |p| p.python("train.py(10): step", &mut inside));
    }
    program
}

/// Four steps of 1 ms without a GPU, with the work of `inside` in each.
pub(crate) fn host_steps(mut inside: impl FnMut(&mut Program)) -> Program {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::mm", |p| p.work(1000));
                inside(p);
            });
        });
    }
    program
}

/// Findings of all rules in a trace, with some settings.
pub(crate) fn find(trace: &Trace, settings: &[&str]) -> Findings {
    let mut options = Options { settings: Settings::default(), ..Options::default() };
    for setting in settings {
        options.settings.set(setting).unwrap();
    }
    let found = findings::find(trace, &options).unwrap();
    for finding in &found.findings {
        let rule = findings::rules::find(&finding.rule.code).unwrap();
        let (code, method, methods) = (rule.code, finding.gain_method(), rule.gain_methods);
        assert!(methods.contains(&method), "{code}: {method:?}, and its page has {methods:?}");
    }
    found
}

/// Compares gain and bounds of the first findings that have edits with those that `what-if` computes from these edits. The rules of
/// these findings.
pub(crate) fn assert_replays(name: &str, trace: &Trace, found: &Findings, most: usize) -> BTreeSet<String> {
    let StepSelection { choice, steps, .. } = StepSelection::select_or_infer(trace, &Scope::default());
    assert_eq!(steps, found.steps, "{name}");
    let mut rules = BTreeSet::new();
    for finding in found.findings.iter().filter(|finding| !finding.edits.is_empty()).take(most) {
        let label = format!("{name}: {} {}", finding.rule.code, finding.title);
        assert_eq!(finding.basis, GainBasis::Replay, "{label}");
        // As the table has them.
        let edits = Edit::parse_all(&finding.edits.join("; ")).unwrap_or_else(|error| panic!("{label}: {error}"));
        assert_eq!(edits.iter().map(ToString::to_string).collect::<Vec<_>>(), finding.edits, "{label}");
        let gain = predict(trace, &choice, &edits).unwrap_or_else(|error| panic!("{label}: {error}")).gain;
        // Findings take out what it cost to record what goes.
        let gain = findings::removed_operators(&Exact::new(trace), &edits)
            .map_or(gain, |removed| removed.without_overhead(gain));
        let gain = gain.map(|ns| ns / steps.max(1) as i64);
        // No finding gains more than a step takes without what its recording cost.
        let gain = Gain { high_ns: gain.high_ns.min(found.step_ns.max(gain.likely_ns)), ..gain };
        let of_finding = finding.gain.unwrap_or(Gain::exact(0));
        let pairs = [
            (gain.likely_ns, of_finding.likely_ns),
            (gain.low_ns, of_finding.low_ns),
            (gain.high_ns, of_finding.high_ns),
        ];
        // Times are divided by steps before or after what recording cost is taken out.
        assert!(pairs.iter().all(|(a, b)| (a - b).abs() <= 3), "{label}: {of_finding:?}, and {gain:?} by what-if");
        rules.insert(finding.rule.code.clone());
    }
    rules
}

/// A finding as text for snapshots.
pub(crate) fn text(findings: &[Finding]) -> String {
    let one = |f: &Finding| {
        let gain = f.gain.map_or("-".to_owned(), |g| format!("{} ns ({} to {})", g.likely_ns, g.low_ns, g.high_ns));
        let (code, place) = (f.rule.code.clone(), f.place.text());
        let evidence = findings::evidence(f);
        format!(
            "{code} {}\n  at {place}\n  gain {gain} by {}\n  {evidence}\n  {:?} {:?}\n",
            f.title,
            f.method(),
            f.support,
            f.confidence
        )
    };
    findings.iter().map(one).collect()
}
