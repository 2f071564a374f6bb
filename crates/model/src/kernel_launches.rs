//! Launches of kernels of which a trace has no operation: what they ran took time all the same, and is no zero.

use crate::names::{is_graph_launch, is_kernel_launch};
use crate::{EventId, Key, Trace};
use std::collections::BTreeMap;

/// A profiler may lose so many records of kernels, in percent, without changing what is computed.
const FEW_PERCENT: usize = 2;

/// Calls that launch one kernel each. Graphs are none: how many kernels a launch of one runs is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelLaunches {
    /// Those without an operation on a device, in the order of the events. Those at the end of a process are left out, behind its last
    /// launch with an operation: their kernels run after the end of the recording. In a trace without any operation all count.
    pub without: Vec<EventId>,
    /// How many launches there are, with those.
    pub all: usize,
}

impl KernelLaunches {
    /// Of a trace, whose [`Trace::unrecorded_launches`] are known.
    #[must_use]
    pub fn of(trace: &Trace, unrecorded: &[EventId]) -> Self {
        let launches_kernel = |call: &EventId| {
            let name = trace.name(*call);
            is_kernel_launch(name) && !is_graph_launch(name)
        };
        let mut recorded: Vec<EventId> = trace.gpu.launch.iter().filter_map(|call| call.some()).collect();
        recorded.sort_unstable();
        recorded.dedup();
        let start = |call: EventId| trace.events.start[call.index()];
        let process = |call: EventId| trace.tracks.pid(trace.events.track[call.index()]);
        let mut last: BTreeMap<Key, i64> = BTreeMap::new();
        for &call in &recorded {
            let last = last.entry(process(call)).or_insert(i64::MIN);
            *last = start(call).max(*last);
        }
        let is_earlier = |call: EventId| last.get(&process(call)).is_some_and(|last| start(call) < *last);
        let mut without: Vec<EventId> = unrecorded.iter().copied().filter(launches_kernel).collect();
        without.retain(|&call| trace.gpu.is_empty() || is_earlier(call));
        let all = recorded.iter().filter(|call| launches_kernel(call)).count() + without.len();
        Self { without, all }
    }

    /// Whether so many lack an operation that GPU times are not those of the program.
    #[must_use]
    pub fn lack_many(&self) -> bool {
        self.without.len() > FEW_PERCENT * self.all / 100
    }
}

impl Trace {
    /// The launches of kernels, and which have no operation on a device.
    #[must_use]
    pub fn kernel_launches(&self) -> KernelLaunches {
        KernelLaunches::of(self, &self.unrecorded_launches())
    }
}
