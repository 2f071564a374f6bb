//! Edges of the graph for GPU work and synchronization (section 2.5 D of the HTA specification).

use super::build::{Builder, NO_NODE};
use super::graph::NO_EVENT;
use super::names::{CONTEXT_SYNC, EVENT_SYNC, STREAM_SYNC, STREAM_WAIT};
use super::queue::QueueLengths;
use super::sort::by_time;
use super::waits::Waits;
use crate::{EdgeKind, WarningCode};
use rustc_hash::FxHashMap;
use stackline_model::{EventKind, StrId};

/// Maximum gap between kernels of a stream in ns that HTA counts as a delay; a longer gap is idle time.
const LONGEST_GAP_NS: i64 = 1_500_000;

/// Maximum number of edges from streams to device synchronizations. Their number is the product of streams (dozens) and
/// calls (thousands). Beyond the limit only the work that ended last gets an edge.
const MAX_CONTEXT_EDGES: usize = 1 << 20;

/// State of the pass over GPU work: last kernels per stream, and pending stream waits.
#[derive(Default)]
struct Progress {
    /// Position of each stream number in `last_end`. HTA does not distinguish devices here.
    streams: FxHashMap<i64, usize>,
    /// End node of the last kernel per stream, in the order of first use.
    last_end: Vec<u32>,
    /// End node of the kernel that ended last on any stream.
    latest_end: Option<u32>,
    /// Number of edges that device synchronizations require.
    context_edges: usize,
    /// Row of the awaited kernel, by the row of the waiting kernel.
    waits_for: FxHashMap<usize, usize>,
}

