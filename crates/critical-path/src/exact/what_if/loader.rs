//! What-if edit that predicts the effect of additional data loading workers.

use super::super::category::LONG_GAP_NS;
use super::super::graph::{Dependency, InEdge, NONE, NodeKind};
use super::super::names::bits;
use super::super::wakeups::{Gap, ThreadRule};
use super::super::window::Window;
use super::applier::Applier;
use super::host_time::{Cut, HostTime};
use super::index::ThreadRange;
use super::lags::REMOVED_EDGE_SLACK;
use super::loader_ranges::overlaps;
use super::main_process_loader::shows_workers;
use super::scaled::scaled;
use crate::CriticalPathError;
use crate::exact::LoaderWorker;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, INFERRED, Key};

/// Batch: the work of a worker from one request to the next.
struct Batch {
    /// First and last node of the worker's work on the batch.
    begun: u32,
    done: u32,
    /// Node whose end requested the batch; none if that node is not in the trace, or the request came before the worker
    /// was ready.
    requested_by: u32,
    /// Node that took the batch; none if the batch was ready before the program requested it.
    taken: u32,
}

/// Maximum share of time in which workers run or wait for a CPU core, for workers with idle time.
const MAX_READY_SHARE: f64 = 0.5;
/// Maximum share of the window in which the program waits for workers with idle time.
const MAX_WAITED_SHARE: f64 = 0.1;

/// Maximum time to request a batch from a worker, in ns.
const REQUEST_NS: i64 = 25_000;

/// Share of the time between two batches that more workers save, for `seen` workers. `room` is the factor by which the
/// threads' CPU time can grow on the available CPU cores.
fn saved_share(seen: usize, more: u32, room: Option<f64>) -> f64 {
    let by_workers = f64::from(more) / (seen.max(1) as f64 + f64::from(more));
    let by_processors = room.filter(|_| seen > 0).map_or(1.0, |room| 1.0 - 1.0 / room);
    by_workers.min(by_processors)
}

impl Applier<'_, '_> {
    /// Apply the edit that adds `more` data loader workers, and return the number of affected batches or waits.
    ///
    /// If the trace shows workers, a batch begins as soon as a worker of the larger group is free. If the main process
    /// loads data itself, workers do so instead. If the trace shows no workers, waits for the loader shrink as its
    /// throughput grows.
    pub(super) fn add_workers(&mut self, more: u32) -> Result<usize, CriticalPathError> {
        let batches = self.batches();
        if batches.is_empty() {
            return self.add_unseen_workers(more);
        }
        let graph = &self.exact.graph;
        let mut lanes: Vec<u32> = batches.iter().map(|b| graph.place[b.done as usize]).collect();
        lanes.sort_unstable();
        lanes.dedup();
        let (more, count) = (more as usize, batches.len());
        let total_workers = lanes.len() + more;
        let start = |node: u32| graph.start[node as usize];
        for (i, batch) in batches.iter().enumerate() {
            let at = self.position_of(batch.begun);
            for edge in self.plan.range(at) {
                if self.is_edge(edge, |d| matches!(d, Dependency::Program | Dependency::Thread(..))) {
                    self.changes.set_slack(at, edge, REMOVED_EDGE_SLACK);
                }
            }
            // A request goes out when the program takes an earlier batch, as many batches before as there are workers.
            // With more workers, that earlier request is for this batch.
            let requested_by = i.checked_sub(more).map(|i| &batches[i]).filter(|b| b.requested_by != NONE);
            let before = i.checked_sub(total_workers).map(|i| &batches[i]);
            if let Some(earlier) = requested_by {
                let lag = start(earlier.begun) - graph.end[earlier.requested_by as usize];
                let slack = start(batch.begun) - graph.end[earlier.requested_by as usize] - lag.clamp(0, REQUEST_NS);
                self.changes.add_edge(at, self.position_of(earlier.requested_by), slack);
            }
            for released in before.into_iter().flat_map(|b| [b.done, b.taken]).filter(|&n| n != NONE) {
                let slack = start(batch.begun) - graph.end[released as usize];
                self.changes.add_edge(at, self.position_of(released), slack);
            }
            if requested_by.is_none() && before.is_none() {
                // The first batches begin as early as the very first one.
                self.changes.add_edge(at, NONE, start(batch.begun) - start(batches[0].begun));
            }
        }
        let more = more as u32;
        self.mark_worker_dependencies_uncertain(more);
        Ok(count)
    }

