//! The critical path, hop by hop.

use super::Texts;
use crate::{Answer, Arguments, Column, Opened, QueryError};
use serde_json::json;
use stackline_analyze::critical_path::exact::{Category, Hop};
use stackline_model::EventId;

/// Most hops in an answer: a path of more is drawn from its longest.
const MOST: usize = 100_000;

pub(super) fn answer(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let (_, trace) = opened.trace(rank)?;
    let path = opened.path(rank, arguments.part()?)?;
    let origin = opened.origin(rank)?;
    let since = |ns: i64| ns.saturating_sub(origin) as f64;
    let mut hops: Vec<_> = path.hops.iter().collect();
    let all = hops.len();
    let length = |hop: &Hop| hop.end.saturating_sub(hop.start);
    if let Some(limit) = super::limit(hops.iter().map(length), MOST) {
        hops.retain(|hop| length(hop) > limit);
    }
    let place = |category: Category| Category::ALL.iter().position(|&known| known == category).unwrap_or(0) as u8;
    let by: Vec<_> = path.by_category().iter().map(|(category, ns)| json!([category.name(), ns])).collect();
    let mut texts = Texts::default();
    let names = hops.iter().map(|hop| texts.index(hop.event.some().map_or("", |event| trace.name(event)))).collect();
    let document = json!({
        "start": since(path.window.start),
        "end": since(path.window.end),
        "inferred": path.inferred_ns(),
        "categories": by,
        "causes": Category::ALL.map(Category::name),
        "texts": texts.list(),
        "hops": all,
        "left_out": all - hops.len(),
    });
    let event = |event: EventId| event.some().map_or(u32::MAX, |event| event.0);
    let columns = vec![
        ("start", Column::F64(hops.iter().map(|hop| since(hop.start)).collect())),
        ("end", Column::F64(hops.iter().map(|hop| since(hop.end)).collect())),
        ("category", Column::U8(hops.iter().map(|hop| place(hop.category)).collect())),
        ("track", Column::U32(hops.iter().map(|hop| hop.track.0).collect())),
        ("event", Column::U32(hops.iter().map(|hop| event(hop.event)).collect())),
        ("name", Column::U32(names)),
    ];
    Ok(Answer { json: document.to_string(), columns })
}
