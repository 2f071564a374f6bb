//! Query of the source files of a run, or of one file with inclusive and self costs of its lines.

use crate::prefetch::{Part, Stage, chosen, with};
use crate::{Answer, Arguments, OpenRun, QueryError};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::Value;
use stackline_calls as calls;
use stackline_calls::SourceLine;
use stackline_model::{CallMetric, CallingContextTree, Frame, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// Answer to the source query: all source files, or one of them with the costs of its lines.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(untagged)]
pub(super) enum Source<'a> {
    Files(SourceFiles<'a>),
    File(SourceFile<'a>),
}

/// Source files of a run, with the exclusive sum of each metric over their lines.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct SourceFiles<'a> {
    metrics: Vec<Metric<'a>>,
    files: Vec<FileCost<'a>>,
}

/// Source file with its exclusive sums, in the order of the metrics.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct FileCost<'a> {
    file: &'a str,
    exclusive: Vec<u64>,
}

/// Metric of the call tree: its name, its title for readers, and the unit of its sums.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Metric<'a> {
    name: &'a str,
    title: &'a str,
    #[cfg_attr(test, ts(as = "String"))]
    unit: Unit,
}

/// A source file with the costs of its lines.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct SourceFile<'a> {
    file: &'a str,
    text: Option<String>,
    missing: bool,
    /// The file was written after the recording; null if unknown.
    changed: Option<bool>,
    costs: Vec<FileLines<'a>>,
}

/// Lines of a file with a nonzero cost by one metric.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct FileLines<'a> {
    metric: Metric<'a>,
    lines: Vec<LineCost<'a>>,
}

/// Costs of a source line: line number, function, inclusive sum, exclusive sum, and estimated part of the exclusive
/// sum.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct LineCost<'a>(u32, &'a str, u64, u64, u64);

/// Costs of all source lines by one metric.
struct Cost<'a> {
    metric: Metric<'a>,
    lines: Vec<SourceLine>,
    /// Estimated part of the cost of a line, by file and line.
    guessed: FxHashMap<(String, u32), u64>,
}

/// Answer the query for the source files of the run, or for the lines of one file.
pub(super) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let source = opened.calls(rank, arguments.part()?)?;
    let tree = source.tree();
    let measured = tree.measured().into_iter().filter(|metric| metric.adds_up());
    let costs: Vec<Cost<'_>> = measured
        .map(|metric| Cost {
            metric: Metric {
                name: metric.name(&tree.strings),
                title: metric.title(&tree.strings),
                unit: metric.unit(),
            },
            lines: calls::source_lines(tree, metric),
            guessed: if source.guesses_lines() { self_time_by_line(tree, metric) } else { FxHashMap::default() },
        })
        .collect();
    match arguments.text("file")? {
        Some(file) => one(opened, file, &costs),
        None => files(opened, &costs),
    }
}

