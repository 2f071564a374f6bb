//! Query of the timeline: a lane per track, with its events as boxes by tile.
//!
//! A tile of level `l` is [`BUCKETS`] buckets of 2^l ns. Events that begin and end in the same bucket are merged into
//! one box, with the name of the longest, their number and their total time. This limits the boxes of a row in a tile,
//! independent of the number of events. Times count from the start of the trace.

use super::Texts;
use crate::prefetch::{Stage, for_baseline, one_empty_set};
use crate::slices::{CoarseSlices, Slice, merged, reaching};
use crate::tile_levels::{BUCKETS, LEVELS, WHOLE, whole_level};
use crate::track_layout::{ImportView, TrackLayout};
use crate::{Answer, Arguments, Column, OpenRun, QueryError};
use serde::Serialize;
use stackline_model::{EventId, EventKind, Trace, TrackId, TrackKind};
use stackline_timeline::import_frames::{IMPORT_ENTRY, ImportFrames};
use stackline_timeline::kernel_type::{KernelType, NameTypes, RULES};
use std::collections::BTreeSet;

/// Number of the kind for communication, after the kinds of events. Kernels of collectives are recorded as kernels.
const COMMUNICATION: usize = EventKind::ALL.len();

/// Maximum number of boxes in an answer; the deepest rows are left out first, and the answer reports it.
const MOST: usize = 100_000;

/// Timeline lanes of a trace, with the origin of times and the size of tiles.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct Lanes {
    /// Start of the trace in ns since 1970, or in its own time base, as text. All other times count from here.
    origin: String,
    /// Length of the trace in ns.
    length: i64,
    /// Buckets of a tile.
    buckets: i64,
    /// Names of the kinds that the column `kind` of `tiles` numbers.
    kinds: Vec<&'static str>,
    whole: Whole,
    /// True if the trace has imports of modules, of which `imports=all` shows all frames.
    has_imports: bool,
    lanes: Vec<Lane>,
}

/// Level and tile range of the query for all tiles of a timeline, which a report embeds.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct Whole {
    level: u32,
    first: i64,
    last: i64,
}

impl Whole {
    /// Level and tile range that cover a timeline of the given length, in ns or calls.
    pub(super) fn with_length(length: i64) -> Self {
        Self { level: whole_level(length), first: 0, last: WHOLE - 1 }
    }

    /// Convert the level and tile range to query arguments.
    pub(super) fn arguments(self) -> Arguments {
        let Self { level, first, last } = self;
        Arguments::new([("level", level.to_string()), ("first", first.to_string()), ("last", last.to_string())])
    }
}

/// Timeline lane of a track with events, and its number of rows; only streams have a device and a stream number.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Lane {
    track: u32,
    kind: &'static str,
    process: String,
    process_name: String,
    thread: String,
    name: String,
    device: Option<i64>,
    stream: Option<i64>,
    events: usize,
    rows: usize,
}

/// Answer the query for the timeline lanes of a trace: names, device, stream and number of events of each lane, without
/// the events, which are loaded by tile.
pub(super) fn lanes(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let (at, trace) = opened.trace(rank)?;
    let rows = opened.rows(rank, import_view(arguments)?)?;
    let has_imports = opened.imports(at).is_some();
    let (start, end) = trace.span().unwrap_or((0, 0));
    let lanes: Vec<_> = trace.tracks.ids().filter_map(|track| lane(trace, rows, track)).collect();
    let kinds: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.name()).chain(["communication"]).collect();
    let length = end.saturating_sub(start);
    let (origin, whole) = (start.to_string(), Whole::with_length(length));
    Answer::document(&Lanes { origin, length, buckets: BUCKETS, kinds, whole, has_imports, lanes })
}

/// Value of the query argument `imports`: frames of imports are folded by default.
fn import_view(arguments: &Arguments) -> Result<ImportView, QueryError> {
    Ok(arguments.choice("imports", ImportView::CHOICES)?.unwrap_or(ImportView::Folded))
}

