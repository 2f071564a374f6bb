//! Samples that a trace recorded, one row per sample: where a thread was, and how much time or how many occurrences the sample
//! stands for.

use crate::{Analysis, DefaultWindow, Scope};
use stackline_model::{EventId, EventKind, LINE, Table, Trace, Unit};

/// The registered analysis.
pub(super) const ANALYSIS: Analysis = Analysis {
    name: "samples",
    about: "Samples of a sampling profiler: time, thread, call path, value",
    window: DefaultWindow::Steps,
    run,
};

/// Attributes that hold the value of a sample, and its metric and unit.
const METRICS: [(&str, &str, &str); 4] = [
    ("cpu_time_ns", "cpu_time", "ns"),
    ("real_time_ns", "wall_time", "ns"),
    ("wait_time_ns", "wait_time", "ns"),
    ("count", "count", ""),
];

/// One sample; its metric is a row of [`METRICS`].
struct Row {
    event: EventId,
    metric: Option<usize>,
    value: Option<i64>,
}

fn run(trace: &Trace, scope: &Scope) -> Vec<Table> {
    let columns = METRICS.map(|(key, ..)| trace.attr(key));
    let host = scope.host_work(trace);
    let start = |event: EventId| trace.events.start[event.index()];
    let all = || {
        let is_sample = |event: &EventId| trace.kind(*event) == EventKind::Sample && trace.events.is_plausible(*event);
        trace.events.ids().filter(is_sample)
    };
    let row = |event: EventId| {
        let found = columns.iter().enumerate().find_map(|(metric, column)| Some((metric, column.i64(event)?)));
        Row { event, metric: found.map(|(metric, _)| metric), value: found.map(|(_, value)| value) }
    };
    let mut rows: Vec<Row> = all().filter(|event| host.has(*event)).map(row).collect();
    rows.sort_by_key(|row| (start(row.event), row.event));
    let table = table(trace, &rows);
    vec![match (all().next(), rows.is_empty()) {
        (None, _) => table.note("The trace has no samples."),
        (Some(_), true) => table.note("No sample was taken in the window; --whole shows the others."),
        (Some(_), false) => table,
    }]
}

fn table(trace: &Trace, rows: &[Row]) -> Table {
    let track = |row: &Row| trace.events.track[row.event.index()];
    let line = trace.attr(LINE);
    let metric =
        |of: fn(usize) -> &'static str| rows.iter().map(move |row| row.metric.map(|metric| of(metric).to_owned()));
    Table::new("samples", "Samples")
        .text("process", rows.iter().map(|row| Some(trace.process_name(track(row)))))
        .text("thread", rows.iter().map(|row| Some(trace.track_name(track(row)))))
        .i64("time_ns", Unit::Ns, rows.iter().map(|row| trace.events.start[row.event.index()]))
        .text("function", rows.iter().map(|row| Some(trace.name(row.event).to_owned())))
        .i64("line", Unit::None, rows.iter().map(|row| line.i64(row.event)))
        .text("stack", rows.iter().map(|row| stack(trace, row.event)))
        .text("metric", metric(|metric| METRICS[metric].1))
        .i64("value", Unit::None, rows.iter().map(|row| row.value))
        .text("unit", metric(|metric| METRICS[metric].2))
}

/// The frames of the call path that was recorded with a sample, outermost first, joined by semicolons.
fn stack(trace: &Trace, sample: EventId) -> Option<String> {
    let stacks = &trace.stacks;
    let found = stacks.event.binary_search(&sample).ok().and_then(|row| stacks.stack[row].some())?;
    let path = std::iter::successors(Some(found), |node| stacks.parent[node.index()].some());
    let mut frames: Vec<&str> = path.map(|node| trace.strings.get(stacks.frame[node.index()])).collect();
    frames.reverse();
    Some(frames.join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::Values;

    #[test]
    fn samples_have_their_call_path_and_value() {
        let json = br#"{"traceEvents": [
            {"ph": "P", "name": "work", "pid": 1, "tid": 2, "ts": 4, "sf": "b", "args": {"cpu_time_ns": 1000, "line": 12}},
            {"ph": "P", "name": "idle", "pid": 1, "tid": 2, "ts": 1}],
            "stackFrames": {"a": {"name": "main"}, "b": {"name": "work", "parent": "a"}}}"#;
        let trace = stackline_ingest::read_bytes("t", json, &Default::default()).unwrap();
        let table = &run(&trace, &Scope::default())[0];
        let text = |column: &str| match &table.column(column).unwrap().values {
            Values::Str(values) => values.clone(),
            other => panic!("{other:?}"),
        };
        let numbers = |column: &str| match &table.column(column).unwrap().values {
            Values::I64(values) => values.clone(),
            other => panic!("{other:?}"),
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(text("function"), [some("idle"), some("work")]);
        assert_eq!(text("stack"), [None, some("main;work")]);
        assert_eq!(text("metric"), [None, some("cpu_time")]);
        assert_eq!(numbers("value"), [None, Some(1000)]);
        assert_eq!(numbers("line"), [None, Some(12)]);
    }
}
