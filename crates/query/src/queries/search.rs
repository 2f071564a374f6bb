//! Search query: names of events, frames and source files that contain a text.

use crate::names::{NameTotal, Names};
use crate::nearest::nearest;
use crate::{Answer, Arguments, OpenRun, QueryError};
use serde::Serialize;
use stackline_calls as calls;
use stackline_calls::{CallView, ViewDirection, ViewOptions};
use stackline_model::{Trace, Unit};
use std::sync::Arc;

/// Most names of a sort in an answer.
const MOST: usize = 60;
/// Maximum number of nearest names if no name matches, and of names per kind that are compared for that.
const NEAR: usize = 5;
const LOOKED_AT: usize = 20_000;

/// Names of events, frames and source files that contain a text.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct SearchAnswer<'a> {
    text: &'a str,
    names: Vec<FoundName>,
    /// Names of events that are left out.
    left_out: usize,
    frames: Vec<FoundFrame<'a>>,
    files: Vec<&'a str>,
    /// Similar names, where none contains the text.
    nearest: Vec<String>,
}

/// Found event name: number and total time (ns) of its events, and the first event with its start since the start of
/// the trace.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct FoundName {
    name: String,
    kind: &'static str,
    count: u64,
    ns: i64,
    event: u32,
    start: i64,
    dur: i64,
}

/// Found frame of the call tree, with its inclusive sum of the first metric.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct FoundFrame<'a> {
    kind: &'static str,
    name: String,
    file: &'a str,
    inclusive: u64,
    #[cfg_attr(test, ts(as = "String"))]
    unit: Unit,
}

/// Answer the search for a text in names of events, frames and source files.
pub(super) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let Some(text) = arguments.text("text")? else {
        return Err(QueryError::Argument { name: "text", why: "is missing".to_owned() });
    };
    let needle = text.to_lowercase();
    let rank = arguments.number("rank")?;
    // A recording of sums has frames alone.
    let (names, left_out) = match opened.trace(rank) {
        Ok((_, trace)) => events(trace, opened.names(rank)?, opened.origin(rank)?, &needle),
        Err(QueryError::Unavailable { .. }) => (Vec::new(), 0),
        Err(error) => return Err(error),
    };
    let holds = |file: &&String| file.to_lowercase().contains(&needle);
    let files: Vec<&str> = opened.files().iter().filter(holds).map(String::as_str).take(MOST).collect();
    let flat = flat(opened, arguments)?;
    let frames = flat.as_deref().map_or_else(Vec::new, |view| frames(view, &needle));
    let is_nothing = names.is_empty() && frames.is_empty() && files.is_empty();
    let nearest = if is_nothing { near(opened, rank, flat.as_deref(), text)? } else { Vec::new() };
    Answer::document(&SearchAnswer { text, names, left_out, frames, files, nearest })
}

/// Names of the run that are similar to the searched text, for a search without results.
fn near(opened: &OpenRun, rank: Option<i64>, flat: Option<&CallView>, text: &str) -> Result<Vec<String>, QueryError> {
    let mut names: Vec<&str> = flat.map_or_else(Vec::new, |view| {
        (1..view.nodes.len()).take(LOOKED_AT).map(|row| view.label(row).name.as_str()).collect()
    });
    if let Ok((_, trace)) = opened.trace(rank) {
        names.extend(opened.names(rank)?.longest(trace, LOOKED_AT));
    }
    names.extend(opened.files().iter().map(String::as_str).take(LOOKED_AT));
    Ok(nearest(text, names, NEAR).into_iter().map(super::shortened).collect())
}

/// Matching event names with total times, longest first, and the number of omitted ones.
fn events(trace: &Trace, names: &Names, origin: i64, needle: &str) -> (Vec<FoundName>, usize) {
    let mut rows = names.containing(trace, needle);
    let total = rows.len();
    rows.truncate(MOST);
    let row = |found: &NameTotal| {
        let first = found.first as usize;
        FoundName {
            name: super::shortened(trace.strings.get(found.name)),
            kind: found.kind.name(),
            count: found.count,
            ns: found.ns,
            event: found.first,
            start: trace.events.start[first].saturating_sub(origin),
            dur: trace.events.dur[first],
        }
    };
    (rows.iter().map(row).collect(), total - rows.len())
}

/// Flat view of the call tree by its first metric, with one row per function, module or operator; `None` without a tree
/// or metric.
fn flat(opened: &OpenRun, arguments: &Arguments) -> Result<Option<Arc<CallView>>, QueryError> {
    let source = match opened.calls(arguments.number("rank")?, arguments.part()?) {
        Ok(source) => source,
        Err(QueryError::Unavailable { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let tree = source.tree();
    let Some(&metric) = tree.measured().first() else { return Ok(None) };
    let key = format!("search\n{}", arguments.without(&["text"]).key());
    let options =
        ViewOptions { shape: ViewDirection::Flat, by_line: false, by_inputs: false, ..ViewOptions::new(metric) };
    Ok(Some(opened.view(&key, || calls::view(tree, &options))))
}

/// Frames of a call tree view whose name or file contains a text, regardless of case. `needle` is in lower case.
fn frames<'v>(view: &'v CallView, needle: &str) -> Vec<FoundFrame<'v>> {
    let rows = (1..view.nodes.len()).filter(|&row| {
        let label = view.label(row);
        label.name.to_lowercase().contains(needle) || label.file.to_lowercase().contains(needle)
    });
    let row = |row: usize| {
        let (label, node) = (view.label(row), &view.nodes[row]);
        FoundFrame {
            kind: label.kind,
            name: super::shortened(&label.name),
            file: &label.file,
            inclusive: node.inclusive.sum,
            unit: view.unit,
        }
    };
    rows.take(MOST).map(row).collect()
}
