//! Samples of instructions (PC sampling) by kernel dispatch, independent of the file format.
//!
//! A sample becomes an event on the stream of its kernel, named by its instruction. Its call path is the kernel and the
//! source line. Kernels get the number of their samples by stall reason.

use super::events::Kernel;
use super::instructions::{Code, Instructions};
use crate::diagnostics;
use crate::sources::processes::{Event, Processes};
use crate::sources::row::Value;
use rustc_hash::FxHashMap;
use serde_json::json;
use stackline_model::{
    EventKind, INSTRUCTION_SAMPLE, Key, LINE, Phase, SampleMetric, StackId, StrId, Trace, TrackKind,
};
use std::collections::BTreeMap;

/// Outermost frame of samples without a recorded kernel.
const UNRECORDED_KERNEL: &str = "unrecorded kernel";
/// Process and stream of samples without a recorded kernel: their GPU is unknown.
const UNKNOWN_TRACK: [&str; 2] = ["unknown GPU", "samples without a kernel"];
/// Stall reason of a sample whose wave issued its instruction.
const ISSUED: &str = "issued";
/// Prefix of the names of stall reasons.
const STALL: &str = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_";
/// Prefix of the names of instruction types.
const TYPE: &str = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_TYPE_";

/// Stall reasons by their numbers in databases.
pub(super) const STALL_REASONS: &[&str] = &[
    "none",
    "no_instruction_available",
    "alu_dependency",
    "waitcnt",
    "internal_instruction",
    "barrier_wait",
    "arbiter_not_win",
    "arbiter_win_ex_stall",
    "other_wait",
    "sleep_wait",
];

/// Instruction types by their numbers in databases.
pub(super) const INSTRUCTION_TYPES: &[&str] = &[
    "none",
    "valu",
    "matrix",
    "scalar",
    "tex",
    "lds",
    "lds_direct",
    "flat",
    "export",
    "message",
    "barrier",
    "branch_not_taken",
    "branch_taken",
    "jump",
    "other",
    "no_inst",
    "dual_valu",
];

/// A sample as a file contains it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordedSample<'a> {
    /// Identifier of the process; empty without one.
    pub(super) guid: &'a str,
    pub(super) dispatch: Option<i64>,
    pub(super) correlation: Option<i64>,
    pub(super) time: Option<i64>,
    pub(super) code: Code,
    /// 0 if the wave stalled, 1 if it issued the instruction; not known by host traps.
    pub(super) issued: Option<i64>,
    pub(super) instruction_type: &'a str,
    pub(super) stall_reason: &'a str,
}

/// A sample until its kernel is read.
#[derive(Clone, Copy, Debug)]
struct Sample {
    time: Option<i64>,
    code: Code,
    /// Stall reason and instruction type; [`StrId::NONE`] if unknown.
    stall: StrId,
    kind: StrId,
}

/// Reference of a sample to its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum KernelId {
    Dispatch(i64),
    Correlation(i64),
    Unknown,
}

/// Nodes of call paths by process, parent and name.
type Nodes = FxHashMap<(i64, StackId, StrId), StackId>;

/// Samples of instructions that wait for their kernels.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub(super) instructions: Instructions,
    /// By identifier of the process, and kernel.
    waiting: FxHashMap<(Box<str>, KernelId), Vec<Sample>>,
    nodes: Nodes,
}

/// Kernel of samples: process, track and name.
struct SampledKernel<'a> {
    owner: i64,
    track: (Key, Key, TrackKind),
    name: &'a str,
}

