//! Order of memory events with equal times: that in which the allocator's totals follow each other.

use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{EventId, MemoryDeviceId};
use std::collections::{BTreeMap, VecDeque};

/// Memory event with its numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryEvent {
    pub(super) event: EventId,
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
/// the remaining ones follows.
fn chain(events: &[MemoryEvent], mut total: Option<i64>) -> Vec<usize> {
    if total.is_none() {
        // Of the first events of a trace, the one that continues none of the others.
        let ends: FxHashSet<i64> = events.iter().filter_map(MemoryEvent::end).collect();
        total = events.iter().filter_map(MemoryEvent::begin).find(|begin| !ends.contains(begin));
    }
    let mut waiting: FxHashMap<i64, VecDeque<usize>> = FxHashMap::default();
    for (at, begin) in events.iter().enumerate().filter_map(|(at, event)| Some((at, event.begin()?))) {
        waiting.entry(begin).or_default().push_back(at);
    }
    let mut taken = vec![false; events.len()];
    let mut order = Vec::with_capacity(events.len());
    let mut first = 0;
    while order.len() < events.len() {
        while taken[first] {
            first += 1;
        }
        let queue = total.and_then(|total| waiting.get_mut(&total));
        let next = queue.and_then(|queue| std::iter::from_fn(|| queue.pop_front()).find(|at| !taken[*at]));
        let next = next.unwrap_or(first);
        taken[next] = true;
        order.push(next);
        total = events[next].end().or(total);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes and total of events at one time, in the order of the file; returns the bytes in their order.
    fn ordered(given: &[(i64, i64)]) -> Vec<i64> {
        let event = |(start, (bytes, total)): (i64, (i64, i64))| MemoryEvent {
            event: EventId::NONE,
            start,
            device: MemoryDeviceId(0),
            bytes,
            address: None,
            allocated: Some(total),
            reserved: Some(100),
        };
        // The first event has its own time.
        let times = std::iter::once(0).chain(std::iter::repeat(1));
        let mut events: Vec<MemoryEvent> = times.zip(given.iter().copied()).map(event).collect();
        order_by_totals(&mut events);
        events.iter().map(|event| event.bytes).collect()
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

    #[test]
    fn the_first_event_continues_no_other_one() {
        let event = |bytes, total| MemoryEvent {
            event: EventId::NONE,
            start: 0,
            device: MemoryDeviceId(0),
            bytes,
            address: None,
            allocated: Some(total),
            reserved: Some(100),
        };
        assert_eq!(chain(&[event(5, 15), event(-10, 10), event(-10, 5)], None), [1, 0, 2]);
    }
}
