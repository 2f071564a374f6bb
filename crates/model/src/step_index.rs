//! Index of training steps by process and time.

use crate::{Key, Step, Trace};
use rustc_hash::FxHashMap;

/// Steps of each process, in time order.
#[derive(Clone, Debug, Default)]
pub struct StepIndex {
    /// Start, end, both in ns since the trace's base, and index into [`Trace::steps`].
    of_processes: FxHashMap<Key, Vec<(i64, i64, u32)>>,
}

impl StepIndex {
    /// Index the current steps of a trace.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        let mut of_processes: FxHashMap<Key, Vec<(i64, i64, u32)>> = FxHashMap::default();
        for (at, step) in (0..).zip(&trace.steps) {
            of_processes.entry(trace.process_of(step)).or_default().push((step.start, step.end, at));
        }
        Self { of_processes }
    }

    /// Last step of a process that begins at or before a time (ns since the trace's base): index into [`Trace::steps`].
    /// Steps of other processes (merged ranks) do not count.
    #[must_use]
    pub fn last_begun(&self, at: i64, process: Key) -> Option<u32> {
        self.begun(at, process).map(|(.., step)| step)
    }

    /// Step of a process that is running at a time (ns since the trace's base): index into [`Trace::steps`], `None`
    /// between steps.
    #[must_use]
    pub fn running(&self, at: i64, process: Key) -> Option<u32> {
        self.begun(at, process).filter(|(_, end, _)| at < *end).map(|(.., step)| step)
    }

    /// Last step of a process that begins at or before a time: start, end and index into [`Trace::steps`].
    fn begun(&self, at: i64, process: Key) -> Option<(i64, i64, u32)> {
        let steps = self.of_processes.get(&process)?;
        let after = steps.partition_point(|&(start, ..)| start <= at);
        after.checked_sub(1).and_then(|last| steps.get(last)).copied()
    }
}

impl Trace {
    /// Remove the steps for which `keep` is false; GPU work that they launched belongs to no step.
    pub fn keep_steps(&mut self, keep: impl Fn(&Step) -> bool) {
        let mut kept = 0;
        let new_index = |step: &Step| {
            let index = keep(step).then_some(kept);
            kept += u32::from(index.is_some());
            index
        };
        let indices: Vec<Option<u32>> = self.steps.iter().map(new_index).collect();
        for step in &mut self.gpu.step {
            *step = indices.get(*step as usize).copied().flatten().unwrap_or(u32::MAX);
        }
        self.steps.retain(keep);
        self.forget_computed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventId, EventKind, NewEvent, Phase, Step, StrId, TrackKind, flags};

    #[test]
    fn steps_are_found_by_their_process() {
        let mut trace = Trace::default();
        let [one, two] = [1, 2].map(|pid| trace.tracks.track(Key::Int(pid), Key::Int(pid), TrackKind::Thread));
        for (track, start, end) in [(one, 0, 100), (two, 50, 150), (one, 100, 200), (one, 300, 400)] {
            let event: EventId = trace.events.push(NewEvent {
                start,
                dur: end - start,
                track,
                name: StrId::NONE,
                category: StrId::NONE,
                kind: EventKind::Annotation,
                phase: Phase::Complete,
                flags: flags::HAS_DURATION,
                source_index: 0,
            });
            trace.steps.push(Step { number: 0, event, start, end });
        }
        let steps = StepIndex::new(&trace);
        let running = |at| [1, 2, 3].map(|pid| steps.running(at, Key::Int(pid)));
        assert_eq!(running(-1), [None; 3]);
        assert_eq!(running(99), [Some(0), Some(1), None]);
        assert_eq!(running(100), [Some(2), Some(1), None]);
        assert_eq!(running(250), [None; 3]);
        assert_eq!([250, 450].map(|at| steps.last_begun(at, Key::Int(1))), [Some(2), Some(3)]);
        assert_eq!(steps.last_begun(450, Key::Int(2)), Some(1));
        trace.gpu.step = vec![0, 2, u32::MAX, 3, 1];
        trace.keep_steps(|step| step.start >= 100);
        assert_eq!(trace.steps.iter().map(|step| step.start).collect::<Vec<_>>(), [100, 300]);
        assert_eq!(trace.gpu.step, [u32::MAX, 0, u32::MAX, 1, u32::MAX]);
    }
}