impl Samples {
    /// Add a sample, which waits for its kernel.
    pub(super) fn add(&mut self, recorded: &RecordedSample<'_>) {
        // Code without a dispatch, such as the driver's own kernels, has number 0.
        let known = |id: Option<i64>| id.filter(|&id| id > 0);
        let kernel = match (known(recorded.dispatch), known(recorded.correlation)) {
            (Some(dispatch), _) => KernelId::Dispatch(dispatch),
            (None, Some(correlation)) => KernelId::Correlation(correlation),
            (None, None) => KernelId::Unknown,
        };
        let instructions = &mut self.instructions;
        let (stall, kind) = match recorded.issued {
            None => (StrId::NONE, StrId::NONE),
            Some(0) => (instructions.short_name(recorded.stall_reason, STALL), StrId::NONE),
            Some(_) => {
                (instructions.short_name(ISSUED, STALL), instructions.short_name(recorded.instruction_type, TYPE))
            }
        };
        let sample = Sample { time: recorded.time, code: recorded.code, stall, kind };
        self.waiting.entry((recorded.guid.into(), kernel)).or_default().push(sample);
    }

    /// Add a kernel with the samples of its dispatch to the trace of its process.
    pub(super) fn push_kernel(
        &mut self,
        kernel: &Kernel<'_>,
        (guid, dispatch): (&str, Option<i64>),
        pid: Option<i64>,
        processes: &mut Processes<'_>,
    ) {
        let own = self.take(kernel, guid, dispatch);
        let owner = kernel.push(self.stalls(&own).as_deref(), pid, processes);
        let at = SampledKernel { owner, track: kernel.track(), name: kernel.title() };
        own.iter().for_each(|sample| self.push(sample, &at, processes));
    }

    /// Add the samples without a recorded kernel on a track of their process, and count them.
    pub(super) fn push_rest(&mut self, pid_of: impl Fn(&str) -> Option<i64>, processes: &mut Processes<'_>) {
        let rest: BTreeMap<_, _> = std::mem::take(&mut self.waiting).into_iter().collect();
        for ((guid, _), samples) in rest {
            processes.count_many(
                diagnostics::DANGLING_RECORD,
                samples.len() as u64,
                "sample of an instruction of a kernel that was not recorded",
            );
            let process = processes.trace_of(pid_of(&guid));
            let [gpu, stream] = UNKNOWN_TRACK.map(|text| Key::Str(process.trace.strings.intern(text)));
            let at =
                SampledKernel { owner: process.pid, track: (gpu, stream, TrackKind::Stream), name: UNRECORDED_KERNEL };
            samples.iter().for_each(|sample| self.push(sample, &at, processes));
        }
    }

    /// Take the samples of a kernel: by dispatch; those without one by correlation ID and time.
    fn take(&mut self, kernel: &Kernel<'_>, guid: &str, dispatch: Option<i64>) -> Vec<Sample> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let key = |id: KernelId| (Box::<str>::from(guid), id);
        let by_dispatch = dispatch.and_then(|dispatch| self.waiting.remove(&key(KernelId::Dispatch(dispatch))));
        let mut own = by_dispatch.unwrap_or_default();
        if let Some(correlation) = kernel.correlation {
            let key = key(KernelId::Correlation(correlation));
            // All kernels of a graph have the ID of its launch.
            let all = self.waiting.remove(&key).unwrap_or_default();
            let (inside, outside): (Vec<Sample>, Vec<Sample>) =
                all.into_iter().partition(|sample| kernel.runs_at(sample.time));
            own.extend(inside);
            if !outside.is_empty() {
                self.waiting.insert(key, outside);
            }
        }
        own
    }

