//! Launch times of GPU operations, including those without a recorded launch.
//!
//! A stream runs operations in launch order. So an operation without a recorded launch was launched no later than the
//! next operation of its stream that has one. Operations at the head of a stream, before its first recorded launch,
//! were launched before the recording began. This happens with a long launch queue. If a stream also lacks later
//! launches, or if the correlation ID lies among those of recorded launches, records are missing and nothing is
//! inferred.

use crate::{EventId, GpuOpId, Key, Trace, TrackId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Launch time of work that was launched before the recording began: before all times of a trace, in ns.
const BEFORE_RECORDING: i64 = i64::MIN;
/// Minimum number of later operations per missing launch, on a stream whose head was launched before the recording.
const MIN_OPERATIONS_PER_MISSING_LAUNCH: usize = 20;
/// Minimum number of head operations if later launches are missing; fewer may have lost their launches, too.
const MIN_HEAD_OPERATIONS: usize = 3;

/// Launch time and process of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Start of the recorded launch, in ns since the trace's base. Without one, the latest possible launch time, or
    /// `BEFORE_RECORDING`.
    pub at: i64,
    /// Process of the recorded launch. Without one, the process of the next recorded launch on the stream; `None` on
    /// streams without recorded launches.
    pub process: Option<Key>,
}

/// Launch times of all GPU operations of a trace.
pub struct LaunchTimes<'a> {
    trace: &'a Trace,
    /// Operations without a recorded launch, on streams that have some.
    inferred: FxHashMap<GpuOpId, Launched>,
}

impl<'a> LaunchTimes<'a> {
    /// Compute the launch times of a trace's GPU operations, and infer missing ones. Linear in the number of
    /// operations, except for sorting, which only runs if launches are missing.
    pub fn new(trace: &'a Trace) -> Self {
        let mut found = Self { trace, inferred: FxHashMap::default() };
        if trace.gpu.ids().any(|gpu| found.recorded(gpu).is_none()) {
            let mut streams: BTreeMap<TrackId, Vec<GpuOpId>> = BTreeMap::new();
            for gpu in trace.gpu_by_start().filter(|&gpu| trace.events.is_timed(trace.gpu.event[gpu.index()])) {
                let event = trace.gpu.event[gpu.index()];
                streams.entry(trace.events.track[event.index()]).or_default().push(gpu);
            }
            let numbers = found.first_numbers();
            streams.values().for_each(|operations| found.infer(operations, &numbers));
        }
        found
    }

    /// Launch time of a GPU operation: recorded, inferred, or else its start.
    pub fn launch_of(&self, gpu: GpuOpId) -> Launched {
        let (events, event) = (&self.trace.events, self.trace.gpu.event[gpu.index()]);
        let inferred = || self.inferred.get(&gpu).copied();
        let began = || Launched { at: events.start[event.index()], process: None };
        self.recorded(gpu).or_else(inferred).unwrap_or_else(began)
    }

    /// True if an operation was launched before the recording began.
    pub fn is_before_recording(&self, gpu: GpuOpId) -> bool {
        self.inferred.get(&gpu).is_some_and(|launched| launched.at == BEFORE_RECORDING)
    }

    /// Launch time of an event; `None` if it is not GPU work.
    pub fn of_event(&self, event: EventId) -> Option<Launched> {
        self.trace.gpu_operation(event).map(|gpu| self.launch_of(gpu))
    }

    /// Recorded launch of a GPU operation; `None` without a launch call, or if the call has no plausible time.
    fn recorded(&self, gpu: GpuOpId) -> Option<Launched> {
        let events = &self.trace.events;
        let call = self.trace.gpu.launch[gpu.index()].some().filter(|&call| events.is_plausible(call))?;
        Some(Launched {
            at: events.start[call.index()],
            process: Some(self.trace.tracks.pid(events.track[call.index()])),
        })
    }

    /// Smallest correlation ID of a recorded launch, by process. It covers all streams, because a stream may be used
    /// late for the first time.
    fn first_numbers(&self) -> BTreeMap<Option<Key>, i64> {
        let mut first = BTreeMap::new();
        for gpu in self.trace.gpu.ids() {
            let (number, launched) = (self.trace.gpu.correlation[gpu.index()], self.recorded(gpu));
            if let Some(launched) = launched.filter(|_| number > 0) {
                first
                    .entry(launched.process)
                    .and_modify(|least: &mut i64| *least = number.min(*least))
                    .or_insert(number);
            }
        }
        first
    }

    /// Infer the missing launches of one stream's operations, which are sorted by start.
    fn infer(&mut self, operations: &[GpuOpId], first_numbers: &BTreeMap<Option<Key>, i64>) {
        let recorded: Vec<Option<Launched>> = operations.iter().map(|&gpu| self.recorded(gpu)).collect();
        let row = |(&gpu, recorded): (&GpuOpId, &Option<Launched>)| Operation {
            start: self.trace.events.start[self.trace.gpu.event[gpu.index()].index()],
            launched: recorded.map(|launched| launched.at),
            correlation: self.trace.gpu.correlation[gpu.index()],
        };
        let rows: Vec<Operation> = operations.iter().zip(&recorded).map(row).collect();
        let first_process = recorded.iter().flatten().next().and_then(|launched| launched.process);
        let first_number = first_numbers.get(&first_process).copied().unwrap_or(0);
        let Some(at) = latest_launches(&rows, first_number) else { return };
        let mut process = recorded.iter().rev().flatten().next().and_then(|launched| launched.process);
        for ((&gpu, recorded), at) in operations.iter().zip(&recorded).zip(at).rev() {
            match recorded {
                Some(launched) => process = launched.process,
                None => drop(self.inferred.insert(gpu, Launched { at, process })),
            }
        }
    }
}

