//! Time of spans by name and host thread, for traces without operators and GPUs. Self time excludes nested spans; total
//! time is the union of a name's spans. Imports of modules are one row per thread, with all library code that they run.

use crate::{Analysis, Display, TableCommand};
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, StrId, Table, Trace, TrackId, TrackKind, Unit};
use stackline_timeline::import_frames::{IMPORT_ENTRY, ImportFrames};
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const ANALYSIS: Analysis = Analysis {
    name: "spans",
    about: "Inclusive and self time of spans by name and host thread",
    tables: &["spans"],
    window: DefaultWindow::Steps,
    commands: &[TableCommand::Operators],
    display: Display::All,
    run,
};

/// Spans of one name on one track. Times in ns.
struct Row {
    /// `None` for imports of modules.
    name: Option<StrId>,
    track: TrackId,
    calls: i64,
    total: i64,
    /// `None` on lanes of asynchronous spans, which may overlap arbitrarily.
    own: Option<i64>,
    min: i64,
    max: i64,
    /// End of the time that `total` already includes.
    counted_to: i64,
}

impl Row {
    /// Add a span with start, duration, and time in its direct children, in ns. Spans must be added in order of start.
    fn add(&mut self, start: i64, dur: i64, inside: i64) {
        let end = start.saturating_add(dur);
        self.calls += 1;
        self.total = self.total.saturating_add(end.saturating_sub(start.max(self.counted_to)).max(0));
        self.counted_to = self.counted_to.max(end);
        self.add_own(dur, inside);
        (self.min, self.max) = (self.min.min(dur), self.max.max(dur));
    }

    /// Add only the self time of a span with duration, and time in its direct children, in ns.
    fn add_own(&mut self, dur: i64, inside: i64) {
        self.own = self.own.map(|own| own.saturating_add(dur.saturating_sub(inside).max(0)));
    }
}

/// Create table `spans` of the spans in the window by name and host thread, largest self time first.
fn run(trace: &Trace, scope: &Scope) -> Vec<Table> {
    let (inside, host) = (child_times(trace), scope.host_work(trace));
    let imports = ImportFrames::from_trace(trace);
    let mut rows: Vec<Row> = Vec::new();
    for track in trace.tracks.ids() {
        let kind = trace.tracks.get(track).kind;
        if !matches!(kind, TrackKind::Thread | TrackKind::Async) {
            continue;
        }
        let own = (kind == TrackKind::Thread).then_some(0);
        let mut index: FxHashMap<Option<StrId>, usize> = FxHashMap::default();
        let counts = |e: &&EventId| is_span(trace, **e) && host.has(**e);
        for &event in trace.track_events(track).iter().filter(counts) {
            let i = event.index();
            let import = imports.as_ref().and_then(|imports| imports.import_of(event));
            let name = if import.is_some() { None } else { Some(trace.events.name[i]) };
            let row = *index.entry(name).or_insert_with(|| {
                let row = Row { name, track, calls: 0, total: 0, own, min: i64::MAX, max: 0, counted_to: i64::MIN };
                rows.push(row);
                rows.len() - 1
            });
            if import.is_some_and(|import| import != event) {
                rows[row].add_own(trace.events.dur[i], inside[i]);
            } else {
                rows[row].add(trace.events.start[i], trace.events.dur[i], inside[i]);
            }
        }
    }
    rows.sort_by_key(|r| std::cmp::Reverse((r.own, r.total)));
    vec![table(trace, &rows)]
}

/// Test if an event has a plausible start and duration, and is not the mark of the recording itself.
fn is_span(trace: &Trace, event: EventId) -> bool {
    trace.events.is_timed(event) && trace.kind(event) != EventKind::Recording
}

/// Sum of the times of each span's direct children in ns, by event index. Children are clipped at the end of the span,
/// and may overlap.
fn child_times(trace: &Trace) -> Vec<i64> {
    let events = &trace.events;
    let mut inside = vec![0i64; events.len()];
    for event in events.ids().filter(|&e| is_span(trace, e)) {
        if let Some(outer) = events.parent[event.index()].some() {
            let end = events.end(event).min(events.end(outer));
            let time = end.saturating_sub(events.start[event.index()]).max(0);
            inside[outer.index()] = inside[outer.index()].saturating_add(time);
        }
    }
    inside
}

