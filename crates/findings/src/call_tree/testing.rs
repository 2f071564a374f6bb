//! Calling context trees from text, for tests.

use super::find_in_calls;
use crate::{ExternalRules, Findings, Options};
use stackline_model::{
    CallMetric, CallNodeId, CallOverhead, CallProcess, CallProcessId, CallStats, CallStepEnds, CallThread,
    CallThreadId, CallingContextTree, CallingContextTreeBuilder, Frame, FrameId, OverheadFraction,
};
use std::collections::BTreeMap;

/// Nanoseconds per millisecond.
pub(super) const MS: u64 = 1_000_000;

/// Tree from call paths: `train.py:12 step > aten::mm`.
pub(super) struct TestTree {
    pub(super) builder: CallingContextTreeBuilder,
    threads: BTreeMap<(u32, u64), CallThreadId>,
    process: CallProcessId,
}

impl TestTree {
    /// Create an empty tree with one process of Stackline's recorder.
    pub(super) fn new() -> Self {
        let mut builder = CallingContextTreeBuilder::new();
        let process = builder.process(CallProcess { pid: 7, recorder: "1".to_owned(), ..CallProcess::default() });
        Self { builder, threads: BTreeMap::new(), process }
    }

    /// Thread with this thread ID and torch thread ID, created on first use.
    pub(super) fn thread(&mut self, tid: u32, torch_id: u64) -> CallThreadId {
        let (process, name) = (self.process, self.builder.text("MainThread"));
        let thread = || CallThread { process, tid, torch_id, name };
        *self.threads.entry((tid, torch_id)).or_insert_with(|| self.builder.thread(thread()))
    }

    /// Start a process whose recorder skipped operators in `unrecorded_steps` steps, with an overhead in percent,
    /// ±5.
    pub(super) fn overhead(&mut self, unrecorded_steps: u64, percent: Option<i64>) {
        let ppm = |percent: i64| percent * 10_000;
        let fraction = percent.map(|percent| OverheadFraction {
            low_ppm: ppm(percent - 5),
            median_ppm: ppm(percent),
            high_ppm: ppm(percent + 5),
        });
        let overhead = Some(CallOverhead { unrecorded_steps, fraction, ..CallOverhead::default() });
        let process = CallProcess { pid: 9, overhead, recorder: "1".to_owned(), ..CallProcess::default() };
        self.process = self.builder.process(process);
        self.threads.clear();
    }

    /// Start a process with end times of steps and a total recorded time, in ns.
    pub(super) fn step_ends(&mut self, ends: CallStepEnds, lasted_ns: u64) {
        let process = CallProcess {
            pid: 9,
            lasted_ns: Some(lasted_ns),
            step_ends: Some(ends),
            recorder: "1".to_owned(),
            ..CallProcess::default()
        };
        self.process = self.builder.process(process);
        self.threads.clear();
    }

    /// Start a process of a rank.
    pub(super) fn rank(&mut self, rank: u32) {
        let process =
            CallProcess { pid: 8 + rank, rank: Some(rank), recorder: "1".to_owned(), ..CallProcess::default() };
        self.process = self.builder.process(process);
        self.threads.clear();
    }

    /// Frame from text: `train.py:12 step` (Python), `aten::mm` (operator), `cudaMalloc`, `MmBackward0`; other text is
    /// a span.
    pub(super) fn frame(&mut self, text: &str) -> FrameId {
        let frame = match text.split_once(' ') {
            Some((place, function)) if place.contains(".py:") => {
                let (file, line) = place.rsplit_once(':').unwrap();
                let (function, file) = (self.builder.text(function), self.builder.text(file));
                Frame::Python { function, file, line: line.parse().unwrap(), first_line: 1 }
            }
            _ if text.starts_with("aten::") => Frame::operator(self.builder.text(text)),
            _ if text.starts_with("cuda") => Frame::Runtime { name: self.builder.text(text) },
            _ if text.ends_with("Backward0") => Frame::backward(self.builder.text(text)),
            _ => Frame::Span { name: self.builder.text(text) },
        };
        self.builder.frame(frame)
    }

    /// Node of a call path such as `train.py:12 step > aten::mm`, created on first use.
    pub(super) fn node(&mut self, path: &str) -> CallNodeId {
        path.split(" > ").fold(CallingContextTree::ROOT, |node, text| {
            let frame = self.frame(text);
            self.builder.child(node, frame)
        })
    }

    /// Add a metric's count and sum to the node of a call path on a thread.
    pub(super) fn add(
        &mut self,
        (tid, torch_id): (u32, u64),
        path: &str,
        metric: CallMetric,
        (count, sum): (u64, u64),
    ) {
        let (node, thread) = (self.node(path), self.thread(tid, torch_id));
        let each = sum / count.max(1);
        let stats = CallStats { count, sum, min: each, max: each, ..CallStats::default() };
        self.builder.add(node, thread, metric, &stats);
    }

    /// Add `ms` of CPU time at a call path, in samples of 10 ms.
    pub(super) fn cpu(&mut self, path: &str, ms: u64) {
        self.add((1, 0), path, CallMetric::CpuTime, (ms / 10, ms * MS));
    }

    /// Add `ms` of waits at a call path, in samples of 10 ms.
    pub(super) fn waits(&mut self, path: &str, ms: u64) {
        self.add((1, 0), path, CallMetric::WaitTime, (ms / 10, ms * MS));
    }

    /// Add calls as the recorder counts them, on the same thread under another name.
    pub(super) fn calls(&mut self, path: &str, count: u64, ms: u64) {
        self.add((1, 99), path, CallMetric::OperatorTime, (count, ms * MS));
    }

    /// Add durations of calls: their total and the longest.
    pub(super) fn durations(&mut self, path: &str, count: u64, (ms, longest): (u64, u64)) {
        let of_others = CallStats { count: count - 1, sum: (ms - longest) * MS, ..CallStats::from_value(MS) };
        let (node, thread) = (self.node(path), self.thread(1, 99));
        self.builder.add(node, thread, CallMetric::CallTime, &of_others);
        self.builder.add(node, thread, CallMetric::CallTime, &CallStats::from_value(longest * MS));
    }

    /// Finish the tree, and return the findings of all rules.
    pub(super) fn found(self) -> Findings {
        find_in_calls(&self.builder.finish(), None, &Options::default(), &ExternalRules::default(), &|_| true).unwrap()
    }
}

/// Rule code, line, and gain per step in ms of each finding.
pub(super) fn summaries(found: &Findings) -> Vec<(&str, Option<u32>, i64)> {
    let one = |finding: &crate::Finding| finding.gain_ns() / MS as i64;
    found.findings.iter().map(|f| (f.rule.code.as_str(), f.place.line, one(f))).collect()
}

/// Loop of 10 steps in `main`, lines 20 to 30, after a set-up.
pub(super) fn training() -> TestTree {
    let mut made = TestTree::new();
    made.calls("train.py:50 <module> > train.py:5 main > aten::uniform_", 33, 40);
    made.cpu("train.py:50 <module> > train.py:5 main > aten::uniform_", 40);
    made.cpu("train.py:50 <module> > train.py:6 main > data.py:3 prepare", 5_000);
    made.calls("train.py:50 <module> > train.py:21 main > aten::mm", 20, 800);
    made.cpu("train.py:50 <module> > train.py:21 main > aten::mm", 800);
    made.calls("train.py:50 <module> > train.py:23 main > Optimizer.step#SGD.step", 10, 200);
    made.cpu("train.py:50 <module> > train.py:23 main > Optimizer.step#SGD.step", 200);
    made
}
