//! Names of events, frames and source files that hold a text.

use crate::{Answer, Arguments, Opened, QueryError};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use stackline_analyze::calls::{self, Shape, ViewOptions};
use stackline_model::{EventKind, StrId, Trace};

/// Most names of a sort in an answer.
const MOST: usize = 60;

/// Count, time and first event of what has a name.
#[derive(Clone, Copy, Debug)]
struct Found {
    count: u64,
    ns: i64,
    first: u32,
}

pub(super) fn answer(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let Some(text) = arguments.text("text")? else {
        return Err(QueryError::Argument { name: "text", why: "is missing".to_owned() });
    };
    let wanted = text.to_lowercase();
    let rank = arguments.number("rank")?;
    // A recording of sums has frames alone.
    let (names, left_out) = match opened.trace(rank) {
        Ok((_, trace)) => events(trace, opened.origin(rank)?, &wanted),
        Err(QueryError::Unavailable { .. }) => (Vec::new(), 0),
        Err(error) => return Err(error),
    };
    let holds = |file: &&String| file.to_lowercase().contains(&wanted);
    let files: Vec<&String> = opened.files().iter().filter(holds).take(MOST).collect();
    let frames = frames(opened, arguments, &wanted)?;
    let document = json!({"text": text, "names": names, "left_out": left_out, "frames": frames, "files": files});
    Ok(Answer::document(&document))
}

/// Names of events with what they took, the longest first; and how many more there are.
fn events(trace: &Trace, origin: i64, wanted: &str) -> (Vec<Value>, usize) {
    let matches: Vec<bool> = trace.strings.iter().map(|name| name.to_lowercase().contains(wanted)).collect();
    let mut found: FxHashMap<(StrId, EventKind), Found> = FxHashMap::default();
    for event in trace.events.ids() {
        let name = trace.events.name[event.index()];
        if trace.events.is_timed(event) && matches.get(name.index()).copied().unwrap_or(false) {
            let entry = found.entry((name, trace.kind(event))).or_insert(Found { count: 0, ns: 0, first: event.0 });
            entry.count += 1;
            entry.ns = entry.ns.saturating_add(trace.events.dur[event.index()]);
        }
    }
    let mut rows: Vec<_> = found.into_iter().collect();
    rows.sort_by(|a, b| b.1.ns.cmp(&a.1.ns).then_with(|| a.1.first.cmp(&b.1.first)));
    let total = rows.len();
    rows.truncate(MOST);
    let row = |((name, kind), found): &((StrId, EventKind), Found)| {
        let first = found.first as usize;
        json!({
            "name": super::shortened(trace.strings.get(*name)), "kind": kind.name(), "count": found.count,
            "ns": found.ns, "event": found.first, "start": trace.events.start[first].saturating_sub(origin),
            "dur": trace.events.dur[first],
        })
    };
    (rows.iter().map(row).collect(), total - rows.len())
}

/// Functions, modules and operators of the tree of calls, by what they took.
fn frames(opened: &Opened, arguments: &Arguments, wanted: &str) -> Result<Vec<Value>, QueryError> {
    let source = match opened.calls(arguments.number("rank")?, arguments.part()?) {
        Ok(source) => source,
        Err(QueryError::Unavailable { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let tree = source.tree();
    let Some(&metric) = tree.measured().first() else { return Ok(Vec::new()) };
    let key = format!("search\n{}", arguments.without(&["text"]).key());
    let options = ViewOptions { shape: Shape::Flat, by_line: false, by_inputs: false, ..ViewOptions::new(metric) };
    let view = opened.view(&key, || calls::view(tree, &options));
    let rows = (1..view.nodes.len()).filter(|&row| {
        let label = view.label(row);
        label.name.to_lowercase().contains(wanted) || label.file.to_lowercase().contains(wanted)
    });
    let row = |row: usize| {
        let (label, node) = (view.label(row), &view.nodes[row]);
        json!({
            "kind": label.kind, "name": super::shortened(&label.name), "file": label.file,
            "inclusive": node.inclusive.sum, "unit": view.unit,
        })
    };
    Ok(rows.take(MOST).map(row).collect())
}
