//! Summary of the critical path in a few lines: consecutive segments of one module are merged.

use super::Exact;
use super::category::Category;
use super::enclosing::{DEPTH, Spans};
use super::merged_segments::MergedSegment;
use super::path::ExactPath;
use rustc_hash::FxHashMap;
use serde::Serialize;
use stackline_model::names::module_name;
use stackline_model::{EventId, EventKind, StrId};
use std::cmp::Reverse;

/// Maximum number of lines.
const MAX_LINES: usize = 20;

/// Divisor of the window's length: shorter lines may join an adjacent line.
const SHORT_DIVISOR: i64 = 200;
/// Divisor of the window's length: maximum total time that such joins may move to another location.
const MOVED_DIVISOR: i64 = 20;
/// Maximum number of consecutive depths with too many lines before the search for deeper ones ends.
const MAX_REFUSALS: usize = 3;

/// Line of the critical-path summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SummaryLine {
    /// Start in ns since the start of the window.
    pub start_ns: i64,
    /// Length in ns.
    pub dur_ns: i64,
    /// Percent of the window.
    pub percent: f64,
    /// Place in the program: annotation or module; outside of them, the operator or Python frame with most of the time.
    /// The text ends in `and others` if at least 10 % of the time belongs to others.
    pub place: String,
    /// Causes with most of the time, such as `host_python 60 %, gpu_compute 30 %`.
    pub bound_by: String,
    /// Longest event; time without event is under its cause, such as `(no event: host_python)`.
    pub longest: String,
    /// Number of critical-path segments in this line.
    pub segments: usize,
}

/// Run of consecutive path segments with one location (`place`). Runs follow each other without gap.
#[derive(Clone, Copy)]
struct Run {
    start: i64,
    end: i64,
    /// Time in `place` in ns; the rest joined the run because it was short.
    own: i64,
    place: EventId,
}

impl Run {
    /// Length of the run in ns.
    fn length(&self) -> i64 {
        self.end - self.start
    }

    /// Append the next run. The longer one determines the location.
    fn absorb(&mut self, next: Self) {
        if self.place == next.place {
            self.own += next.own;
        } else if next.own > self.own {
            (self.own, self.place) = (next.own, next.place);
        }
        self.end = next.end;
    }
}

/// Kind of spans that serve as locations of path segments in the summary.
enum Places {
    /// Annotations and modules.
    Named,
    /// Annotations, operators and Python frames, if annotations and modules give too little detail.
    Spans(Spans),
}

impl Places {
    /// Put the outermost [`DEPTH`] locations around an event into `chain`, innermost first.
    fn around(&self, exact: &Exact<'_>, event: EventId, chain: &mut Vec<EventId>) {
        chain.clear();
        match self {
            _ if event.is_none() => {}
            Self::Named => chain.extend(exact.enclosing().shown_places(exact.trace, event)),
            Self::Spans(spans) => chain.extend(spans.around(exact.trace, event)),
        }
    }

    /// Maximum number of nested locations that a chain around an event holds.
    fn depth(&self) -> usize {
        match self {
            Self::Named => DEPTH,
            Self::Spans(_) => Spans::DEPTH,
        }
    }

    /// Innermost location at or around an event; none outside of locations.
    fn innermost(&self, exact: &Exact<'_>, owner: EventId) -> EventId {
        match self {
            _ if owner.is_none() => owner,
            Self::Named => exact.enclosing().place(owner),
            Self::Spans(spans) => spans.innermost(owner),
        }
    }
}

/// Summary lines of a path, and its number of merged segments.
pub(super) fn summarize(exact: &Exact<'_>, path: &ExactPath) -> (Vec<SummaryLine>, usize) {
    let (inner, segments) = runs(exact, path, &Places::Named);
    let mut lines = deepest_fitting_runs(exact, path, &inner, &Places::Named);
    // A path with almost all time in one place needs a more detailed summary.
    if lines.iter().any(|run| run.length() / 9 > (path.window.length_ns() - run.length())) {
        let spans = Places::Spans(Spans::new(exact.trace));
        let (inner, _) = runs(exact, path, &spans);
        let other = deepest_fitting_runs(exact, path, &inner, &spans);
        if other.len() > lines.len() {
            lines = other;
        }
    }
    (summary_lines(exact, path, &lines), segments)
}

