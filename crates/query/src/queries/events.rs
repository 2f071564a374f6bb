//! Query of one event with its details, and query of a summary of a time range.

use super::{Texts, shortened};
use crate::prefetch::{Stage, with};
use crate::{Answer, Arguments, OpenRun, QueryError};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::Number;
use stackline_model::{AttrValue, EventId, EventKind, StepIndex, StrId, Trace, TrackKind};
use stackline_timeline::source_location::source_location_of;
use std::collections::BTreeMap;

/// Most names that a summary lists.
const MOST: usize = 50;

/// Everything known about one event.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct EventDetail<'a> {
    event: Brief,
    category: &'a str,
    track: u32,
    /// Number of the step in which the event begins.
    step: Option<i64>,
    place: SourceLocation,
    /// Name and value of each argument.
    arguments: Vec<(&'a str, Attribute)>,
    /// Events around it on its track, the innermost first.
    enclosing: Vec<Brief>,
    /// Of work on a GPU, the call that launched it.
    launch: Option<Brief>,
    /// Of work on a GPU, the operator that it belongs to.
    operator: Option<Brief>,
    /// Work on GPUs that the event launched.
    launched: Vec<Brief>,
    /// Of work on a GPU, its launch (or else its operator) is called from these, the innermost first.
    callers: Vec<Brief>,
}

/// Summary of an event; times in ns, `start` since the start of the trace.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Brief {
    event: u32,
    name: String,
    kind: &'static str,
    start: i64,
    dur: i64,
    track: u32,
}

/// Source location of an event.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[cfg_attr(test, ts(rename = "EventPlace"))]
struct SourceLocation {
    file: Option<String>,
    line: Option<u32>,
    function: Option<String>,
    module: Option<String>,
    operator: Option<String>,
    /// All of it for people.
    text: String,
}

/// Value of an argument of an event.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(untagged)]
enum Attribute {
    Text(String),
    /// Null where it is no finite number.
    Number(#[cfg_attr(test, ts(as = "Option<f64>"))] Option<Number>),
}

/// Answer the query for one event with its details.
pub(super) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let (at, trace) = opened.trace(rank)?;
    let origin = opened.origin(rank)?;
    let number: u32 = arguments.needed("event")?;
    let event = EventId(number);
    if event.index() >= trace.events.len() {
        return Err(QueryError::missing(format!(
            "there is no event {number}: the trace has {} events",
            trace.events.len()
        )));
    }
    let place = source_location_of(trace, event);
    let track = trace.events.track[event.index()];
    let gpu = trace.gpu.of_event(event);
    let launched: Vec<Brief> = match gpu {
        Some(_) => Vec::new(),
        None => {
            let launched = opened.launched(at).launched_by(trace, event, MOST);
            launched.into_iter().map(|event| brief(trace, origin, event)).collect()
        }
    };
    // The launch of a GPU operation, or otherwise its operator, leads to the calling lines.
    let caller = gpu.and_then(|gpu| trace.gpu.launcher(gpu));
    let callers = caller.map_or_else(Vec::new, |up| trace.ancestors(up).map(|up| brief(trace, origin, up)).collect());
    let owner = |id: Option<EventId>| id.and_then(EventId::some).map(|id| brief(trace, origin, id));
    let step = StepIndex::new(trace).running(trace.events.start[event.index()], trace.tracks.pid(track));
    let argument = |(key, value)| (trace.strings.get(key), attribute(trace, value));
    let import = opened.imports(at).filter(|imports| imports.import_of(event) == Some(event));
    let imported = import.and_then(|imports| imports.imported_file(trace, event));
    let imported = imported.map(|file| ("imported module", Attribute::Text(shortened(file))));
    Answer::document(&EventDetail {
        event: brief(trace, origin, event),
        category: trace.category(event),
        track: track.0,
        step: step.map(|at| trace.steps[at as usize].number),
        place: SourceLocation {
            text: place.text(),
            file: place.file,
            line: place.line,
            function: place.function,
            module: place.module,
            operator: place.operator,
        },
        arguments: trace.attrs.of_event(event).map(argument).chain(imported).collect(),
        enclosing: trace.ancestors(event).map(|up| brief(trace, origin, up)).collect(),
        launch: owner(gpu.map(|gpu| trace.gpu.launch[gpu.index()])),
        operator: owner(gpu.map(|gpu| trace.gpu.operator[gpu.index()])),
        launched,
        callers,
    })
}

/// Summary of an event, with its start relative to `origin`.
fn brief(trace: &Trace, origin: i64, event: EventId) -> Brief {
    let at = event.index();
    Brief {
        event: event.0,
        name: shortened(trace.name(event)),
        kind: trace.kind(event).name(),
        start: trace.events.start[at].saturating_sub(origin),
        dur: trace.events.dur[at],
        track: trace.events.track[at].0,
    }
}

/// Convert the value of an event's argument to JSON; integers beyond 2^53 become text.
fn attribute(trace: &Trace, value: AttrValue) -> Attribute {
    if let Some(text) = value.as_str(&trace.strings) {
        return Attribute::Text(shortened(text));
    }
    match value.as_i64() {
        // Browsers lose precision beyond 2^53.
        Some(number) if number.unsigned_abs() > 1 << 53 => Attribute::Text(number.to_string()),
        Some(number) => Attribute::Number(Some(number.into())),
        None => Attribute::Number(value.as_f64().and_then(Number::from_f64)),
    }
}