    /// Number of samples by stall reason, as JSON; `None` if no reason is known.
    fn stalls(&self, samples: &[Sample]) -> Option<String> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for reason in samples.iter().filter_map(|sample| sample.stall.some()) {
            *counts.entry(self.instructions.text(reason)).or_default() += 1;
        }
        (!counts.is_empty()).then(|| json!(counts).to_string())
    }

    /// Add a sample to the trace of its kernel's process.
    fn push(&mut self, sample: &Sample, at: &SampledKernel<'_>, processes: &mut Processes<'_>) {
        if self.instructions.lacks(sample.code) {
            processes.count(diagnostics::DANGLING_RECORD, "number of an instruction that the list lacks");
        }
        let (name, comment, module) = self.instructions.describe(sample.code);
        let line = comment.rsplit_once(':').and_then(|(_, line)| line.parse::<u32>().ok()).map(i64::from);
        let text = |id: StrId| id.some().map_or(Value::Int(None), |id| Value::Text(self.instructions.text(id)));
        let arguments = [
            (SampleMetric::Count.key(), Value::Int(Some(1))),
            (LINE, Value::Int(line)),
            ("stall_reason", text(sample.stall)),
            ("instruction_type", text(sample.kind)),
        ];
        let event = Event {
            track: at.track,
            times: (sample.time, None),
            name: &name,
            category: INSTRUCTION_SAMPLE,
            kind: EventKind::Sample,
            phase: Phase::Sample,
            arguments: &arguments,
        };
        let event = processes.push(Some(at.owner), &event);
        let trace = &mut processes.trace_of(Some(at.owner)).trace;
        let mut stack = child(&mut self.nodes, (at.owner, StackId::NONE), (at.name, "kernel"), trace);
        if !comment.is_empty() {
            let category = if module.is_empty() { "device_function" } else { module };
            stack = child(&mut self.nodes, (at.owner, stack), (comment, category), trace);
        }
        trace.stacks.event.push(event);
        trace.stacks.stack.push(stack);
    }
}

/// Find or add a frame with a name and category below a node of the call paths of a process.
fn child(
    nodes: &mut Nodes,
    (owner, parent): (i64, StackId),
    (name, category): (&str, &str),
    trace: &mut Trace,
) -> StackId {
    let name = trace.strings.intern(name);
    if let Some(&known) = nodes.get(&(owner, parent, name)) {
        return known;
    }
    let Trace { stacks, strings, .. } = trace;
    let category = strings.intern(category);
    let node = stacks.push(parent, (name, category), strings);
    nodes.insert((owner, parent, name), node);
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadOptions;

    /// Samples by identifier, dispatch, correlation ID and time.
    fn recorded(rows: &[(&'static str, i64, i64, i64)]) -> Samples {
        let mut samples = Samples::default();
        for &(guid, dispatch, correlation, time) in rows {
            let code = samples.instructions.code("s_endpgm", "a.hip:3");
            let (dispatch, correlation, time) = (Some(dispatch), Some(correlation), Some(time));
            samples.add(&RecordedSample { guid, dispatch, correlation, time, code, ..RecordedSample::default() });
        }
        samples
    }

    fn times(samples: &[Sample]) -> Vec<i64> {
        samples.iter().filter_map(|sample| sample.time).collect()
    }

    #[test]
    fn kernels_take_samples_by_dispatch_then_by_correlation_and_time() {
        let rows = [("", 1, 7, 12), ("other", 1, 7, 13), ("", 0, 7, 14), ("", 0, 7, 30), ("", 0, 0, 15)];
        let mut samples = recorded(&rows);
        let kernel = |from, to| Kernel { correlation: Some(7), times: (Some(from), Some(to)), ..Kernel::default() };
        assert_eq!(times(&samples.take(&kernel(10, 20), "", Some(1))), [12, 14]);
        assert!(samples.take(&kernel(10, 20), "", Some(1)).is_empty(), "each sample has one kernel");
        assert_eq!(times(&samples.take(&kernel(30, 40), "", Some(2))), [30], "another kernel of the graph");
        let options = ReadOptions::default();
        let mut processes = Processes::new(&options);
        samples.push_rest(|_| Some(908), &mut processes);
        let trace = &processes.trace_of(Some(908)).trace;
        assert_eq!(trace.events.start, [15, 13], "of no kernel, and of another process");
        let path = trace.stacks.names(trace.stacks.of_event(stackline_model::EventId(0)));
        assert!(path.map(|name| trace.strings.get(name)).eq(["a.hip:3", "unrecorded kernel"]));
    }
}