/// Timeline lane of one track; `None` if the track has no events.
fn lane(trace: &Trace, rows: &TrackLayout, track: TrackId) -> Option<Lane> {
    let events: usize = rows.of_track(track).iter().map(Vec::len).sum();
    if events == 0 {
        return None;
    }
    let data = trace.tracks.get(track);
    let process = &trace.tracks.processes[data.process.index()];
    let of_gpu = |number: i64| (data.kind == TrackKind::Stream).then_some(number);
    Some(Lane {
        track: track.0,
        kind: data.kind.name(),
        process: super::shortened(&trace.key_text(process.pid)),
        process_name: super::shortened(trace.strings.get(process.name)),
        thread: super::shortened(&trace.key_text(data.tid)),
        name: super::shortened(trace.strings.get(data.name)),
        device: of_gpu(i64::from(data.device)),
        stream: of_gpu(data.stream),
        events,
        rows: rows.of_track(track).len(),
    })
}

/// Lookup tables for the columns of tiles.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct TileDocument {
    /// Names that the column `name` numbers.
    texts: Vec<String>,
    /// Level of the boxes.
    level: u32,
    /// Boxes that are left out.
    left_out: usize,
}

/// Names of the columns, a row for each box.
pub(super) const COLUMNS: &[&str] = &["track", "depth", "start", "length", "busy", "event", "count", "name", "kind"];

/// Answer the query for the tiles of the named lanes (by default, of all) at one level, in a range of tile indices.
/// With more than `most` boxes, a coarser level is used.
pub(super) fn tiles(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let (at, trace) = opened.trace(rank)?;
    let view = import_view(arguments)?;
    let named: BTreeSet<u32> = arguments.numbers("tracks")?.into_iter().collect();
    let origin = opened.origin(rank)?;
    let (level, window) = window(arguments, origin)?;
    if let Some(track) = named.iter().find(|&&track| track as usize >= trace.tracks.len()) {
        return Err(QueryError::missing(format!("the trace has no track {track}")));
    }
    let tracks: Vec<TrackId> =
        trace.tracks.ids().filter(|track| named.is_empty() || named.contains(&track.0)).collect();
    let most = arguments.number("most")?.unwrap_or(MOST).clamp(1, MOST);
    let layout = (opened.rows(rank, view)?, opened.coarse(rank, view)?);
    let mut boxes = Boxes::from_trace(trace, layout, &tracks, (origin, level, window));
    // Coarser where there would be more than are wanted: each level has about half as many.
    while boxes.count() > most && boxes.level < LEVELS {
        let steps = (boxes.count() / most).ilog2().max(1);
        let level = (boxes.level + steps).min(LEVELS);
        boxes = boxes.coarser(level);
    }
    boxes.answer(trace, opened.imports(at).filter(|_| view == ImportView::Folded))
}

/// Parse the level and tile range of query arguments. Returns the level, and the start and end of the tiles in the
/// trace's own time.
pub(super) fn window(arguments: &Arguments, origin: i64) -> Result<(u32, (i64, i64)), QueryError> {
    let level: u32 = arguments.needed("level")?;
    let (first, last): (i64, i64) = (arguments.needed("first")?, arguments.needed("last")?);
    if level > LEVELS {
        return Err(QueryError::Argument {
            name: "level",
            why: format!("zoom level {level} exceeds the highest zoom level {LEVELS}"),
        });
    }
    let at = |index: i64| {
        let ns = ((i128::from(index) * i128::from(BUCKETS)) << level) + i128::from(origin);
        i64::try_from(ns).unwrap_or(if ns > 0 { i64::MAX } else { i64::MIN })
    };
    Ok((level, (at(first), at(last.saturating_add(1)))))
}

/// Boxes in one row of a track.
struct Row {
    track: TrackId,
    depth: u32,
    boxes: Vec<Slice>,
}

/// Timeline boxes by row, at one level.
struct Boxes {
    origin: i64,
    level: u32,
    rows: Vec<Row>,
}

impl Boxes {
    /// Merge the events of some tracks within a time range into timeline boxes at one level.
    fn from_trace(
        trace: &Trace,
        (rows, coarse): (&TrackLayout, Option<&CoarseSlices>),
        tracks: &[TrackId],
        (origin, level, window): (i64, u32, (i64, i64)),
    ) -> Self {
        let coarse = coarse.filter(|coarse| coarse.level <= level);
        let mut boxes = Self { origin, level, rows: Vec::new() };
        let deepest = tracks.iter().map(|&track| rows.of_track(track).len()).max().unwrap_or(0);
        // Row by row over all tracks, so that the limit drops the deepest rows.
        for depth in 0..deepest {
            for &track in tracks {
                let Some(events) = rows.of_track(track).get(depth) else { continue };
                let is_in = |one: &Slice| one.end >= window.0;
                let found = match coarse {
                    Some(coarse) => {
                        let row = reaching(coarse.row(track, depth), window, |one| one.start);
                        merged(row.iter().copied().filter(is_in), origin, level)
                    }
                    None => {
                        let row = reaching(events, window, |event| trace.events.start[event.index()]);
                        merged(row.iter().map(|&event| Slice::from_trace(trace, event)).filter(is_in), origin, level)
                    }
                };
                boxes.rows.push(Row { track, depth: depth as u32, boxes: found });
            }
        }
        boxes
    }

