//! Links from launch calls to the GPU work that they launched.

use stackline_model::{EventId, Trace};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lookup of GPU events by the event that launched them. The first lookup scans all GPU operations; later ones use an
/// index.
#[derive(Debug, Default)]
pub(crate) struct LaunchLinks {
    was_requested: AtomicBool,
    /// Pairs of launching and launched event; ascending.
    index: OnceLock<Vec<(EventId, EventId)>>,
}

impl LaunchLinks {
    /// GPU events that an event launched, ascending by event number; at most `most`.
    pub(crate) fn launched_by(&self, trace: &Trace, event: EventId, most: usize) -> Vec<EventId> {
        let pairs = || trace.gpu.launch.iter().copied().zip(trace.gpu.event.iter().copied());
        if self.index.get().is_none() && !self.was_requested.swap(true, Ordering::Relaxed) {
            return pairs().filter(|(launch, _)| *launch == event).map(|(_, launched)| launched).take(most).collect();
        }
        let index = self.index.get_or_init(|| {
            let mut all: Vec<(EventId, EventId)> = pairs().filter(|(launch, _)| launch.some().is_some()).collect();
            all.sort_unstable();
            all
        });
        let from = index.partition_point(|&(launch, _)| launch < event);
        index[from..]
            .iter()
            .take_while(|(launch, _)| *launch == event)
            .map(|&(_, launched)| launched)
            .take(most)
            .collect()
    }
}
