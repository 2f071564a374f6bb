//! Workers for a loader of data that loads in the process that trains (`num_workers=0`).

use super::super::Exact;
use super::super::names::bits;
use super::apply::Applier;
use super::host_time::Cut;
use super::index::Stretch;
use stackline_model::{EventId, EventKind};

/// What it takes to get a batch that a worker has ready, in ns: where processors are idle, and at most, as measured where they are busy.
const READY_NS: i64 = 100_000;
const READY_BUSY_NS: i64 = 1_100_000;
/// Operators that put a batch together: as long can it take to read it from a worker's memory.
const COLLATES: &[&str] = &["aten::stack", "aten::cat"];
/// Frames of loaders without workers, and of those with them.
const WITHOUT_WORKERS: &str = "_SingleProcessDataLoaderIter";
const WITH_WORKERS: [&str; 2] = ["_MultiProcessingDataLoaderIter", "_try_get_data"];

/// How long a batch took, and how long the program did other things before it, in ns.
#[derive(Clone, Copy)]
struct Take {
    stretch: Stretch,
    since_last: i64,
}

impl Take {
    fn length(&self) -> i64 {
        self.stretch.2 - self.stretch.1
    }
}

/// Whether a trace shows no workers of loaders, nor frames of loaders that have some, but for those without.
fn may_load_itself(exact: &Exact<'_>) -> bool {
    exact.loader_workers().is_empty()
        && (has(exact, WITHOUT_WORKERS) || !WITH_WORKERS.iter().any(|part| has(exact, part)))
}

fn has(exact: &Exact<'_>, part: &str) -> bool {
    exact.trace.strings.iter().any(|name| name.contains(part))
}

/// The outermost spans in which the process that trains loads data; none where workers do.
pub(crate) fn own_loading(exact: &Exact<'_>) -> Vec<EventId> {
    if !may_load_itself(exact) {
        return Vec::new();
    }
    let (trace, names) = (exact.trace, &exact.names);
    let loads = |e: EventId| names.of(trace, e) & bits::LOADS_DATA != 0;
    trace.events.ids().filter(|&e| loads(e) && !trace.ancestors(e).any(loads)).collect()
}

impl Applier<'_, '_> {
    /// Takes the loading out of the process that trains, as far as so many workers keep up with it; how many batches that are.
    /// None where workers load, or may.
    pub(super) fn load_in_workers(&mut self, workers: u32) -> Option<usize> {
        let takes = self.own_takes();
        let loading: i64 = takes.iter().map(Take::length).sum();
        let count = takes.len() as i64;
        if loading == 0 {
            return None;
        }
        let (collating, each) = (self.collating_ns(&takes) / count, loading / count / i64::from(workers));
        // Batches of so many workers come no faster than this.
        let behind = |take: &Take| (each - take.since_last).max(0);
        let left = |take: &Take, ready: i64| (ready.max(behind(take)) as f64 / take.length() as f64).min(1.0);
        let busy = |take: &Take| (READY_BUSY_NS + collating).min(take.length() / 2).max(READY_NS);
        let saved: f64 = takes.iter().map(|take| take.length() as f64 * (1.0 - left(take, READY_NS))).sum();
        let allowed = self.most_saved(&takes).map_or(1.0, |most| (most / saved.max(1.0)).min(1.0));
        for take in &takes {
            let (lane, from, to) = take.stretch;
            let cut = |factor: f64| Cut { lane, from, to, factor };
            let of_allowed = |left: f64| cut(1.0 - allowed * (1.0 - left));
            let least = if allowed < 1.0 { cut(1.0) } else { cut(left(take, busy(take))) };
            self.partly.push([least, of_allowed(left(take, READY_NS)), of_allowed(left(take, 0))]);
        }
        let (are, each) =
            if workers == 1 { ("is 1 worker that loads", "") } else { ("are workers that load", "each ") };
        self.notes.push(format!(
            "loading runs in the program itself: assumed {are} as fast as it does, {each}on a processor of its own ({workers} in all)"
        ));
        if allowed < 1.0 {
            self.notes
                .push("the processors that the recording tells of would all be busy: no more is gained".to_owned());
        }
        Some(takes.len())
    }

    /// Stretches in which the process that trains loads a batch, in time order by thread.
    fn own_takes(&self) -> Vec<Take> {
        let exact = self.exact;
        if !may_load_itself(exact) {
            return Vec::new();
        }
        let mut stretches = self.loader_stretches(|_| true);
        if has(exact, WITHOUT_WORKERS) {
            let own = self.without_workers();
            // Of frames within frames the last one that began is enough: all lie in the stretch.
            let last_before = |lane: u32, to: i64| own[..own.partition_point(|own| (own.0, own.1) < (lane, to))].last();
            stretches
                .retain(|&(lane, from, to)| last_before(lane, to).is_some_and(|own| own.0 == lane && own.2 > from));
        }
        stretches.retain(|(_, from, to)| to - from > READY_NS);
        self.with_time_before(&stretches)
    }

    /// Batches with the time since the one before; for the first of a thread that behind the last one, once more.
    fn with_time_before(&self, stretches: &[Stretch]) -> Vec<Take> {
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

    /// Frames of loaders without workers, by thread and time.
    fn without_workers(&self) -> Vec<Stretch> {
        let trace = self.exact.trace;
        let fits: Vec<bool> = trace.strings.iter().map(|name| name.contains(WITHOUT_WORKERS)).collect();
        let is_one = |e: &EventId| fits.get(trace.events.name[e.index()].index()).copied().unwrap_or(false);
        let stretch = |e: EventId| {
            let lane = self.index.lane(trace, e)?;
            Some((lane, trace.events.start[e.index()], trace.events.end(e)))
        };
        let mut found: Vec<Stretch> = trace.events.ids().filter(is_one).filter_map(stretch).collect();
        found.sort_unstable();
        found
    }

    /// Time in which batches are put together, in ns.
    fn collating_ns(&self, takes: &[Take]) -> i64 {
        let trace = self.exact.trace;
        let collates = |e: EventId| trace.kind(e) == EventKind::Operator && COLLATES.contains(&trace.name(e));
        let inside = |e: &EventId| {
            let Some(lane) = self.index.lane(trace, *e) else { return false };
            let at = trace.events.start[e.index()];
            let before = takes.partition_point(|take| (take.stretch.0, take.stretch.1) <= (lane, at));
            takes[..before].last().is_some_and(|take| take.stretch.0 == lane && at < take.stretch.2)
        };
        let outermost = |e: &EventId| collates(*e) && !trace.ancestors(*e).any(collates);
        trace.events.ids().filter(outermost).filter(inside).map(|e| trace.events.dur[e.index()]).sum()
    }

    /// What is saved at most where all that threads compute is spread over the processors, in ns; none if nobody counted them.
    fn most_saved(&self, takes: &[Take]) -> Option<f64> {
        let from = takes.iter().map(|take| take.stretch.1).min()?;
        let to = takes.iter().map(|take| take.stretch.2).max()?;
        let room = self.exact.recording()?.room(from, to)?;
        Some((to - from) as f64 * (1.0 - 1.0 / room))
    }
}
