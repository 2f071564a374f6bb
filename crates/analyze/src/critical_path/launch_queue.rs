//! Full launch queues: launch calls that wait until the GPU is done with an operation launched long before.
//!
//! CUDA holds 1,022 to 1,024 pending launches (measured by R. Crovella and others on stackoverflow.com and forums.developer.nvidia.com;
//! NVIDIA documents that the queue is finite, not its depth). A launch beyond that blocks its thread until the GPU takes one out. The
//! depth is taken from the trace: the largest number of operations that were ever launched and not done. Whether each stream has a queue
//! or all streams of a context share one, the trace decides, too: by which of the two explains more calls.

use super::gpu_order::{Reason, SyncCall};
use super::streams::{Streams, end};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{EventId, GpuId, Key, Trace};

/// A queue is believed to be full only from this many operations on.
const SMALLEST: usize = 8;
/// From this many on it can be that of the hardware: calls that wait beside others that do not are no contradiction. Commands without a
/// record, such as those of events, take room in it, too.
const OF_HARDWARE: usize = 512;
/// A call that was blocked takes so many times what calls take while there is room.
const BLOCKED_FACTOR: i64 = 3;
/// It returns so soon after there is room; where the queue is that of the hardware its thread may have slept, in ns.
const RETURN_NS: i64 = 10_000;
const RETURN_OF_HARDWARE_NS: i64 = 60_000;
/// So many long calls make a full queue of the hardware's size.
const ENOUGH: usize = 3;

/// Add launch calls that waited for room, and those that had room just so.
pub(super) fn back_pressure(trace: &Trace, streams: &Streams, syncs: &mut Vec<SyncCall>) {
    // A copy that blocks waits for more than room.
    let copying: FxHashSet<EventId> = syncs.iter().map(|s| s.call).collect();
    let mut contexts: FxHashMap<(Key, i32), Vec<&[GpuId]>> = FxHashMap::default();
    for operations in &streams.operations {
        let Some(&first) = operations.first() else { continue };
        let context = (streams.process_of(trace, first), trace.gpu.device[first.index()]);
        contexts.entry(context).or_default().push(operations);
    }
    let mut contexts: Vec<_> = contexts.into_iter().collect();
    contexts.sort_unstable_by_key(|(context, _)| *context);
    for (_, of_context) in contexts {
        let waits = |operations: &[GpuId]| Queue::new(trace, streams, operations).waits(&copying).unwrap_or_default();
        let apart: Vec<Waits> = of_context.iter().map(|operations| waits(operations)).collect();
        let shared = if of_context.len() > 1 { waits(&of_context.concat()) } else { Waits::default() };
        // A short queue that all streams share is none of the hardware's.
        let is_shared =
            shared.depth >= OF_HARDWARE && shared.blocked > apart.iter().map(|waits| waits.blocked).sum::<usize>();
        let found = if is_shared { vec![shared] } else { apart };
        syncs.extend(found.into_iter().flat_map(|waits| waits.calls));
    }
}

/// What launch calls of a queue waited for.
#[derive(Default)]
struct Waits {
    depth: usize,
    /// How many calls were blocked.
    blocked: usize,
    /// Those, and those that had room: these may have to wait if the host becomes faster.
    calls: Vec<SyncCall>,
}

/// Launches that share a queue.
struct Queue {
    /// Start and end of each call, the call, and what it launched; in the order of the starts.
    launched: Vec<(i64, i64, EventId, GpuId)>,
    /// Ends of operations, ascending.
    done: Vec<(i64, GpuId)>,
    /// Per call how many operations were launched before and not done when it began.
    held: Vec<usize>,
    /// The most that was ever held.
    most: usize,
    /// How long calls usually take while there is room, in ns.
    usual: i64,
    /// Those of the calls that launch graphs.
    graphs: FxHashSet<EventId>,
}