/// Create table `spans`: one row per name and thread.
fn table(trace: &Trace, rows: &[Row]) -> Table {
    let table = Table::new("spans", "Spans by name and thread")
        .text("name", rows.iter().map(|r| r.name.map_or(IMPORT_ENTRY, |name| trace.strings.get(name)).to_owned()))
        .text("process", rows.iter().map(|r| trace.process_name(r.track)))
        .text("thread", rows.iter().map(|r| trace.track_name(r.track)))
        .i64("calls", Unit::None, rows.iter().map(|r| r.calls))
        .i64("total_ns", Unit::Ns, rows.iter().map(|r| r.total))
        .i64("self_ns", Unit::Ns, rows.iter().map(|r| r.own))
        .i64("min_ns", Unit::Ns, rows.iter().map(|r| (r.calls > 0).then_some(r.min)))
        .i64("max_ns", Unit::Ns, rows.iter().map(|r| r.max));
    if rows.is_empty() { table.note("The trace has no spans on host threads.") } else { table }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::Values;
    use stackline_testkit::mini;

    #[test]
    fn time_counts_once_per_name_and_not_for_the_outer_span() {
        let json = mini::trace(
            "file -
            thread 1/2 name=main
            1/2  -    f     0..10
            1/2  -    g     1..5
            1/2  -    f     2..4
            1/3  -    f     B@20
            1/3  -    f     E@21
            1/3  net  get   b@0   .id=1
            1/3  net  get   e@9   .id=1
            1/2  -    mark  @3",
        );
        let trace = stackline_ingest::read_bytes("t", json.as_bytes(), &Default::default()).unwrap();
        let table = &run(&trace, &Scope::default())[0];
        let text = |column: &str| match &table.column(column).unwrap().values {
            Values::Str(v) => v.iter().flatten().cloned().collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        let numbers = |column: &str| match &table.column(column).unwrap().values {
            Values::I64(v) => v.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text("name"), ["f", "g", "f", "get"]);
        assert_eq!(text("thread"), ["main", "main", "3", "3"]);
        assert_eq!(numbers("calls"), [Some(2), Some(1), Some(1), Some(1)]);
        assert_eq!(numbers("total_ns"), [Some(10_000), Some(4_000), Some(1_000), Some(9_000)]);
        assert_eq!(numbers("self_ns"), [Some(8_000), Some(2_000), Some(1_000), None]);
        assert_eq!(numbers("min_ns")[0], Some(2_000));
        assert_eq!(numbers("max_ns")[0], Some(10_000));
    }

    #[test]
    fn imports_are_one_row() {
        let json = mini::trace(
            "thread 1/2 name=main
            1/2  python_function  train.py(1): <module>                                   0..100
            1/2  python_function  <frozen importlib._bootstrap>(9): _find_and_load        10..50
            1/2  python_function  <frozen importlib._bootstrap>(8): _load_unlocked        12..48
            1/2  python_function  site-packages/numpy/__init__.py(1): <module>            14..40
            1/2  python_function  model.py(1): <module>                                   40..45
            1/2  python_function  <frozen importlib._bootstrap>(9): _find_and_load        60..70",
        );
        let trace = stackline_ingest::read_bytes("t", json.as_bytes(), &Default::default()).unwrap();
        let table = &run(&trace, &Scope::default())[0];
        let cell = |column: &str, row: usize| match &table.column(column).unwrap().values {
            Values::Str(v) => v[row].clone().unwrap(),
            Values::I64(v) => v[row].unwrap().to_string(),
            other => panic!("{other:?}"),
        };
        let row = |row: usize| ["name", "calls", "total_ns", "self_ns"].map(|column| cell(column, row));
        assert_eq!(table.rows(), 3);
        assert_eq!(row(0), ["train.py(1): <module>", "1", "100000", "50000"]);
        // Self time without the user's module, which runs within an import.
        assert_eq!(row(1), ["imports", "2", "50000", "45000"]);
        assert_eq!(row(2), ["model.py(1): <module>", "1", "5000", "5000"]);
    }
}
