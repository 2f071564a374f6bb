//! Full launch queues: launch calls that wait until the GPU finishes an operation launched long before.
//!
//! CUDA keeps 1,022 to 1,024 pending launches (measured by R. Crovella and others on stackoverflow.com and
//! forums.developer.nvidia.com; NVIDIA documents a finite queue without its depth). A further launch blocks its thread
//! until the GPU removes one. The trace determines the depth: the maximum number of launched and unfinished operations.
//! The streams of a context may share a queue, or have one each; the choice that explains more calls is taken. If CUPTI
//! recorded which calls waited for space in the queue, only these waited.

use super::gpu_dependency::{Reason, SyncCall};
use super::streams::{Streams, end};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::gpu_calls::is_graph_launch;
use stackline_model::{EventId, EventKind, GpuOpId, Key, Trace};
use stackline_timeline::vocabulary::cuda::COMMAND_BUFFER_FULL;

/// Minimum depth of a queue that counts as full.
const MIN_DEPTH: usize = 8;
/// Minimum depth of a hardware queue. Calls that do not wait are then no contradiction to others that do. Commands
/// without a record, such as those of events, take space in the queue as well.
const MIN_HARDWARE_DEPTH: usize = 512;
/// Minimum duration of a blocked call, as a multiple of the usual duration of calls with free space.
const BLOCKED_FACTOR: i64 = 3;
/// Maximum time from free space to the return of a blocked call, in ns. With a hardware queue the thread may have
/// slept.
const MAX_RETURN_NS: i64 = 10_000;
const MAX_HARDWARE_RETURN_NS: i64 = 60_000;
/// Minimum number of long calls that make a hardware queue full.
const MIN_LONG_CALLS: usize = 3;

/// Infer which launch calls waited for space in a full launch queue, or just found space, and add them to `syncs`.
pub(super) fn infer_back_pressure(trace: &Trace, streams: &Streams, syncs: &mut Vec<SyncCall>) {
    // A blocking copy waits for more than space in the queue.
    let copying: FxHashSet<EventId> = syncs.iter().map(|s| s.call).collect();
    let recorded_waits = recorded_waits(trace);
    let mut contexts: FxHashMap<(Key, i32), Vec<&[GpuOpId]>> = FxHashMap::default();
    for operations in &streams.operations {
        let Some(&first) = operations.first() else { continue };
        let context = (streams.process_of(trace, first), trace.gpu.device[first.index()]);
        contexts.entry(context).or_default().push(operations);
    }
    let mut contexts: Vec<_> = contexts.into_iter().collect();
    contexts.sort_unstable_by_key(|(context, _)| *context);
    for (_, of_context) in contexts {
        let waits =
            |of: &[&[GpuOpId]]| Queue::new(trace, streams, of).waits(&copying, &recorded_waits).unwrap_or_default();
        let apart: Vec<Waits> = of_context.iter().map(|operations| waits(&[operations])).collect();
        let shared = if of_context.len() > 1 { waits(&of_context) } else { Waits::default() };
        // Streams share only hardware queues, never short ones.
        let is_shared = shared.depth >= MIN_HARDWARE_DEPTH
            && shared.blocked > apart.iter().map(|waits| waits.blocked).sum::<usize>();
        let found = if is_shared { vec![shared] } else { apart };
        syncs.extend(found.into_iter().flat_map(|waits| waits.calls));
    }
}

/// Calls that waited for space in the queue according to CUPTI's record. In exports of Nsight Systems the record lies
/// within the call. (Kineto writes it on a separate row, without relation to a call.)
fn recorded_waits(trace: &Trace) -> FxHashSet<EventId> {
    let Some(name) = trace.strings.find(COMMAND_BUFFER_FULL) else { return FxHashSet::default() };
    let is_recorded_wait = |e: &EventId| trace.events.name[e.index()] == name && trace.kind(*e) == EventKind::Overhead;
    let call = |record: EventId| trace.ancestors(record).find(|&e| trace.kind(e).is_api_call());
    trace.events.ids().filter(is_recorded_wait).filter_map(call).collect()
}

/// Depth of one launch queue, and the launch calls that waited, or may wait after an edit, for space in it.
#[derive(Default)]
struct Waits {
    depth: usize,
    /// Number of blocked calls.
    blocked: usize,
    /// Blocked calls, and calls with space. The latter may have to wait if the host becomes faster.
    calls: Vec<SyncCall>,
}