    /// Add workers if the trace shows no batches of workers, and return the number of affected batches and waits.
    ///
    /// A program may load training data in workers and evaluation data itself, or the reverse. Workers take over its
    /// own loading, and waits for the others shrink.
    fn add_unseen_workers(&mut self, more: u32) -> Result<usize, CriticalPathError> {
        let own = self.own_loading_ranges();
        let count = match self.load_in_workers(more, &own) {
            None => self.shrink_waits(more, &[]),
            Some(loaded) if shows_workers(self.exact) => loaded + self.shrink_waits(more, &own),
            Some(loaded) => loaded,
        };
        if count == 0 {
            let reason = "the trace has no wait for a data loader".to_owned();
            return Err(CriticalPathError::RefusedEdit { text: format!("more-workers {more}"), reason });
        }
        Ok(count)
    }

    /// Mark dependencies on workers as uncertain, because the trace of fewer workers does not show the assignment and
    /// order of batches with more. Upper bound: no waits for data. Lower bound: no change except the cost of more
    /// requests at the start.
    fn mark_worker_dependencies_uncertain(&mut self, more: u32) {
        let graph = &self.exact.graph;
        let lanes = self.exact.lanes.iter();
        let loads: Vec<bool> = lanes.map(|l| l.pieces.iter().any(|p| self.is_loader(p.event))).collect();
        let is_data = |d: Dependency| matches!(d, Dependency::Thread(ThreadRule::Wakes, _));
        for at in 0..self.plan.len() as u32 {
            if graph.kind[self.plan.node[at as usize] as usize] == NodeKind::Gpu {
                continue;
            }
            for i in self.plan.range(at) {
                let from = self.plan.node[self.plan.edge(i).from as usize];
                let of_loader = || loads.get(graph.place[from as usize] as usize).copied().unwrap_or(false);
                if self.is_edge(i, is_data) && of_loader() {
                    self.changes.remove_at_best(at, i);
                }
            }
        }
        self.changes.at_worst = Some(i64::from(more) * REQUEST_NS);
    }

    /// Batches of worker processes in the order of their starts; empty if the trace shows no wait for one.
    fn batches(&self) -> Vec<Batch> {
        let (graph, trace) = (&self.exact.graph, self.exact.trace);
        let lane = |node: u32| graph.place[node as usize] as usize;
        let pid = |node: u32| trace.tracks.pid(self.exact.lanes[lane(node)].track);
        let is_worker = |node: u32| self.exact.gaps[lane(node)] == Gap::Loader;
        let wakes = |d: Dependency| matches!(d, Dependency::Thread(ThreadRule::Wakes, _));
        let (mut requested_by, mut taken) = (FxHashMap::default(), FxHashMap::default());
        for &(first, last) in &self.exact.lane_nodes {
            for node in first..last {
                let between = |e: &&InEdge| wakes(e.dependency) && pid(e.from) != pid(node);
                for edge in graph.edges_into(node).iter().filter(between) {
                    if is_worker(edge.from) {
                        // Of several nodes that the worker woke, the first.
                        taken.entry(edge.from).or_insert(node);
                    } else if is_worker(node) {
                        requested_by.insert(node, edge.from);
                    }
                }
            }
        }
        let mut workers: Vec<usize> = taken.keys().map(|&done| lane(done)).collect();
        workers.sort_unstable();
        workers.dedup();
        let mut batches: Vec<Batch> = Vec::new();
        let of = |found: &FxHashMap<u32, u32>, node: u32| found.get(&node).copied().unwrap_or(NONE);
        for worker in workers {
            let (first, last) = self.exact.lane_nodes[worker];
            for node in first..last {
                let requested_by = of(&requested_by, node);
                if node == first || requested_by != NONE || taken.contains_key(&(node - 1)) {
                    batches.push(Batch { begun: node, done: node, requested_by, taken: NONE });
                }
                if let Some(batch) = batches.last_mut() {
                    (batch.done, batch.taken) = (node, of(&taken, node));
                }
            }
        }
        batches.sort_by_key(|b| (graph.start[b.begun as usize], b.begun));
        batches
    }

