//! Steps in the annotations of a snapshot (`external_annotations`): begins and ends of
//! `record_function` ranges with their times, among them the `ProfilerStep#N` of `torch.profiler`.

use super::Reader;
use crate::diagnostics;
use crate::memory::values::NodeId;
use rustc_hash::FxHashMap;
use stackline_model::names::STEP_PREFIX;
use stackline_model::{MemoryCallId, MemoryPhase, StrId};

/// Begin or end of a step.
struct StepMark {
    name: StrId,
    time_ns: i64,
    is_begin: bool,
}

impl Reader<'_> {
    /// Add a phase per step of the annotations, by the times of the calls. A step without an end lasts to the last call;
    /// one without a begin is left out.
    pub(super) fn steps(&mut self, annotations: Option<NodeId>) {
        let items = annotations.map_or(&[][..], |list| self.values.items(list));
        let dicts: Vec<NodeId> = items.iter().filter_map(|item| self.values.as_dict(*item)).collect();
        let mut marks: Vec<StepMark> = dicts.into_iter().filter_map(|dict| self.step_mark(dict)).collect();
        // Calls without times cannot be assigned to steps.
        if marks.is_empty() || !self.trace.has_times() {
            return;
        }
        marks.sort_by_key(|mark| mark.time_ns);
        let times = &self.trace.calls.start_ns;
        let position = |time_ns: i64| MemoryCallId::new(times.partition_point(|start| *start < time_ns));
        let last = MemoryCallId::new(times.len());
        let mut phases: Vec<MemoryPhase> = Vec::new();
        let mut open: FxHashMap<StrId, usize> = FxHashMap::default();
        for StepMark { name, time_ns, is_begin } in marks {
            if is_begin {
                open.insert(name, phases.len());
                phases.push(MemoryPhase { name, first: position(time_ns), end: last });
            } else if let Some(at) = open.remove(&name) {
                phases[at].end = position(time_ns);
            }
        }
        self.trace.phases.extend(phases);
    }

    /// Begin or end of a step; `None` for other annotations. One without a time or a stage is counted as damaged.
    fn step_mark(&mut self, dict: NodeId) -> Option<StepMark> {
        let keys = self.keys;
        let name = self.text(dict, keys.name);
        if !self.trace.strings.get(name).starts_with(STEP_PREFIX) {
            return None;
        }
        let stage = self.text(dict, keys.stage);
        let is_begin = stage == keys.stage_start;
        match self.time(dict) {
            Some(time_ns) if is_begin || stage == keys.stage_end => Some(StepMark { name, time_ns, is_begin }),
            _ => {
                let what = "an annotation of a step without a time or a stage";
                diagnostics::MEMORY_BAD_EVENT.count(&mut self.trace.report, None, what);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::memory::read_bytes;
    use stackline_model::MemoryTrace;

    /// Snapshot of four allocations at 10, 20, 30 and 40 µs with these annotations.
    fn with_annotations(annotations: &str) -> MemoryTrace {
        let event = |at: u64| {
            format!(
                r#"{{"action": "alloc", "addr": {}, "size": 512, "stream": 0, "time_us": {at}, "frames": []}}"#,
                at * 4096
            )
        };
        let events = [10, 20, 30, 40].map(event).join(",");
        let text =
            format!(r#"{{"segments": [], "device_traces": [[{events}]], "external_annotations": [{annotations}]}}"#);
        let trace = read_bytes("snapshot.json", text.as_bytes()).unwrap();
        trace.check().unwrap();
        trace
    }

    fn mark(name: &str, stage: &str, time: u64) -> String {
        format!(r#"{{"name": "{name}", "stage": "{stage}", "device": 0, "time_us": {time}}}"#)
    }

    fn phases(trace: &MemoryTrace) -> Vec<(&str, u32, u32)> {
        trace.phases.iter().map(|phase| (trace.strings.get(phase.name), phase.first.0, phase.end.0)).collect()
    }

    #[test]
    fn steps_have_the_calls_between_their_begin_and_end() {
        let marks = [
            // The begin of this step is older than the annotations.
            mark("ProfilerStep#6", "END", 15),
            mark("ProfilerStep#7", "START", 20),
            mark("## forward ##", "START", 21),
            mark("## forward ##", "END", 22),
            mark("ProfilerStep#7", "END", 35),
            mark("ProfilerStep#8", "START", 36),
        ];
        let trace = with_annotations(&marks.join(","));
        assert_eq!(phases(&trace), [("ProfilerStep#7", 1, 3), ("ProfilerStep#8", 3, 4)]);
        assert_eq!(trace.report.count_of("damaged_memory_event"), 0);
    }

    #[test]
    fn damaged_annotations_of_steps_are_counted() {
        let damaged = [
            mark("ProfilerStep#1", "PAUSE", 10),
            r#"{"name": "ProfilerStep#1", "stage": "END"}"#.to_owned(),
            mark("other", "PAUSE", 10),
            "7".to_owned(),
        ];
        let trace = with_annotations(&damaged.join(","));
        assert_eq!((phases(&trace), trace.report.count_of("damaged_memory_event")), (Vec::new(), 2));
        assert!(phases(&with_annotations("")).is_empty());
    }
}
