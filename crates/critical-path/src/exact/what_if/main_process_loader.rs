//! Edit that adds workers to a data loader that loads in the main process (`num_workers=0`).

use super::super::Exact;
use super::super::names::bits;
use super::applier::Applier;
use super::host_time::Cut;
use super::index::ThreadRange;
use super::loader_ranges::overlaps;
use stackline_model::{EventId, EventKind};
use stackline_timeline::vocabulary::aten;
use stackline_timeline::vocabulary::python::{LOADER_WITH_WORKERS, LOADER_WITHOUT_WORKERS};

/// Time to take a ready batch of a worker in ns: with idle CPU cores, and the measured maximum with busy ones.
const READY_NS: i64 = 100_000;
const READY_BUSY_NS: i64 = 1_100_000;
/// Frames of loaders with workers.
const WITH_WORKERS: [&str; 2] = [LOADER_WITH_WORKERS, "_try_get_data"];

/// Minimum duration of a batch of a cold start or an opened file, as a multiple of the usual duration.
const COLD_START_RATIO: i64 = 10;
/// Number of batches requested in advance per worker (`prefetch_factor`).
const PREFETCH_FACTOR: i64 = 2;

/// Time range in which the main process loads a batch, and the time since the previous batch in ns.
#[derive(Clone, Copy)]
struct BatchLoad {
    range: ThreadRange,
    since_last: i64,
}

impl BatchLoad {
    /// Length in ns of the time range in which the batch is loaded.
    fn length(&self) -> i64 {
        self.range.2 - self.range.1
    }
}

/// True if the trace has a name that contains `part`.
fn has_frame(exact: &Exact<'_>, part: &str) -> bool {
    exact.trace.strings.iter().any(|name| name.contains(part))
}

/// True if the trace has frames of data loaders with workers.
pub(super) fn shows_workers(exact: &Exact<'_>) -> bool {
    WITH_WORKERS.iter().any(|part| has_frame(exact, part))
}

/// Outermost spans in which the main process loads data; empty if the trace shows workers. These contain frames of a
/// loader without workers. If no frame shows the kind of loader, all loading spans count.
pub fn own_loading(exact: &Exact<'_>) -> Vec<EventId> {
    let is_known = has_frame(exact, LOADER_WITHOUT_WORKERS);
    if !exact.loader_workers().is_empty() || (!is_known && shows_workers(exact)) {
        return Vec::new();
    }
    let (trace, names) = (exact.trace, &exact.names);
    let fits: Vec<bool> = trace.strings.iter().map(|name| !is_known || name.contains(LOADER_WITHOUT_WORKERS)).collect();
    let fits = |e: EventId| fits.get(trace.events.name[e.index()].index()).copied().unwrap_or(false);
    let loads = |e: EventId| names.flags(trace, e) & bits::LOADS_DATA != 0;
    let outermost = |e: EventId| std::iter::once(e).chain(trace.ancestors(e)).filter(|&e| loads(e)).last();
    let mut spans: Vec<EventId> = trace.events.ids().filter(|&e| loads(e) && fits(e)).filter_map(outermost).collect();
    spans.sort_unstable();
    spans.dedup();
    spans
}

/// Batches of the main process's loader, without much longer ones such as those of cold starts.
fn without_outliers(batches: &[BatchLoad]) -> Vec<BatchLoad> {
    let mut lengths: Vec<i64> = batches.iter().map(BatchLoad::length).collect();
    lengths.sort_unstable();
    let usual = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    batches.iter().copied().filter(|batch| batch.length() <= COLD_START_RATIO.saturating_mul(usual)).collect()
}