    /// True if a span waits, by its own name or as part of a frame that only waits. (Python profilers may lack the
    /// innermost call, or show the previous one instead.) Samples of CPU time contain no waiting frame. So if the trace
    /// shows loading workers, a sampled frame that takes their batches counts as a wait.
    fn is_wait(&self, event: EventId) -> bool {
        if event.is_none() {
            return false;
        }
        let exact = self.exact;
        let known = exact.names.flags(exact.trace, event);
        let is_sampled = || exact.trace.attr(INFERRED).get(event).is_some();
        known & bits::WAITS != 0
            || exact.enclosing().only_waits(event)
            || (known & bits::TAKES_BATCH != 0 && !exact.loader_workers().is_empty() && is_sampled())
    }

    /// Shorten waits inside the loader's frames: the time between two batches shrinks as the throughput grows, and the
    /// rest of the loop stays. Visible workers without assignment of batches give the number of workers; otherwise one
    /// is assumed. Loading by the program itself, if edited as well, is not a wait. Returns the number of waits.
    fn shrink_waits(&mut self, more: u32, own: &[ThreadRange]) -> usize {
        let waits = self.loader_waits(own);
        let (count, mut before) = (waits.len(), None);
        if waits.is_empty() {
            return 0;
        }
        // Busy CPU cores have no capacity for more workers.
        let room = self.exact.recording().and_then(|recording| {
            let (from, to) = (waits.iter().map(|w| w.1).min()?, waits.iter().map(|w| w.2).max()?);
            recording.processor_headroom(from, to)
        });
        // A check that finds a ready batch is not a wait and begins no period.
        let is_wait = |(_, from, to): &ThreadRange| to - from > LONG_GAP_NS;
        for (lane, from, to) in waits.into_iter().filter(is_wait) {
            let period = before.filter(|&(l, _)| l == lane).map_or(to - from, |(_, end)| to - end);
            before = Some((lane, to));
            let workers: Vec<&LoaderWorker> = self.exact.loader_workers().during(from, to).collect();
            let share = saved_share(workers.len(), more, room);
            let saved = scaled(period, share).min(to - from);
            if !own.is_empty() {
                // The gain from the program's own loading is certain; only this wait may remain.
                let cut = |factor: f64| Cut { lane, from: to - saved, to, factor };
                self.partly.push([cut(1.0), cut(0.0), cut(0.0)]);
                continue;
            }
            let lanes = workers.iter().flat_map(|worker| &worker.lanes).copied();
            for lane in std::iter::once(lane).chain(lanes) {
                self.remove_time((lane, to - saved, to));
            }
        }
        // The existing workers may have been sufficient.
        if own.is_empty() {
            self.changes.at_worst = Some(i64::from(more) * REQUEST_NS);
        }
        if self.exact.loader_workers().is_empty() {
            self.notes.push(
                "the trace does not show the number of loader workers; the prediction assumes one worker".to_owned(),
            );
        }
        count
    }

