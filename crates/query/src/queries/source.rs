//! A source file with the costs of its lines, both ways: what ran at a line, and what was called from it.

use crate::{Answer, Arguments, Opened, QueryError};
use serde_json::{Value, json};
use stackline_analyze::calls::{self, SourceLine};
use std::collections::{BTreeMap, BTreeSet};

/// A metric with the lines that have any of it.
struct Cost {
    metric: Value,
    lines: Vec<SourceLine>,
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
        })
        .collect();
    match arguments.text("file")? {
        Some(file) => one(opened, file, &costs),
        None => Ok(files(opened, &costs)),
    }
}

/// The files, by what was called from them.
fn files(opened: &Opened, costs: &[Cost]) -> Answer {
    let mut by_file: BTreeMap<&str, Vec<u64>> =
        opened.files().iter().map(|file| (file.as_str(), vec![0; costs.len()])).collect();
    for (column, cost) in costs.iter().enumerate() {
        for line in &cost.lines {
            if let Some(values) = by_file.get_mut(line.file.as_str()) {
                values[column] += line.exclusive.sum;
            }
        }
    }
    let rows: Vec<_> = by_file.iter().map(|(file, values)| json!({"file": file, "exclusive": values})).collect();
    let metrics: Vec<&Value> = costs.iter().map(|cost| &cost.metric).collect();
    Answer::document(&json!({"metrics": metrics, "files": rows}))
}

fn one(opened: &Opened, file: &str, costs: &[Cost]) -> Result<Answer, QueryError> {
    if !opened.files().contains(file) {
        return Err(QueryError::missing(format!("the run names no source file {file:?}")));
    }
    let place = opened.resolved(file);
    let text = crate::source::read(place);
    let changed = crate::source::is_newer(place, opened.recorded_at());
    // One file may be named with its folder and without.
    let names: BTreeSet<&str> =
        opened.files().iter().map(String::as_str).filter(|name| opened.resolved(name) == place).collect();
    let lines = |lines: &[SourceLine]| {
        let own = lines.iter().filter(|line| names.contains(line.file.as_str()));
        own.map(|line| json!([line.line, line.function, line.inclusive.sum, line.exclusive.sum])).collect::<Vec<_>>()
    };
    let costs: Vec<_> = costs.iter().map(|cost| json!({"metric": cost.metric, "lines": lines(&cost.lines)})).collect();
    Ok(Answer::document(
        &json!({"file": place, "text": text, "missing": text.is_none(), "changed": changed, "costs": costs}),
    ))
}

/// The lines around one of a file.
pub(super) fn excerpt(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let file: String = arguments.needed("file")?;
    let line: u32 = arguments.needed("line")?;
    Ok(Answer::document(&crate::source::excerpt(opened, &file, line)))
}