impl Queue {
    fn new(trace: &Trace, streams: &Streams, operations: &[GpuId]) -> Self {
        let row = |&id: &GpuId| {
            let call = trace.gpu.launch[id.index()].some()?;
            Some((trace.events.start[call.index()], trace.events.end(call), call, id))
        };
        let mut launched: Vec<_> = operations.iter().filter_map(row).collect();
        launched.sort_unstable_by_key(|&(from, to, call, id)| (from, to, call, streams.rank[id.index()]));
        // Operations of one graph launch count once, and are done when the last one is.
        launched.dedup_by(|later, kept| {
            let same = later.2 == kept.2;
            if same && end(trace, later.3) > end(trace, kept.3) {
                kept.3 = later.3;
            }
            same
        });
        let mut done: Vec<(i64, GpuId)> = launched.iter().map(|&(.., id)| (end(trace, id), id)).collect();
        done.sort_unstable_by_key(|&(at, id)| (at, streams.rank[id.index()]));
        let is_graph = |&call: &EventId| trace.name(call).contains("GraphLaunch");
        let graphs = launched.iter().map(|&(_, _, call, _)| call).filter(is_graph).collect();
        Self { graphs, ..Self::of(launched, done) }
    }

    /// That of sorted launches and ends.
    fn of(launched: Vec<(i64, i64, EventId, GpuId)>, done: Vec<(i64, GpuId)>) -> Self {
        let mut queue = Self { launched, done, held: Vec::new(), most: 0, usual: 1, graphs: FxHashSet::default() };
        queue.held = (0..queue.launched.len()).map(|i| i.saturating_sub(queue.done_by(queue.launched[i].0))).collect();
        queue.most = queue.held.iter().copied().max().unwrap_or(0);
        // Most calls of a program that fills the hardware's queue wait; a short queue is full by chance, too: there a call is long only
        // beside all others.
        let is_of_hardware = queue.most >= OF_HARDWARE;
        let with_room = |&i: &usize| !is_of_hardware || 2 * queue.held[i] <= queue.most;
        let mut durations: Vec<i64> = (0..queue.launched.len()).filter(with_room).map(|i| queue.duration(i)).collect();
        durations.sort_unstable();
        let at = durations.len() / if is_of_hardware { 2 } else { 4 };
        queue.usual = durations.get(at).copied().unwrap_or(1).max(1);
        queue
    }

    /// How many operations were done at a moment.
    fn done_by(&self, at: i64) -> usize {
        self.done.partition_point(|&(end, _)| end <= at)
    }

    fn duration(&self, call: usize) -> i64 {
        self.launched[call].1 - self.launched[call].0
    }

    /// The operation that made room for a call, if its end explains when the call returned: the first one that ended while it ran, or
    /// the last if room was made for several at once.
    fn room_for(&self, call: usize) -> Option<GpuId> {
        let (from, to, ..) = self.launched[call];
        let soon = if self.held[call] >= OF_HARDWARE { RETURN_OF_HARDWARE_NS } else { RETURN_NS };
        let inside = &self.done[self.done_by(from)..self.done_by(to)];
        let explains = |of: &&(i64, GpuId)| to - of.0 <= soon;
        let room = inside.first().filter(explains).or_else(|| inside.last().filter(explains));
        room.map(|&(_, id)| id)
    }

    fn is_long(&self, call: usize) -> bool {
        self.duration(call) >= BLOCKED_FACTOR * self.usual
    }

    /// Those of some calls that may have been blocked, with what made room for each.
    fn with_room(&self, calls: impl Iterator<Item = usize>) -> FxHashMap<usize, GpuId> {
        calls.filter_map(|i| Some((i, self.room_for(i)?))).collect()
    }

    /// The depth of the queue and the calls that it blocked, with what made room for each; none if the queue was never full.
    fn blocked(&self, copying: &FxHashSet<EventId>) -> Option<(usize, FxHashMap<usize, GpuId>)> {
        if self.most < SMALLEST {
            return None;
        }
        let all = || (0..self.launched.len()).filter(|&i| !copying.contains(&self.launched[i].2));
        if self.most < OF_HARDWARE {
            let full = || all().filter(|&i| self.held[i] == self.most);
            let blocked = self.with_room(full());
            // A launch of a graph takes long by itself.
            let is_held_up = |i: usize| self.is_long(i) && !self.graphs.contains(&self.launched[i].2);
            return (full().all(|i| blocked.contains_key(&i)) && full().any(is_held_up))
                .then_some((self.most, blocked));
        }
        let mut blocked = self.with_room(all().filter(|&i| self.held[i] >= OF_HARDWARE && self.is_long(i)));
        let mut depths: Vec<usize> = blocked.keys().map(|&i| self.held[i]).collect();
        depths.sort_unstable();
        let depth = *depths.get(depths.len() / 2)?;
        // A queue never holds more than its depth, of which commands without a record take some: far more is no such queue.
        if 3 * self.most > 4 * depth {
            return None;
        }
        // While the queue is full every call waits, however short: what is long elsewhere was long for another reason.
        let full: Vec<usize> = all().filter(|&i| self.held[i] + depth / 128 >= depth).collect();
        let short = self.with_room(full.iter().copied());
        let long = full.iter().filter(|i| blocked.contains_key(i)).count();
        if long < ENOUGH || 2 * short.len() < full.len() {
            return None;
        }
        blocked.retain(|&i, _| 4 * self.held[i] >= 3 * depth);
        blocked.extend(short);
        Some((depth, blocked))
    }

