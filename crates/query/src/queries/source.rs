//! A source file with the costs of its lines, both ways: what ran at a line, and what was called from it.

use crate::{Answer, Arguments, Opened, QueryError};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use stackline_analyze::calls::{self, SourceLine};
use stackline_model::{CallFrame, CallMetric, CallTree};
use std::collections::{BTreeMap, BTreeSet};

/// A metric with the lines that have any of it.
struct Cost {
    metric: Value,
    lines: Vec<SourceLine>,
    /// What of a line is guessed, by file and line.
    guessed: FxHashMap<(String, u32), u64>,
}

pub(super) fn answer(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let source = opened.calls(rank, arguments.part()?)?;
    let tree = source.tree();
    let measured = tree.measured().into_iter().filter(|metric| metric.adds_up());
    let costs: Vec<Cost> = measured
        .map(|metric| Cost {
            metric: json!({
                "name": metric.name(&tree.strings), "title": metric.title(&tree.strings), "unit": metric.unit(),
            }),
            lines: calls::source_lines(tree, metric),
            guessed: if source.guesses_lines() { own_time(tree, metric) } else { FxHashMap::default() },
        })
        .collect();
    match arguments.text("file")? {
        Some(file) => one(opened, file, &costs),
        None => Ok(files(opened, &costs)),
    }
}

/// The files, by what was called from them: each once, by its shortest name.
fn files(opened: &Opened, costs: &[Cost]) -> Answer {
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
    let rows: Vec<_> = rows.iter().map(|(file, values)| json!({"file": file, "exclusive": values})).collect();
    let metrics: Vec<&Value> = costs.iter().map(|cost| &cost.metric).collect();
    Answer::document(&json!({"metrics": metrics, "files": rows}))
}

/// What functions take themselves, by the lines that it was put at: no stack tells at which of them it was.
fn own_time(tree: &CallTree, metric: CallMetric) -> FxHashMap<(String, u32), u64> {
    let exclusive = tree.exclusive(metric, |_| true);
    let mut own: FxHashMap<(String, u32), u64> = FxHashMap::default();
    for node in tree.nodes.ids().filter(|node| exclusive[node.index()].sum > 0) {
        if let Some(&CallFrame::Python { file, line, .. }) = tree.frame(node) {
            *own.entry((tree.strings.get(file).to_owned(), line)).or_default() += exclusive[node.index()].sum;
        }
    }
    own
}

fn one(opened: &Opened, file: &str, costs: &[Cost]) -> Result<Answer, QueryError> {
    check_named(opened, file)?;
    let place = opened.resolved(file);
    let text = crate::source::read(&opened.source_roots, place);
    let changed = crate::source::is_newer(&opened.source_roots, place, opened.recorded_at());
    // One file may be named with its folder and without.
    let names: BTreeSet<&str> =
        opened.files().iter().map(String::as_str).filter(|name| opened.resolved(name) == place).collect();
    let lines = |cost: &Cost| {
        let row = |line: &SourceLine| {
            let guessed = cost.guessed.get(&(line.file.clone(), line.line)).copied().unwrap_or(0);
            json!([line.line, line.function, line.inclusive.sum, line.exclusive.sum, guessed])
        };
        cost.lines.iter().filter(|line| names.contains(line.file.as_str())).map(row).collect::<Vec<_>>()
    };
    let costs: Vec<_> = costs.iter().map(|cost| json!({"metric": cost.metric, "lines": lines(cost)})).collect();
    Ok(Answer::document(
        &json!({"file": place, "text": text, "missing": text.is_none(), "changed": changed, "costs": costs}),
    ))
}

/// Refuses files that the run does not name.
fn check_named(opened: &Opened, file: &str) -> Result<(), QueryError> {
    let missing = || QueryError::missing(format!("the run names no source file {file:?}"));
    opened.files().contains(file).then_some(()).ok_or_else(missing)
}

/// The lines around one of a file.
pub(super) fn excerpt(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let file: String = arguments.needed("file")?;
    let line: u32 = arguments.needed("line")?;
    check_named(opened, &file)?;
    Ok(Answer::document(&crate::source::excerpt(opened, &file, line)))
}
