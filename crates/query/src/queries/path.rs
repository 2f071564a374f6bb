//! Query of the critical path, segment by segment.

use super::Texts;
use crate::prefetch::{Part, Stage, alone, chosen, one_empty_set};
use crate::{Answer, Arguments, Column, OpenRun, QueryError};
use serde::Serialize;
use stackline_critical_path::exact::{Category, PathSegment};
use stackline_model::EventId;

/// Maximum number of segments in an answer. Of longer paths, the longest segments are drawn.
const MOST: usize = 100_000;

/// Critical path in a window: time by cause; the segments are in the columns.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct PathDocument {
    /// Window of the path as text: `steps 3 to 9`, `the inferred steps`, `the whole trace`.
    window: String,
    /// Notes on excluded parts of the window and on inferred steps.
    notes: Vec<String>,
    /// Start and end of the window in ns since the start of the trace.
    start: f64,
    end: f64,
    /// Time in ns whose cause is inferred, not recorded.
    inferred: i64,
    /// Cause and ns, for each cause.
    categories: Vec<(&'static str, i64)>,
    /// Names of the causes that the column `category` numbers.
    causes: Vec<&'static str>,
    /// Names that the column `name` numbers.
    texts: Vec<String>,
    /// Segments of the whole path.
    segments: usize,
    /// Segments that are left out: the shortest.
    left_out: usize,
}

/// Names of the columns, a row for each segment.
pub(super) const COLUMNS: &[&str] = &["start", "end", "category", "track", "event", "name"];

/// Answer the query for the segments of the critical path.
pub(super) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let (_, trace) = opened.trace(rank)?;
    let of_window = opened.path(rank, arguments.part()?)?;
    let path = &of_window.path;
    let origin = opened.origin(rank)?;
    let since = |ns: i64| ns.saturating_sub(origin) as f64;
    let mut segments: Vec<_> = path.segments.iter().collect();
    let all = segments.len();
    let length = |segment: &PathSegment| segment.end.saturating_sub(segment.start);
    if let Some(limit) = super::size_threshold(segments.iter().map(length), MOST) {
        segments.retain(|segment| length(segment) > limit);
    }
    let place = |category: Category| Category::ALL.iter().position(|&known| known == category).unwrap_or(0) as u8;
    let mut texts = Texts::default();
    let names = segments
        .iter()
        .map(|segment| texts.index(segment.event.some().map_or("", |event| trace.name(event))))
        .collect();
    let document = PathDocument {
        window: of_window.window.clone(),
        notes: of_window.notes.clone(),
        start: since(path.window.start),
        end: since(path.window.end),
        inferred: path.inferred_ns(),
        categories: path.by_category().map(|(category, ns)| (category.name(), ns)).into(),
        causes: Category::ALL.map(Category::name).into(),
        texts: texts.list(),
        segments: all,
        left_out: all - segments.len(),
    };
    let event = |event: EventId| event.some().map_or(u32::MAX, |event| event.0);
    let columns = vec![
        ("start", Column::F64(segments.iter().map(|segment| since(segment.start)).collect())),
        ("end", Column::F64(segments.iter().map(|segment| since(segment.end)).collect())),
        ("category", Column::U8(segments.iter().map(|segment| place(segment.category)).collect())),
        ("track", Column::U32(segments.iter().map(|segment| segment.track.0).collect())),
        ("event", Column::U32(segments.iter().map(|segment| event(segment.event)).collect())),
        ("name", Column::U32(names)),
    ];
    Answer::with_columns(&document, columns)
}

/// Prefetched arguments of the query for the critical path, by part of the page.
pub(super) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    match stage {
        Stage::Opening => vec![chosen(opened)],
        Stage::Unchosen => one_empty_set(),
        Stage::Whole => vec![Part::Whole.arguments(opened)],
        Stage::Step(number, ..) => vec![alone(number)],
        _ => Vec::new(),
    }
}