/// Events in a time range, by track and by name.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct Range {
    tracks: Vec<RangeTrack>,
    /// Names with most time, the longest first.
    names: Vec<RangeName>,
    /// Names that `name` numbers.
    texts: Vec<String>,
    /// Names that are left out.
    left_out: usize,
}

/// A track in a time range: ns in which any of its events runs, and how many there are.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct RangeTrack {
    track: u32,
    busy: i64,
    events: u64,
}

/// Events of one name in a time range, on GPUs or elsewhere.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct RangeName {
    name: u32,
    gpu: bool,
    count: u64,
    ns: i64,
}

/// Busy time of a track, summed over events in order of start: overlapping time counts once.
#[derive(Debug)]
struct Busy {
    events: u64,
    ns: i64,
    until: i64,
}

impl Default for Busy {
    fn default() -> Self {
        Self { events: 0, ns: 0, until: i64::MIN }
    }
}

impl Busy {
    fn add(&mut self, start: i64, end: i64) {
        self.events += 1;
        self.ns = self.ns.saturating_add(end.saturating_sub(start.max(self.until)).max(0));
        self.until = self.until.max(end);
    }
}

/// Answer the query for a summary of a time range: busy time by track, and events by name.
pub(super) fn range(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let (_, trace) = opened.trace(rank)?;
    let origin = opened.origin(rank)?;
    let (from, to): (i64, i64) = (arguments.needed("from")?, arguments.needed("to")?);
    let (from, to) = (from.saturating_add(origin), to.saturating_add(origin));
    let mut sums: FxHashMap<(StrId, bool), (u64, i64)> = FxHashMap::default();
    let mut tracks = Vec::new();
    for track in trace.tracks.ids() {
        let is_gpu = trace.tracks.get(track).kind == TrackKind::Stream;
        let mut lane = Busy::default();
        let mut names: BTreeMap<StrId, Busy> = BTreeMap::new();
        for &event in trace.track_events(track) {
            let (start, end) = (trace.events.start[event.index()].max(from), trace.events.end(event).min(to));
            // GPU annotations are not GPU work: those of steps extend from the first to the last of their kernels.
            let is_none = is_gpu && trace.kind(event) == EventKind::GpuAnnotation;
            if start >= to || end <= from || !trace.events.is_timed(event) || is_none {
                continue;
            }
            lane.add(start, end);
            names.entry(trace.events.name[event.index()]).or_default().add(start, end);
        }
        if lane.events > 0 {
            tracks.push(RangeTrack { track: track.0, busy: lane.ns, events: lane.events });
        }
        for (name, busy) in names {
            let sum = sums.entry((name, is_gpu)).or_default();
            (sum.0, sum.1) = (sum.0 + busy.events, sum.1.saturating_add(busy.ns));
        }
    }
    let mut names: Vec<_> = sums.into_iter().collect();
    names.sort_by_key(|&((name, is_gpu), (_, ns))| (std::cmp::Reverse(ns), name, is_gpu));
    let mut texts = Texts::default();
    let left_out = names.len().saturating_sub(MOST);
    let row = |((name, gpu), (count, ns))| RangeName { name: texts.index(trace.strings.get(name)), gpu, count, ns };
    let names = names.into_iter().take(MOST).map(row).collect();
    Answer::document(&Range { tracks, names, texts: texts.list(), left_out })
}

/// Events of a finding that the page lists.
const OF_FINDING: usize = 12;
/// Events whose details are at hand: those that last longest.
const LONGEST: usize = 600;

/// Prefetched arguments of the query for one event: the evidence of findings, and the longest events, by part of the
/// page.
pub(super) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    match stage {
        Stage::Evidence => evidence(opened),
        Stage::Events => longest(opened).into_iter().map(|event| with(&[("event", &event.to_string())])).collect(),
        _ => Vec::new(),
    }
}

/// Prefetched arguments of the query that summarizes a time range: the range of a step.
pub(super) fn first_ranges(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    let (Stage::Step(_, start, end), Ok(origin)) = (stage, opened.origin(None)) else { return Vec::new() };
    let since = |ns: i64| ns.saturating_sub(origin).to_string();
    vec![with(&[("from", &since(start)), ("to", &since(end))])]
}

/// Prefetched arguments of the events that findings list as evidence.
fn evidence(opened: &OpenRun) -> Vec<Arguments> {
    let findings = opened.findings(None).map_or(&[][..], |found| &found.findings);
    let events = findings.iter().flat_map(|finding| {
        let rank = finding.detail_rank();
        let events = if opened.trace(rank).is_ok() { &finding.events[..] } else { &[] };
        events.iter().take(OF_FINDING).map(move |event| (rank, event))
    });
    let one = |(rank, event): (Option<i64>, &EventId)| {
        let event = with(&[("event", &event.0.to_string())]);
        rank.map_or(event.clone(), |rank| event.with("rank", &rank.to_string()))
    };
    events.map(one).collect()
}

/// Numbers of the longest events of the first trace, longest first.
fn longest(opened: &OpenRun) -> Vec<u32> {
    let Ok((_, trace)) = opened.trace(None) else { return Vec::new() };
    let dur = |event: u32| trace.events.dur[event as usize];
    let mut all: Vec<u32> =
        trace.events.ids().filter(|&event| trace.events.is_timed(event)).map(|event| event.0).collect();
    let most = LONGEST.min(all.len());
    let by_length = |a: &u32, b: &u32| dur(*b).cmp(&dur(*a)).then(a.cmp(b));
    if most < all.len() {
        all.select_nth_unstable_by(most, by_length);
    }
    all.truncate(most);
    all.sort_unstable_by(by_length);
    all
}