/// Divide a path into runs of segments with the same innermost location. Also returns the number of merged segments.
fn runs(exact: &Exact<'_>, path: &ExactPath, places: &Places) -> (Vec<Run>, usize) {
    let (mut runs, mut count): (Vec<Run>, usize) = (Vec::new(), 0);
    for segment in exact.merged_segments(path) {
        let place = places.innermost(exact, owner(exact, &segment));
        add(&mut runs, Run { start: segment.start, end: segment.end, own: segment.end - segment.start, place });
        count += 1;
    }
    (runs, count)
}

/// Append a run, or extend the last run if both have the same location.
fn add(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.place == run.place => last.absorb(run),
        _ => runs.push(run),
    }
}

/// Runs at the greatest nesting depth that fits into [`MAX_LINES`] lines.
fn deepest_fitting_runs(exact: &Exact<'_>, path: &ExactPath, inner: &[Run], places: &Places) -> Vec<Run> {
    let window = path.window.length_ns();
    let mut chain = Vec::new();
    let mut cut = |depth: usize| {
        let mut runs = Vec::new();
        for run in inner {
            places.around(exact, run.place, &mut chain);
            let place: EventId = chain.iter().rev().take(depth).next_back().copied().into();
            add(&mut runs, Run { place, ..*run });
        }
        runs
    };
    // A greater depth only splits runs, so a few depths with too many lines end the search.
    let (mut best, mut refused) = (None, 0);
    for depth in 1..=places.depth() {
        let joined = join_short(&cut(depth), window / SHORT_DIVISOR);
        let moved: i64 = joined.iter().map(|run| run.length() - run.own).sum();
        if joined.len() <= MAX_LINES && moved <= window / MOVED_DIVISOR {
            (best, refused) = (Some(joined), 0);
        } else if refused < MAX_REFUSALS {
            refused += 1;
        } else {
            break;
        }
    }
    if let Some(best) = best {
        return best;
    }
    // Even the outermost frames alternate too often.
    let mut runs = cut(1);
    let mut least = (window / SHORT_DIVISOR).max(1);
    while runs.len() > MAX_LINES {
        let joined = join_short(&runs, least);
        // If all runs have similar lengths, all would become short at once.
        if joined.len() < MAX_LINES / 2 {
            return merge_by_slice(&runs, path);
        }
        runs = joined;
        least = least.saturating_mul(2);
    }
    runs
}

/// Join the runs whose middle lies in the same slice of the window; there are [`MAX_LINES`] slices.
fn merge_by_slice(runs: &[Run], path: &ExactPath) -> Vec<Run> {
    let slice = (path.window.length_ns() / MAX_LINES as i64).max(1);
    let number = |run: &Run| ((run.start + run.length() / 2 - path.window.start) / slice).min(MAX_LINES as i64 - 1);
    let mut joined: Vec<Run> = Vec::new();
    for runs in runs.chunk_by(|a, b| number(a) == number(b)) {
        let mut all = runs[0];
        runs[1..].iter().for_each(|&run| all.absorb(run));
        joined.push(all);
    }
    joined
}

/// Join runs shorter than `least` ns with an adjacent run, and adjacent runs with the same location.
fn join_short(runs: &[Run], least: i64) -> Vec<Run> {
    let mut joined: Vec<Run> = Vec::new();
    for &run in runs {
        let mut run = run;
        while let Some(last) = joined.last_mut() {
            let is_short = last.length().min(run.length()) < least;
            if last.place != run.place && !is_short {
                break;
            }
            last.absorb(run);
            // The run may now be adjacent to a run of the same frame.
            let Some(grown) = joined.pop() else { break };
            run = grown;
            if joined.last().is_none_or(|before| before.place != run.place) {
                break;
            }
        }
        joined.push(run);
    }
    joined
}

/// Event that determines the location of a segment: for GPU work, the operator or call that launched it; for host work,
/// the innermost operator, else the Python frame, else the event itself; none in gaps.
fn owner(exact: &Exact<'_>, segment: &MergedSegment) -> EventId {
    let trace = exact.trace;
    let inner = match segment.event.some().and_then(|e| trace.gpu_operation(e)) {
        Some(gpu) => trace.gpu.launcher(gpu),
        None => [segment.operator, segment.frame, segment.event].into_iter().find(|e| e.is_some()),
    };
    inner.into()
}