/// GPU operations launched before the recording began, which run first on their streams. Streams without any recorded
/// call are excluded, because their launches are unknown. Operations of one graph count once.
fn launched_before<'a>(trace: &'a Trace, of: &'a [&'a [GpuOpId]]) -> impl Iterator<Item = GpuOpId> + 'a {
    let has_call = |id: &GpuOpId| trace.gpu.launch[id.index()].is_some();
    let mut launches = FxHashSet::default();
    let with_calls = of.iter().filter(move |operations| operations.iter().any(has_call));
    let first = with_calls.flat_map(move |operations| operations.iter().copied().take_while(move |id| !has_call(id)));
    first.filter(move |id| {
        let launch = trace.gpu.correlation[id.index()];
        launch <= 0 || launches.insert(launch)
    })
}

/// Launch queue: calls and GPU operations that share it, in order, with the number of queued operations at each call.
struct Queue {
    /// Start and end of each call, the call, and its operation, sorted by start. Operations launched before the
    /// recording began take space as well: they come first, without a call.
    launched: Vec<(i64, i64, EventId, GpuOpId)>,
    /// Ends of operations, ascending.
    done: Vec<(i64, GpuOpId)>,
    /// Number of unfinished operations at the start of each call.
    queued: Vec<usize>,
    /// Maximum of `queued`.
    max_queued: usize,
    /// Usual duration of calls with free space, in ns.
    usual: i64,
    /// Calls that launch graphs.
    graphs: FxHashSet<EventId>,
}

impl Queue {
    /// Build the queue of some streams from their operations in order.
    fn new(trace: &Trace, streams: &Streams, of: &[&[GpuOpId]]) -> Self {
        let row = |&id: &GpuOpId| {
            let call = trace.gpu.launch[id.index()].some()?;
            Some((trace.events.start[call.index()], trace.events.end(call), call, id))
        };
        let mut launched: Vec<_> = of.iter().flat_map(|operations| operations.iter()).filter_map(row).collect();
        if !launched.is_empty() {
            launched.extend(launched_before(trace, of).map(|id| (i64::MIN, i64::MIN, EventId::NONE, id)));
        }
        launched.sort_unstable_by_key(|&(from, to, call, id)| (from, to, call, streams.rank[id.index()]));
        // The operations of one graph launch count once and end with the last of them.
        launched.dedup_by(|later, kept| {
            let same = later.2.is_some() && later.2 == kept.2;
            if same && end(trace, later.3) > end(trace, kept.3) {
                kept.3 = later.3;
            }
            same
        });
        let mut done: Vec<(i64, GpuOpId)> = launched.iter().map(|&(.., id)| (end(trace, id), id)).collect();
        done.sort_unstable_by_key(|&(at, id)| (at, streams.rank[id.index()]));
        let is_graph = |call: &EventId| call.is_some() && is_graph_launch(trace.name(*call));
        let graphs = launched.iter().map(|&(_, _, call, _)| call).filter(is_graph).collect();
        Self { graphs, ..Self::from_launches(launched, done) }
    }

    /// Build a queue from sorted launches and ends.
    fn from_launches(launched: Vec<(i64, i64, EventId, GpuOpId)>, done: Vec<(i64, GpuOpId)>) -> Self {
        let mut queue =
            Self { launched, done, queued: Vec::new(), max_queued: 0, usual: 1, graphs: FxHashSet::default() };
        let queued =
            |i: usize| if queue.has_call(i) { i.saturating_sub(queue.done_by(queue.launched[i].0)) } else { 0 };
        queue.queued = (0..queue.launched.len()).map(queued).collect();
        queue.max_queued = queue.queued.iter().copied().max().unwrap_or(0);
        // Most calls of a program that fills the hardware queue wait. A short queue is sometimes full by coincidence;
        // then a call is long only compared with all others.
        let is_of_hardware = queue.max_queued >= MIN_HARDWARE_DEPTH;
        let has_space = |&i: &usize| queue.has_call(i) && (!is_of_hardware || 2 * queue.queued[i] <= queue.max_queued);
        let mut durations: Vec<i64> = (0..queue.launched.len()).filter(has_space).map(|i| queue.duration(i)).collect();
        durations.sort_unstable();
        let at = durations.len() / if is_of_hardware { 2 } else { 4 };
        queue.usual = durations.get(at).copied().unwrap_or(1).max(1);
        queue
    }