/// Answer with the source files of the run and their exclusive sums; files with several names are listed once.
fn files(opened: &OpenRun, costs: &[Cost<'_>]) -> Result<Answer, QueryError> {
    let mut by_place: BTreeMap<&str, (&str, Vec<u64>)> = BTreeMap::new();
    for file in opened.files() {
        let known = by_place.entry(opened.resolved(file)).or_insert_with(|| (file, vec![0; costs.len()]));
        if file.len() < known.0.len() {
            known.0 = file;
        }
    }
    for (column, cost) in costs.iter().enumerate() {
        for line in &cost.lines {
            if let Some((_, values)) = by_place.get_mut(opened.resolved(&line.file)) {
                values[column] += line.exclusive.sum;
            }
        }
    }
    let mut rows: Vec<(&str, Vec<u64>)> = by_place.into_values().collect();
    rows.sort_unstable();
    let files = rows.into_iter().map(|(file, exclusive)| FileCost { file, exclusive }).collect();
    Answer::document(&Source::Files(SourceFiles { metrics: costs.iter().map(|cost| cost.metric).collect(), files }))
}

/// Exclusive sums of Python frames by file and line. Their line is an estimate, because no stack contains the line of
/// self time.
fn self_time_by_line(tree: &CallingContextTree, metric: CallMetric) -> FxHashMap<(String, u32), u64> {
    let exclusive = tree.exclusive(metric, |_| true);
    let mut own: FxHashMap<(String, u32), u64> = FxHashMap::default();
    for node in tree.nodes.ids().filter(|node| exclusive[node.index()].sum > 0) {
        if let Some(&Frame::Python { file, line, .. }) = tree.frame(node) {
            *own.entry((tree.strings.get(file).to_owned(), line)).or_default() += exclusive[node.index()].sum;
        }
    }
    own
}

/// Answer with the text of one source file and the costs of its lines.
fn one(opened: &OpenRun, file: &str, costs: &[Cost<'_>]) -> Result<Answer, QueryError> {
    check_named(opened, file)?;
    let place = opened.resolved(file);
    let text = opened.source_roots.read(place);
    let changed = opened.source_roots.is_newer(place, opened.recorded_at());
    // One file may be named with its folder and without.
    let names: BTreeSet<&str> =
        opened.files().iter().map(String::as_str).filter(|name| opened.resolved(name) == place).collect();
    let costs = costs.iter().map(|cost| FileLines { metric: cost.metric, lines: lines(cost, &names) }).collect();
    let missing = text.is_none();
    Answer::document(&Source::File(SourceFile { file: place, text, missing, changed, costs }))
}

/// Costs of the lines of one file, by any of its names.
fn lines<'c>(cost: &'c Cost<'_>, names: &BTreeSet<&str>) -> Vec<LineCost<'c>> {
    let lines = cost.lines.iter().filter(|line| names.contains(line.file.as_str()));
    let rows = lines.map(|line| {
        let guessed = cost.guessed.get(&(line.file.clone(), line.line)).copied().unwrap_or(0);
        LineCost(line.line, &line.function, line.inclusive.sum, line.exclusive.sum, guessed)
    });
    rows.collect()
}

/// Return an error for a file that the run does not name.
fn check_named(opened: &OpenRun, file: &str) -> Result<(), QueryError> {
    let missing = || QueryError::missing(format!("no source file {file:?} in the run"));
    opened.files().contains(file).then_some(()).ok_or_else(missing)
}

/// Answer with the source lines around a line of a file.
pub(super) fn excerpt(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let file: String = arguments.needed("file")?;
    let line: u32 = arguments.needed("line")?;
    check_named(opened, &file)?;
    Answer::document(&crate::excerpt::excerpt(opened, &file, line))
}

/// Source files that can be read as a whole: those that cost most.
const FILES: usize = 60;
/// Frames of the flame graph whose source is at hand.
const FRAMES: usize = 100;

/// Prefetched arguments of the query for source files, by part of the page.
pub(super) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    match stage {
        Stage::Code => vec![chosen(opened)],
        Stage::Whole => vec![Part::Whole.arguments(opened)],
        Stage::Files(part) => costly(opened, &part.arguments(opened)),
        _ => Vec::new(),
    }
}

/// Answer a query and parse its JSON document; `None` if the query fails.
fn document(opened: &OpenRun, name: &str, arguments: &Arguments) -> Option<Value> {
    serde_json::from_str(&crate::run_query(opened, name, arguments).ok()?.json).ok()
}

/// Query arguments of the source files with the largest sums, one set for each file.
fn costly(opened: &OpenRun, steps: &Arguments) -> Vec<Arguments> {
    let Some(document) = document(opened, "source", steps) else { return Vec::new() };
    let list = document["files"].as_array().map_or(&[][..], Vec::as_slice);
    let cost = |file: &Value| file["exclusive"][0].as_u64().unwrap_or(0);
    let mut costly: Vec<(u64, &str)> =
        list.iter().filter_map(|file| Some((cost(file), file["file"].as_str()?))).collect();
    costly.retain(|&(cost, _)| cost > 0);
    costly.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    costly.into_iter().take(FILES).map(|(_, file)| steps.clone().with("file", file)).collect()
}

/// Prefetched arguments of the query for source lines: the lines of the frames with the largest sums.
pub(super) fn first_excerpts(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    let flat = chosen(opened).with("shape", "flat");
    let document = if stage == Stage::Excerpts { document(opened, "calls", &flat) } else { None };
    let Some(document) = document else { return Vec::new() };
    let labels = document["labels"].as_array().map_or(&[][..], Vec::as_slice);
    let place = |label: &Value| Some((label[3].as_str()?.to_owned(), label[4].as_u64().filter(|&line| line > 0)?));
    let places = labels.iter().filter_map(place).filter(|(file, _)| opened.files().contains(file));
    places.take(FRAMES).map(|(file, line)| with(&[("file", &file), ("line", &line.to_string())])).collect()
}
