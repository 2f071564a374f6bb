//! The path as a story: consecutive hops of one module become one line.

use super::Exact;
use super::category::Category;
use super::enclosing::DEPTH;
use super::hops::Stretch;
use super::walk::ExactPath;
use serde::Serialize;
use stackline_model::EventId;

/// A story has at most so many lines.
const LINES: usize = 20;

/// A line of the story.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chapter {
    /// Start in ns since the start of the window.
    pub start_ns: i64,
    /// Length in ns.
    pub dur_ns: i64,
    /// Of the window, in percent.
    pub percent: f64,
    /// Where in the program: annotation or module, else the kind of work.
    pub place: String,
    /// The causes of most of its time, such as `host_python 60 %, gpu_compute 30 %`.
    pub bound_by: String,
    /// What took longest in it.
    pub longest: String,
    /// Hops that it stands for.
    pub hops: usize,
}

/// A run of stretches with one place.
#[derive(Clone, Copy)]
struct Run {
    first: usize,
    last: usize,
    place: EventId,
}

/// Tells a path.
pub(super) fn story(exact: &Exact<'_>, path: &ExactPath, stretches: &[Stretch]) -> Vec<Chapter> {
    let chains: Vec<Vec<EventId>> = stretches.iter().map(|s| chain(exact, s)).collect();
    let deepest = chains.iter().map(Vec::len).max().unwrap_or(0).min(DEPTH);
    let mut runs = Vec::new();
    for depth in (0..=deepest).rev() {
        runs = cut(&chains, depth);
        if runs.len() <= LINES {
            break;
        }
    }
    // Even the outermost places alternate too often: short runs join their neighbours.
    let length = |r: &Run| stretches[r.last].end - stretches[r.first].start;
    while runs.len() > LINES {
        let Some(short) = (0..runs.len()).min_by_key(|&i| length(&runs[i])) else { break };
        let before = short.checked_sub(1).map(|i| length(&runs[i]));
        let after = runs.get(short + 1).map(length);
        let into = if before.is_some_and(|b| after.is_none_or(|a| b >= a)) { short - 1 } else { short + 1 };
        let (low, high) = (short.min(into), short.max(into));
        let place = if length(&runs[into]) >= length(&runs[short]) { runs[into].place } else { runs[short].place };
        runs[low] = Run { first: runs[low].first, last: runs[high].last, place };
        runs.remove(high);
    }
    runs.iter().map(|run| chapter(exact, path, &stretches[run.first..=run.last], run.place)).collect()
}

/// Annotations and modules around a stretch, outermost first.
fn chain(exact: &Exact<'_>, stretch: &Stretch) -> Vec<EventId> {
    let trace = exact.trace;
    let inner = match stretch.event.some().and_then(|e| trace.gpu.of_event(e)) {
        Some(gpu) => {
            let row = gpu.index();
            [trace.gpu.launch[row], trace.gpu.operator[row]].into_iter().find(|e| e.is_some())
        }
        None => [stretch.operator, stretch.frame, stretch.event].into_iter().find(|e| e.is_some()),
    };
    let Some(inner) = inner else { return Vec::new() };
    exact.enclosing().places(trace, inner)
}

/// Runs of stretches whose places agree down to a depth. Time without place joins what is before it.
fn cut(chains: &[Vec<EventId>], depth: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (i, chain) in chains.iter().enumerate() {
        let place: EventId = chain.iter().take(depth).next_back().copied().into();
        match runs.last_mut() {
            Some(run) if run.place == place || chain.is_empty() => run.last = i,
            _ => runs.push(Run { first: i, last: i, place }),
        }
    }
    runs
}

fn chapter(exact: &Exact<'_>, path: &ExactPath, stretches: &[Stretch], place: EventId) -> Chapter {
    let (start, end) = (stretches[0].start, stretches[stretches.len() - 1].end);
    let mut causes = Category::ALL.map(|c| (0, c));
    for stretch in stretches {
        causes[stretch.category as usize].0 += stretch.end - stretch.start;
    }
    causes.sort_by_key(|&(ns, c)| (std::cmp::Reverse(ns), c));
    let total = (end - start).max(1) as f64;
    let told: Vec<String> = causes
        .iter()
        .take(3)
        .map(|&(ns, c)| (100.0 * ns as f64 / total, c))
        .filter(|(percent, _)| *percent >= 5.0)
        .map(|(percent, c)| format!("{} {percent:.0} %", c.name()))
        .collect();
    let longest = stretches.iter().max_by_key(|s| (s.end - s.start, std::cmp::Reverse(s.start)));
    let name = |e: EventId| e.some().map(|e| exact.trace.name(e));
    let place = name(place).map_or_else(|| "outside annotations and modules".to_owned(), str::to_owned);
    Chapter {
        start_ns: start - path.window.start,
        dur_ns: end - start,
        percent: 100.0 * (end - start) as f64 / path.window.length_ns().max(1) as f64,
        place: place.strip_prefix("nn.Module: ").map_or(place.clone(), str::to_owned),
        bound_by: told.join(", "),
        longest: longest.and_then(|s| name(s.event)).unwrap_or_default().to_owned(),
        hops: stretches.len(),
    }
}