    /// True if an entry of the queue has a recorded launch call, so that its operation was launched in the recording.
    fn has_call(&self, launched: usize) -> bool {
        self.launched[launched].2.is_some()
    }

    /// Number of operations that ended by a time.
    fn done_by(&self, at: i64) -> usize {
        self.done.partition_point(|&(end, _)| end <= at)
    }

    /// Duration of the launch call of a queue entry, in ns.
    fn duration(&self, call: usize) -> i64 {
        self.launched[call].1 - self.launched[call].0
    }

    /// Operation whose end made space in the queue for a call; `None` if no end explains the return of the call.
    ///
    /// The first operation that ended during the call, or the last one if space became free for several calls at once.
    fn freed_by(&self, call: usize) -> Option<GpuOpId> {
        let (from, to, ..) = self.launched[call];
        let soon = if self.queued[call] >= MIN_HARDWARE_DEPTH { MAX_HARDWARE_RETURN_NS } else { MAX_RETURN_NS };
        let inside = &self.done[self.done_by(from)..self.done_by(to)];
        let explains = |of: &&(i64, GpuOpId)| to - of.0 <= soon;
        let room = inside.first().filter(explains).or_else(|| inside.last().filter(explains));
        room.map(|&(_, id)| id)
    }

    /// True if a call takes several times as long as usual, so that it may have been blocked.
    fn is_long(&self, call: usize) -> bool {
        self.duration(call) >= BLOCKED_FACTOR * self.usual
    }

    /// Possibly blocked calls, each with the operation that made space.
    fn blocked_candidates(&self, calls: impl Iterator<Item = usize>) -> FxHashMap<usize, GpuOpId> {
        calls.filter_map(|i| Some((i, self.freed_by(i)?))).collect()
    }

    /// Median number of operations in the queue when calls were blocked; `None` without blocked calls.
    fn depth(&self, blocked: &FxHashMap<usize, GpuOpId>) -> Option<usize> {
        let mut depths: Vec<usize> = blocked.keys().map(|&i| self.queued[i]).collect();
        depths.sort_unstable();
        depths.get(depths.len() / 2).copied()
    }

    /// Depth of the queue and the blocked calls, each with the operation that made space; `None` if the queue was never
    /// full.
    fn blocked(
        &self,
        copying: &FxHashSet<EventId>,
        recorded_waits: &FxHashSet<EventId>,
    ) -> Option<(usize, FxHashMap<usize, GpuOpId>)> {
        // If the trace records which calls waited, no others are inferred.
        if !recorded_waits.is_empty() {
            let recorded_waits = self
                .blocked_candidates((0..self.launched.len()).filter(|&i| recorded_waits.contains(&self.launched[i].2)));
            return self.depth(&recorded_waits).map(|depth| (depth, recorded_waits));
        }
        if self.max_queued < MIN_DEPTH {
            return None;
        }
        let all = || (0..self.launched.len()).filter(|&i| self.has_call(i) && !copying.contains(&self.launched[i].2));
        if self.max_queued < MIN_HARDWARE_DEPTH {
            let full = || all().filter(|&i| self.queued[i] == self.max_queued);
            let blocked = self.blocked_candidates(full());
            // A graph launch is long without waiting.
            let is_blocked = |i: usize| self.is_long(i) && !self.graphs.contains(&self.launched[i].2);
            return (full().all(|i| blocked.contains_key(&i)) && full().any(is_blocked))
                .then_some((self.max_queued, blocked));
        }
        let mut blocked =
            self.blocked_candidates(all().filter(|&i| self.queued[i] >= MIN_HARDWARE_DEPTH && self.is_long(i)));
        let depth = self.depth(&blocked)?;
        // A queue never holds more than its depth, minus the space of unrecorded commands. A maximum far above that
        // contradicts a queue of this depth.
        if 3 * self.max_queued > 4 * depth {
            return None;
        }
        // While the queue is full, every call waits, even a short one. Otherwise the long calls have another reason.
        let full: Vec<usize> = all().filter(|&i| self.queued[i] + depth / 128 >= depth).collect();
        let short = self.blocked_candidates(full.iter().copied());
        let long = full.iter().filter(|i| blocked.contains_key(i)).count();
        if long < MIN_LONG_CALLS || 2 * short.len() < full.len() {
            return None;
        }
        blocked.retain(|&i, _| 4 * self.queued[i] >= 3 * depth);
        blocked.extend(short);
        Some((depth, blocked))
    }