/// Sums for one summary line: time by cause and by name, and the longest segment.
struct LineSums {
    causes: [(i64, Category); 14],
    /// Longest segment; the first one wins ties.
    longest: (i64, EventId, Category),
    /// Outside of locations: time by name of operator or frame; time without either under none.
    owners: FxHashMap<StrId, i64>,
    segments: usize,
}

/// Create one summary line per run, from the path segments inside the run.
fn summary_lines(exact: &Exact<'_>, path: &ExactPath, runs: &[Run]) -> Vec<SummaryLine> {
    let mut segments = exact.merged_segments(path).peekable();
    let mut summary_lines = Vec::with_capacity(runs.len());
    for run in runs {
        let mut sums = LineSums {
            causes: Category::ALL.map(|c| (0, c)),
            longest: (i64::MIN, EventId::NONE, Category::Unknown),
            owners: FxHashMap::default(),
            segments: 0,
        };
        while let Some(segment) = segments.next_if(|s| s.end <= run.end) {
            sums.add(exact, run, &segment);
        }
        summary_lines.push(sums.summary_line(exact, path, run));
    }
    summary_lines
}

impl LineSums {
    /// Add a path segment to the sums of its summary line.
    fn add(&mut self, exact: &Exact<'_>, run: &Run, segment: &MergedSegment) {
        let length = segment.end - segment.start;
        self.segments += 1;
        self.causes[segment.category as usize].0 += length;
        if length > self.longest.0 {
            // The event of time with unknown cause is only the next one.
            let event = if segment.category == Category::Unknown { EventId::NONE } else { segment.event };
            self.longest = (length, event, segment.category);
        }
        if run.place.is_none() {
            // A call does not name a run. The operator around the call does, or the longest-running frame, or the frame
            // around everything. For built-in functions, such as `<built-in method ... at 0x7f>`, the caller is more
            // informative.
            let is_frame = |e: &EventId| {
                exact.trace.kind(*e) == EventKind::PythonFunction && !exact.trace.name(*e).starts_with('<')
            };
            let [operator, frame, event] = [segment.operator, segment.frame, segment.event].map(EventId::some);
            let owner = operator.or(event.filter(is_frame)).or(frame);
            let name = owner.map_or(StrId::NONE, |owner| exact.trace.events.name[owner.index()]);
            *self.owners.entry(name).or_default() += length;
        }
    }

    /// Convert the sums to a summary line with the two main causes, the longest event and the location.
    fn summary_line(mut self, exact: &Exact<'_>, path: &ExactPath, run: &Run) -> SummaryLine {
        self.causes.sort_by_key(|&(ns, c)| (Reverse(ns), c));
        let total = run.length().max(1) as f64;
        let bound_by: Vec<String> = self
            .causes
            .iter()
            .take(2)
            .map(|&(ns, c)| (100.0 * ns as f64 / total, c))
            .filter(|(percent, _)| *percent >= 5.0)
            .map(|(percent, c)| format!("{} {percent:.0} %", c.name()))
            .collect();
        let longest = match self.longest.1.some() {
            Some(event) => exact.trace.name(event).to_owned(),
            None => format!("(no event: {})", self.longest.2.name()),
        };
        SummaryLine {
            start_ns: run.start - path.window.start,
            dur_ns: run.length(),
            percent: 100.0 * run.length() as f64 / path.window.length_ns().max(1) as f64,
            place: self.place(exact, run),
            bound_by: bound_by.join(", "),
            longest,
            segments: self.segments,
        }
    }

    /// Text that names the location of a summary line, such as a module or operator.
    fn place(&self, exact: &Exact<'_>, run: &Run) -> String {
        let (name, own) = match run.place.some() {
            Some(event) => (exact.trace.name(event), run.own),
            None => {
                let names = self.owners.iter().map(|(&name, &ns)| (exact.trace.strings.get(name), ns));
                let most = names.max_by_key(|&(name, ns)| (ns, Reverse(name)));
                let (name, ns) = most.unwrap_or(("", run.length()));
                (if name.is_empty() { "(no operator or frame)" } else { name }, ns)
            }
        };
        let name = module_name(name).unwrap_or(name);
        let others = own < run.length() - run.length() / 10;
        format!("{name}{}", if others { " and others" } else { "" })
    }
}
