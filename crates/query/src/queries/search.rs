//! Names of events that hold a text.

use crate::{Answer, Arguments, Opened, QueryError};
use rustc_hash::FxHashMap;
use serde_json::json;
use stackline_model::{EventKind, StrId};

/// Most names in an answer.
const MOST: usize = 200;

/// Count, time and first event of what has a name.
#[derive(Clone, Copy, Debug)]
struct Found {
    count: u64,
    ns: i64,
    first: u32,
}

pub(super) fn answer(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let (_, trace) = opened.trace(arguments.number("rank")?)?;
    let Some(text) = arguments.text("text")? else {
        return Err(QueryError::Argument { name: "text", why: "is missing".to_owned() });
    };
    let wanted = text.to_lowercase();
    let matches: Vec<bool> = trace.strings.iter().map(|name| name.to_lowercase().contains(&wanted)).collect();
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
    let row = |((name, kind), found): &((StrId, EventKind), Found)| json!({"name": super::shortened(trace.strings.get(*name)), "kind": kind.name(), "count": found.count, "ns": found.ns, "event": found.first});
    let rows: Vec<_> = rows.iter().take(MOST).map(row).collect();
    Ok(Answer::document(&json!({"text": text, "names": rows, "left_out": total - rows.len()})))
}