    /// Lengthen waits for data loader workers outside of the trace by the time that edits save before the waits. These
    /// workers keep their pace, so the thread waits longer instead. At the start of the window their lead stays
    /// unchanged. `cuts` gives the changes of the thread's own time.
    pub(super) fn pinned_waits(&self, cuts: &[Cut], window: Window) -> Vec<Cut> {
        let mut pins = Vec::new();
        if cuts.is_empty() {
            return pins;
        }
        let host = HostTime::new(self.exact.lanes.len(), cuts.to_vec());
        for (number, lane) in (0u32..).zip(&self.exact.lanes) {
            let (mut gained, mut since) = (0, lane.start().max(window.start));
            for (i, piece) in lane.pieces.iter().enumerate() {
                let to = lane.piece_end(i);
                if to == i64::MAX || to <= since || !self.waits_for_unseen(number, piece.event, (piece.start, to)) {
                    continue;
                }
                gained -= host.change(number, since, to);
                since = to;
                let length = to - piece.start;
                if gained > 0 && length > 0 {
                    let factor = 1.0 + gained as f64 / length as f64;
                    pins.push(Cut { lane: number, from: piece.start, to, factor });
                }
                // Lost time shortens the wait.
                gained = gained.min(0);
            }
        }
        pins
    }

    /// True if data loader workers have idle time, for workers whose batches are not known. Then the program rarely
    /// waits for them, and none of them runs, or waits for a CPU core, for most of the window.
    pub(super) fn workers_have_idle_time(&self, Window { start, end, .. }: Window) -> bool {
        let Some(recording) = self.exact.recording() else { return false };
        let mut workers = self.exact.loader_workers().during(start, end).peekable();
        let has_time = |worker: &LoaderWorker| match worker.pid {
            Key::Int(pid) => recording.runnable_threads(pid, start, end).is_some_and(|ready| ready < MAX_READY_SHARE),
            _ => false,
        };
        if workers.peek().is_none() || !workers.all(has_time) {
            return false;
        }
        let mut waited = 0;
        for (number, lane) in (0u32..).zip(&self.exact.lanes) {
            for (i, piece) in lane.pieces.iter().enumerate() {
                let to = lane.piece_end(i);
                if to != i64::MAX && self.waits_for_unseen(number, piece.event, (piece.start, to)) {
                    waited += (to.min(end) - piece.start.max(start)).max(0);
                }
            }
        }
        (waited as f64) < MAX_WAITED_SHARE * (end - start) as f64
    }

    /// True if a piece of a lane is a wait for a batch of a worker outside of the trace.
    fn waits_for_unseen(&self, lane: u32, event: EventId, (from, to): (i64, i64)) -> bool {
        // A check that finds a ready batch is not a wait.
        if to - from <= LONG_GAP_NS || !self.is_wait(event) || !self.is_loader(event) {
            return false;
        }
        // With a worker in the trace, a node represents the return from the wait.
        let graph = &self.exact.graph;
        let (first, last) = self.exact.lane_nodes[lane as usize];
        let ends = &graph.end[first as usize..last as usize];
        let node = first + ends.partition_point(|&end| end <= from) as u32;
        let is_one = node < last && graph.kind[node as usize] == NodeKind::Host && graph.start[node as usize] <= from;
        is_one && graph.end[node as usize] >= to
    }

    /// Waits of threads inside the loader's frames, except for loading by the program itself. Without a recorded
    /// waiting frame, all time inside the loader's frames, which may load in the process itself.
    fn loader_waits(&self, own: &[ThreadRange]) -> Vec<ThreadRange> {
        let others = |mut ranges: Vec<ThreadRange>| {
            ranges.retain(|&range| !overlaps(own, range));
            ranges
        };
        let known = others(self.loader_ranges(|event| self.is_wait(event)));
        // Taking and unpacking a ready batch takes as long with more workers.
        if known.is_empty() { others(self.loader_ranges(|_| true)) } else { known }
    }
}

#[cfg(test)]
mod tests {
    use super::saved_share;

    #[test]
    fn additional_workers_share_work_and_processors() {
        assert_eq!([saved_share(0, 1, None), saved_share(1, 1, None), saved_share(2, 2, None)], [0.5; 3]);
        assert_eq!(saved_share(3, 1, None), 0.25);
        // Half of the CPU cores are idle, or none.
        assert_eq!([saved_share(1, 9, Some(2.0)), saved_share(1, 9, Some(1.0))], [0.5, 0.0]);
        // Without visible workers, the source of the CPU load is unknown.
        assert_eq!(saved_share(0, 1, Some(1.0)), 0.5);
    }
}
