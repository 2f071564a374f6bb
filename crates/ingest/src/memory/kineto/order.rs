//! Order of memory events with equal times: that in which the allocator's totals follow each other.

use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{EventId, MemoryDeviceId, TrackId};
use std::collections::{BTreeMap, BTreeSet};

/// Memory event with its numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryEvent {
    pub(super) event: EventId,
    /// Thread of the event.
    pub(super) track: TrackId,
    /// Time in ns.
    pub(super) start: i64,
    pub(super) device: MemoryDeviceId,
    /// Bytes of an allocation, or negative bytes of a free.
    pub(super) bytes: i64,
    pub(super) address: Option<u64>,
    /// `Total Allocated` after the event.
    pub(super) allocated: Option<i64>,
    /// `Total Reserved` after the event.
    pub(super) reserved: Option<i64>,
}

impl MemoryEvent {
    /// Allocated and reserved bytes after the event; `None` if unknown. For CPU memory, old versions of PyTorch
    /// write 0 for both.
    pub(super) fn totals(&self) -> Option<(u64, u64)> {
        let allocated = u64::try_from(self.allocated?).ok()?;
        let reserved = self.reserved.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
        (allocated > 0 || reserved > 0).then_some((allocated, reserved))
    }

    /// Allocated bytes after the event as a signed number; `None` if unknown.
    fn end(&self) -> Option<i64> {
        self.totals().and(self.allocated)
    }

    /// Allocated bytes before the event; `None` if unknown.
    fn begin(&self) -> Option<i64> {
        self.end()?.checked_sub(self.bytes)
    }
}

/// Events by the total at which they begin.
type ByBegin = FxHashMap<i64, BTreeSet<usize>>;

/// Order events of one time and device so that each begins with the total of the previous one. Times are often whole
/// microseconds, so that events of several threads have one time, and their order in the file is that of the threads.
pub(super) fn order_by_totals(events: &mut [MemoryEvent]) {
    let mut totals: FxHashMap<MemoryDeviceId, i64> = FxHashMap::default();
    for at_once in events.chunk_by_mut(|a, b| a.start == b.start) {
        if at_once.len() > 1 {
            let mut places: BTreeMap<MemoryDeviceId, Vec<usize>> = BTreeMap::new();
            for (at, event) in at_once.iter().enumerate() {
                places.entry(event.device).or_default().push(at);
            }
            for (device, places) in places {
                let given: Vec<MemoryEvent> = places.iter().map(|at| at_once[*at]).collect();
                let order = chain(&given, totals.get(&device).copied());
                for (at, next) in places.into_iter().zip(order) {
                    at_once[at] = given[next];
                }
            }
        }
        totals.extend(at_once.iter().filter_map(|event| Some((event.device, event.end()?))));
    }
}

/// Order in which each event begins with the total at which the previous one ended. Where no event does, the first of
/// the remaining ones follows. The events of one thread stay in the order of the file.
fn chain(events: &[MemoryEvent], mut total: Option<i64>) -> Vec<usize> {
    let mut following: Vec<Option<usize>> = vec![None; events.len()];
    let mut latest: FxHashMap<TrackId, usize> = FxHashMap::default();
    let mut firsts = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match latest.insert(event.track, at) {
            Some(before) => following[before] = Some(at),
            None => firsts.push(at),
        }
    }
    if total.is_none() {
        // Of the first events of a trace, the one that continues none of the others.
        let ends: FxHashSet<i64> = events.iter().filter_map(MemoryEvent::end).collect();
        total = firsts.iter().filter_map(|at| events[*at].begin()).find(|begin| !ends.contains(begin));
    }
    // Next event of each thread.
    let mut waiting = ByBegin::default();
    firsts.iter().for_each(|at| wait(&mut waiting, events, *at));
    let mut taken = vec![false; events.len()];
    let mut order = Vec::with_capacity(events.len());
    let mut first = 0;
    while order.len() < events.len() {
        while taken[first] {
            first += 1;
        }
        let ready = total.and_then(|total| waiting.get_mut(&total));
        let next = ready.and_then(|ready| std::iter::from_fn(|| ready.pop_first()).find(|at| !taken[*at]));
        let next = next.unwrap_or(first);
        taken[next] = true;
        order.push(next);
        total = events[next].end().or(total);
        if let Some(at) = following[next] {
            wait(&mut waiting, events, at);
        }
    }
    order
}

/// Add an event to those that may be next, if its begin is known.
fn wait(waiting: &mut ByBegin, events: &[MemoryEvent], at: usize) {
    if let Some(begin) = events[at].begin() {
        waiting.entry(begin).or_default().insert(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Event on GPU 0 at a time, by thread, bytes and total.
    fn event(start: i64, (thread, bytes, total): (u32, i64, i64)) -> MemoryEvent {
        MemoryEvent {
            event: EventId::NONE,
            track: TrackId(thread),
            start,
            device: MemoryDeviceId(0),
            bytes,
            address: None,
            allocated: Some(total),
            reserved: Some(100),
        }
    }

    /// Thread, bytes and total of events at one time, in the order of the file; returns the bytes in their order.
    fn ordered_threads(given: &[(u32, i64, i64)]) -> Vec<i64> {
        // The first event has its own time.
        let times = std::iter::once(0).chain(std::iter::repeat(1));
        let mut events: Vec<MemoryEvent> = times.zip(given).map(|(start, given)| event(start, *given)).collect();
        order_by_totals(&mut events);
        events.iter().map(|event| event.bytes).collect()
    }

    /// Bytes and total of events at one time, each of another thread; returns the bytes in their order.
    fn ordered(given: &[(i64, i64)]) -> Vec<i64> {
        let given: Vec<(u32, i64, i64)> =
            (0..).zip(given).map(|(thread, &(bytes, total))| (thread, bytes, total)).collect();
        ordered_threads(&given)
    }

    #[test]
    fn events_of_one_time_follow_the_totals() {
        assert_eq!(ordered(&[(20, 20), (21, 21), (-20, 0)]), [20, -20, 21]);
        assert_eq!(ordered(&[(20, 20), (5, 25), (7, 32), (-20, 12)]), [20, 5, 7, -20]);
        assert_eq!(ordered(&[(20, 20), (7, 32), (5, 25), (-20, 12)]), [20, 5, 7, -20]);
        // Unknown totals and gaps in them leave the order of the file.
        assert_eq!(ordered(&[(20, 20), (3, 90), (-20, 40), (1, 60)]), [20, 3, -20, 1]);
        assert_eq!(ordered(&[(20, -1), (3, -1), (-20, -1)]), [20, 3, -20]);
    }

    /// A thread that the profiler misses freed 8 bytes, so the total before the allocation is that before its free.
    #[test]
    fn events_of_one_thread_stay_in_their_order() {
        assert_eq!(ordered_threads(&[(1, 8, 58), (1, 8, 58), (1, -8, 50)]), [8, 8, -8]);
        assert_eq!(ordered_threads(&[(1, 20, 20), (1, 8, 38), (1, -8, 30), (2, 10, 30)]), [20, 10, 8, -8]);
    }

    #[test]
    fn the_first_event_continues_no_other_one() {
        let events = [(1, 5, 15), (2, -10, 10), (2, -10, 5)].map(|given| event(0, given));
        assert_eq!(chain(&events, None), [1, 0, 2]);
    }
}