    /// Depth of the queue, and the waits of all its launch calls for space; `None` if the queue was never full.
    fn waits(&self, copying: &FxHashSet<EventId>, recorded_waits: &FxHashSet<EventId>) -> Option<Waits> {
        let (depth, blocked) = self.blocked(copying, recorded_waits)?;
        let had_space = |i: usize| {
            // A short queue may be full by coincidence, so only blocked calls count.
            let (end, id) = self.done[i.checked_sub(depth).filter(|_| depth >= MIN_HARDWARE_DEPTH)?];
            (end < self.launched[i].0).then_some(id)
        };
        let on = |i: usize| blocked.get(&i).copied().or_else(|| had_space(i));
        let wait = |i: usize| {
            let (from, _, call, _) = self.launched[i];
            Some(SyncCall { call, from, on: vec![on(i)?], reason: Reason::BackPressure })
        };
        let own = (0..self.launched.len()).filter(|&i| self.has_call(i) && !copying.contains(&self.launched[i].2));
        let calls = own.filter_map(wait);
        Some(Waits { depth, blocked: blocked.len(), calls: calls.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels of one stream, launched in sequence by one thread. `call` returns the duration of a call from its
    /// number, its start and the ends of all earlier kernels; `busy` returns the duration of a kernel.
    fn queue(count: usize, call: impl Fn(usize, i64, &[i64]) -> i64, busy: i64) -> Queue {
        let (mut now, mut free) = (0, 0);
        let (mut launched, mut ends) = (Vec::new(), Vec::new());
        for i in 0..count {
            let from = now;
            now += call(i, from, &ends);
            launched.push((from, now, EventId::new(i), GpuOpId::new(i)));
            free = i64::max(free, now) + busy;
            ends.push(free);
            now += 1_000;
        }
        Queue::from_launches(launched, ends.into_iter().enumerate().map(|(i, end)| (end, GpuOpId::new(i))).collect())
    }

    /// A call of 3 µs, or longer until the queue of this depth has space.
    fn limited_queue_call(depth: usize) -> impl Fn(usize, i64, &[i64]) -> i64 {
        move |i, from, ends| i.checked_sub(depth).map_or(0, |at| ends[at] - from).max(0) + 3_000
    }

    #[test]
    fn operations_beyond_depth_belong_to_another_queue() {
        let copying = FxHashSet::default();
        let (depth, blocked) =
            queue(3_000, limited_queue_call(1_022), 20_000).blocked(&copying, &FxHashSet::default()).unwrap();
        assert!((1_020..=1_022).contains(&depth) && blocked.len() > 1_000, "{depth}, {}", blocked.len());
        // No queue limits this program, whose number of pending launches grows by one with each fifth call. Some calls
        // are long for another reason at about 700 pending launches, and kernels end during most calls.
        let call = |i: usize, _: i64, _: &[i64]| if (3_500..3_505).contains(&i) { 30_000 } else { 3_000 };
        let mut free = queue(12_000, call, 5_000);
        assert!(free.max_queued > 2_000, "{}", free.max_queued);
        assert!(free.blocked(&copying, &FxHashSet::default()).is_none());
        free.max_queued = 750;
        assert!(
            free.blocked(&copying, &FxHashSet::default()).is_some(),
            "but for the most that it holds it looks like a full queue"
        );
    }

    /// A launch that returns right after the end of an operation may have waited for it. A graph launch takes as long
    /// without waiting.
    #[test]
    fn graph_launch_is_no_evidence_of_blocking() {
        let launch = |i: usize, from: i64, ends: &[i64]| if i == 9 { ends[0] - from + 1_000 } else { 1_000 };
        let mut queue = queue(10, launch, 100_000);
        let none = FxHashSet::default();
        assert_eq!(queue.blocked(&none, &none).map(|(depth, _)| depth), Some(9));
        queue.graphs.insert(EventId::new(9));
        assert!(queue.blocked(&none, &none).is_none());
    }
}