impl Applier<'_, '_> {
    /// Move data loading from the main process to `workers`, as far as they keep up, and return the number of batches.
    /// `None` if workers load data already, or may do so.
    pub(super) fn load_in_workers(&mut self, workers: u32, own: &[ThreadRange]) -> Option<usize> {
        let long: Vec<ThreadRange> = own.iter().copied().filter(|(_, from, to)| to - from > READY_NS).collect();
        let batches = self.with_time_before(&long);
        let steady = without_outliers(&batches);
        let loading: i64 = steady.iter().map(BatchLoad::length).sum();
        let count = steady.len() as i64;
        if loading == 0 {
            return None;
        }
        let (collating, each) = (self.collating_ns(&steady) / count, loading / count / i64::from(workers));
        let ahead = PREFETCH_FACTOR * i64::from(workers);
        // Batches of all workers come at most once per `each` ns, and none begins before its request.
        let worker_delay = |batch: &BatchLoad| {
            let before = ahead.saturating_mul(each.max(batch.since_last));
            (each - batch.since_last).max(batch.length() - before).max(0)
        };
        let left =
            |batch: &BatchLoad, ready: i64| (ready.max(worker_delay(batch)) as f64 / batch.length() as f64).min(1.0);
        let busy = |batch: &BatchLoad| (READY_BUSY_NS + collating).min(batch.length() / 2).max(READY_NS);
        let saved: f64 = steady.iter().map(|batch| batch.length() as f64 * (1.0 - left(batch, READY_NS))).sum();
        let allowed = self.max_saving_ns(&steady).map_or(1.0, |most| (most / saved.max(1.0)).min(1.0));
        for batch in &batches {
            let (lane, from, to) = batch.range;
            let cut = |factor: f64| Cut { lane, from, to, factor };
            let of_allowed = |left: f64| cut(1.0 - allowed * (1.0 - left));
            let least = if allowed < 1.0 { cut(1.0) } else { cut(left(batch, busy(batch))) };
            self.partly.push([least, of_allowed(left(batch, READY_NS)), of_allowed(left(batch, 0))]);
        }
        self.notes.push(match workers {
            1 => {
                "the main process loads the data; the prediction assumes that 1 worker process loads the data as fast \
                  as the main process does, on its own CPU core"
                    .to_owned()
            }
            _ => format!(
                "the main process loads the data; the prediction assumes {workers} worker processes, each as fast as \
                 the main process and on its own CPU core"
            ),
        });
        if allowed < 1.0 {
            self.notes.push(
                "the number of CPU cores limits the gain: the workers would use all CPU cores of the recorded machine"
                    .to_owned(),
            );
        }
        Some(batches.len())
    }

    /// Time ranges in which the main process loads a batch, in time order per thread.
    pub(super) fn own_loading_ranges(&self) -> Vec<ThreadRange> {
        let trace = self.exact.trace;
        let range = |e: EventId| Some((self.index.lane(trace, e)?, trace.events.start[e.index()], trace.events.end(e)));
        let mut own: Vec<ThreadRange> = own_loading(self.exact).into_iter().filter_map(range).collect();
        own.sort_unstable();
        let mut ranges = if own.is_empty() { Vec::new() } else { self.loader_ranges(|_| true) };
        ranges.retain(|&range| overlaps(&own, range));
        ranges
    }

    /// Convert time ranges of loading to batches with the time since the previous batch. The first batch of a thread
    /// gets the time after the last one.
    fn with_time_before(&self, ranges: &[ThreadRange]) -> Vec<BatchLoad> {
        let mut batches: Vec<BatchLoad> = Vec::new();
        for of_lane in ranges.chunk_by(|a, b| a.0 == b.0) {
            let Some(&(lane, _, last)) = of_lane.last() else { continue };
            let time_after = (self.exact.lanes[lane as usize].end() - last).max(0);
            let ends = std::iter::once(None).chain(of_lane.iter().map(|range| Some(range.2)));
            batches.extend(of_lane.iter().zip(ends).map(|(&range, before)| BatchLoad {
                range,
                since_last: before.map_or(time_after, |end| range.1 - end),
            }));
        }
        batches
    }

    /// Total time of the operators that collate samples within the batches, in ns.
    fn collating_ns(&self, batches: &[BatchLoad]) -> i64 {
        let trace = self.exact.trace;
        let collates = |e: EventId| trace.kind(e) == EventKind::Operator && aten::COLLATES.contains(&trace.name(e));
        let inside = |e: &EventId| {
            let Some(lane) = self.index.lane(trace, *e) else { return false };
            let at = trace.events.start[e.index()];
            let before = batches.partition_point(|batch| (batch.range.0, batch.range.1) <= (lane, at));
            batches[..before].last().is_some_and(|batch| batch.range.0 == lane && at < batch.range.2)
        };
        let outermost = |e: &EventId| collates(*e) && !trace.ancestors(*e).any(collates);
        trace.events.ids().filter(outermost).filter(inside).map(|e| trace.events.dur[e.index()]).sum()
    }

    /// Maximum saving if the work of all threads is spread over the CPU cores, in ns; `None` without a recorded number
    /// of cores.
    fn max_saving_ns(&self, batches: &[BatchLoad]) -> Option<f64> {
        let from = batches.iter().map(|batch| batch.range.1).min()?;
        let to = batches.iter().map(|batch| batch.range.2).max()?;
        let room = self.exact.recording()?.processor_headroom(from, to)?;
        Some((to - from) as f64 * (1.0 - 1.0 / room))
    }
}