    /// Number of boxes in all rows.
    fn count(&self) -> usize {
        self.rows.iter().map(|row| row.boxes.len()).sum()
    }

    /// Merge the timeline boxes into those of a coarser level.
    fn coarser(mut self, level: u32) -> Self {
        for row in &mut self.rows {
            row.boxes = merged(std::mem::take(&mut row.boxes), self.origin, level);
        }
        Self { level, ..self }
    }

    /// Columns of the boxes. With `imports`, outermost frames of imports are named as such.
    fn answer(self, trace: &Trace, imports: Option<&ImportFrames>) -> Result<Answer, QueryError> {
        let (count, Self { origin, level, rows }) = (self.count(), self);
        let of_row = |row: &Row| row.boxes.iter().map(|one| (row.track, row.depth, *one)).collect::<Vec<_>>();
        let boxes: Vec<(TrackId, u32, Slice)> = rows.iter().flat_map(of_row).take(MOST).collect();
        let mut texts = Texts::default();
        let name = |event: EventId| match imports {
            Some(imports) if imports.is_frame(trace, event) => IMPORT_ENTRY,
            _ => trace.name(event),
        };
        let names: Vec<u32> = boxes.iter().map(|(.., one)| texts.index(name(one.event))).collect();
        let mut types = NameTypes::new(trace, RULES);
        let kinds = boxes.iter().map(|(.., one)| drawn_as(trace, &mut types, one.event) as u8).collect();
        let numbers = |value_of: &dyn Fn(&Slice) -> i64| {
            Column::F64(boxes.iter().map(|(.., one)| value_of(one) as f64).collect())
        };
        let columns = vec![
            ("track", Column::U32(boxes.iter().map(|(track, ..)| track.0).collect())),
            ("depth", Column::U32(boxes.iter().map(|&(_, depth, _)| depth).collect())),
            ("start", numbers(&|one| one.start.saturating_sub(origin))),
            ("length", numbers(&|one| one.end.saturating_sub(one.start))),
            ("busy", numbers(&|one| one.busy)),
            ("event", Column::U32(boxes.iter().map(|(.., one)| one.event.0).collect())),
            ("count", Column::U32(boxes.iter().map(|(.., one)| one.count).collect())),
            ("name", Column::U32(names)),
            ("kind", Column::U8(kinds)),
        ];
        let left_out = count - boxes.len();
        Answer::with_columns(&TileDocument { texts: texts.list(), level, left_out }, columns)
    }
}

/// Number of the kind as which the timeline draws an event: its own kind, except for collectives and copies that run as
/// kernels.
fn drawn_as(trace: &Trace, types: &mut NameTypes<'_>, event: EventId) -> usize {
    let kind = trace.kind(event);
    match kind.is_gpu_work().then(|| types.of_event(event)) {
        Some(KernelType::Communication) => COMMUNICATION,
        Some(KernelType::Memory) if kind == EventKind::Kernel => EventKind::Memcpy as usize,
        _ => kind as usize,
    }
}

/// Prefetched arguments of the query for the timeline lanes, by part of the page.
pub(super) fn first_lanes(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    match stage {
        Stage::Opening => one_empty_set(),
        Stage::Comparison => for_baseline(opened, |_| one_empty_set()),
        _ => Vec::new(),
    }
}

/// Prefetched arguments of the queries for timeline boxes and counters: all tiles that cover the whole trace.
pub(super) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    match stage {
        Stage::Timeline => whole(opened),
        Stage::Comparison => for_baseline(opened, whole),
        _ => Vec::new(),
    }
}

/// Query arguments for the tiles that cover the whole first trace; none without a trace.
fn whole(opened: &OpenRun) -> Vec<Arguments> {
    let Ok((_, trace)) = opened.trace(None) else { return Vec::new() };
    let length = trace.span().map_or(0, |(start, end)| end.saturating_sub(start));
    vec![Whole::with_length(length).arguments()]
}