/// GPU operation of a stream: start, recorded launch time and correlation ID.
#[derive(Clone, Copy, Debug)]
struct Operation {
    start: i64,
    /// Start of the recorded launch, in ns.
    launched: Option<i64>,
    /// Correlation ID of the launch; negative if the trace has none.
    correlation: i64,
}

/// Latest possible launch time of each operation of a stream, in order of starts. IDs of recorded launches of the
/// process start at `first_number`. `None` if no launch is recorded.
fn latest_launches(operations: &[Operation], first_number: i64) -> Option<Vec<i64>> {
    let head = operations.iter().position(|operation| operation.launched.is_some())?;
    let later = &operations[head..];
    let missing = later.iter().filter(|operation| operation.launched.is_none()).count();
    let is_complete =
        missing == 0 || (MIN_OPERATIONS_PER_MISSING_LAUNCH * missing <= later.len() && head >= MIN_HEAD_OPERATIONS);
    let mut next = i64::MAX;
    let mut latest: Vec<i64> = Vec::with_capacity(operations.len());
    for (at, operation) in operations.iter().enumerate().rev() {
        next = operation.launched.unwrap_or(next);
        let is_numbered_before = operation.correlation <= 0 || operation.correlation < first_number;
        let is_of_before = at < head && is_complete && is_numbered_before;
        let bound = operation.launched.unwrap_or(operation.start.min(next));
        latest.push(if is_of_before { BEFORE_RECORDING } else { bound });
    }
    latest.reverse();
    Some(latest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn operation(start: i64, launched: Option<i64>, correlation: i64) -> Operation {
        Operation { start, launched, correlation }
    }

    /// Operations of a stream that one thread launches, as (launch, start, end), from (time between launches,
    /// duration).
    fn stream(of: &[(i64, i64)]) -> Vec<(i64, i64, i64)> {
        let (mut now, mut free) = (0, 0);
        let run = |&(between, length): &(i64, i64)| {
            now += between;
            let start = free.max(now + 1);
            free = start + length;
            (now, start, free)
        };
        of.iter().map(run).collect()
    }

    proptest! {
        /// The profiler records calls that begin, and operations that end, after some time.
        #[test]
        fn launch_times_of_work_from_before_the_recording(
            of in prop::collection::vec((1_i64..10, 0_i64..30), 1..60), begin in 0_i64..200,
        ) {
            let all: Vec<_> = stream(&of).into_iter().filter(|&(.., end)| end >= begin).collect();
            let seen: Vec<_> = all.iter().map(|&(at, start, _)| operation(start, (at >= begin).then_some(at), at)).collect();
            match latest_launches(&seen, begin) {
                None => prop_assert!(all.iter().all(|&(at, ..)| at < begin)),
                Some(found) => for ((at, ..), found) in all.iter().zip(found) {
                    prop_assert_eq!(found, if *at < begin { BEFORE_RECORDING } else { *at });
                },
            }
        }

        /// Lost launches: no launch is placed after the operation's start, and none in the middle before its launch.
        #[test]
        fn missing_launches_have_latest_times(
            of in prop::collection::vec((1_i64..10, 0_i64..30), 1..60), lost in prop::collection::vec(0_u8..3, 60),
        ) {
            let all = stream(&of);
            let row = |(&(at, start, _), lost): (&(i64, i64, i64), u8)| operation(start, (lost > 0).then_some(at), at);
            let seen: Vec<_> = all.iter().zip(lost).map(row).collect();
            let Some(found) = latest_launches(&seen, 1) else { return Ok(()) };
            let head = seen.iter().position(|seen| seen.launched.is_some()).unwrap();
            for (i, (&(at, start, _), found)) in all.iter().zip(found).enumerate() {
                prop_assert!(found <= start && (found >= at || (i < head && found == BEFORE_RECORDING)));
                prop_assert!(seen[i].launched.is_none_or(|at| at == found));
            }
        }
    }

    #[test]
    fn stream_with_many_missing_launches_has_unknown_head() {
        let latest = |of: &[(i64, Option<i64>)]| {
            let rows = of.iter().map(|&(start, launched)| operation(start, launched, 0)).collect::<Vec<_>>();
            latest_launches(&rows, 0)
        };
        assert_eq!(latest(&[(10, None), (50, None)]), None);
        assert_eq!(latest(&[(10, None), (50, Some(20))]), Some(vec![BEFORE_RECORDING, 20]));
        assert_eq!(latest(&[(10, None), (50, Some(20)), (60, None)]), Some(vec![10, 20, 60]));
        assert_eq!(latest(&[(30, None), (50, Some(20)), (60, None), (70, Some(40))]), Some(vec![20, 20, 40, 40]));
    }

    #[test]
    fn correlation_id_between_recorded_ones_is_a_missing_launch() {
        let head = |numbers: [i64; 2], first| {
            latest_launches(
                &[operation(10, None, numbers[0]), operation(30, None, numbers[1]), operation(50, Some(20), 7)],
                first,
            )
        };
        assert_eq!(head([4, 8], 7), Some(vec![BEFORE_RECORDING, 20, 20]));
        // Another stream has earlier recorded launches, so the launches of this one were lost.
        assert_eq!(head([4, 5], 2), Some(vec![10, 20, 20]));
    }
}
