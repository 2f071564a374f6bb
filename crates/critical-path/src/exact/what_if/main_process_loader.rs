//! Workers for a data loader that loads in the main process (`num_workers=0`).

use super::super::Exact;
use super::super::names::bits;
use super::apply::Applier;
use super::host_time::Cut;
use super::index::ThreadRange;
use super::loader::overlaps;
use stackline_model::{EventId, EventKind};
use stackline_timeline::vocabulary::aten;
use stackline_timeline::vocabulary::python::{LOADER_WITH_WORKERS, LOADER_WITHOUT_WORKERS};

/// Time to take a ready batch of a worker in ns: with idle CPU cores, and the measured maximum with busy ones.
const READY_NS: i64 = 100_000;
const READY_BUSY_NS: i64 = 1_100_000;
/// Frames of loaders with workers.
const WITH_WORKERS: [&str; 2] = [LOADER_WITH_WORKERS, "_try_get_data"];

/// Minimum duration of a batch of a cold start or an opened file, as a multiple of the usual duration.
const COLD: i64 = 10;
/// Number of batches requested in advance per worker (`prefetch_factor`).
const AHEAD: i64 = 2;

/// Duration of a batch, and of the program's other work before it, in ns.
#[derive(Clone, Copy)]
struct Take {
    stretch: ThreadRange,
    since_last: i64,
}

impl Take {
    fn length(&self) -> i64 {
        self.stretch.2 - self.stretch.1
    }
}

fn has(exact: &Exact<'_>, part: &str) -> bool {
    exact.trace.strings.iter().any(|name| name.contains(part))
}

/// True if the trace has frames of loaders with workers.
pub(super) fn shows_workers(exact: &Exact<'_>) -> bool {
    WITH_WORKERS.iter().any(|part| has(exact, part))
}

/// Outermost spans in which the main process loads data. These contain frames of a loader without workers; if no frame
/// shows the kind of loader, all loading spans count. Empty if the trace shows workers.
pub fn own_loading(exact: &Exact<'_>) -> Vec<EventId> {
    let is_known = has(exact, LOADER_WITHOUT_WORKERS);
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
fn steady(takes: &[Take]) -> Vec<Take> {
    let mut lengths: Vec<i64> = takes.iter().map(Take::length).collect();
    lengths.sort_unstable();
    let usual = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    takes.iter().copied().filter(|take| take.length() <= COLD.saturating_mul(usual)).collect()
}

impl Applier<'_, '_> {
    /// Remove the loading from the main process as far as `workers` keep up, and return the number of batches. `None`
    /// if workers load data already, or may do so.
    pub(super) fn load_in_workers(&mut self, workers: u32, own: &[ThreadRange]) -> Option<usize> {
        let long: Vec<ThreadRange> = own.iter().copied().filter(|(_, from, to)| to - from > READY_NS).collect();
        let takes = self.with_time_before(&long);
        let steady = steady(&takes);
        let loading: i64 = steady.iter().map(Take::length).sum();
        let count = steady.len() as i64;
        if loading == 0 {
            return None;
        }
        let (collating, each) = (self.collating_ns(&steady) / count, loading / count / i64::from(workers));
        let ahead = AHEAD * i64::from(workers);
        // Batches of all workers come at most once per `each` ns, and none begins before its request.
        let behind = |take: &Take| {
            let before = ahead.saturating_mul(each.max(take.since_last));
            (each - take.since_last).max(take.length() - before).max(0)
        };
        let left = |take: &Take, ready: i64| (ready.max(behind(take)) as f64 / take.length() as f64).min(1.0);
        let busy = |take: &Take| (READY_BUSY_NS + collating).min(take.length() / 2).max(READY_NS);
        let saved: f64 = steady.iter().map(|take| take.length() as f64 * (1.0 - left(take, READY_NS))).sum();
        let allowed = self.most_saved(&steady).map_or(1.0, |most| (most / saved.max(1.0)).min(1.0));
        for take in &takes {
            let (lane, from, to) = take.stretch;
            let cut = |factor: f64| Cut { lane, from, to, factor };
            let of_allowed = |left: f64| cut(1.0 - allowed * (1.0 - left));
            let least = if allowed < 1.0 { cut(1.0) } else { cut(left(take, busy(take))) };
            self.partly.push([least, of_allowed(left(take, READY_NS)), of_allowed(left(take, 0))]);
        }
        let (are, each) = if workers == 1 { ("1 worker process", "") } else { ("worker processes", "each ") };
        self.notes.push(format!(
            "the main process loads the data; the prediction assumes {are} of the same speed, {each}on its own CPU core ({workers} in total)"
        ));
        if allowed < 1.0 {
            self.notes.push("the gain is limited because all CPU cores of the recording would be busy".to_owned());
        }
        Some(takes.len())
    }

    /// Time ranges in which the main process loads a batch, in time order per thread.
    pub(super) fn own_stretches(&self) -> Vec<ThreadRange> {
        let trace = self.exact.trace;
        let stretch =
            |e: EventId| Some((self.index.lane(trace, e)?, trace.events.start[e.index()], trace.events.end(e)));
        let mut own: Vec<ThreadRange> = own_loading(self.exact).into_iter().filter_map(stretch).collect();
        own.sort_unstable();
        let mut stretches = if own.is_empty() { Vec::new() } else { self.loader_stretches(|_| true) };
        stretches.retain(|&stretch| overlaps(&own, stretch));
        stretches
    }

    /// Batches with the time since the previous one. The first batch of a thread gets the time after the last one.
    fn with_time_before(&self, stretches: &[ThreadRange]) -> Vec<Take> {
        let mut takes: Vec<Take> = Vec::new();
        for of_lane in stretches.chunk_by(|a, b| a.0 == b.0) {
            let Some(&(lane, _, last)) = of_lane.last() else { continue };
            let behind = (self.exact.lanes[lane as usize].end() - last).max(0);
            let ends = std::iter::once(None).chain(of_lane.iter().map(|stretch| Some(stretch.2)));
            takes.extend(
                of_lane.iter().zip(ends).map(|(&stretch, before)| Take {
                    stretch,
                    since_last: before.map_or(behind, |end| stretch.1 - end),
                }),
            );
        }
        takes
    }

    /// Time for collating batches, in ns.
    fn collating_ns(&self, takes: &[Take]) -> i64 {
        let trace = self.exact.trace;
        let collates = |e: EventId| trace.kind(e) == EventKind::Operator && aten::COLLATES.contains(&trace.name(e));
        let inside = |e: &EventId| {
            let Some(lane) = self.index.lane(trace, *e) else { return false };
            let at = trace.events.start[e.index()];
            let before = takes.partition_point(|take| (take.stretch.0, take.stretch.1) <= (lane, at));
            takes[..before].last().is_some_and(|take| take.stretch.0 == lane && at < take.stretch.2)
        };
        let outermost = |e: &EventId| collates(*e) && !trace.ancestors(*e).any(collates);
        trace.events.ids().filter(outermost).filter(inside).map(|e| trace.events.dur[e.index()]).sum()
    }

    /// Maximum saving if the work of all threads is spread over the CPU cores, in ns; `None` without a recorded number
    /// of cores.
    fn most_saved(&self, takes: &[Take]) -> Option<f64> {
        let from = takes.iter().map(|take| take.stretch.1).min()?;
        let to = takes.iter().map(|take| take.stretch.2).max()?;
        let room = self.exact.recording()?.room(from, to)?;
        Some((to - from) as f64 * (1.0 - 1.0 / room))
    }
}