impl Builder<'_> {
    /// Add the edges of GPU work, in order of start, and of synchronization records, in order of end.
    pub(super) fn kernel_edges(&mut self, queue: &QueueLengths, waits: &Waits) {
        let (view, sync) = (self.view, self.trace.strings.find("cuda_sync").unwrap_or(StrId::NONE));
        let is_sync = |row: usize| {
            let event = view.event[row].index();
            self.trace.events.category[event] == sync || self.trace.events.kind[event] == EventKind::Sync
        };
        let mut candidates = Vec::new();
        for &row in self.kept {
            let r = row as usize;
            let named = view.stream[r] == -1
                && self.names.flags(self.trace.events.name[view.event[r].index()]) & (EVENT_SYNC | CONTEXT_SYNC) != 0;
            if (view.stream[r] != -1 || named) && view.is_correlated(r) {
                candidates.push((if is_sync(r) { view.end[r] } else { view.start[r] }, row, is_sync(r)));
            }
        }
        let order = by_time(candidates.iter().map(|c| c.0));
        let mut progress = Progress::default();
        for position in order {
            let (_, row, sync) = candidates[position as usize];
            if sync {
                self.sync_edges(&mut progress, row as usize, waits);
            } else {
                self.kernel(&mut progress, row as usize, queue);
            }
        }
    }

    /// Add the edges of one synchronization record: host waits at once, stream waits once the waiting kernel is
    /// visited.
    fn sync_edges(&mut self, progress: &mut Progress, row: usize, waits: &Waits) {
        match self.bits(row) & (STREAM_WAIT | EVENT_SYNC | CONTEXT_SYNC | STREAM_SYNC) {
            STREAM_WAIT => self.register_wait(progress, row, waits),
            EVENT_SYNC => {
                let kernel = waits.waited_launch(row).and_then(|launch| self.view.partner_of(launch));
                if let Some(kernel) = kernel {
                    self.add_host_wait_edge(self.end_node[kernel], row);
                }
            }
            STREAM_SYNC => {
                if let Some(&place) = progress.streams.get(&self.view.stream[row]) {
                    self.add_host_wait_edge(progress.last_end[place], row);
                }
            }
            CONTEXT_SYNC => {
                progress.context_edges += progress.last_end.len();
                if progress.context_edges <= MAX_CONTEXT_EDGES {
                    for &end in &progress.last_end {
                        self.add_host_wait_edge(end, row);
                    }
                } else if let Some(end) = progress.latest_end {
                    self.add_host_wait_edge(end, row);
                    self.warn(WarningCode::ManyContextSyncs, 1);
                }
            }
            _ => self.warn(WarningCode::UnknownSync, 1),
        }
    }

    /// Add the edge of a host wait: the call of a synchronization record cannot end before the kernel.
    fn add_host_wait_edge(&mut self, kernel_end: u32, sync_row: usize) {
        let Some(call) = self.view.partner_of(sync_row) else { return };
        let call_end = self.end_node[call];
        if kernel_end != NO_NODE && call_end != NO_NODE {
            self.free_edge(kernel_end, call_end, EdgeKind::SyncDependency);
        }
    }

    /// Register a stream wait: the kernel of the next launch on this stream waits for the kernel before the event
    /// record.
    fn register_wait(&mut self, progress: &mut Progress, row: usize, waits: &Waits) {
        let source = waits.waited_launch(row).and_then(|launch| self.view.partner_of(launch));
        let next = self.view.partner_of(row).and_then(|call| waits.next_launch(call));
        let target = next.and_then(|launch| self.view.partner_of(launch));
        if let (Some(source), Some(target)) = (source, target) {
            progress.waits_for.insert(target, source);
        }
    }

    /// Add the edges of one GPU operation: its duration, its wait, and its launch delay or the gap before it.
    fn kernel(&mut self, progress: &mut Progress, row: usize, queue: &QueueLengths) {
        let (start, end) = (self.start_node[row], self.end_node[row]);
        if start == NO_NODE || end == NO_NODE {
            return;
        }
        self.timed_edge(start, end, EdgeKind::OperatorKernel, row as u32);
        let waits_for = progress.waits_for.remove(&row).map(|source| self.end_node[source]).filter(|&n| n != NO_NODE);
        if let Some(source) = waits_for {
            self.free_edge(source, start, EdgeKind::SyncDependency);
            let streams = self.nodes.event[source as usize] as usize;
            self.warn(WarningCode::SyncWithinStream, usize::from(self.view.stream[streams] == self.view.stream[row]));
        }
        let place = progress.streams.get(&self.view.stream[row]).copied();
        let previous = place.map(|p| progress.last_end[p]);
        let launch = self.view.partner_of(row);
        let launched = self.add_launch_delay_edge(row, launch, previous, waits_for, queue);
        if !launched && !self.add_kernel_delay_edge(start, previous, waits_for) && waits_for.is_none() {
            self.warn(WarningCode::ChainCut, 1);
        }
        let call_start = launch.map(|l| self.start_node[l]).filter(|&n| n != NO_NODE);
        if let Some(call_start) = call_start.filter(|_| self.options.zero_weight_launch_edges && !launched) {
            self.free_edge(call_start, start, EdgeKind::KernelLaunchDelay);
        }
        let time = |node: u32| self.nodes.time_ns[node as usize];
        if progress.latest_end.is_none_or(|latest| time(latest) <= time(end)) {
            progress.latest_end = Some(end);
        }
        match place {
            Some(place) => progress.last_end[place] = end,
            None => {
                progress.streams.insert(self.view.stream[row], progress.last_end.len());
                progress.last_end.push(end);
            }
        }
    }

    /// Add the edge of a launch delay if the stream was empty and idle at the start of the launch. Returns true if the
    /// edge was added.
    fn add_launch_delay_edge(
        &mut self,
        row: usize,
        launch: Option<usize>,
        previous: Option<u32>,
        waits_for: Option<u32>,
        queue: &QueueLengths,
    ) -> bool {
        let Some(launch) = launch else { return false };
        if queue.at(launch) != Some(1) || queue.at(row) != Some(0) {
            return false;
        }
        let launched_at = self.view.start[launch];
        let ended = |node: Option<u32>| node.is_none_or(|n| self.nodes.time_ns[n as usize] < launched_at);
        if !ended(previous) || !ended(waits_for) {
            return false;
        }
        let (from, to) = (self.start_node[launch], self.start_node[row]);
        if from == NO_NODE {
            self.warn(WarningCode::LaunchWithoutNode, 1);
            return false;
        }
        self.timed_edge(from, to, EdgeKind::KernelLaunchDelay, NO_EVENT);
        true
    }

    /// Add the edge of the gap to the previous kernel of the stream, unless the gap is too long or a wait explains it.
    /// Returns true if the edge was added.
    fn add_kernel_delay_edge(&mut self, start: u32, previous: Option<u32>, waits_for: Option<u32>) -> bool {
        let Some(previous) = previous else { return false };
        let time = |node: u32| self.nodes.time_ns[node as usize];
        let too_long = time(start).saturating_sub(time(previous)) >= LONGEST_GAP_NS;
        if too_long || waits_for.is_some_and(|source| time(source) >= time(previous)) {
            return false;
        }
        let earlier = self.nodes.event[previous as usize];
        self.timed_edge(previous, start, EdgeKind::KernelKernelDelay, earlier);
        true
    }
}