    fn waits(&self, copying: &FxHashSet<EventId>) -> Option<Waits> {
        let (depth, blocked) = self.blocked(copying)?;
        let had_room = |i: usize| {
            // A short queue may be one by chance: only calls that were blocked count.
            let (end, id) = self.done[i.checked_sub(depth).filter(|_| depth >= OF_HARDWARE)?];
            (end < self.launched[i].0).then_some(id)
        };
        let on = |i: usize| blocked.get(&i).copied().or_else(|| had_room(i));
        let wait = |i: usize| {
            let (from, _, call, _) = self.launched[i];
            Some(SyncCall { call, from, on: vec![on(i)?], reason: Reason::BackPressure })
        };
        let calls = (0..self.launched.len()).filter(|&i| !copying.contains(&self.launched[i].2)).filter_map(wait);
        Some(Waits { depth, blocked: blocked.len(), calls: calls.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels of one stream that a thread launches one after the other: `call` gives the length of a call from its number, when it begins
    /// and the ends of all kernels before; `busy` the length of a kernel.
    fn queue(count: usize, call: impl Fn(usize, i64, &[i64]) -> i64, busy: i64) -> Queue {
        let (mut now, mut free) = (0, 0);
        let (mut launched, mut ends) = (Vec::new(), Vec::new());
        for i in 0..count {
            let from = now;
            now += call(i, from, &ends);
            launched.push((from, now, EventId::new(i), GpuId::new(i)));
            free = i64::max(free, now) + busy;
            ends.push(free);
            now += 1_000;
        }
        Queue::of(launched, ends.into_iter().enumerate().map(|(i, end)| (end, GpuId::new(i))).collect())
    }

    /// A call of 3 µs, or until there is room among so many.
    fn limited(depth: usize) -> impl Fn(usize, i64, &[i64]) -> i64 {
        move |i, from, ends| i.checked_sub(depth).map_or(0, |at| ends[at] - from).max(0) + 3_000
    }

    #[test]
    fn what_is_held_beyond_its_depth_is_another_queue() {
        let copying = FxHashSet::default();
        let (depth, blocked) = queue(3_000, limited(1_022), 20_000).blocked(&copying).unwrap();
        assert!((1_020..=1_022).contains(&depth) && blocked.len() > 1_000, "{depth}, {}", blocked.len());
        // Nothing limits this one, which holds one more with each fifth call. Some calls are long for another reason when it holds some
        // 700, and kernels end while most calls run.
        let call = |i: usize, _: i64, _: &[i64]| if (3_500..3_505).contains(&i) { 30_000 } else { 3_000 };
        let mut free = queue(12_000, call, 5_000);
        assert!(free.most > 2_000, "{}", free.most);
        assert!(free.blocked(&copying).is_none());
        free.most = 750;
        assert!(free.blocked(&copying).is_some(), "but for the most that it holds it looks like a full queue");
    }

    /// A launch that returns just as an operation ends may have waited for it; one of a graph takes as long by itself.
    #[test]
    fn a_launch_of_a_graph_is_no_evidence() {
        let launch = |i: usize, from: i64, ends: &[i64]| if i == 9 { ends[0] - from + 1_000 } else { 1_000 };
        let mut queue = queue(10, launch, 100_000);
        let none = FxHashSet::default();
        assert_eq!(queue.blocked(&none).map(|(depth, _)| depth), Some(9));
        queue.graphs.insert(EventId::new(9));
        assert!(queue.blocked(&none).is_none());
    }
}
