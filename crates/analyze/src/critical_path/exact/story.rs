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

/// What a story needs to know of a stretch.
struct Part {
    end: i64,
    event: EventId,
    category: Category,
}

/// A run of stretches with one place.
#[derive(Clone, Copy)]
struct Run {
    first: usize,
    last: usize,
    place: EventId,
}

/// Tells a path, and in how many stretches.
pub(super) fn story(exact: &Exact<'_>, path: &ExactPath) -> (Vec<Chapter>, usize) {
    let mut parts: Vec<Part> = Vec::new();
    let mut inner: Vec<Run> = Vec::new();
    for stretch in exact.stretches(path) {
        let place = innermost(exact, &stretch);
        match inner.last_mut() {
            Some(run) if run.place == place => run.last = parts.len(),
            _ => inner.push(Run { first: parts.len(), last: parts.len(), place }),
        }
        parts.push(Part { end: stretch.end, event: stretch.event, category: stretch.category });
    }
    let chains: Vec<Vec<EventId>> = inner.iter().map(|run| exact.enclosing().places(exact.trace, run.place)).collect();
    let deepest = chains.iter().map(Vec::len).max().unwrap_or(0).min(DEPTH);
    let mut runs = Vec::new();
    for depth in (0..=deepest).rev() {
        runs = cut(&inner, &chains, depth);
        if runs.len() <= LINES {
            break;
        }
    }
    // Parts follow one another without gap.
    let start = |part: usize| part.checked_sub(1).map_or(path.window.start, |before| parts[before].end);
    // Even the outermost places alternate too often: short runs join their neighbours.
    let length = |r: &Run| parts[r.last].end - start(r.first);
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
    let chapters =
        runs.iter().map(|r| chapter(exact, path, start(r.first), &parts[r.first..=r.last], r.place)).collect();
    (chapters, parts.len())
}

/// The innermost annotation or module around a stretch; none if there is none.
fn innermost(exact: &Exact<'_>, stretch: &Stretch) -> EventId {
    let trace = exact.trace;
    let inner = match stretch.event.some().and_then(|e| trace.gpu.of_event(e)) {
        Some(gpu) => {
            let row = gpu.index();
            [trace.gpu.launch[row], trace.gpu.operator[row]].into_iter().find(|e| e.is_some())
        }
        None => [stretch.operator, stretch.frame, stretch.event].into_iter().find(|e| e.is_some()),
    };
    inner.map_or(EventId::NONE, |event| exact.enclosing().place(event))
}

/// Runs whose places agree down to a depth. Time without place joins what is before it.
fn cut(inner: &[Run], chains: &[Vec<EventId>], depth: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (part, chain) in inner.iter().zip(chains) {
        let place: EventId = chain.iter().take(depth).next_back().copied().into();
        match runs.last_mut() {
            Some(run) if run.place == place || chain.is_empty() => run.last = part.last,
            _ => runs.push(Run { place, ..*part }),
        }
    }
    runs
}

fn chapter(exact: &Exact<'_>, path: &ExactPath, start: i64, parts: &[Part], place: EventId) -> Chapter {
    let end = parts[parts.len() - 1].end;
    let mut causes = Category::ALL.map(|c| (0, c));
    // Of the longest the first.
    let (mut from, mut longest) = (start, (i64::MIN, EventId::NONE));
    for part in parts {
        let length = part.end - from;
        causes[part.category as usize].0 += length;
        if length > longest.0 {
            longest = (length, part.event);
        }
        from = part.end;
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
    let name = |e: EventId| e.some().map(|e| exact.trace.name(e));
    let place = name(place).map_or_else(|| "outside annotations and modules".to_owned(), str::to_owned);
    Chapter {
        start_ns: start - path.window.start,
        dur_ns: end - start,
        percent: 100.0 * (end - start) as f64 / path.window.length_ns().max(1) as f64,
        place: place.strip_prefix("nn.Module: ").map_or(place.clone(), str::to_owned),
        bound_by: told.join(", "),
        longest: name(longest.1).unwrap_or_default().to_owned(),
        hops: parts.len(),
    }
}
