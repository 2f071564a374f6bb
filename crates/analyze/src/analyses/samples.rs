//! Recorded samples, one row per sample: call path of a thread, and the time or number of events that the sample
//! represents.

use crate::{Analysis, Display, TableCommand};
use stackline_model::{Sample, SampleSeries, StackId, StrId, Table, Trace, Unit};
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const ANALYSIS: Analysis = Analysis {
    name: "samples",
    about: "Samples of a sampling profiler: time, thread, call path, value",
    tables: &["samples"],
    window: DefaultWindow::Steps,
    commands: &[TableCommand::Timeline],
    display: Display::OnRequest,
    run,
};

/// Create table `samples` of the samples in the window, in time order; with a note instead of rows if there are none.
fn run(trace: &Trace, scope: &Scope) -> Vec<Table> {
    let (samples, host) = (trace.samples(), scope.host_work(trace));
    let mut rows: Vec<(SampleSeries, Sample)> = Vec::new();
    for (series, of_series) in samples.series() {
        let in_window = of_series.filter(|sample| host.has_time(sample.time));
        rows.extend(in_window.map(|sample| (series, sample)));
    }
    // Stable sort: samples at one time stay in order of thread and metric.
    rows.sort_by_key(|(_, sample)| sample.time);
    let table = table(trace, &rows);
    vec![match (samples.is_empty(), rows.is_empty()) {
        (true, _) => table.note("The trace has no samples."),
        (false, true) => table.note("No sample was taken in the window; --whole covers the whole trace."),
        (false, false) => table,
    }]
}

/// Create table `samples`: one row per sample.
fn table(trace: &Trace, rows: &[(SampleSeries, Sample)]) -> Table {
    let locations = trace.samples().locations();
    // There are few distinct paths, even with millions of samples.
    let paths: Vec<Option<String>> = locations.iter().map(|location| path(trace, location.stack)).collect();
    let location = |sample: &Sample| locations[sample.location as usize];
    let text = |id: StrId| Some(trace.strings.get(id).to_owned());
    let line = |sample: &Sample| Some(i64::from(location(sample).line)).filter(|&line| line > 0);
    Table::new("samples", "Samples")
        .text("process", rows.iter().map(|(series, _)| Some(trace.process_name(series.track))))
        .text("thread", rows.iter().map(|(series, _)| Some(trace.track_name(series.track))))
        .i64("time_ns", Unit::Ns, rows.iter().map(|(_, sample)| sample.time))
        .text("function", rows.iter().map(|(_, sample)| text(location(sample).function)))
        .i64("line", Unit::None, rows.iter().map(|(_, sample)| line(sample)))
        .text("stack", rows.iter().map(|(_, sample)| paths[sample.location as usize].clone()))
        .text("metric", rows.iter().map(|(series, _)| series.metric.map(|metric| metric.name().to_owned())))
        .i64("value", Unit::None, rows.iter().map(|(series, sample)| series.metric.map(|_| sample.weight)))
        .text("unit", rows.iter().map(|(series, _)| series.metric.map(|metric| metric.unit().to_owned())))
}

/// Frames of a call path, outermost first, joined by semicolons; `None` for an empty path.
fn path(trace: &Trace, stack: StackId) -> Option<String> {
    let mut frames: Vec<&str> = trace.stacks.names(stack.some()).map(|name| trace.strings.get(name)).collect();
    frames.reverse();
    (!frames.is_empty()).then(|| frames.join(";"))
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
